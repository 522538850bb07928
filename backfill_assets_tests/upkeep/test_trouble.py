"""Which days are stale, for which reason and in which state: found from logs and watchdogs, each day of a step once."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

from backfill_assets.days import TableDay
from backfill_assets.lakehouse import fingerprints
from backfill_assets.plan.status import day_statuses
from backfill_assets.state.rolled_back import Rollbacks
from backfill_assets.upkeep.repair import RepairDecision, repairs_needed
from backfill_assets.upkeep.trouble import (
    LEFT_FOR,
    FailedWatch,
    RepairContext,
    RunningStreams,
    StaleDay,
    StaleReason,
    WriteUnderWay,
    by_table,
    digest,
    find_stale_days,
    tables_behind_streams,
)
from backfill_assets_tests.plan.world import World
from backfill_assets_tests.upkeep.weeks import (
    DAYS,
    MONDAY,
    NEXT_WEEK,
    ROLLED_BACK,
    STEPS,
    WEEK,
    D,
    E,
    failed_watch,
    late_rows,
    one_version_world,
    two_version_world,
)


@pytest.fixture
def world() -> World:
    return one_version_world()


@pytest.fixture
def old_world() -> World:
    return two_version_world()


def _seen(world: World, **seen: object) -> RepairContext:
    return RepairContext(world.steps, world.observed(), **seen)  # type: ignore[arg-type]


def _stale(world: World, **more: object) -> tuple[list[StaleDay], list[StaleDay]]:
    seen = _seen(world, **more)
    return find_stale_days(seen, day_statuses(seen.steps, seen.observed, as_published=True))


def _reasons(found: list[StaleDay]) -> list[tuple[str, date, StaleReason]]:
    return [(each.table, each.day, each.reason) for each in found]


def _others(world: World, **more: object) -> list[tuple[str, date, StaleReason]]:
    """The stale days of tables that can be built again."""
    raw, others = _stale(world, **more)
    assert raw == []
    return _reasons(others)


# ------------------------------------------------------------------ records


def test_a_stale_day_is_written_with_its_reason_and_its_evidence() -> None:
    """As people see it in a log."""
    trouble = StaleDay("fact", D, StaleReason.LATE_ROWS, "0123456789ab")
    assert str(trouble) == "fact 2017-03-07: late rows arrived [0123456789ab]"


def test_a_write_under_way_concerns_its_days_or_all() -> None:
    """None stands for all days; no days at all are of no concern to anything but that."""
    some, everything, nothing = WriteUnderWay("run", {D}), WriteUnderWay("run"), WriteUnderWay("run", ())
    assert some.may_write([E, D]) and not some.may_write([E]) and not some.may_write([])
    assert everything.may_write([E]) and everything.may_write([])
    assert not nothing.may_write([D])


def test_days_by_table_are_each_once() -> None:
    """In the order in which tables come."""
    troubles = [
        StaleDay("fact", E, StaleReason.MISSING, "1"),
        StaleDay("bronze", D, StaleReason.LATE_ROWS, "2"),
        StaleDay("fact", D, StaleReason.WATCHDOG, "3"),
        StaleDay("fact", D, StaleReason.MISSING, "4"),
    ]
    found = by_table(iter(troubles))
    assert found == {"fact": {D, E}, "bronze": {D}} and list(found) == ["fact", "bronze"]
    assert by_table([]) == {}


def test_a_digest_is_the_beginning_of_a_hash_of_the_value() -> None:
    """The ids of repairs that were launched are made of it: it stays what it is."""
    assert digest(["fact", 1], 12) == "d77ed5691094"
    assert digest(["fact", 1], 4) == "d77e"
    assert digest(["fact", 2], 12) != digest(["fact", 1], 12)


# ------------------------------------------------------------------ the context


def test_a_day_has_the_version_that_it_was_published_with(old_world: World) -> None:
    """A day that is not published has the current one; raw has no version to be built by."""
    seen = _seen(old_world)
    assert (seen.version_name("fact", D), seen.version_name("fact", NEXT_WEEK)) == ("v1", "v2")
    assert seen.version_name("fact", date(2017, 3, 20)) == "v2"
    old, current = seen.version("fact", D), seen.version("fact", date(2017, 3, 20))
    assert old is not None and [(read.table, read.first, read.last) for read in old.reads] == [
        ("bronze", 0, 0),
        ("rates", -2, -1),
    ]
    assert current is not None and current.name == "v2"
    assert seen.version("raw", D) is None


def test_a_version_that_is_not_declared_any_more_is_none(world: World) -> None:
    """Its name is still known; with parameters it is other code than the declared version of that name."""
    world.publish("fact", D, code="v0")
    state = world.states[TableDay("fact", E)]
    assert state.content is not None
    content = replace(state.content, parameters="x=1")
    world.states[TableDay("fact", E)] = replace(state, content=content)
    seen = _seen(world)
    assert (seen.version_name("fact", D), seen.version("fact", D)) == ("v0", None)
    assert (seen.version_name("fact", E), seen.version("fact", E)) == ("v2 x=1", None)
    assert not seen.may_build("fact", D) and not seen.may_build("fact", E)


def test_a_day_may_be_built_that_has_a_partition_and_a_version_and_was_not_rolled_back(world: World) -> None:
    """Raw needs no version: whether it can be built again is another question."""
    world.states[TableDay("quarantine", D)] = replace(world.states[TableDay("quarantine", D)], publication="undo")
    seen = _seen(world, rollbacks=lambda: ROLLED_BACK, has_partition=lambda table, day: (table, day) != ("fact", E))
    assert seen.may_build("fact", D) and seen.may_build("raw", D) and seen.may_build("fact", date(2017, 3, 20))
    assert not seen.may_build("fact", E) and seen.may_build("revenue", E)
    assert not seen.may_build("bronze", D), "its companion was rolled back"
    assert seen.may_build("bronze", E)


def test_one_table_that_was_rolled_back_counts_for_all_of_its_step(world: World) -> None:
    """And only on that day. A day that was never published was not rolled back."""
    world.states[TableDay("bronze", D)] = replace(world.states[TableDay("bronze", D)], publication="undo")
    seen = _seen(world, rollbacks=lambda: ROLLED_BACK)
    assert seen.is_rolled_back("bronze", D) and seen.is_rolled_back("quarantine", D)
    assert not seen.is_rolled_back("bronze", E) and not seen.is_rolled_back("fact", D)
    assert not seen.is_rolled_back("bronze", date(2017, 3, 20))
    assert not _seen(world).is_rolled_back("bronze", D), "without rollbacks it is a publication like any other"


def test_rollbacks_are_read_once_and_not_for_what_was_never_published(world: World) -> None:
    """They are in the log, which is long."""
    asked = []

    def rollbacks() -> Rollbacks:
        asked.append(1)
        return ROLLED_BACK

    seen = _seen(world, rollbacks=rollbacks)
    assert not seen.is_rolled_back("fact", date(2017, 3, 20)) and asked == []
    assert not seen.is_rolled_back("fact", D) and not seen.is_rolled_back("bronze", E)
    assert asked == [1]


def test_the_step_and_the_published_days_of_each_table(world: World) -> None:
    """A withdrawn day is not published."""
    world.put("fact", D, None, fingerprints.EMPTY_DAY)
    seen = _seen(world)
    assert seen.step_of["quarantine"] is seen.step_of["bronze"] and seen.step_of["weekly"].name == "weekly"
    assert seen.published["fact"] == set(DAYS) - {D}
    assert seen.published["weekly"] == {MONDAY, NEXT_WEEK}


# ------------------------------------------------------------------ which days are stale


def test_nothing_is_stale_in_a_lakehouse_that_is_right(world: World, old_world: World) -> None:
    """Days of an older version are right as they are, and so are days of a version that is gone."""
    assert _stale(world) == _stale(old_world) == ([], [])
    old_world.publish("revenue", D, code="v0")
    assert _stale(old_world) == ([], [])


def test_an_input_that_changed_is_late_rows_if_it_is_raw(world: World) -> None:
    """Only the tables that read it themselves: what is made of them follows when they are built."""
    late_rows(world, D)
    world.publish("fact", E, checksum="9")
    assert _others(world) == [
        ("bronze", D, StaleReason.LATE_ROWS),
        ("revenue", E, StaleReason.INPUT_CHANGED),
        ("weekly", MONDAY, StaleReason.INPUT_CHANGED),
    ]


def test_a_foreign_write_is_stale_by_the_table_that_has_it(world: World) -> None:
    """Of tables that are built together the day is listed once."""
    world.write_past_the_protocol("quarantine", D)
    assert _others(world) == [("quarantine", D, StaleReason.FOREIGN_WRITE)]
    world.write_past_the_protocol("bronze", D)
    assert _others(world) == [("bronze", D, StaleReason.FOREIGN_WRITE)]


def test_raw_days_are_apart_and_what_they_lack_is_no_trouble(world: World) -> None:
    """A foreign write and a failed watchdog are; a raw day without files has no rows yet."""
    world.write_past_the_protocol("raw", D)
    world.put("raw_rates", E, None, fingerprints.EMPTY_DAY)
    raw, others = _stale(world, failed_watches=[failed_watch(world, "raw", NEXT_WEEK)])
    assert _reasons(raw) == [
        ("raw", D, StaleReason.FOREIGN_WRITE),
        ("raw", NEXT_WEEK, StaleReason.WATCHDOG),
    ]
    assert _reasons(others) == [("rates", E, StaleReason.LATE_ROWS)]


def test_a_missing_day_is_stale_if_all_that_it_needs_is_published(world: World) -> None:
    """Its rates are not, until they are; a missing bronze day holds back what is made of it."""
    new = DAYS.last + timedelta(days=1)
    world.publish("raw", new)
    assert _others(world) == [("bronze", new, StaleReason.MISSING)]
    world.publish("bronze", new)
    world.publish("quarantine", new)
    assert _others(world) == []
    world.publish("raw_rates", new)
    world.publish("rates", new)
    assert _others(world) == [("fact", new, StaleReason.MISSING)]


def test_a_watchdog_counts_while_its_day_is_what_it_looked_at(world: World) -> None:
    """Not after a publication, not after the files changed, and not of a day that is not in the log."""
    failed = failed_watch(world, "fact", D)
    assert _others(world, failed_watches=[failed]) == [("fact", D, StaleReason.WATCHDOG)]
    for other in (
        replace(failed, publication="p0"),
        replace(failed, physical="other files"),
        replace(failed, day=date(2017, 3, 20)),
        FailedWatch("nothing", D, failed.publication, failed.physical),
    ):
        assert _others(world, failed_watches=[other]) == []


def test_a_watchdog_of_a_day_without_rows_counts_too(world: World) -> None:
    """Such a day has no files to compare."""
    world.publish("revenue", D, rows=0)
    failed = failed_watch(world, "revenue", D)
    assert failed.physical == fingerprints.EMPTY_DAY
    assert ("revenue", D, StaleReason.WATCHDOG) in _others(world, failed_watches=[failed])


def test_the_gravest_reason_of_a_day_is_the_one_that_is_given(world: World) -> None:
    """A foreign write before a watchdog, a watchdog before late rows; also of tables that are built together."""
    late_rows(world, D, E)
    failed = [failed_watch(world, "quarantine", D), failed_watch(world, "bronze", NEXT_WEEK)]
    world.write_past_the_protocol("quarantine", NEXT_WEEK)
    assert _others(world, failed_watches=failed) == [
        ("quarantine", D, StaleReason.WATCHDOG),
        ("bronze", E, StaleReason.LATE_ROWS),
        ("quarantine", NEXT_WEEK, StaleReason.FOREIGN_WRITE),
    ]


def test_stale_days_are_in_build_order_and_ascend(world: World) -> None:
    """Inputs before what is made of them."""
    for day in (NEXT_WEEK, D):
        world.write_past_the_protocol("revenue", day)
        world.write_past_the_protocol("bronze", day)
    assert [(table, day) for table, day, _ in _others(world)] == [
        ("bronze", D),
        ("bronze", NEXT_WEEK),
        ("revenue", D),
        ("revenue", NEXT_WEEK),
    ]


def test_what_changed_is_judged_by_the_version_of_the_day(old_world: World) -> None:
    """The old logic does not read the rate of the day itself; the current one does."""
    old_world.publish("rates", MONDAY, checksum="9")
    assert _others(old_world) == [
        ("fact", date(2017, 3, 7), StaleReason.INPUT_CHANGED),
        ("fact", date(2017, 3, 8), StaleReason.INPUT_CHANGED),
    ]


def test_a_day_that_has_not_ended_is_no_trouble_yet(world: World) -> None:
    """A till with a fast clock sends rows of tomorrow: they are built when that day is."""
    tomorrow = DAYS.last + timedelta(days=1)
    world.publish("raw", tomorrow)
    assert _others(world, today=tomorrow) == []
    assert _others(world, today=tomorrow + timedelta(days=1)) == [("bronze", tomorrow, StaleReason.MISSING)]
    seen = _seen(world, today=tomorrow)
    assert repairs_needed(seen) == RepairDecision()
    assert repairs_needed(replace(seen, today=tomorrow + timedelta(days=1))).launch


# ------------------------------------------------------------------ the evidence


def _evidence(world: World, table: str = "fact", day: date = D, **more: object) -> str:
    """The state that a foreign write of the day is found in."""
    _, others = _stale(world, **more)
    (found,) = [each.evidence for each in others if (each.table, each.day) == (table, day)]
    return found


@pytest.fixture
def overwritten(world: World) -> World:
    world.write_past_the_protocol("fact", D)
    return world


def test_the_evidence_is_twelve_hex_digits_that_stay_while_nothing_changes(overwritten: World) -> None:
    """What happens to other days, and to tables that are not read, is no news of this one."""
    first = _evidence(overwritten)
    assert len(first) == 12 and int(first, 16) >= 0
    overwritten.publish("bronze", E, checksum="9")
    overwritten.publish("raw", D, checksum="9")
    overwritten.publish("rates", E, checksum="9")
    overwritten.publish("revenue", D, checksum="9")
    assert _evidence(overwritten) == first


@pytest.mark.parametrize("table", ["bronze", "rates"])
def test_an_input_with_other_content_is_other_evidence(overwritten: World, table: str) -> None:
    """A repair that failed is tried again; the same content in other files is the same evidence."""
    first = _evidence(overwritten)
    overwritten.publish(table, D, code="v3")
    assert _evidence(overwritten) == first
    overwritten.publish(table, D, checksum="9")
    assert _evidence(overwritten) != first


@pytest.mark.parametrize("table", ["bronze", "rates"])
def test_a_foreign_write_of_an_input_that_no_build_would_read_is_no_news(overwritten: World, table: str) -> None:
    """A build reads the versions that the log has pinned: it would find the same as before."""
    first = _evidence(overwritten)
    overwritten.write_past_the_protocol(table, D)
    assert _evidence(overwritten) == first


def test_a_look_back_is_evidence_as_far_as_it_goes(overwritten: World) -> None:
    """Two days back are read, three are not."""
    overwritten.publish("rates", D - timedelta(days=3), checksum="9")
    first = _evidence(overwritten)
    overwritten.publish("rates", D - timedelta(days=2), checksum="9")
    assert _evidence(overwritten) != first


def test_other_files_and_another_publication_of_the_day_are_other_evidence(overwritten: World) -> None:
    """A rebuild of the same rows is one: what was wrong was put right meanwhile."""
    first = _evidence(overwritten)
    overwritten.newest["fact"][D] = "files of a third writer"
    second = _evidence(overwritten)
    fact = TableDay("fact", D)
    overwritten.states[fact] = replace(overwritten.states[fact], publication="p2")
    assert len({first, second, _evidence(overwritten)}) == 3


def test_another_table_day_and_reason_are_other_evidence(overwritten: World) -> None:
    """Each has attempts of its own."""
    overwritten.write_past_the_protocol("fact", E)
    overwritten.write_past_the_protocol("revenue", D)
    found = {_evidence(overwritten), _evidence(overwritten, day=E), _evidence(overwritten, "revenue")}
    assert len(found) == 3
    late_rows(overwritten, MONDAY)
    late = _evidence(overwritten, "bronze", MONDAY)
    watched = [failed_watch(overwritten, "bronze", MONDAY)]
    assert _evidence(overwritten, "bronze", MONDAY, failed_watches=watched) != late


def test_the_evidence_has_the_files_of_all_tables_of_the_step(world: World) -> None:
    """Also those of the companion, whichever of them is named."""
    world.write_past_the_protocol("bronze", D)
    first = _evidence(world, "bronze")
    world.write_past_the_protocol("quarantine", D)
    assert _evidence(world, "bronze") != first


def test_the_evidence_is_of_what_the_version_of_the_day_reads(old_world: World) -> None:
    """The rate of the day itself is nothing to the old logic; of a version that is gone, no input is known."""
    old_world.write_past_the_protocol("fact", D)
    first = _evidence(old_world)
    old_world.publish("rates", D, checksum="9")
    assert _evidence(old_world) == first
    old_world.publish("rates", MONDAY, checksum="9")
    assert _evidence(old_world) != first
    old_world.publish("fact", D, code="v0")
    old_world.write_past_the_protocol("fact", D)
    gone = _evidence(old_world)
    old_world.publish("bronze", D, checksum="9")
    assert _evidence(old_world) == gone


def test_the_evidence_of_a_week_is_of_all_of_its_days(world: World) -> None:
    """From Monday to Sunday."""
    world.write_past_the_protocol("weekly", MONDAY)
    seen = [_evidence(world, "weekly", MONDAY)]
    for day, checksum in ((MONDAY, "8"), (date(2017, 3, 12), "8"), (NEXT_WEEK, "8"), (date(2017, 3, 5), "8")):
        world.publish("fact", day, checksum=checksum)
        seen.append(_evidence(world, "weekly", MONDAY))
    assert len(set(seen[:3])) == 3 and set(seen[2:]) == {seen[2]}


NOON = datetime(2017, 3, 15, 12, tzinfo=UTC)
OF_STREAM, OF_BACKFILL = "20170315t115900-stream-raw-sales-1", "20170315t115900-bronze-1"


def published_by(world: World, publication: str, table: str, *days: date) -> None:
    """The newest publication of these days."""
    for day in days:
        key = TableDay(table, day)
        world.states[key] = replace(world.states[key], publication=publication)


def decide(world: World, *tables: str, ago: timedelta = timedelta(seconds=12)) -> RepairDecision:
    """With streams of these raw tables; all but the first publications were made so long ago."""
    moments = {OF_STREAM: NOON - ago, OF_BACKFILL: NOON - ago, "p": NOON - timedelta(days=1)}
    streams = RunningStreams(tables, NOON, moments.get)
    return repairs_needed(RepairContext(STEPS, world.observed(), streams=streams))


def repaired(decision: RepairDecision) -> dict[str, tuple[date, ...]]:
    return {table: days for repair in decision.launch for table, days in repair.days.items()}


def test_days_that_a_running_stream_has_just_extended_are_left_to_it(world: World) -> None:
    """The tick says so; nothing is launched."""
    late_rows(world, D, E)
    published_by(world, OF_STREAM, "raw", D, E)
    decision = decide(world, "raw")
    assert decision.launch == ()
    assert decision.waiting == (f"bronze {D}, {E}: left to the running stream for 10 minutes",)


def test_without_a_stream_they_are_repaired(world: World) -> None:
    """Its lease has ended, or it appends to another table."""
    late_rows(world, D)
    published_by(world, OF_STREAM, "raw", D)
    for tables in ((), ("raw_rates",)):
        assert set(repaired(decide(world, *tables))["bronze"]) == {D}


def test_days_that_it_has_not_followed_in_ten_minutes_are_repaired(world: World) -> None:
    """A stream that runs and does not follow must not hide stale days."""
    late_rows(world, D)
    published_by(world, OF_STREAM, "raw", D)
    assert repaired(decide(world, "raw", ago=LEFT_FOR - timedelta(seconds=1))) == {}
    assert repaired(decide(world, "raw", ago=LEFT_FOR))["bronze"] == (D,)


def test_rows_that_a_backfill_has_brought_are_repaired(world: World) -> None:
    """A stream follows its own rows only. Days of both are one decision."""
    late_rows(world, D, E)
    published_by(world, OF_BACKFILL, "raw", D)
    published_by(world, OF_STREAM, "raw", E)
    decision = decide(world, "raw")
    assert repaired(decision)["bronze"] == (D,)
    assert decision.waiting == (f"bronze {E}: left to the running stream for 10 minutes",)


def test_other_reasons_are_repaired_at_once(world: World) -> None:
    """A foreign write is no late row, on the same day too."""
    world.write_past_the_protocol("bronze", D)
    published_by(world, OF_STREAM, "raw", D)
    assert repaired(decide(world, "raw"))["bronze"] == (D,)


def test_a_report_that_it_does_not_follow_is_repaired_at_most_every_ten_minutes(world: World) -> None:
    """Its week changes with every batch: a backfill for each would be one a minute."""
    world.publish("fact", D, checksum="8")
    world.publish("revenue", D)
    for table in ("fact", "revenue"):
        published_by(world, OF_STREAM, table, D)
    assert repaired(decide(world, "raw")) == {"weekly": (MONDAY,)}
    published_by(world, OF_BACKFILL, "weekly", MONDAY)
    decision = decide(world, "raw")
    assert (decision.launch, decision.waiting) == (
        (),
        (f"weekly {MONDAY}: left to the running stream for 10 minutes",),
    )
    assert repaired(decide(world, "raw", ago=LEFT_FOR)) == {"weekly": (MONDAY,)}


def test_a_day_of_the_stream_whose_rates_change_is_repaired_at_once(world: World) -> None:
    """The stream would extend it with every batch, and it would never be its turn."""
    world.publish("rates", NEXT_WEEK, checksum="8")
    published_by(world, OF_STREAM, "fact", *DAYS)
    assert NEXT_WEEK in repaired(decide(world, "raw"))["fact"]


def test_what_a_stream_may_change_is_known_from_the_declarations(world: World) -> None:
    seen = RepairContext(STEPS, world.observed(), streams=RunningStreams(("raw_rates",)))
    assert tables_behind_streams(seen) == {"raw_rates", "rates", "fact", "revenue", "weekly"}
    assert WEEK.first == MONDAY
