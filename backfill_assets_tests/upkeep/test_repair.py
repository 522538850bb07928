"""What is repaired, what waits and what is for a person: the decision as a table of cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta

import pytest

from backfill_assets.days import DayRange, TableDay
from backfill_assets.state.diagnosis import Cause
from backfill_assets.state.edited_logic import EditedLogic
from backfill_assets.upkeep.bounds import DEFAULT_BOUNDS
from backfill_assets.upkeep.failed_checks import HeldByGates
from backfill_assets.upkeep.repair import RepairDecision, repairs_needed
from backfill_assets.upkeep.trouble import RepairContext, WriteUnderWay
from backfill_assets_tests.plan.world import World
from backfill_assets_tests.upkeep.weeks import (
    DAYS,
    MONDAY,
    NEXT_WEEK,
    WEEK,
    D,
    E,
    Event,
    failed_watch,
    happened,
    late,
    one_version_world,
    overwritten,
    published,
    put_back_by,
    repaired,
    two_version_world,
)

SALES = ("bronze", "quarantine", "fact", "revenue")
OLD = two_version_world
MOST_ATTEMPTS = DEFAULT_BOUNDS.attempts
RUN, OTHER_RUN = "the run 0123", "the run 4567"


@pytest.fixture
def world() -> World:
    return one_version_world()


def _decide(world: World, **seen: object) -> RepairDecision:
    return repairs_needed(RepairContext(world.steps, world.observed(), **seen))  # type: ignore[arg-type]


def _forget_the_week(world: World) -> None:
    del world.states[TableDay("weekly", MONDAY)], world.newest["weekly"][MONDAY]


@dataclass(frozen=True)
class Case:
    """What happened and what else is seen; what is launched, why, and what waits or is for people, in words."""

    name: str
    events: tuple[Event, ...] = ()
    days: dict[str, set[date]] = field(default_factory=dict)
    reason: Cause | None = None
    people: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    watches: tuple[tuple[str, date], ...] = ()
    seen: Mapping[str, object] = field(default_factory=dict)
    force: bool = False
    versions: dict[str, dict[str, tuple[date, ...]]] = field(default_factory=dict)
    world: Callable[[], World] = one_version_world


def _of(days: set[date], *tables: str, weeks: set[date]) -> dict[str, set[date]]:
    return {**dict.fromkeys(tables, days), "weekly": weeks}


LATE_SALES = _of({D}, *SALES, weeks={MONDAY})
FACT_AND_REPORTS = _of({D}, "fact", "revenue", weeks={MONDAY})
UNDONE_FACT = (published("bronze", D, checksum="8"), put_back_by("undo", "fact", D))
DAMAGED_OF_GONE = (published("fact", D, code="v0"), overwritten("fact", D))
GONE_FACT = (
    "fact 2017-03-07: foreign write, and it was published with v0, which is not declared any more; declare it "
    "again to keep it -> see what v2 makes of it: backfill plan fact --days 2017-03-07"
)
CASES = (
    Case("nothing"),
    Case(
        "late rows on days apart are one backfill, and touch exactly their weeks",
        (late(D, E, NEXT_WEEK),),
        _of({D, E, NEXT_WEEK}, *SALES, weeks={MONDAY, NEXT_WEEK}),
        Cause.LATE,
    ),
    Case(
        "a fact overwritten: what it was made of stays",
        (overwritten("fact", D),),
        FACT_AND_REPORTS,
        Cause.FOREIGN_WRITE,
    ),
    Case(
        "a companion overwritten: the whole step comes along",
        (overwritten("quarantine", D),),
        LATE_SALES,
        Cause.FOREIGN_WRITE,
    ),
    Case(
        "a rate changed: the days that look back to it",
        (published("raw_rates", NEXT_WEEK, checksum="8"),),
        {
            "rates": {NEXT_WEEK},
            "fact": {NEXT_WEEK, DAYS.last},
            "revenue": {NEXT_WEEK, DAYS.last},
            "weekly": {NEXT_WEEK},
        },
        Cause.LATE,
    ),
    Case(
        "a fact was rebuilt by hand: its reports follow",
        (published("fact", D, checksum="8"),),
        {"revenue": {D}, "weekly": {MONDAY}},
        Cause.INPUT,
    ),
    Case("a week that was never built", (_forget_the_week,), {"weekly": {MONDAY}}, Cause.MISSING),
    Case(
        "rows for a day that was never built, which lacks its rates: nothing more can be done",
        (published("raw", date(2017, 3, 20)),),
        _of({date(2017, 3, 20)}, "bronze", "quarantine", weeks=set()),
        Cause.MISSING,
    ),
    Case("other code is a decision of people", (published("revenue", D, code="v1"),), people=("revenue",)),
    Case(
        "raw overwritten is for people, and what is made of it waits with it",
        (overwritten("raw", D), published("fact", D, checksum="9")),
        people=("raw",),
        waiting=("made of raw days that wait for a person",),
    ),
    Case(
        "a failed watchdog forces its day: its inputs are those it was published from",
        days=FACT_AND_REPORTS,
        reason=Cause.CONTENT,
        watches=(("fact", D),),
        force=True,
    ),
    Case(
        "watchdogs downstream of what is repaired anyway open nothing of their own",
        (late(D),),
        LATE_SALES,
        Cause.LATE,
        watches=(("fact", D), ("revenue", D)),
    ),
    Case("a failed watchdog of raw is for people", people=("raw 2017-03-07: ",), watches=(("raw", D),)),
    Case(
        "it waits for what is under way on its tables",
        (late(D),),
        waiting=(RUN,),
        seen={"busy": {"revenue": [WriteUnderWay(RUN)]}},
    ),
    Case(
        "overwritten facts come before late rows on the same tables, which take their turn",
        (overwritten("fact", E), late(D)),
        _of({E}, "fact", "revenue", weeks={MONDAY}),
        Cause.FOREIGN_WRITE,
        waiting=("late rows",),
    ),
    Case(
        "what a person rolled back stays so, although its inputs are newer; repairs upstream pass it by",
        (*UNDONE_FACT, late(D)),
        {"bronze": {D}, "quarantine": {D}},
        Cause.LATE,
        people=("fact 2017-03-07: a person has rolled it back",),
    ),
    Case(
        "days before the first partition are for people",
        (late(D, E),),
        _of({E}, *SALES, weeks=set()),
        Cause.LATE,
        people=("bronze 2017-03-07: earlier than the first partition",),
        seen={"is_built": lambda _, day: day > D},
    ),
    Case(
        "a day after the last partition waits for it and needs no person",
        (late(D, E),),
        LATE_SALES,
        Cause.LATE,
        waiting=(f"bronze {E}: later than the last partition",),
        seen={"is_built": lambda _, day: day < E},
    ),
    Case(
        "damaged days are built by the version that they were published with",
        (overwritten("fact", D, NEXT_WEEK),),
        _of({D, NEXT_WEEK}, "fact", "revenue", weeks={MONDAY, NEXT_WEEK}),
        Cause.FOREIGN_WRITE,
        people=("fact 2017-03-06",),
        versions={"fact": {"v1": (D,)}},
        world=OLD,
    ),
    Case(
        "late rows reach days of an older version too",
        (late(D),),
        LATE_SALES,
        Cause.LATE,
        people=("fact 2017-03-06",),
        versions={"fact": {"v1": (D,)}},
        world=OLD,
    ),
    Case(
        "a changed rate reaches the days whose own version reads it, and not the last one of the old logic",
        (published("raw_rates", WEEK.last, checksum="8"),),
        {
            "rates": {WEEK.last},
            "fact": {NEXT_WEEK, DAYS.last},
            "revenue": {NEXT_WEEK, DAYS.last},
            "weekly": {NEXT_WEEK},
        },
        Cause.LATE,
        people=(
            "fact 2017-03-06..2017-03-12: made by v1, which repairs keep, and v2 is current -> compare v2 with it: ",
        ),
        world=OLD,
    ),
    Case(
        "a damaged day of a version that is gone is for people, and a repair above leaves it as it is",
        (*DAMAGED_OF_GONE, late(D)),
        {"bronze": {D}, "quarantine": {D}},
        Cause.LATE,
        people=(GONE_FACT, "fact 2017-03-06"),
        world=OLD,
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_launched(case: Case) -> None:
    """Exactly the days and tables affected, in one backfill that says why; the UI cuts its id at the first hyphen."""
    world = happened(case.world(), *case.events)
    decision = _decide(world, failed_watches=[failed_watch(world, *each) for each in case.watches], **case.seen)
    wanted = {table: days for table, days in case.days.items() if days}
    found = [{table: set(days) for table, days in repair.days.items()} for repair in decision.launch]
    assert found == ([wanted] if wanted else [])
    for repair in decision.launch:
        assert {trouble.cause for trouble in repair.troubles} == {case.reason}
        assert (repair.force, repair.versions) == (case.force, case.versions)
        first = min(trouble.day for trouble in repair.troubles)
        assert len(repair.id) == 32 and "-" not in repair.id and f"_{first:%Y%m%d}_" in repair.id
    for said, told in ((decision.for_people, case.people), (decision.waiting, case.waiting)):
        assert len(said) == len(told)
        assert all(words in str(line) for line, words in zip(said, told, strict=True))


@pytest.mark.parametrize(
    ("events", "title"),
    [
        ((late(D, D + timedelta(days=1)),), "Repair: bronze 2017-03-07..2017-03-08: late rows"),
        (
            (late(*list(DAYS)[::2]), published("raw_rates", NEXT_WEEK, D, checksum="9")),
            "Repair: rates and 1 more, 7 days of 2017-03-06..2017-03-14: late rows",
        ),
    ],
    ids=["every range", "at most a hundred characters: Dagster refuses longer ones"],
)
def test_the_title_says_which_days_and_why(world: World, events: tuple[Event, ...], title: str) -> None:
    """It is what people see on the Backfills page."""
    (repair,) = _decide(happened(world, *events)).launch
    assert repair.title == title


def test_a_repair_by_an_older_version_says_so() -> None:
    (repair,) = _decide(happened(two_version_world(), overwritten("fact", D))).launch
    assert repair.description.splitlines()[-1] == "By the version that they were published with: fact 2017-03-07 by v1."


def test_the_same_evidence_gives_the_same_id(world: World) -> None:
    """A restarted sensor decides again: what it launched must be recognised. Other evidence is another repair."""
    happened(world, late(D))
    (first,), (again,) = _decide(world).launch, _decide(world).launch
    (other,) = _decide(happened(world, published("raw", D, checksum="10", rows=3))).launch
    assert first == again
    assert other.id != first.id


def test_three_attempts_then_a_person(world: World) -> None:
    """Each attempt is a backfill of its own; a day that got other inputs starts anew."""
    (first,) = _decide(happened(world, late(D))).launch
    ids = {first.id}
    for times in range(1, MOST_ATTEMPTS):
        (repair,) = _decide(world, incidents=repaired(*first.troubles, times=times)).launch
        assert f"(attempt {times + 1})" in repair.title
        ids.add(repair.id)
    assert len(ids) == MOST_ATTEMPTS
    tried = repaired(*first.troubles, times=MOST_ATTEMPTS)
    decision = _decide(world, incidents=tried)
    assert decision.launch == ()
    assert "3 repairs did not put it right" in str(decision.for_people[0])
    assert len(_decide(happened(world, published("raw", D, checksum="11", rows=4)), incidents=tried).launch) == 1


def test_a_bad_day_does_not_hold_the_good_ones_back_twice(world: World) -> None:
    """A run publishes all its days or none: on the second attempt those that failed their gates go alone, later."""
    (first,) = _decide(happened(world, late(D, E))).launch
    tried = repaired(*first.troubles)
    decision = _decide(world, incidents=tried, failed_gates={TableDay("bronze", D): HeldByGates("broken")})
    (second,) = decision.launch
    assert second.days["bronze"] == (E,)
    assert "2017-03-07" in decision.waiting[0]
    assert second.id in decision.waiting[0]


def test_it_waits_for_what_is_under_way_on_its_days_only(world: World) -> None:
    """A run on other days of the same tables is no reason to leave a day wrong."""
    elsewhere = WriteUnderWay(RUN, {E})
    happened(world, late(D))
    (waiting,) = _decide(world, busy={"fact": [elsewhere, WriteUnderWay(OTHER_RUN, {D})]}).waiting
    assert OTHER_RUN in waiting
    assert len(_decide(world, busy={"fact": [elsewhere]}).launch) == 1


def test_a_damaged_day_of_an_edited_version_says_so_and_what_helps_is_said_of_the_version(world: World) -> None:
    """Status names the foreign write, too; no repair replaces it by rows of the new logic."""
    edited = EditedLogic("fact", ("fact",), "v2", (D,), ("f",), ("converted",))
    decision = _decide(happened(world, overwritten("fact", D)), edited=[edited])
    assert decision.launch == ()
    (action,) = decision.for_people
    assert action.diagnosis is not None and action.diagnosis.cause is Cause.FOREIGN_WRITE
    assert "no repair builds with it" in action.why and action.next_step == edited.next_step


def test_what_a_version_that_was_edited_would_build_is_left_to_a_person(world: World) -> None:
    """Its stale days, and those made of them; what it reads is repaired. Of fresh days the words are the same."""
    edited = EditedLogic("fact", ("fact",), "v2", (D, E), ("f",), ("converted",))
    words = f"fact {D}, {E}: made with another logic than v2 has now (converted changed) -> put v2 back"
    (action,) = _decide(world, edited=[edited]).for_people
    assert str(action).startswith(words) and str(action).endswith("--same-rows")
    late(D)(world)
    decision = _decide(world, edited=[edited])
    (repair,) = decision.launch
    assert set(repair.days) == {"bronze", "quarantine"}
    assert [str(each) for each in decision.for_people] == [str(action)]
    for table in repair.days:
        published(table, D, checksum="8")(world)
    decision = _decide(world, edited=[edited])
    stale, fresh = decision.for_people
    assert not decision.launch and (stale.days, fresh.days) == ((D,), (E,))
    assert {stale.why, fresh.why} == {action.why} and {stale.next_step, fresh.next_step} == {action.next_step}
    assert stale.diagnosis is not None and stale.diagnosis.cause is Cause.EDITED_LOGIC


def test_what_a_plan_is_rebuilding_is_left_to_it() -> None:
    """A person who planned these days as well would do its work twice: the plan ends before such a day. Days of the
    current version between the others stay as they are in it.
    """
    world = two_version_world()
    first, second, third, *others = list(DAYS)[:7]
    rebuilt = {TableDay("fact", second): "plan-1"}
    decision = _decide(world, rebuilt_by=rebuilt)
    (waiting,), (action,) = decision.waiting, decision.for_people
    assert waiting == (
        f"fact {second}: made by v1, which repairs keep, and v2 is current; plan-1 is rebuilding these days"
    )
    assert action.days == (first, third, *others)
    assert action.next_step.endswith(f": backfill plan fact --days {first}") and action.plan == DayRange(first, first)
    assert _decide(happened(world, late(NEXT_WEEK)), rebuilt_by=rebuilt).waiting == (waiting,), "beside a repair too"
    (action,) = _decide(happened(world, published("fact", second))).for_people
    assert action.next_step.endswith(f": backfill plan fact --days {first}..{others[-1]}")
