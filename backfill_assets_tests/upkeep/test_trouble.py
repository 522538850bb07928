"""Which days are stale, for which reason and in which state: found from logs and watchdogs, each day of a step once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta

import pytest

from backfill_assets.days import TableDay
from backfill_assets.state.diagnosis import Cause
from backfill_assets.state.rolled_back import Rollbacks
from backfill_assets.state.status import day_statuses
from backfill_assets.upkeep.failed_checks import FailedWatch
from backfill_assets.upkeep.repair import repairs_needed
from backfill_assets.upkeep.trouble import (
    RepairContext,
    StaleDay,
    digest,
    find_stale_days,
)
from backfill_assets_tests.plan.world import World, noon_of
from backfill_assets_tests.upkeep.weeks import (
    DAYS,
    MONDAY,
    NEXT_WEEK,
    D,
    E,
    Event,
    failed_watch,
    happened,
    late,
    one_version_world,
    overwritten,
    published,
    published_by,
    put_back_by,
    two_version_world,
    withdrawn,
)

END_OF_TIME = datetime.max.replace(tzinfo=UTC)
NEW, NEVER = DAYS.last + timedelta(days=1), date(2017, 3, 20)
LATE, INPUT, FOREIGN, MISSING, CONTENT = (
    Cause.LATE,
    Cause.INPUT,
    Cause.FOREIGN_WRITE,
    Cause.MISSING,
    Cause.CONTENT,
)


@pytest.fixture
def world() -> World:
    return one_version_world()


def _seen(world: World, **seen: object) -> RepairContext:
    return RepairContext(world.steps, world.observed(), **seen)  # type: ignore[arg-type]


def _stale(world: World, **more: object) -> tuple[list[StaleDay], list[StaleDay]]:
    seen = _seen(world, **more)
    return find_stale_days(seen, day_statuses(seen.steps, seen.observed, as_published=True))


def _reasons(found: list[StaleDay]) -> list[tuple[str, date, Cause]]:
    return [(each.table, each.day, each.shows) for each in found]


# ------------------------------------------------------------------ the context


def test_a_day_has_the_version_that_it_was_published_with(world: World) -> None:
    """A day that is not published has the current one; raw has none. With parameters it is other code than declared."""
    seen = _seen(two_version_world())
    assert (seen.version_name("fact", D), seen.version_name("fact", NEXT_WEEK)) == ("v1", "v2")
    assert seen.version_name("fact", NEVER) == "v2"
    old, current = seen.version("fact", D), seen.version("fact", NEVER)
    assert old is not None and [(read.table, read.first, read.last) for read in old.reads] == [
        ("bronze", 0, 0),
        ("rates", -2, -1),
    ]
    assert current is not None and current.name == "v2" and seen.version("raw", D) is None
    happened(world, published("fact", D, code="v0"))
    state = world.states[TableDay("fact", E)]
    assert state.content is not None
    world.states[TableDay("fact", E)] = replace(state, content=replace(state.content, parameters="x=1"))
    seen = _seen(world)
    for day, name in ((D, "v0"), (E, "v2 x=1")):
        assert (seen.version_name("fact", day), seen.version("fact", day)) == (name, None)
        assert not seen.may_build("fact", day)


def test_a_day_may_be_built_that_has_a_partition_and_a_version_and_was_not_rolled_back(world: World) -> None:
    """One table that was rolled back counts for all of its step, on that day; a day without a publication never was.

    One that is made of what there is may come along with others: it is kept.
    """
    happened(world, put_back_by("undo", "quarantine", D))
    assert _seen(world).may_build("bronze", D)
    happened(world, late(D))
    seen = _seen(world, is_built=lambda table, day: (table, day) != ("fact", E))
    keys = (("fact", D), ("raw", D), ("fact", NEVER), ("fact", E), ("revenue", E), ("bronze", D), ("bronze", E))
    assert [key for key in keys if not seen.may_build(*key)] == [("fact", E), ("bronze", D)]
    steps = (("bronze", D), ("quarantine", D), ("bronze", E), ("fact", D), ("bronze", NEVER))
    assert [key for key in steps if seen.is_rolled_back(*key)] == [("bronze", D), ("quarantine", D)]


def test_the_log_is_asked_of_rollbacks_only_where_one_stands(world: World) -> None:
    """It is long."""
    asked: list[str] = []

    def find(rollback: str) -> None:
        asked.append(rollback)

    seen = _seen(world, rollbacks=Rollbacks(find, lambda rollback, key: "other"))
    assert not seen.is_rolled_back("fact", NEVER) and not seen.is_rolled_back("bronze", E) and asked == []
    happened(world, put_back_by("undo", "fact", D))
    assert not _seen(world, rollbacks=seen.rollbacks).is_rolled_back("fact", D) and asked == ["undo"]


# ------------------------------------------------------------------ which days are stale


@dataclass(frozen=True)
class Case:
    """What happened, whose watchdogs fail, and the stale days: of raw, and of tables that can be built again."""

    name: str
    events: tuple[Event, ...] = ()
    stale: tuple[tuple[str, date, Cause], ...] = ()
    raw: tuple[tuple[str, date, Cause], ...] = ()
    watches: tuple[tuple[str, date], ...] = ()
    now: datetime = END_OF_TIME
    world: Callable[[], World] = one_version_world


OF_TOMORROW = published("raw", NEW)
NEW_BRONZE = (OF_TOMORROW, published("bronze", NEW), published("quarantine", NEW))
STALE = (
    Case("a version that is gone is no trouble", (published("revenue", D, code="v0"),), world=two_version_world),
    Case(
        "a changed input is late rows if it is raw; only tables that read it themselves",
        (late(D), published("fact", E, checksum="9")),
        (("bronze", D, LATE), ("revenue", E, INPUT), ("weekly", MONDAY, INPUT)),
    ),
    Case(
        "raw days are apart, and one without files has no rows yet",
        (overwritten("raw", D), withdrawn("raw_rates", E)),
        (("rates", E, LATE),),
        (("raw", D, Cause.FOREIGN_RAW), ("raw", NEXT_WEEK, Cause.FOREIGN_RAW)),
        watches=(("raw", NEXT_WEEK),),
    ),
    Case(
        "a missing day whose rates have come",
        (*NEW_BRONZE, published("raw_rates", NEW), published("rates", NEW)),
        (("fact", NEW, MISSING),),
    ),
    Case(
        "the watchdog of a day without rows counts too",
        (published("revenue", D, rows=0),),
        (("revenue", D, CONTENT),),
        watches=(("revenue", D),),
    ),
    Case(
        "the gravest reason is given: a foreign write, a watchdog, late rows",
        (late(D, E), overwritten("quarantine", NEXT_WEEK)),
        (("quarantine", D, CONTENT), ("bronze", E, LATE), ("quarantine", NEXT_WEEK, FOREIGN)),
        watches=(("quarantine", D), ("bronze", NEXT_WEEK)),
    ),
    Case(
        "inputs come before what is made of them, and days ascend",
        (overwritten("revenue", NEXT_WEEK, D), overwritten("bronze", NEXT_WEEK, D)),
        tuple((table, day, FOREIGN) for table in ("bronze", "revenue") for day in (D, NEXT_WEEK)),
    ),
    Case("a day that has not ended is no trouble yet", (OF_TOMORROW,), now=noon_of(NEW)),
)


@pytest.mark.parametrize("case", STALE, ids=lambda case: case.name)
def test_which_days_are_stale(case: Case) -> None:
    """By the reason of each; repairs launch something exactly where a day is stale that can be built again."""
    world = happened(case.world(), *case.events)
    more = {"failed_watches": [failed_watch(world, *each) for each in case.watches], "now": case.now}
    raw, others = _stale(world, **more)
    assert (tuple(_reasons(raw)), tuple(_reasons(others))) == (case.raw, case.stale)
    assert bool(repairs_needed(_seen(world, **more)).launch) is bool(case.stale)


def test_a_watchdog_counts_while_its_day_is_what_it_looked_at(world: World) -> None:
    """Not after a publication, not after the files changed, and not of a day that is not in the log."""
    failed = failed_watch(world, "fact", D)
    for other in (
        replace(failed, publication="p0"),
        replace(failed, physical="other files"),
        replace(failed, day=NEVER),
        FailedWatch("nothing", D, failed.publication, failed.physical),
    ):
        assert _stale(world, failed_watches=[other]) == ([], [])


# ------------------------------------------------------------------ the evidence


def _evidence(world: World, table: str, day: date) -> str:
    """The state that a foreign write of the day is found in."""
    _, others = _stale(world)
    (found,) = [each.evidence for each in others if (each.table, each.day) == (table, day)]
    return found


def _files_of_a_third_writer(world: World) -> None:
    world.newest["fact"][D] = "files of a third writer"


SUNDAY = date(2017, 3, 12)
OLD = two_version_world
OF_OTHER_DAYS = (
    published("bronze", E, checksum="9"),
    published("raw", D, checksum="9"),
    published("rates", E, checksum="9"),
    published("revenue", D, checksum="9"),
)
EVIDENCE: tuple[tuple[str, Callable[[], World], tuple[str, date], tuple[Event, ...], bool], ...] = (
    ("other days, and tables that are not read", one_version_world, ("fact", D), OF_OTHER_DAYS, False),
    *(
        row
        for table in ("bronze", "rates")
        for row in (
            (f"{table}: same content", one_version_world, ("fact", D), (published(table, D, code="v3"),), False),
            (f"{table}: other content", one_version_world, ("fact", D), (published(table, D, checksum="9"),), True),
            (f"{table}: a write that no build reads", one_version_world, ("fact", D), (overwritten(table, D),), False),
        )
    ),
    *(
        (
            f"the rates of {days} days before",
            one_version_world,
            ("fact", D),
            (published("rates", D - timedelta(days=days), checksum="9"),),
            days == 2,
        )
        for days in (2, 3)
    ),
    ("files of a third writer", one_version_world, ("fact", D), (_files_of_a_third_writer,), True),
    ("another publication", one_version_world, ("fact", D), (published_by("p2", "fact", D),), True),
    ("the files of the companion", one_version_world, ("bronze", D), (overwritten("quarantine", D),), True),
    ("old logic: the rate of the day", OLD, ("fact", D), (published("rates", D, checksum="9"),), False),
    ("old logic: the rate before", OLD, ("fact", D), (published("rates", MONDAY, checksum="9"),), True),
    *(
        (
            f"a week: the fact of {day}",
            one_version_world,
            ("weekly", MONDAY),
            (published("fact", day, checksum="8"),),
            day in (MONDAY, SUNDAY),
        )
        for day in (MONDAY, SUNDAY, NEXT_WEEK, date(2017, 3, 5))
    ),
)


@pytest.mark.parametrize(
    ("of", "key", "news", "other"), [row[1:] for row in EVIDENCE], ids=[row[0] for row in EVIDENCE]
)
def test_what_is_other_evidence_of_a_day(
    of: Callable[[], World], key: tuple[str, date], news: tuple[Event, ...], other: bool
) -> None:
    """A repair that failed is tried again only when its day, or what its version reads, is in another state."""
    world = happened(of(), overwritten(*key))
    before = _evidence(world, *key)
    assert len(before) == 12 and int(before, 16) >= 0
    assert (_evidence(happened(world, *news), *key) != before) is other


def test_of_a_version_that_is_gone_no_input_is_evidence() -> None:
    world = happened(two_version_world(), published("fact", D, code="v0"), overwritten("fact", D))
    gone = _evidence(world, "fact", D)
    assert _evidence(happened(world, published("bronze", D, checksum="9")), "fact", D) == gone


def test_another_table_day_and_reason_are_other_evidence(world: World) -> None:
    """Each has attempts of its own. The ids of repairs that were launched are made of it: it stays what it is."""
    happened(world, overwritten("fact", D, E), overwritten("revenue", D), late(MONDAY))
    _, others = _stale(world)
    _, watched = _stale(world, failed_watches=[failed_watch(world, "bronze", MONDAY)])
    assert len(others) == 4 and len({each.evidence for each in (*others, *watched)}) == 5
    assert digest(["fact", 1], 12) == "d77ed5691094"
