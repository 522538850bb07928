"""Landed files that no run asks for: a new dataset begins by itself, and a late file is not forgotten."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.text import format_count
from backfill_assets.upkeep.arrivals_due import Landed, arrivals_due

D, E = date(2017, 3, 1), date(2017, 3, 7)
FX_DATASET, SALES_DATASET = (CATALOG.dataset(name) for name in ("fx_rates", "sales"))
FX = Landed(FX_DATASET, {D: ["fx_rates/2017-03-01/a"], E: ["fx_rates/2017-03-07/a"]})
SALES = Landed(SALES_DATASET, {D: ["sales/2017-03-01/a"], E: ["sales/2017-03-07/a"]})
BUILT = replace(SALES, published=True, targeted=True, taken_in=["sales/2017-03-01/a", "sales/2017-03-07/a"])
BUILT_FX = replace(FX, published=True, targeted=True, taken_in=[file for files in FX.files.values() for file in files])


def test_a_new_chain_begins_with_one_backfill_through_all_its_tables() -> None:
    """Each table on the days that landed for its dataset; weeks and months by their first days."""
    (first,) = arrivals_due([[FX, SALES]], {}).launch
    assert set(first.days) == {table.name for dataset in (FX_DATASET, SALES_DATASET) for table in dataset.tables}
    assert first.days["fact_sales_transactions"] == (D, E)
    assert first.days["report_store_ranking"] == (date(2017, 2, 27), date(2017, 3, 6))
    assert first.days["report_monthly_close"] == (D,)
    assert first.title == "First days of fx_rates, sales: 2017-03-01..2017-03-07"
    assert len(first.id) <= 32
    assert first.id == arrivals_due([[FX, SALES]], {}).launch[0].id


def test_only_what_was_never_built_begins() -> None:
    """A dataset that is registered later does not build the others of its chain again."""
    (first,) = arrivals_due([[BUILT_FX, SALES]], {}).launch
    assert set(first.days) == {table.name for table in SALES_DATASET.tables}


@pytest.mark.parametrize(
    "chain",
    [
        [replace(FX, targeted=True), replace(SALES, targeted=True)],
        [BUILT_FX, BUILT],
        [replace(FX, files={}), replace(SALES, files={})],
    ],
    ids=["a person has launched it", "it is built", "nothing has landed"],
)
def test_nothing_begins_twice_or_without_files(chain: list[Landed]) -> None:
    """What failed is for `repairs` and for people: the schedule and they have taken over."""
    assert arrivals_due([chain], {}) == arrivals_due([], {})


def test_it_waits_for_what_it_reads_and_for_the_last_file() -> None:
    """Sales without rates would fail; a delivery that is still arriving would be cut in two."""
    absent = arrivals_due([[replace(FX, files={}), SALES]], {})
    landing = arrivals_due([[FX, replace(SALES, settled=False)]], {})
    assert (absent.launch, landing.launch) == ((), ())
    assert "waits for fx_rates" in absent.waiting[0]
    assert "still landing" in landing.waiting[0]


def test_late_files_beside_taken_ones_are_taken_in_once() -> None:
    """Only into raw: what becomes stale by them is found by the repairs. A broken file is not tried for ever."""
    late = replace(BUILT, files={**BUILT.files, D: ["sales/2017-03-01/a", "sales/2017-03-01/b"]})
    (arrival,) = arrivals_due([[BUILT_FX, late]], {}).launch
    assert arrival.days == {"raw_sales": (D,)}
    assert arrival.title == "Late files: raw_sales 2017-03-01: 1 file"
    again = arrivals_due([[BUILT_FX, late]], {}, launched=[arrival.id])
    assert again.launch == ()
    assert "did not take them in" in again.waiting[0]
    more = replace(late, files={**late.files, E: ["sales/2017-03-07/a", "sales/2017-03-07/c"]})
    (other,) = arrivals_due([[BUILT_FX, more]], {}, launched=[arrival.id]).launch
    assert other.days == {"raw_sales": (D, E)}


def test_what_failed_beside_lost_files_is_tried_once_more_when_these_are_back() -> None:
    """The run had met the lost file; nothing else would take the delivery in."""
    late = replace(BUILT, files={**BUILT.files, D: ["sales/2017-03-01/a", "sales/2017-03-01/b"]})
    (failed,) = arrivals_due([[BUILT_FX, late]], {}).launch
    restored = replace(late, restored="raw-lost-files-raw-sales-20170301-1")
    (again,) = arrivals_due([[BUILT_FX, restored]], {}, launched=[failed.id]).launch
    assert (again.days, len(again.id) <= 32) == (failed.days, True)
    assert arrivals_due([[BUILT_FX, restored]], {}, launched=[failed.id, again.id]).launch == ()


def test_a_day_that_was_never_built_is_the_schedules() -> None:
    """Its files are not late: no run has looked at that day yet."""
    new = replace(BUILT, files={**BUILT.files, date(2017, 3, 8): ["sales/2017-03-08/a"]})
    assert arrivals_due([[BUILT_FX, new]], {}).launch == ()


F, G = date(2017, 3, 5), date(2017, 3, 8)
WHOLE = replace(BUILT, files={**BUILT.files, F: ["sales/2017-03-05/a", "sales/2017-03-05/b"]})


def test_a_whole_day_that_lands_late_is_taken_in_once_a_later_one_was() -> None:
    """The daily job has looked at it when nothing was there, and does not look again."""
    (arrival,) = arrivals_due([[BUILT_FX, WHOLE]], {}).launch
    assert (arrival.days, arrival.title) == ({"raw_sales": (F,)}, "Late files: raw_sales 2017-03-05: 2 files")
    again = arrivals_due([[BUILT_FX, WHOLE]], {}, launched=[arrival.id])
    assert again.launch == () and "did not take them in" in again.waiting[0]


def test_the_files_of_a_late_day_are_not_cut_in_two() -> None:
    """Nor do those of another day wait for them."""
    landing = replace(WHOLE, settled=False)
    assert arrivals_due([[BUILT_FX, landing]], {}).launch == ()
    both = replace(landing, files={**landing.files, D: ["sales/2017-03-01/a", "sales/2017-03-01/b"]})
    (arrival,) = arrivals_due([[BUILT_FX, both]], {}).launch
    assert arrival.days == {"raw_sales": (D,)}


def test_a_late_day_is_known_by_what_was_ingested_and_not_by_what_is_still_there() -> None:
    """A landing zone may be cleared of what was ingested."""
    cleared = replace(WHOLE, files={F: WHOLE.files[F]})
    (arrival,) = arrivals_due([[BUILT_FX, cleared]], {}).launch
    assert arrival.days == {"raw_sales": (F,)}


@pytest.mark.parametrize(
    ("landed", "line"),
    [
        (
            replace(BUILT, files={**BUILT.files, G: ["sales/2017-03-08/a"]}),
            "raw_sales 2017-03-08: 1 file left to the daily job",
        ),
        (
            replace(BUILT, files={**BUILT.files, date(2017, 2, 1): ["sales/2017-02-01/a"]}),
            "raw_sales 2017-02-01: 1 file from before the first ingested day; backfill run ingests them",
        ),
        (
            replace(WHOLE, given_back=WHOLE.files[F]),
            "raw_sales 2017-03-05: 2 files given back by a rollback or an abort; backfill run ingests them again",
        ),
    ],
    ids=["newest", "earlier", "rolled back"],
)
def test_what_is_left_alone_is_named(landed: Landed, line: str) -> None:
    """Nothing says that everything is ingested while something is not."""
    due = arrivals_due([[BUILT_FX, landed]], {})
    assert (due.launch, due.waiting) == ((), (line,))


@pytest.mark.parametrize("new", [[], ["sales/2017-03-01/c"]], ids=["alone", "beside a file that landed since"])
def test_a_rollback_of_one_file_of_a_day_is_not_undone(new: list[str]) -> None:
    """A run takes in all files of its arrival day: other files of the day that are ingested make no difference."""
    files = ["sales/2017-03-01/a", "sales/2017-03-01/b", *new]
    landed = replace(BUILT, files={**BUILT.files, D: files}, given_back=["sales/2017-03-01/b"])
    due = arrivals_due([[BUILT_FX, landed]], {})
    count = format_count(1 + len(new), "file")
    line = f"raw_sales 2017-03-01: {count} given back by a rollback or an abort; backfill run ingests them again"
    assert (due.launch, due.waiting) == ((), (line,))


def test_it_waits_for_what_is_under_way_on_its_tables() -> None:
    """A run that is taking the same files in would only be raced."""
    late = replace(BUILT, files={D: ["sales/2017-03-01/a", "sales/2017-03-01/b"]})
    found = arrivals_due([[BUILT_FX, late]], {"raw_sales": "the run 0123"})
    assert found.launch == ()
    assert "the run 0123" in found.waiting[0]


def test_rates_from_before_the_first_sale_that_nothing_needs_wait_for_nobody() -> None:
    """The sample lands rates for ten days before its sales, of which results look back to eight."""
    older = date(2017, 2, 19)
    rates = replace(BUILT_FX, files={older: [f"fx_rates/{older}/a"], **FX.files})
    assert "from before the first ingested day" in arrivals_due([[rates, BUILT]], {}).waiting[0]
    assert arrivals_due([[replace(rates, begins=D), BUILT]], {}) == arrivals_due([], {})
    begun = replace(rates, begins=D, taken_in=[*rates.taken_in, "fx_rates/2017-02-18/a"])
    (late,) = arrivals_due([[begun, BUILT]], {}).launch
    assert late.days == {"raw_fx_rates": (older,)}
