"""A stream's batch costs the same after hundreds of batches: in files and bytes that are read, not in seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from backfill_assets import clock
from benchmarks.stream.flat_cost import EXTENDED, RAW, Cost, Lapse, Stream, files_of_today, keep_small, measure

pytestmark = pytest.mark.protocol


def _cost(stream: Stream) -> Cost:
    """Of eight batches together: among them are two that look for small files, and commits of all lengths."""
    costs = [measure(stream) for _ in range(8)]
    return Cost(0, 0, sum(cost.opened for cost in costs), sum(cost.bytes for cost in costs))


@pytest.mark.parametrize("batches", [64, pytest.param(400, marks=pytest.mark.long)])
def test_a_batch_reads_no_more_when_the_log_is_longer(tmp_path: Path, batches: int) -> None:
    """Batch 10 and one far later. Without compaction a batch reads every file's add of today several times."""
    stream = Stream(tmp_path, keep_small)
    with clock.use(stream.time):
        for _ in range(10):
            stream.batch()
        early = _cost(stream)
        Lapse(stream).play(batches)
        late = _cost(stream)
    print(early, late)
    assert late.opened <= early.opened * 1.5
    assert late.bytes <= 8 * 2_500_000
    assert max(files_of_today(stream, table) for table in (RAW, *EXTENDED)) < 16 * 3
    assert len(stream.publisher.log.files().paths) < 256 + 16 + 64
