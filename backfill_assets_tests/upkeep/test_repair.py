"""What is repaired, what waits and what is for a person: the decision as a table of cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import date, timedelta

import pytest

from backfill_assets.days import TableDay
from backfill_assets.upkeep import repair
from backfill_assets.upkeep.repair import MOST_ATTEMPTS, RepairDecision, repairs_needed
from backfill_assets.upkeep.trouble import FailedGate, RepairContext, StaleDay, StaleReason, WriteUnderWay
from backfill_assets_tests.plan.world import World
from backfill_assets_tests.upkeep import weeks
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

SALES = ("bronze", "quarantine", "fact", "revenue")


@pytest.fixture
def world() -> World:
    return one_version_world()


def _decide(world: World, **seen: object) -> RepairDecision:
    return repairs_needed(RepairContext(STEPS, world.observed(), **seen))  # type: ignore[arg-type]


def _forget_the_week(world: World) -> None:
    del world.states[TableDay("weekly", MONDAY)], world.newest["weekly"][MONDAY]


def _overwrite_raw_and_rebuild_a_fact(world: World) -> None:
    world.write_past_the_protocol("raw", D)
    world.publish("fact", D, checksum="9")


@pytest.fixture
def old_world() -> World:
    return two_version_world()


@dataclass(frozen=True)
class Case:
    """What happened, and what is launched: the days of each table, and why."""

    name: str
    happened: Callable[[World], object]
    days: dict[str, set[date]] = field(default_factory=dict)
    reason: StaleReason | None = None
    people: tuple[str, ...] = ()


def _of(days: set[date], *tables: str, weeks: set[date]) -> dict[str, set[date]]:
    return {**dict.fromkeys(tables, days), "weekly": weeks}


CASES = (
    Case("nothing", lambda world: None),
    Case("late rows on one day", lambda w: late_rows(w, D), _of({D}, *SALES, weeks={MONDAY}), StaleReason.LATE_ROWS),
    Case(
        "late rows on days apart are one backfill, and touch exactly their weeks",
        lambda w: late_rows(w, D, E, NEXT_WEEK),
        _of({D, E, NEXT_WEEK}, *SALES, weeks={MONDAY, NEXT_WEEK}),
        StaleReason.LATE_ROWS,
    ),
    Case(
        "a fact overwritten: what it was made of stays",
        lambda w: w.write_past_the_protocol("fact", D),
        _of({D}, "fact", "revenue", weeks={MONDAY}),
        StaleReason.FOREIGN_WRITE,
    ),
    Case(
        "a companion overwritten: the whole step comes along",
        lambda w: w.write_past_the_protocol("quarantine", D),
        _of({D}, *SALES, weeks={MONDAY}),
        StaleReason.FOREIGN_WRITE,
    ),
    Case(
        "a rate changed: the days that look back to it",
        lambda w: w.publish("raw_rates", DAYS.last - timedelta(days=1), checksum="8"),
        {
            "rates": {NEXT_WEEK},
            "fact": {NEXT_WEEK, DAYS.last},
            "revenue": {NEXT_WEEK, DAYS.last},
            "weekly": {NEXT_WEEK},
        },
        StaleReason.LATE_ROWS,
    ),
    Case(
        "a fact was rebuilt by hand: its reports follow",
        lambda w: w.publish("fact", D, checksum="8"),
        {"revenue": {D}, "weekly": {MONDAY}},
        StaleReason.INPUT_CHANGED,
    ),
    Case(
        "a week that was never built",
        _forget_the_week,
        {"weekly": {MONDAY}},
        StaleReason.MISSING,
    ),
    Case(
        "rows for a day that was never built, which lacks its rates: nothing can be done",
        lambda w: w.publish("raw", date(2017, 3, 20)),
        _of({date(2017, 3, 20)}, "bronze", "quarantine", weeks=set()),
        StaleReason.MISSING,
    ),
    Case("other code is a decision of people", lambda w: w.publish("revenue", D, code="v1"), people=("revenue",)),
    Case("raw overwritten is for people", lambda w: w.write_past_the_protocol("raw", D), people=("raw",)),
    Case(
        "what is made of such a raw day waits with it",
        _overwrite_raw_and_rebuild_a_fact,
        people=("raw",),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_launched(world: World, case: Case) -> None:
    """Exactly the days affected, of the tables affected, in one backfill that says why."""
    case.happened(world)
    decision = _decide(world)
    wanted = {table: days for table, days in case.days.items() if days}
    assert [{table: set(days) for table, days in repair.days.items()} for repair in decision.launch] == (
        [wanted] if wanted else []
    )
    assert {trouble.reason for repair in decision.launch for trouble in repair.troubles} == {case.reason} - {None}
    assert tuple(each.table for each in decision.for_people) == case.people
    assert not any(repair.force for repair in decision.launch)


def test_the_title_says_which_days_and_why(world: World) -> None:
    """It is what people see on the Backfills page; ids fit Dagster's column."""
    late_rows(world, D, D + timedelta(days=1))
    (repair,) = _decide(world).launch
    assert repair.title == "Repair: bronze 2017-03-07..2017-03-08: late rows arrived"
    assert len(repair.id) <= 32


def test_a_title_has_at_most_a_hundred_characters(world: World) -> None:
    """Dagster refuses longer ones, and the sensor would fail for ever."""
    late_rows(world, *list(DAYS)[::2])
    for day in (NEXT_WEEK, D):
        world.publish("raw_rates", day, checksum="9")
    (repair,) = _decide(world).launch
    assert repair.title == "Repair: rates and 1 more, 7 days of 2017-03-06..2017-03-14: late rows arrived"


def test_a_failed_watchdog_forces_its_day_until_something_was_published(world: World) -> None:
    """Its inputs are those it was published from: without force it would be found unchanged."""
    failed = failed_watch(world, "fact", D)
    (repair,) = _decide(world, failed_watches=[failed]).launch
    assert repair.force
    assert {table: set(days) for table, days in repair.days.items()} == _of({D}, "fact", "revenue", weeks={MONDAY})
    fact = TableDay("fact", D)
    world.states[fact] = replace(world.states[fact], publication="p2")
    assert _decide(world, failed_watches=[failed]).launch == ()


def test_watchdogs_downstream_of_what_is_repaired_anyway_open_nothing_of_their_own(world: World) -> None:
    """Late rows make raw and fact differ, which the fact's watchdog sees as well."""
    late_rows(world, D)
    (repair,) = _decide(
        world, failed_watches=[failed_watch(world, "fact", D), failed_watch(world, "revenue", D)]
    ).launch
    assert (repair.troubles[0].table, repair.force) == ("bronze", False)


def test_a_failed_watchdog_of_raw_is_for_a_person(world: World) -> None:
    """Landed files count once."""
    decision = _decide(world, failed_watches=[failed_watch(world, "raw", D)])
    assert decision.launch == ()
    assert "cannot be built again" in str(decision.for_people[0])


def test_the_same_evidence_gives_the_same_id(world: World) -> None:
    """A restarted sensor decides again: what it launched must be recognised. Other evidence is another repair."""
    late_rows(world, D)
    (first,), (again,) = _decide(world).launch, _decide(world).launch
    world.publish("raw", D, checksum="10", rows=3)
    (other,) = _decide(world).launch
    assert first == again
    assert other.id != first.id


def test_three_attempts_then_a_person(world: World) -> None:
    """Each attempt is a backfill of its own; a day that got other inputs starts anew."""
    late_rows(world, D)
    attempts: Counter[str] = Counter()
    ids = set()
    for number in range(1, MOST_ATTEMPTS + 1):
        (repair,) = _decide(world, attempts=attempts).launch
        assert ("attempt" in repair.title) == (number > 1)
        ids.add(repair.id)
        attempts.update(trouble.evidence for trouble in repair.troubles)
    assert len(ids) == MOST_ATTEMPTS
    decision = _decide(world, attempts=attempts)
    assert decision.launch == ()
    assert "3 repairs did not put it right" in str(decision.for_people[0])
    world.publish("raw", D, checksum="11", rows=4)
    assert len(_decide(world, attempts=attempts).launch) == 1


def test_a_bad_day_does_not_hold_the_good_ones_back_twice(world: World) -> None:
    """A run publishes all its days or none: on the second attempt those that failed their gates go alone, later."""
    late_rows(world, D, E)
    (first,) = _decide(world).launch
    attempts = Counter(trouble.evidence for trouble in first.troubles)
    decision = _decide(world, attempts=attempts, failed_gates={TableDay("bronze", D): FailedGate("broken")})
    (second,) = decision.launch
    assert second.days["bronze"] == (E,)
    assert "2017-03-07" in decision.waiting[0]
    assert second.id in decision.waiting[0]


def test_it_waits_for_what_is_under_way_on_its_tables_only(world: World) -> None:
    """Two runs on the same days would only take turns; other tables are not held up."""
    late_rows(world, D)
    run = WriteUnderWay("the run 0123")
    decision = _decide(world, busy={"revenue": [run]})
    assert (decision.launch, len(decision.waiting)) == ((), 1)
    assert "the run 0123" in decision.waiting[0]
    assert len(_decide(world, busy={"rates": [run]}).launch) == 1


def test_it_waits_for_what_is_under_way_on_its_days_only(world: World) -> None:
    """A run on other days of the same tables is no reason to leave a day wrong."""
    late_rows(world, D)
    (waiting,) = _decide(
        world, busy={"fact": [WriteUnderWay("the run 0123", {E}), WriteUnderWay("the run 4567", {D})]}
    ).waiting
    assert "the run 4567" in waiting
    assert len(_decide(world, busy={"fact": [WriteUnderWay("the run 0123", {E})]}).launch) == 1


def test_reasons_on_the_same_tables_take_turns(world: World) -> None:
    """An overwritten fact and late rows elsewhere are two backfills, one after the other."""
    world.write_past_the_protocol("fact", E)
    late_rows(world, D)
    decision = _decide(world)
    assert [repair.troubles[0].reason for repair in decision.launch] == [StaleReason.FOREIGN_WRITE]
    assert "late rows" in decision.waiting[0]


def test_what_a_person_rolled_back_stays_rolled_back(world: World) -> None:
    """Its inputs are newer than its content, which would be a reason to build it. Repairs upstream pass it by."""
    world.publish("bronze", D, checksum="8")
    fact = TableDay("fact", D)
    world.states[fact] = replace(world.states[fact], publication="undo")
    decision = _decide(world, rollbacks=lambda: ROLLED_BACK)
    assert decision.launch == ()
    assert [str(each) for each in decision.for_people] == [
        "fact 2017-03-07: a person has rolled it back -> launch it when it is to be built again"
    ]
    late_rows(world, D)
    (repair,) = _decide(world, rollbacks=lambda: ROLLED_BACK).launch
    assert set(repair.days) == {"bronze", "quarantine"}


def test_days_that_dagster_cannot_build_are_for_a_person(world: World) -> None:
    """A late row for a day before the first partition must not make the sensor fail for ever."""
    late_rows(world, D, E)
    decision = _decide(world, has_partition=lambda _, day: day > D)
    assert decision.launch[0].days["bronze"] == (E,)
    assert [(each.table, each.days) for each in decision.for_people] == [("bronze", (D,))]


def test_a_day_after_the_last_partition_waits_for_it_and_needs_no_person(world: World) -> None:
    """The partitions of data that has ended grow by themselves: an earlier first day would not help."""
    late_rows(world, D, E)
    decision = _decide(world, has_partition=lambda _, day: day < E)
    assert decision.launch[0].days["bronze"] == (D,) and decision.for_people == ()
    (waits,) = decision.waiting
    assert waits.startswith(f"bronze {E}: later than the last partition") and "`dagster_shows_what_is`" in waits


def _decide_old(world: World, **seen: object) -> RepairDecision:
    return repairs_needed(RepairContext(weeks.TWO_VERSIONS, world.observed(), **seen))  # type: ignore[arg-type]


OLD_FACTS = "fact 2017-03-06..2017-03-12: built by other code"


def test_a_damaged_day_of_an_older_version_is_built_by_that_version(old_world: World) -> None:
    """Its neighbours are of the old logic: a repair puts back what was there, and does not change what it means."""
    old_world.write_past_the_protocol("fact", D)
    old_world.write_past_the_protocol("fact", NEXT_WEEK)
    decision = _decide_old(old_world)
    (repair,) = decision.launch
    assert repair.days["fact"] == (D, NEXT_WEEK)
    assert repair.versions == {"fact": {"v1": (D,)}}
    assert repair.description.splitlines()[-1] == "By the version that they were published with: fact 2017-03-07 by v1."
    old_world.publish("fact", D, code="v1")
    old_world.publish("fact", NEXT_WEEK)
    decision = _decide_old(old_world)
    assert decision.launch == ()
    assert [str(each).split(" ->")[0] for each in decision.for_people] == [OLD_FACTS], "as stale as its neighbours"


def test_what_a_plan_is_rebuilding_is_left_to_it(old_world: World) -> None:
    """A person who launched these days as well would do its work twice. Other days of the table are as before."""
    first, second, *others = list(DAYS)[:7]
    rebuilt = {TableDay("fact", first): "plan-1", TableDay("fact", second): "plan-1"}
    decision = _decide_old(old_world, rebuilt_by=rebuilt)
    (waiting,) = decision.waiting
    assert waiting == f"fact {first}..{second}: built by other code; plan-1 is rebuilding these days"
    (action,) = decision.for_people
    assert action.days == tuple(others)
    late_rows(old_world, NEXT_WEEK)
    assert _decide_old(old_world, rebuilt_by=rebuilt).waiting == (waiting,), "beside a repair as well"


def test_the_command_for_days_of_other_code_names_no_day_between_them(old_world: World) -> None:
    """One range would build days of the current version, and days that were never built, as well."""
    first, second, third, *_ = list(DAYS)
    rebuilt = {TableDay("fact", second): "plan-1"}
    (action,) = _decide_old(old_world, rebuilt_by=rebuilt).for_people
    assert second not in action.days and {first, third} <= set(action.days)
    assert f"--days {first} --days {third}" in action.next_step
    old_world.publish("fact", second)
    (action,) = _decide_old(old_world).for_people
    assert f"backfill run fact --downstream --days {first} --days {third}" in action.next_step


def test_a_repair_is_named_for_its_reason_and_its_first_day() -> None:
    """The UI shows ids up to the first hyphen, and Dagster keeps 32 characters of them."""
    seen = {}
    for reason in StaleReason:
        repair_id = repair._id([StaleDay("fact", D, reason, "0")], [("0", 0)])
        assert len(repair_id) == 32 and "-" not in repair_id and f"_{D:%Y%m%d}_" in repair_id
        seen[repair_id.split("_2017")[0]] = repair_id
    assert len(seen) == len(StaleReason)
    one, other = (repair._id([StaleDay("fact", D, StaleReason.MISSING, "0")], [("0", tries)]) for tries in (0, 1))
    assert one != other, "another attempt"


def test_late_rows_reach_days_of_an_older_version_too(old_world: World) -> None:
    """That the logic is old is for people to decide; that rows are missing is not. Watchdogs are heard as well."""
    late_rows(old_world, D)
    (repair,) = _decide_old(old_world).launch
    assert (repair.days["fact"], repair.versions) == ((D,), {"fact": {"v1": (D,)}})
    old_world.publish("bronze", D, checksum="8")
    old_world.publish("quarantine", D)
    (repair,) = _decide_old(old_world).launch
    assert (repair.troubles[0].table, repair.troubles[0].reason) == ("fact", StaleReason.INPUT_CHANGED)
    old_world.publish("fact", D, code="v1")
    (repair,) = _decide_old(old_world, failed_watches=[failed_watch(old_world, "fact", D)]).launch
    assert repair.force and repair.versions == {"fact": {"v1": (D,)}}


def test_a_changed_rate_reaches_the_days_whose_own_version_reads_it(old_world: World) -> None:
    """The old logic reads the rates of the two days before, the current one those of the day too."""
    old_world.publish("raw_rates", WEEK.last, checksum="8")
    (repair,) = _decide_old(old_world).launch
    assert repair.days["fact"] == (NEXT_WEEK, DAYS.last), "2017-03-12 is of the old logic"
    old_world.publish("rates", WEEK.last, checksum="8")
    assert {(each.table, each.day) for each in _decide_old(old_world).launch[0].troubles} == {
        ("fact", NEXT_WEEK),
        ("fact", DAYS.last),
    }


def test_a_damaged_day_of_a_version_that_is_gone_is_for_a_person(old_world: World) -> None:
    """Nothing can build what was there; what could be built is another logic. A repair above leaves it as it is."""
    old_world.publish("fact", D, code="v0")
    old_world.write_past_the_protocol("fact", D)
    decision = _decide_old(old_world)
    assert decision.launch == ()
    assert str(decision.for_people[0]) == (
        "fact 2017-03-07: foreign write, and it was published with v0, which is not declared any more -> declare v0 "
        "again, or build it with v2 if that is to count: backfill run fact --downstream --days 2017-03-07"
    )
    late_rows(old_world, D)
    (repair,) = _decide_old(old_world).launch
    assert set(repair.days) == {"bronze", "quarantine"}
