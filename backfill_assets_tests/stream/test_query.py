"""What Spark has planned is read from its checkpoint; a checkpoint belongs to one stream."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from backfill_assets.errors import InvalidRequest, LakehouseUnusable
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.stream import query
from backfill_assets.stream.query import Checkpoint, latest_offsets
from backfill_assets_tests.protocol.actor import Actor
from backfill_assets_tests.protocol.deeds import refusable
from backfill_assets_tests.protocol.names import SteppedStorage

LAKEHOUSE = "/data/lakehouse"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(tmp_path / "checkpoint")


def write(path: Path, *lines: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["v1", *(json.dumps(line) for line in lines)]))


def test_the_end_of_a_batch_is_by_partition(checkpoint: Checkpoint) -> None:
    write(checkpoint.spark / "offsets" / "3", {"batchWatermarkMs": 0}, {"sales": {"0": 12, "10": 7}})
    assert checkpoint.topic_offsets(3, "sales") == {0: 12, 10: 7}


def test_a_batch_of_files_is_what_was_found_since_the_one_before(checkpoint: Checkpoint) -> None:
    """Also where Spark has put ten of its lists into one."""
    for batch, last in ((0, 8), (1, 10)):
        write(checkpoint.spark / "offsets" / str(batch), {}, {"logOffset": last})
    entries = [{"path": f"file:///landing/sales/2026-03-01/a%20{n}.jsonl.gz", "batchId": n} for n in range(11)]
    log = checkpoint.spark / "sources" / "0"
    write(log / "9.compact", *entries[:10])
    write(log / "10", entries[10])
    names = [path.name for path in checkpoint.landed_paths(1)]
    assert names == ["a 9.jsonl.gz", "a 10.jsonl.gz"]


def test_it_is_emptied_for_its_own_stream_only(checkpoint: Checkpoint) -> None:
    checkpoint.renew("raw_sales", "kafka://one:9092/sales", LAKEHOUSE)
    write(checkpoint.spark / "offsets" / "0", {})
    checkpoint.renew("raw_sales", "kafka://one:9092/sales", LAKEHOUSE)
    assert not checkpoint.spark.exists()
    with pytest.raises(InvalidRequest, match="is of kafka://one:9092/sales into raw_sales"):
        checkpoint.renew("raw_sales", "kafka://one:9092/other", LAKEHOUSE)


def test_one_that_does_not_say_whose_it_is_is_named(checkpoint: Checkpoint) -> None:
    checkpoint.renew("raw_sales", "kafka://one:9092/sales", LAKEHOUSE)
    (checkpoint.folder / "owner" / "000000.json").write_text("{")
    with pytest.raises(LakehouseUnusable, match=r"owner/000000\.json is damaged"):
        checkpoint.renew("raw_sales", "kafka://one:9092/sales", LAKEHOUSE)


def test_lakehouses_that_share_a_folder_are_kept_apart(checkpoint: Checkpoint) -> None:
    """The second would empty the folder of the first while it runs, and the first read the plans of the second."""
    checkpoint.renew("raw_sales", "kafka://one:9092/sales", LAKEHOUSE)
    write(checkpoint.spark / "offsets" / "0", {})
    with pytest.raises(InvalidRequest, match=f"into raw_sales of the lakehouse {LAKEHOUSE}") as refused:
        checkpoint.renew("raw_sales", "kafka://one:9092/sales", "/data/other")
    assert (checkpoint.spark / "offsets" / "0").exists()
    assert "If /data/lakehouse was moved to /data/other" in str(refused.value.hint)


def test_of_two_that_start_at_once_exactly_one_has_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Overtaken at each of its calls."""
    steps = 0
    while _one_has_it(Checkpoint(tmp_path / str(steps)), steps, monkeypatch):
        steps += 1
    assert steps > 3


def _one_has_it(checkpoint: Checkpoint, steps: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """True if the one that is overtaken had not ended by then."""
    actor = Actor("slow", refusable(lambda _: checkpoint.renew("raw_sales", "landing", LAKEHOUSE)))

    def stepped(root: str) -> Storage:
        is_slow = threading.current_thread().name == "slow"
        return SteppedStorage(root, reached=actor.reached) if is_slow else Storage(root)

    monkeypatch.setattr(query, "Storage", stepped)
    for _ in range(steps):
        actor.advance()
    more, refused = not actor.finished, ""
    try:
        checkpoint.renew("raw_sales", "landing", "/data/other")
    except InvalidRequest as error:
        refused = str(error)
    actor.run_out()
    assert actor.error is None and bool(refused) != bool(actor.refusal)
    assert "into raw_sales of the lakehouse /data/" in (refused or str(actor.refusal))
    return more


def test_a_folder_of_other_files_is_left_alone(checkpoint: Checkpoint) -> None:
    write(checkpoint.folder / "thesis.txt")
    with pytest.raises(InvalidRequest, match="is not a stream's"):
        checkpoint.renew("raw_sales", "landing", LAKEHOUSE)
    assert (checkpoint.folder / "thesis.txt").exists()
    with pytest.raises(InvalidRequest, match="is not a stream's"):
        Checkpoint(checkpoint.folder / "thesis.txt").renew("raw_sales", "landing", LAKEHOUSE)


def test_an_empty_folder_is_anybodys(checkpoint: Checkpoint) -> None:
    """A volume that is mounted is there before the stream; and a process may be killed after it made the folder."""
    checkpoint.folder.mkdir()
    checkpoint.renew("raw_sales", "landing", LAKEHOUSE)
    with pytest.raises(InvalidRequest, match="is of landing into raw_sales"):
        checkpoint.renew("raw_fx_rates", "landing", LAKEHOUSE)


def test_whose_it_is_is_written_once_and_whole(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(storage: Storage, path: str, data: bytes) -> None:
        Path(storage.root, path).parent.mkdir(parents=True, exist_ok=True)
        Path(storage.root, path).touch()
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Storage, "write_bytes", full)
        with pytest.raises(OSError, match="No space"):
            checkpoint.renew("raw_sales", "landing", LAKEHOUSE)
    assert [path for path in checkpoint.folder.rglob("*") if path.is_file()] == []
    checkpoint.renew("raw_sales", "landing", LAKEHOUSE)
    monkeypatch.setattr(Storage, "write_bytes", full)
    checkpoint.renew("raw_sales", "landing", LAKEHOUSE)
    with pytest.raises(InvalidRequest, match="is of landing into raw_sales"):
        checkpoint.renew("raw_sales", "kafka://one:9092/sales", LAKEHOUSE)


def test_what_a_topic_had_last_is_by_partition() -> None:
    """Spark reports the number of a list for files, and nothing at all before the first batch."""
    assert latest_offsets('{"sales":{"0":12,"10":7}}') == {0: 12, 10: 7}
    assert latest_offsets('{"logOffset":3}') == latest_offsets("null") == latest_offsets(None) == {}
