"""What Spark has planned is read from its checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from backfill_assets.stream.batches import Checkpoint
from backfill_assets.stream.live import latest_offsets


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(tmp_path / "checkpoint")


def write(path: Path, *lines: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["v1", *(json.dumps(line) for line in lines)]))


def test_the_end_of_a_batch_is_by_partition(checkpoint: Checkpoint) -> None:
    write(checkpoint.folder / "offsets" / "3", {"batchWatermarkMs": 0}, {"sales": {"0": 12, "10": 7}})
    assert checkpoint.topic_offsets(3, "sales") == {0: 12, 10: 7}


def test_a_batch_of_files_is_what_was_found_since_the_one_before(checkpoint: Checkpoint) -> None:
    """Also where Spark has put ten of its lists into one."""
    for batch, last in ((0, 8), (1, 10)):
        write(checkpoint.folder / "offsets" / str(batch), {}, {"logOffset": last})
    entries = [{"path": f"file:///landing/sales/2026-03-01/a%20{n}.jsonl.gz", "batchId": n} for n in range(11)]
    log = checkpoint.folder / "sources" / "0"
    write(log / "9.compact", *entries[:10])
    write(log / "10", entries[10])
    names = [path.name for path in checkpoint.landed_paths(1)]
    assert names == ["a 9.jsonl.gz", "a 10.jsonl.gz"]


def test_what_a_topic_had_last_is_by_partition() -> None:
    """Spark reports the number of a list for files, and nothing at all before the first batch."""
    assert latest_offsets('{"sales":{"0":12,"10":7}}') == {0: 12, 10: 7}
    assert latest_offsets('{"logOffset":3}') == latest_offsets("null") == latest_offsets(None) == {}
