"""Where the data of a chain begins and ends: by what has landed and what was published."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.data_days import QUIET, DataDays, beginning_of, data_days, end_of, leading
from backfill_assets.landing.zone import LandingZone
from backfill_assets.model.declaration import Step
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


def _ends(zone: LandingZone, lakehouse: Path) -> dict[str, date | None]:
    found = data_days([SMALL], zone, Storage(str(lakehouse)), TODAY)
    return {name: days.last for name, days in found.items()}


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
    assert _ends(zone, tmp_path / "lakehouse") == {"small": None}


@pytest.mark.parametrize(
    ("days", "first", "begin"),
    [
        ([LAST, FIRST], date(2016, 12, 24), FIRST),
        ([date(1970, 1, 1), FIRST], date(2016, 12, 24), FIRST),
        ([TODAY, TODAY + timedelta(days=1)], FIRST, None),
        ([], FIRST, None),
    ],
    ids=["landed", "before the first day", "not over", "nothing"],
)
def test_the_beginning_is_the_oldest_day_that_is_over(days: list[date], first: date, begin: date | None) -> None:
    """Before any day of it is over, nothing is known of where data begins."""
    assert beginning_of(days, first, TODAY) == begin


def test_what_is_only_looked_back_to_does_not_begin_a_chain(zone: LandingZone, tmp_path: Path) -> None:
    """Rates and catalogues land before the first sale: no result is made of these days themselves."""
    assert leading(CATALOG.steps) == {"raw_sales", "raw_sea_temperatures"}
    _land(zone, "fx_rates", FIRST - timedelta(days=10))
    _land(zone, "products", FIRST - timedelta(days=3))
    lakehouse = Storage(str(tmp_path / "lakehouse"))
    nothing_yet = data_days(CATALOG.datasets, zone, lakehouse, TODAY)
    assert {each.first for each in nothing_yet.values()} == {None}
    _land(zone, "sales", FIRST, LAST)
    found = data_days(CATALOG.datasets, zone, lakehouse, TODAY)
    assert found == dict.fromkeys(("fx_rates", "products", "sales"), DataDays(FIRST, LAST))


def test_what_is_read_on_its_own_day_or_makes_results_begins_a_chain() -> None:
    """Clicks of a day that is sold on, and orders with reports of their own that refunds look back to."""
    rates, chain = CATALOG.dataset("fx_rates").steps, CATALOG.steps_with("sales")
    own_day = [_reading(step, 0) for step in chain]
    assert leading(own_day) == {"raw_fx_rates", "raw_products", "raw_sales"}
    bronze = rates[-1].tables
    reporting = replace(rates[-1], tables=(replace(bronze[0], layer="report"), *bronze[1:]))
    assert leading([reporting if step is rates[-1] else step for step in chain]) == {"raw_fx_rates", "raw_sales"}
    assert leading(rates) == {"raw_fx_rates"}, "there are no results"


def _reading(step: Step, first: int) -> Step:
    """With versions that read from ``first`` days on."""
    versions = tuple(
        replace(each, reads=tuple(replace(read, first=first, last=0) for read in each.reads)) for each in step.versions
    )
    return replace(step, versions=versions)
