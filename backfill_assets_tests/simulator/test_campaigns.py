"""Campaigns as people use them: planned, staged in waves, approved by several, undone, brought back and given up.

The histories are drawn by seeds; what must not be missed in them is told as stories, one thing after the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from functools import partial
from typing import Any

import pytest

from backfill_assets.campaign.cutover import cut_over
from backfill_assets.campaign.later_decisions import later_decisions
from backfill_assets.campaign.undo import plan_undo
from backfill_assets.days import TableDay
from backfill_assets.lakehouse.records import Publication, Switch
from backfill_assets.plan.expectations import Expectation
from backfill_assets.plan.records import PlanRequest, PlanTerms, Scope
from backfill_assets.publish.log import PublicationLog
from backfill_assets.publish.promote import silent
from backfill_assets.rebuild.step_look import StepRequest
from backfill_assets_tests.simulator.actors.approver import approve_plan
from backfill_assets_tests.simulator.actors.arrivals import Arrival, Reach, bring, build
from backfill_assets_tests.simulator.actors.planner import make_and_keep, run_plan
from backfill_assets_tests.simulator.actors.second_thoughts import (
    give_up_the_plan,
    roll_back_plan,
    roll_back_publication,
)
from backfill_assets_tests.simulator.chain import RUN
from backfill_assets_tests.simulator.judges.names import anomalies_in
from backfill_assets_tests.simulator.play import play_seed
from backfill_assets_tests.simulator.priced import (
    CLEAN,
    DAYS,
    EQUAL_DAYS,
    FRIDAY,
    MONDAY,
    PRICED,
    RATES,
    SATURDAY,
    SUMS,
    SUNDAY,
    WEEKLY,
)
from backfill_assets_tests.simulator.story import Story, in_one, story
from backfill_assets_tests.simulator.world import Deed, Life

pytestmark = pytest.mark.protocol

WEEKS = tuple(WEEKLY.cadence.starts(DAYS))
SATURDAYS_REPORT = TableDay("daily", SATURDAY)
FEW, MANY, STEPS = 2, 2_000, 4_000
CASTS = (
    "arrivals planner approver approver rollback",
    "arrivals planner approver rollback quitter builder",
    "arrivals planner planner approver approver undoer builder",
)


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seeds", [pytest.param(FEW, id="few"), pytest.param(MANY, id="many", marks=pytest.mark.long)])
def test_no_seed_publishes_what_was_not_approved_or_contradicts_what_main_shows(seeds: int) -> None:
    tally, failed = Counter[str](), list[str]()
    for seed in range(1, seeds + 1):
        kinds = CASTS[seed % len(CASTS)]
        played = play_seed(seed, STEPS, kinds.split())
        tally += played.tally
        if played.failure is not None:
            failed.append(f'make simulate SEED={seed} STEPS={STEPS} ACTORS="{kinds}": {played.failure}')
        failed += [f"SEED={seed}, {name}: {said}" for name, said in anomalies_in(played.history).items()]
    assert not failed, "\n".join(failed)
    wanted = ("published as approved", "published as expected", "rolled back", "brought back", "plans given up")
    assert seeds == FEW or not [each for each in wanted if not tally[each]], tally


# ------------------------------------------------------------------ what people do, told


@pytest.fixture
def told() -> Iterator[Story]:
    with story() as found:
        yield found


def arrives(what: Arrival, day: date, reach: Reach = "bronze") -> Deed:
    steps = {"raw": [], "bronze": [RATES if what == "rate" else CLEAN], "reports": PRICED.computed}[reach]
    return in_one(partial(bring, what=what, day=day), lambda life: build(life.lake(), steps))


def builds_all(life: Life) -> None:
    build(life.lake(), PRICED.computed)


def planned(told: Story, days: Sequence[date] = DAYS, version: str = "v2", **asked: Any) -> str:
    """By ana, staged, and waiting for approval."""
    wanted = PlanRequest(target=SUMS.name, days=f"{days[0]}..{days[-1]}", version=version, **asked)
    assert told.do(lambda life: make_and_keep(life, wanted, "ana")) == "done"
    plan = list(told.world.approvals.plans)[-1]
    assert told.do(lambda life: run_plan(life, plan, "ana")) == "done"
    return plan


def approved(told: Story, plan: str, *people: str) -> list[str]:
    return [told.do(partial(approve_plan, plan=plan, person=person)) for person in people or ("ben",)]


def published(told: Story, days: Sequence[date] = DAYS, *meanwhile: Deed, **asked: Any) -> str:
    plan = planned(told, days, **asked)
    for deed in meanwhile:
        assert told.do(deed) == "done"
    assert approved(told, plan) == ["done"]
    return plan


def undone(told: Story) -> str:
    """The newest publication of a campaign, which may be an undo."""
    newest = told.newest
    return told.do(partial(roll_back_publication, publication=newest, person="cleo"))


@pytest.mark.parametrize("days", [DAYS, EQUAL_DAYS], ids=["of-all-days", "of-equal-days"])
@pytest.mark.parametrize("what", ["late row", "rate"], ids=["row", "rate"])
def test_what_came_after_the_campaign_reaches_the_reports_of_equal_days_when_it_is_undone(
    told: Story, what: Arrival, days: Sequence[date]
) -> None:
    """They are not in its publication: both versions make the same rows there. None is left stale."""
    published(told, days)
    assert told.do(arrives(what, SATURDAY)) == "done"
    for _ in ("the undo", "the undo of the undo"):
        assert undone(told) == "done"
        assert told.world.agreement.seen[told.newest].made.leaves_stale == {}


def test_a_cut_over_of_the_fact_alone_names_the_days_that_read_it(told: Story) -> None:
    """A person asked for a part only: the entry lists what reads it, and no other day."""
    alone = [StepRequest(SUMS, (FRIDAY,), "v2")]
    assert told.do(lambda life: cut_over(life.lake(), "campaign-alone", alone, RUN, silent)) == "done"
    assert told.world.agreement.seen[told.newest].made.leaves_stale == {"daily": (FRIDAY,), "weekly": (WEEKS[0],)}


def test_a_week_that_followed_an_undo_is_built_like_any_other(told: Story) -> None:
    """It was no part of what is undone, so no one has rolled it back. The campaign has one of the days of a week."""
    published(told, (SUNDAY, MONDAY))
    assert [undone(told), undone(told)] == ["done", "done"]
    assert told.do(arrives("rate", FRIDAY)) == "done"
    assert undone(told) == "done"
    assert told.do(builds_all) == "done"


def test_the_run_of_a_report_that_followed_an_undo_since_is_not_rolled_back(told: Story) -> None:
    assert told.do(arrives("late row", SATURDAY, "reports")) == "done"
    run = [id for id, seen in told.world.agreement.seen.items() if seen.made.writes == {"daily"}][-1]
    published(told)
    assert told.do(arrives("late row", SATURDAY)) == "done"
    assert undone(told) == "done"
    seen = told.world.agreement.seen
    undo = seen[told.newest]
    was = seen[undo.made.provenance.undoes].before.of(SATURDAYS_REPORT)
    assert undo.after.of(SATURDAYS_REPORT).files not in (frozenset(), was.files), "it was staged by the undo"
    log = PublicationLog(told.world.storage)
    assert log.day_states(log.head())[SATURDAYS_REPORT].origin.rolled_back_by == ""
    assert "daily" in told.do(partial(roll_back_publication, publication=run, person="ana"))


@pytest.mark.parametrize(
    ("before", "meanwhile", "scope", "rows"),
    [
        (("late row", SATURDAY), None, Scope.ONWARDS, 3),
        (("late row", FRIDAY), None, Scope.ONWARDS, 3),
        (("rate", FRIDAY), None, Scope.ONWARDS, 2),
        (("deletion", SATURDAY, "raw"), None, Scope.WHOLE, 1),
        (None, "late row", Scope.ONWARDS, 3),
        (None, "rate", Scope.ONWARDS, 2),
    ],
    ids=[
        "a row of an equal day before it",
        "a row of another day before it",
        "a rate of Friday that was corrected before it",
        "a deletion that it took from raw",
        "a row between approval and cut-over",
        "a rate between approval and cut-over",
    ],
)
def test_what_came_before_or_during_the_campaign_stays_when_it_is_undone(
    told: Story,
    before: tuple[Arrival, date] | tuple[Arrival, date, Reach] | None,
    meanwhile: Arrival | None,
    scope: Scope,
    rows: int,
) -> None:
    """In bronze, in the facts and in the reports."""
    on = before[1] if before else SATURDAY
    assert before is None or told.do(arrives(*before)) == "done"
    published(told, DAYS, *([arrives(meanwhile, on)] if meanwhile else []), scope=scope)
    assert undone(told) == "done"
    assert [len(told.rows(table, on)) for table in ("clean", "sums")] == [rows, rows]
    assert told.rows("daily", on)[0].startswith(f"{rows}=")


def test_undone_with_nothing_in_between_and_brought_back_it_has_the_files_of_before(told: Story) -> None:
    """Also by a process that died in between and was typed again: it is done once. Run again, nothing is published."""
    published(told)
    brought = told.files
    newest = partial(roll_back_publication, publication=told.newest, person="ana")
    assert [told.do(newest, dies_after=150), told.do(newest), undone(told)] == ["died", "done", "done"]
    assert told.files == brought
    assert [undone(told), len(told.undos)] == ["done", 3]
    assert told.do(builds_all) == "done"
    known = len(told.world.agreement.seen)
    assert [told.do(builds_all), len(told.world.agreement.seen)] == ["done", known]


# ------------------------------------------------------------------ pairs that nobody thinks of together


def switches_back(life: Life, version: str = "v1", former: str = "") -> None:
    """From now on another version is current, for new days alone."""
    now = life.watched().log.head().state.current.get(SUMS.name)
    switch = Switch(version=version, former=former, former_by=now.publication if now else "")
    life.watched().publish(
        Publication(id=life.new_id("switch"), kind="replace", tables=(), switches={SUMS.name: switch})
    )


def as_approved(told: Story) -> int:
    return told.world.tally["published as approved"]


def test_a_late_row_a_campaign_and_its_undo_on_one_day(told: Story) -> None:
    plan = planned(told, (FRIDAY,))
    assert told.do(arrives("late row", FRIDAY)) == "done"
    assert approved(told, plan) == ["done"] and as_approved(told) == 0, (
        "it was not what ben saw, and nothing forbids it"
    )
    assert told.do(partial(roll_back_plan, plan=plan, person="cleo")) == "done"
    assert [len(told.rows(table, FRIDAY)) for table in ("clean", "sums")] == [3, 3]
    assert "undone" in told.do(partial(roll_back_plan, plan=plan, person="ana"))


def test_a_switch_of_the_version_between_plan_and_approval_changes_nothing_of_the_plan(told: Story) -> None:
    """It names its version; what is built afterwards keeps it. Who approves it is told, and who undoes it."""
    plan = planned(told, (FRIDAY,))
    assert told.do(switches_back) == "done"
    made, publisher = told.world.approvals.plans[plan], told.lake().publisher
    (switched,) = later_decisions(publisher, made, PRICED.steps).switched
    assert (switched.step, switched.current, switched.brings) == ("sums", "v1", ("v2",))
    assert approved(told, plan) == ["done"] and as_approved(told) == 1
    assert told.do(builds_all) == "done"
    versions = told.world.agreement.shown.versions
    assert versions[TableDay("sums", FRIDAY)] == "v2"
    assert versions[TableDay("sums", MONDAY)] == "v1"
    assert plan_undo(told.lake(), told.newest).switched == ()
    assert told.do(partial(switches_back, version="v2", former="v1")) == "done"
    (since,) = plan_undo(told.lake(), told.newest).switched
    assert (since.current, since.brings) == ("v2", ("v1",))
    assert undone(told) == "done"


def test_a_plan_whose_fact_was_rolled_back_is_not_published_as_it_was_staged(told: Story) -> None:
    """It was to bring v1 back, which the rollback has done."""
    first = published(told, (FRIDAY,))
    plan = planned(told, (FRIDAY,), "v1")
    assert told.do(partial(roll_back_plan, plan=first, person="cleo")) == "done"
    known = len(told.world.agreement.undoable())
    assert approved(told, plan) != ["done"]
    assert len(told.world.agreement.undoable()) == known


def test_of_two_campaigns_on_overlapping_days_the_later_one_is_planned_again(told: Story) -> None:
    one, other = planned(told, DAYS[:3]), planned(told, (FRIDAY,), scope=Scope.WHOLE)
    assert approved(told, one) == ["done"]
    assert approved(told, other) != ["done"] and as_approved(told) == 1
    assert told.do(partial(give_up_the_plan, plan=other, person="ana")) == "done"


def test_a_week_of_which_a_campaign_has_a_part_has_all_of_its_days(told: Story) -> None:
    published(told, (FRIDAY,))
    assert told.do(arrives("late row", SUNDAY)) == "done"
    assert undone(told) == "done"
    assert told.do(builds_all) == "done"
    assert told.rows("weekly", WEEKS[0])[0].startswith(f"{7 + 3}=")


def test_two_people_have_to_approve_the_same(told: Story) -> None:
    plan = planned(told, (FRIDAY,), terms=PlanTerms(approvals=2))
    assert approved(told, plan, "ben", "ben") == ["done", "done"] and as_approved(told) == 0
    assert approved(told, plan, "cleo") == ["done"] and as_approved(told) == 1


def test_what_was_given_up_is_not_approved(told: Story) -> None:
    plan = planned(told, (FRIDAY,))
    assert told.do(partial(give_up_the_plan, plan=plan, person="cleo")) == "done"
    assert "given up" in approved(told, plan)[0] and as_approved(told) == 0


def test_what_is_not_as_expected_any_more_is_not_published(told: Story) -> None:
    """Two rows were to change, and no row was to come."""
    plan = planned(told, (FRIDAY,), expectations=(Expectation.parse("rows unchanged in sums"),))
    assert told.do(arrives("late row", FRIDAY)) == "done"
    assert "Not as expected" in approved(told, plan)[0]
    assert len(told.rows("sums", FRIDAY)) == 2 and not told.world.agreement.undoable()


@pytest.mark.parametrize("share", [0.5, *(pytest.param(share, marks=pytest.mark.long) for share in (0.2, 0.8))])
def test_killed_anywhere_and_typed_again_it_ends_as_if_nothing_had_been(share: float) -> None:
    """A plan that is run, approved and rolled back, each by a process that dies on its way."""

    def shown(story: Story) -> object:
        files = {key: len(files) for key, files in story.files.items()}
        return files, dict(story.world.agreement.shown.versions)

    def play(story: Story, dies: bool) -> list[object]:
        plan, found = planned(story, (FRIDAY, SATURDAY)), list[object]()
        for deed in (
            partial(approve_plan, plan=plan, person="ben"),
            partial(roll_back_plan, plan=plan, person="cleo"),
        ):
            if dies:
                assert story.do(deed, dies_after=int(share * steps[len(found)])) == "died"
                story.do(lambda life: life.watched().recover())
            before = story.world.record.steps
            said = story.do(deed)
            steps.append(story.world.record.steps - before)
            assert said == "done" or dies, said
            found.append(shown(story))
        return found

    steps = list[int]()
    with story() as whole:
        wanted = play(whole, dies=False)
    with story() as killed:
        assert play(killed, dies=True) == wanted
