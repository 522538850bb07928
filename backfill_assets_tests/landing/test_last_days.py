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


def test_the_end_is_the_newest_day_if_it_is_old() -> None:
    """Younger data goes on: a source that lands once a month is quiet for 31 days."""
    assert end_of([LAST, FIRST], FIRST, TODAY) == LAST
    assert end_of([TODAY - QUIET], FIRST, TODAY) is None
    assert end_of([TODAY - QUIET - timedelta(days=1)], FIRST, TODAY) == TODAY - QUIET - timedelta(days=1)


def test_data_of_the_future_has_no_end() -> None:
    """As of a till whose clock is wrong: no day must be without a partition because of it."""
    assert end_of([LAST, TODAY + timedelta(days=400)], FIRST, TODAY) is None


def test_days_before_the_first_one_are_no_data() -> None:
    """A dataset that begins later must not end before it begins."""
    assert end_of([FIRST], LAST, TODAY) is None
    assert end_of([], FIRST, TODAY) is None


def test_nothing_landed_has_no_end(zone: LandingZone, tmp_path: Path) -> None:
    """The first day may land at any time; and asking creates no lakehouse."""
    assert _ends(zone, tmp_path / "lakehouse") == {}
    assert not (tmp_path / "lakehouse").exists()


def test_the_newest_landed_day_of_any_dataset_of_a_chain_is_the_end(zone: LandingZone, tmp_path: Path) -> None:
    """And it grows with what lands."""
    _land(zone, "sales", FIRST, LAST)
    _land(zone, "fx_rates", FIRST)
    assert _ends(zone, tmp_path / "lakehouse") == {"small": LAST}
    _land(zone, "fx_rates", LAST + timedelta(days=2))
    assert _ends(zone, tmp_path / "lakehouse") == {"small": LAST + timedelta(days=2)}


def test_a_folder_without_files_is_no_data(zone: LandingZone, tmp_path: Path) -> None:
    """Someone has made the folder of tomorrow."""
    _land(zone, "sales", FIRST)
    (zone.root / "sales" / "2017-09-01").mkdir()
    assert _ends(zone, tmp_path / "lakehouse") == {"small": FIRST}


@pytest.mark.protocol
def test_what_a_stream_published_counts_too(zone: LandingZone, tmp_path: Path) -> None:
    """A topic lands no files; its days are in the log."""
    _land(zone, "sales", FIRST)
    lakehouse = SmallLakehouse(tmp_path / "lakehouse")
    lakehouse.publish("p1", {"raw_sales": {LAST: [1]}})
    assert _ends(zone, tmp_path / "lakehouse") == {"small": LAST}
    lakehouse.publish("p2", {"raw_sales": {TODAY: [1]}})
    assert _ends(zone, tmp_path / "lakehouse") == {}
