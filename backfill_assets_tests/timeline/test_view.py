"""A timeline looks to those who decide by the logs as main would if it had its days."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from backfill_assets.days import TableDay
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.named_timelines import NamedTimeline, TimelineBase
from backfill_assets.lakehouse.records import DayContent, DayRecord, DayRecords, DayState
from backfill_assets.rebuild import decide
from backfill_assets.state.diagnosis import Cause, in_a_word
from backfill_assets.state.observed import LogView, observe
from backfill_assets.state.status import day_statuses
from backfill_assets.state.view import View
from backfill_assets.timeline.view import (
    inputs_shown,
    next_for_stale,
    stale_lines,
    stale_over,
    tables_around,
)
from backfill_assets_tests.small_lakehouse import SmallLakehouse

FACT, REVENUE = "fact_sales_transactions", "fact_daily_revenue"
NOW = datetime(2017, 6, 1, tzinfo=UTC)
FIRST, SECOND, THIRD = (date(2017, 3, day) for day in (1, 2, 3))
STEPS = [CATALOG.step(FACT), CATALOG.step(REVENUE)]


def content(rows: int, table: str = FACT, inputs: str = "", code: str = "") -> DayContent:
    return DayContent(rows=rows, checksum=str(rows), code_version=code or CATALOG.step(table).current, inputs=inputs)


def file(name: str) -> AddedFile:
    return AddedFile(path=name, size=1, day=str(FIRST), modified_ms=0, stats="")


def revenue_of(day: date, fact: DayContent) -> DayContent:
    """Computed from ``fact``."""
    step = CATALOG.step(REVENUE)
    logicals = {FACT: {day: fact.logical}}
    return content(1, REVENUE, decide.wanted(step, step.version(), [day], logicals)[day].inputs)


def base() -> LogView:
    """Two days of fact, and revenue computed from them."""
    fact = {day: content(2) for day in (FIRST, SECOND)}
    contents = {FACT: fact, REVENUE: {day: revenue_of(day, found) for day, found in fact.items()}}
    files = {table: dict.fromkeys(days, fingerprints.physical([table])) for table, days in contents.items()}
    states = {
        TableDay(table, day): DayState(table, day, "one", 3, files[table][day], found)
        for table, days in contents.items()
        for day, found in days.items()
    }
    return LogView(states=states, newest=files, pinned=files, sequence=3)


def timeline(**days: tuple[DayRecord, ...]) -> NamedTimeline:
    return NamedTimeline(id="timeline-x", name="x", made_at=NOW, base=TimelineBase(), changed_at=NOW, days=days)


def statuses(view: LogView) -> dict[tuple[str, date], str]:
    return {(REVENUE, day): in_a_word(status) for day, status in day_statuses(STEPS, view)[REVENUE].items()}


def laid_over(timeline: NamedTimeline) -> LogView:
    return base().over({table: timeline.held(table) for table in timeline.days})


def test_days_of_its_own_make_stale_what_the_base_has_computed_from_others() -> None:
    view = laid_over(timeline(**{FACT: (DayRecord(day=SECOND, content=content(5), files=(file("new"),)),)}))
    assert statuses(view) == {(REVENUE, FIRST): "fresh", (REVENUE, SECOND): "stale: input changed"}
    assert view.states[TableDay(FACT, SECOND)].publication == "" and view.sequence == 3
    assert view.states[TableDay(FACT, FIRST)].publication == "one"
    fresh = DayRecord(day=SECOND, content=revenue_of(SECOND, content(5)), files=(file("r"),))
    both = timeline(
        **{FACT: (DayRecord(day=SECOND, content=content(5), files=(file("new"),)),), REVENUE: (fresh,)},
    )
    assert statuses(laid_over(both))[REVENUE, SECOND] == "fresh"


def test_a_day_that_was_never_published_is_missing_though_the_base_has_it() -> None:
    view = laid_over(timeline(**{REVENUE: (DayRecord(day=FIRST),)}))
    assert statuses(view) == {(REVENUE, FIRST): "missing", (REVENUE, SECOND): "fresh"}
    assert view.pinned[REVENUE].keys() == {SECOND}


def test_an_empty_day_is_there_and_a_foreign_write_is_one() -> None:
    empty = DayRecord(day=FIRST, content=replace(revenue_of(FIRST, content(2)), rows=0, checksum="0"))
    foreign = DayRecord(day=SECOND, files=(file("foreign"),), foreign=fingerprints.physical(["foreign"]))
    view = laid_over(timeline(**{REVENUE: (empty, foreign)}))
    assert statuses(view) == {(REVENUE, FIRST): "fresh", (REVENUE, SECOND): Cause.FOREIGN_WRITE}


def fact_of(day: date, rows: int) -> DayRecord:
    """Computed from what is shown of bronze, which is nothing."""
    step = CATALOG.step(FACT)
    return DayRecord(day=day, content=content(rows, inputs=inputs_shown(step, step.version(), [day], {})[day].inputs))


def stale(base: DayRecords, **own: tuple[DayRecord, ...]) -> dict[str, dict[date, str]]:
    return {table: dict(days) for table, days in stale_over(STEPS, timeline(**own), base).items()}


def held(contents: Mapping[date, DayContent]) -> dict[date, DayRecord]:
    return {day: DayRecord(day=day, content=each) for day, each in contents.items()}


def test_what_its_base_has_computed_from_other_days_is_stale_with_the_command_that_computes_it() -> None:
    """A reader of a day of its own; one that reads through to what it was computed from is no concern of it."""
    fact = {day: content(2) for day in (FIRST, SECOND)}
    revenue = {FIRST: revenue_of(FIRST, content(2)), SECOND: revenue_of(SECOND, content(2)), THIRD: content(1, REVENUE)}
    base = {FACT: held(fact), REVENUE: held(revenue)}
    assert stale(base) == stale(base, **{FACT: (fact_of(FIRST, 2),)}) == {}
    own = {FACT: (fact_of(SECOND, 5),)}
    why = f"was computed from other days of {FACT} than the timeline shows"
    found = stale(base, **own)
    assert found == {REVENUE: {SECOND: why}}
    assert stale_lines(timeline(**own), found) == [f"stale on x: {REVENUE} {SECOND} {why}"]
    assert next_for_stale(timeline(**own), found) == [f"backfill run {REVENUE} --days {SECOND} --on x"]


def test_a_day_of_its_own_is_compared_by_what_it_read_also_if_its_version_is_gone() -> None:
    base = {FACT: held({FIRST: content(2), SECOND: content(2)})}
    gone = replace(revenue_of(FIRST, content(2)), code_version="v0")
    other = replace(revenue_of(SECOND, content(9)), code_version="v0")
    own = {REVENUE: (DayRecord(day=FIRST, content=gone), DayRecord(day=SECOND, content=other))}
    found = stale(base, **own)
    assert found == {REVENUE: {SECOND: f"was computed from other days of {FACT} than the timeline shows"}}
    assert next_for_stale(timeline(**own), found) == ["backfill timeline forward x"]


def test_tables_around_are_those_that_read_them_and_what_these_read() -> None:
    assert tables_around(CATALOG.steps, [REVENUE]) == {REVENUE, FACT}
    assert tables_around(CATALOG.steps, ["bronze_fx_rates"]) == {
        "raw_fx_rates",
        "bronze_fx_rates",
        "quarantine_fx_rates",
        FACT,
        "bronze_sales",
    }


@pytest.mark.protocol
def test_a_moment_is_observed_as_it_was_seen_then(tmp_path: Path) -> None:
    lakehouse = SmallLakehouse(tmp_path)
    lakehouse.publish("one", {FACT: {FIRST: [1, 2], SECOND: [3]}, REVENUE: {FIRST: [3]}})
    lakehouse.write_past_the_protocol(REVENUE, SECOND, [9])
    seen = observe(lakehouse.storage, [FACT, REVENUE])
    assert View.newest(lakehouse.storage).observed([FACT, REVENUE]).states == seen.states
    lakehouse.publish("two", {FACT: {SECOND: [4], THIRD: [5]}})
    then = View.closed(lakehouse.storage, "one").observed([FACT, REVENUE])
    assert (then.states, then.pinned) == (seen.states, seen.pinned)
    now = View.newest(lakehouse.storage).observed([FACT, REVENUE])
    assert now.pinned == observe(lakehouse.storage, [FACT, REVENUE]).pinned
