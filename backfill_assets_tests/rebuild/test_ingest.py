"""What an ingest refuses and what it only reports, before Spark starts."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets import clock
from backfill_assets.errors import SourceUnreadable
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets_tests.played_lake import lake_of
from backfill_assets_tests.small_lakehouse import SmallLakehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.protocol
DAYS = tuple(date(2017, 3, day) for day in range(1, 6))
WHOLE = gzip.compress(b'{"store_id": "1"}\n' * 50)


class SparkWasAsked(Exception):
    """Everything that landed was accepted."""


def _asked() -> SparkSession:
    raise SparkWasAsked


class Ingest:
    """A landing zone of sales, and builds of ``raw_sales``; ``told`` is what they reported."""

    def __init__(self, root: Path) -> None:
        self.small = SmallLakehouse(root / "lakehouse")
        self.landing, self.told = root / "landing", list[str]()
        self.lake = lake_of(self.small, spark=_asked, token_key_file=str(root / "token.key"))

    def land(self, day: date, name: str, content: bytes = WHOLE) -> None:
        path = self.landing / "sales" / str(day) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def run(self) -> None:
        step = CATALOG.step("raw_sales")
        Builder(self.lake).build(step, DAYS, run=RunInfo("a-run"), progress=self.told.append)


@pytest.fixture
def ingest(tmp_path: Path) -> Iterator[Ingest]:
    found = Ingest(tmp_path)
    with clock.use(found.small.time):
        yield found


def test_all_that_keeps_a_range_from_being_taken_in_is_reported_at_once(ingest: Ingest) -> None:
    """With one file reported a run, a person needs as many runs as there are bad files."""
    for day in DAYS[:3]:
        ingest.land(day, "sales.jsonl.gz")
    ingest.land(DAYS[0], "half.jsonl.gz", WHOLE[:-8])
    ingest.land(DAYS[2], "text.jsonl.gz", b"no gzip")
    with pytest.raises(SourceUnreadable) as refused:
        ingest.run()
    told = str(refused.value)
    assert "raw_sales: 3 problems" in told
    for part in (
        "Nothing has landed for sales on 2017-03-04 and 1 more day up to 2017-03-05",
        "sales/2017-03-01/half.jsonl.gz: truncated gzip",
        "sales/2017-03-03/text.jsonl.gz: undecodable gzip at byte",
        "Wait for the delivery",
        "Land the whole file again",
    ):
        assert part in told


def test_a_stray_file_is_a_warning(ingest: Ingest) -> None:
    """It stopped the day, though nothing of the day was wrong."""
    for day in DAYS:
        ingest.land(day, "sales.jsonl.gz")
    ingest.land(DAYS[0], "README.txt", b"")
    (ingest.landing / "sales" / "notes").mkdir()
    with pytest.raises(SparkWasAsked):
        ingest.run()
    (warning,) = [line for line in ingest.told if line.startswith("Warning")]
    assert "raw_sales: sales/notes, sales/2017-03-01/README.txt is no .jsonl.gz file" in warning
