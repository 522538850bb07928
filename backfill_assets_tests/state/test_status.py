"""Status is decided from the logs alone: every sentence about a day, and the days that are talked about."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, timedelta

import pytest

from backfill_assets.days import Cadence, DayRange, TableDay
from backfill_assets.examples.datasets.sales import FactDailyRevenue
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.records import DayContent, DayState
from backfill_assets.model.declaration import Reads, Step, Table, Version
from backfill_assets.state.diagnosis import Cause
from backfill_assets.state.observed import LogView
from backfill_assets.state.status import day_statuses
from backfill_assets_tests.cpu_budget import at_pace, count
from backfill_assets_tests.plan.world import STEPS, TABLES, D, World

FRESH, MISSING, FOREIGN = None, Cause.MISSING, Cause.FOREIGN_WRITE
INPUT, CODE = Cause.INPUT, Cause.CODE_CHANGED
BEFORE = D - timedelta(days=1)


@pytest.fixture
def world() -> World:
    """Rates since the day before D, everything else on D."""
    world = World({}, {}, {})
    world.publish("raw_rates", BEFORE)
    world.publish("rates", BEFORE)
    for table in TABLES:
        world.publish(table, D)
    return world


def _but(**different: Cause | None) -> Mapping[str, Cause | None]:
    return {table: different.get(table, FRESH) for table in TABLES}


def test_what_was_just_built_is_fresh(world: World) -> None:
    """Agrees with the builder: a second run over the same days finds nothing to do."""
    assert world.statuses(D) == _but()


def test_a_day_without_rows_is_fresh(world: World) -> None:
    """An empty day is published like any other; calling it missing would build it for ever."""
    world.publish("quarantine", D, rows=0, checksum="0")
    assert world.statuses(D) == _but()


def test_new_rows_upstream_make_only_the_next_table_stale(world: World) -> None:
    """Tables of one step share its inputs; what is further down is stale only once its own input changes."""
    world.publish("raw", D, checksum="8")
    assert world.statuses(D) == _but(bronze=Cause.LATE, quarantine=Cause.LATE)
    world.publish("bronze", D, checksum="8")
    world.publish("quarantine", D)
    assert world.statuses(D) == _but(fact=INPUT)


def test_an_identical_rebuild_makes_nothing_stale(world: World) -> None:
    """Logical fingerprints decide: other files with the same rows change nothing downstream."""
    state = world.states[TableDay("bronze", D)]
    world.put("bronze", D, state.content, "files of a compaction")
    assert world.statuses(D) == _but()


def test_a_lookback_input_counts_on_every_day_it_covers(world: World) -> None:
    """A corrected rate makes stale the days that may have used it, and not a day more."""
    world.publish("rates", BEFORE, checksum="9")
    assert world.statuses(D) == _but(fact=INPUT)
    later = World(world.states, world.newest, world.pinned)
    far = D + timedelta(days=2)
    for table in TABLES:
        later.publish(table, far)
    later.publish("rates", BEFORE, checksum="10")
    assert later.statuses(far) == _but()


def test_a_week_is_made_of_all_its_days() -> None:
    """A change of any of them makes it stale; one of the day before or after does not."""
    weekly = Step(
        (Table("week", "report", "", FactDailyRevenue, ()),),
        (Version("v1", "", (Reads("revenue"),), dict),),
        "v1",
        cadence=Cadence.WEEKLY,
    )
    steps = (*STEPS, weekly)
    week = Cadence.WEEKLY.period(D)
    for changed in DayRange(week.first - timedelta(days=1), week.last + timedelta(days=1)):
        world = World({}, {}, {}, steps)
        for day in week:
            world.publish("revenue", day)
        world.publish("week", week.first, code="v1")
        assert day_statuses(steps, world.observed(), week)["week"] == {week.first: FRESH}
        world.publish("revenue", changed, checksum="8")
        assert day_statuses(steps, world.observed(), week)["week"] == {week.first: INPUT if changed in week else FRESH}


def test_a_rate_that_arrives_for_a_day_that_had_none_counts(world: World) -> None:
    """Absence is an input too."""
    world.publish("rates", D - timedelta(days=2))
    assert world.statuses(D) == _but(fact=INPUT)


@pytest.mark.parametrize("code", ["v1", "v3", ""])
def test_a_version_that_is_not_declared_is_named_as_that(world: World, code: str) -> None:
    """Newer or older: no repair can build it. The version is named before inputs when both changed."""
    world.publish("fact", D, code=code)
    assert world.statuses(D) == _but(fact=Cause.GONE_VERSION)
    world.publish("bronze", D, checksum="8")
    assert world.statuses(D) == _but(fact=Cause.GONE_VERSION)


def test_other_parameters_are_a_version_of_their_own(world: World) -> None:
    """A day that was computed with parameters that are not used any more is not what the current code gives."""
    state = world.states[TableDay("fact", D)]
    assert state.content is not None
    world.put("fact", D, replace(state.content, parameters="{}"), state.physical)
    assert world.statuses(D) == _but(fact=Cause.GONE_VERSION)


def test_by_the_version_that_it_was_published_with_an_older_day_is_fresh_until_its_own_inputs_change() -> None:
    """Repairs ask so: the old logic read other days, and only those count. What is not declared cannot be asked."""
    old = Version("v1", "", (Reads("bronze"), Reads("rates", -2, -1)), dict)
    steps = tuple(replace(step, versions=(old, *step.versions)) if step.name == "fact" else step for step in STEPS)
    world = World({}, {}, {}, steps)
    for day in (BEFORE, D):
        for table in TABLES:
            world.publish(table, day, code="v1" if table == "fact" else "v2")

    def of_fact() -> list[Cause | None]:
        found = day_statuses(steps, world.observed(), DayRange(BEFORE, D), as_published=True)
        return list(found["fact"].values())

    assert of_fact() == [FRESH, FRESH]
    assert list(day_statuses(steps, world.observed(), DayRange(BEFORE, D))["fact"].values()) == [CODE, CODE]
    world.publish("rates", D, checksum="8")
    assert of_fact() == [FRESH, FRESH], "the current version reads the rate of the day, the old one does not"
    world.publish("rates", BEFORE, checksum="8")
    assert of_fact() == [FRESH, INPUT]
    world.publish("fact", D, code="v0")
    assert of_fact() == [FRESH, Cause.GONE_VERSION]
    world.write_past_the_protocol("fact", BEFORE)
    assert of_fact() == [FOREIGN, Cause.GONE_VERSION]


def test_files_that_were_not_published_are_a_foreign_write(world: World) -> None:
    """It is named where it happened; what is downstream read the pinned version and is not stale by it yet."""
    world.write_past_the_protocol("bronze", D)
    assert world.statuses(D) == _but(bronze=FOREIGN)


def test_deleted_files_are_a_foreign_write(world: World) -> None:
    """A DELETE past the protocol leaves a day without files, which the log knows with rows."""
    del world.newest["raw"][D]
    assert world.statuses(D) == _but(raw=Cause.FOREIGN_RAW)


def test_a_foreign_write_that_is_pinned_makes_the_next_table_stale(world: World) -> None:
    """Once any publication closed after it, builds read it."""
    world.write_past_the_protocol("bronze", D)
    world.pinned["bronze"][D] = world.newest["bronze"][D]
    assert world.statuses(D) == _but(bronze=FOREIGN, fact=INPUT)


def test_a_day_that_was_never_published_but_has_files_is_a_foreign_write(world: World) -> None:
    """Also when the table is not in the log at all."""
    far = D + timedelta(days=30)
    world.write_past_the_protocol("revenue", far)
    assert world.statuses(far)["revenue"] is FOREIGN


def test_a_withdrawn_day_is_missing(world: World) -> None:
    """Rolling back the first publication of a day leaves a state without content."""
    world.put("revenue", D, None, fingerprints.EMPTY_DAY)
    assert world.statuses(D) == _but(revenue=MISSING)


def test_a_day_put_back_to_unknown_files_is_a_foreign_write(world: World) -> None:
    """A rollback over a foreign write restores its files; the log still does not know what is in them."""
    world.put("revenue", D, None, "files that were there before")
    assert world.statuses(D) == _but(revenue=FOREIGN)


def test_nothing_published_is_missing_on_every_day_asked_for() -> None:
    """A range that is asked for is answered in full."""
    days = DayRange(D, D + timedelta(days=2))
    found = day_statuses(STEPS, LogView(), days)
    assert list(found) == TABLES
    assert all(list(by_day) == list(days) and set(by_day.values()) == {MISSING} for by_day in found.values())


def test_known_days_follow_the_same_day_inputs(world: World) -> None:
    """A raw day that was not refined yet is missing downstream; days of reference data alone are not days of sales."""
    new = D + timedelta(days=1)
    world.publish("raw", new)
    found = day_statuses(STEPS, world.observed())
    assert {table: list(by_day) for table, by_day in found.items()} == {
        "raw_rates": [BEFORE, D],
        "raw": [D, new],
        "rates": [BEFORE, D],
        "bronze": [D, new],
        "quarantine": [D, new],
        "fact": [D, new],
        "revenue": [D, new],
    }
    assert found["fact"][new] is MISSING and found["raw"][new] is FRESH


def test_25_years_of_seven_tables_take_well_under_two_seconds() -> None:
    """64,000 table days: status is asked for again and again, by people and by sensors."""
    content = DayContent(rows=1, checksum="7", code_version="v2")
    state = DayState(table="", day=D, publication="p", sequence=1, physical="f", content=content)
    days = [date(2000, 1, 1) + timedelta(days=n) for n in range(9_132)]
    files = {table: dict.fromkeys(days, "f") for table in TABLES}
    observed = LogView({TableDay(table, day): state for table in TABLES for day in days}, files, files)
    started = time.process_time()
    found = day_statuses(STEPS, observed)
    assert (time.process_time() - started) * at_pace(count()) < 1.5
    assert sum(map(len, found.values())) == len(days) * len(TABLES)
