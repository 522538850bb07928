"""What a plan asks of the situation: steps and versions, what days hold, and which periods have begun."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse import fingerprints
from backfill_assets.plan.situation import PlanContext
from backfill_assets.plan.status import DayStatus
from backfill_assets.state.observed import LogView
from backfill_assets_tests.plan.world import PIPELINE, D, World, situation_of, world_of

AFTER = D + timedelta(days=1)


@pytest.fixture
def world() -> World:
    return world_of(window=DayRange.of(D))


def test_the_step_of_a_table_builds_it_also_as_a_companion(world: World) -> None:
    """Both names are of one step."""
    situation = situation_of(world)
    assert situation.step_of("quarantine") is situation.step_of("bronze")
    assert situation.step_of("fact").name == "fact"


@pytest.mark.parametrize("table", ["facts", "", "Fact"])
def test_a_table_that_is_not_there_is_refused_with_where_to_look(world: World, table: str) -> None:
    """By its exact name only."""
    with pytest.raises(InvalidRequest) as refused:
        situation_of(world).step_of(table)
    assert refused.value.message == f"There is no table {table!r}."
    assert refused.value.hint == "backfill status lists the tables."


def test_a_version_is_put_in_place_of_the_current_one_of_its_step_alone(world: World) -> None:
    """The context that it came from is as it was."""
    situation = situation_of(world)
    chosen = situation.with_version("fact", "v1")
    assert {step.name: step.current for step in chosen.steps if step.current != "v2"} == {
        "raw_rates": "",
        "raw": "",
        "fact": "v1",
    }
    assert [step.name for step in chosen.steps] == [step.name for step in PIPELINE]
    assert situation.step_of("fact").current == "v2"
    assert chosen.observed is situation.observed


def test_a_day_is_foreign_if_its_files_are_of_no_publication(world: World) -> None:
    """Also one that has no files any more, and one of a table that nothing was published to."""
    assert not situation_of(world).is_foreign("fact", D) and not situation_of(world).is_foreign("fact", AFTER)
    world.pinned["fact"][D] = "another writer's files"
    world.pinned["fact"][AFTER] = "another writer's files"
    del world.pinned["bronze"][D]
    situation = situation_of(world)
    assert situation.is_foreign("fact", D) and situation.is_foreign("fact", AFTER)
    assert situation.is_foreign("bronze", D)


@pytest.mark.parametrize("version", ["", "v9"])
def test_no_version_and_an_unknown_one_change_nothing(world: World, version: str) -> None:
    """That it is unknown is a finding of its own."""
    situation = situation_of(world)
    assert situation.with_version("fact", version) is situation


def test_a_version_of_a_table_that_is_not_there_is_refused(world: World) -> None:
    """Also where no version is asked for."""
    with pytest.raises(InvalidRequest, match="no table 'facts'"):
        situation_of(world).with_version("facts", "")


def test_a_day_holds_what_was_published_last(world: World) -> None:
    """Nothing for a day that was never published, and for one that was withdrawn."""
    content = situation_of(world).content("fact", D)
    assert content is not None and (content.rows, content.code_version) == (1, "v2")
    assert situation_of(world).content("fact", AFTER) is None
    assert situation_of(world).content("nothing", D) is None
    world.put("fact", D, None, fingerprints.EMPTY_DAY)
    assert situation_of(world).content("fact", D) is None


def test_a_logical_fingerprint_is_of_the_pinned_files_whether_or_not_main_moved_on(world: World) -> None:
    """What a build would read: the last closed entry's versions."""
    assert situation_of(world).logical("fact", D) == fingerprints.logical(1, "7")
    world.write_past_the_protocol("fact", D)
    assert situation_of(world).logical("fact", D) == fingerprints.logical(1, "7")
    world.pinned["fact"][D] = "another writer's files"
    assert situation_of(world).logical("fact", D) == fingerprints.foreign("another writer's files")


def test_a_logical_fingerprint_of_a_day_that_was_never_published(world: World) -> None:
    """With files it is a foreign write; a day that was published without rows is not one that never was."""
    assert situation_of(world).logical("fact", AFTER) == fingerprints.NEVER_PUBLISHED
    assert situation_of(world).logical("nothing", D) == fingerprints.NEVER_PUBLISHED
    world.pinned["fact"][AFTER] = "files"
    assert situation_of(world).logical("fact", AFTER) == fingerprints.foreign("files")
    world.publish("fact", D, rows=0)
    assert situation_of(world).logical("fact", D) == fingerprints.logical(0, "7")


def test_published_days_are_those_with_content_by_table(world: World) -> None:
    """A table of which nothing was published is not listed."""
    world.put("fact", D, None, fingerprints.EMPTY_DAY)
    world.publish("daily", AFTER)
    assert situation_of(world).published_days() == {
        "raw_rates": {D},
        "raw": {D},
        "rates": {D},
        "bronze": {D},
        "quarantine": {D},
        "daily": {D, AFTER},
        "weekly": {date(2017, 3, 6)},
        "monthly": {date(2017, 3, 1)},
    }
    assert PlanContext(steps=PIPELINE, observed=LogView(), begins=D, today=D).published_days() == {}


def test_statuses_are_by_the_current_version_and_by_period(world: World) -> None:
    """Every table of every step, on each period that the days touch."""
    found = situation_of(world).with_version("fact", "v1").statuses(DayRange(D, AFTER))
    assert found["fact"] == {D: DayStatus.CODE_CHANGED, AFTER: DayStatus.MISSING}
    assert found["weekly"] == {date(2017, 3, 6): DayStatus.FRESH}
    assert found["monthly"] == {date(2017, 3, 1): DayStatus.FRESH}
    assert list(found) == [name for step in PIPELINE for name in step.table_names]


def test_days_from_the_beginning_to_yesterday_have_begun(world: World) -> None:
    """Neither the day before the first one, nor today."""
    situation = situation_of(world, begins=D, today=D + timedelta(days=3))
    days = [D + timedelta(days=n) for n in range(-2, 6)]
    assert situation.begun_periods(situation.step_of("fact"), days) == {D, AFTER, D + timedelta(days=2)}
    assert situation.begun_periods(situation.step_of("fact"), []) == set()


def test_weeks_and_months_have_begun_that_hold_the_first_day_or_a_day_before_today(world: World) -> None:
    """A Monday that is today has not: its week has no day yet."""
    situation = situation_of(world, begins=D, today=date(2017, 3, 21))
    mondays = [date(2017, 2, 27), date(2017, 3, 6), date(2017, 3, 13), date(2017, 3, 20), date(2017, 3, 27)]
    assert situation.begun_periods(situation.step_of("weekly"), mondays) == set(mondays[1:4])
    months = [date(2017, 2, 1), date(2017, 3, 1), date(2017, 4, 1)]
    assert situation.begun_periods(situation.step_of("monthly"), months) == {date(2017, 3, 1)}
    on_a_monday = situation_of(world, begins=D, today=date(2017, 3, 20))
    assert on_a_monday.begun_periods(on_a_monday.step_of("weekly"), mondays) == set(mondays[1:3])
