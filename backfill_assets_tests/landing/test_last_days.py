"""Where the data of a dataset ends: by what has landed and what was published, and only if it has ended."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest

from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.last_days import QUIET, end_of, last_days
from backfill_assets.landing.zone import LandingZone
from backfill_assets_tests.defs.small_dataset import SMALL
from backfill_assets_tests.small_lakehouse import SmallLakehouse

TODAY = date(2026, 11, 25)
FIRST, LAST = date(2017, 3, 1), date(2017, 5, 29)


@pytest.fixture
def zone(tmp_path: Path) -> LandingZone:
    return LandingZone(tmp_path / "landing")


def _land(zone: LandingZone, source: str, *days: date) -> None:
    for day in days:
        folder = zone.root / source / str(day)
        folder.mkdir(parents=True)
        (folder / "part.jsonl.gz").touch()


def _ends(zone: LandingZone, lakehouse: Path) -> dict[str, date]:
    return last_days([SMALL], zone, Storage(str(lakehouse)), TODAY)


@pytest.mark.parametrize(
    ("days", "first", "end"),
    [
        ([LAST, FIRST], FIRST, LAST),
        ([TODAY - QUIET], FIRST, None),
        ([TODAY - QUIET - timedelta(days=1)], FIRST, TODAY - QUIET - timedelta(days=1)),
        ([LAST, TODAY + timedelta(days=400)], FIRST, None),
        ([FIRST], LAST, None),
        ([], FIRST, None),
    ],
    ids=["old", "still going on", "quiet long enough", "of a clock that is wrong", "before the first day", "nothing"],
)
def test_the_end_is_the_newest_day_if_it_is_old(days: list[date], first: date, end: date | None) -> None:
    """Younger data goes on: a source that lands once a month is quiet for 31 days. No day must be without a partition
    because of a till of the future, and a dataset that begins later must not end before it begins."""
    assert end_of(days, first, TODAY) == end


def test_the_newest_landed_day_of_any_dataset_of_a_chain_is_the_end(zone: LandingZone, tmp_path: Path) -> None:
    """It grows with what lands; before that there is none, and asking creates no lakehouse. A folder is no data."""
    lakehouse = tmp_path / "lakehouse"
    assert _ends(zone, lakehouse) == {} and not lakehouse.exists()
    _land(zone, "sales", FIRST, LAST)
    _land(zone, "fx_rates", FIRST)
    (zone.root / "sales" / "2017-09-01").mkdir()
    assert _ends(zone, lakehouse) == {"small": LAST}
    _land(zone, "fx_rates", LAST + timedelta(days=2))
    assert _ends(zone, lakehouse) == {"small": LAST + timedelta(days=2)}


@pytest.mark.protocol
def test_what_a_stream_published_counts_too(zone: LandingZone, tmp_path: Path) -> None:
    """A topic lands no files; its days are in the log."""
    _land(zone, "sales", FIRST)
    lakehouse = SmallLakehouse(tmp_path / "lakehouse")
    lakehouse.publish("p1", {"raw_sales": {LAST: [1]}})
    assert _ends(zone, tmp_path / "lakehouse") == {"small": LAST}
    lakehouse.publish("p2", {"raw_sales": {TODAY: [1]}})
    assert _ends(zone, tmp_path / "lakehouse") == {}
