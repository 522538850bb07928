"""The notices of a campaign name the reports that people read, who approved, and how to undo it."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

from backfill_assets.campaign.notice import begins, completion, limit_reached
from backfill_assets.days import Cadence
from backfill_assets.difference.difference import table_difference
from backfill_assets.lakehouse.records import DayContent
from backfill_assets.limits import over_budget
from backfill_assets.plan.records import Plan, PlannedStep, PlanRequest, PlanTerms
from backfill_assets.state.diagnosis import Cause

DAY = date(2017, 3, 1)
REPORT = "report_store_ranking"
PLAN = Plan(
    asked=PlanRequest(target="fact", days=str(DAY)),
    steps=(
        PlannedStep(tables=("fact",), version="v2", rebuild={Cause.CODE_CHANGED: (str(DAY),)}),
        PlannedStep(tables=("rates",), version="v1"),
    ),
    made_at=datetime(2017, 6, 1, tzinfo=UTC),
)


def test_before_it_begins_people_learn_what_is_rebuilt_and_that_nothing_changes_yet() -> None:
    """A step without days is not in it."""
    notice = begins(PLAN, [REPORT])
    assert notice.title == f"fact of 2017-03-01 is going to be rebuilt ({PLAN.id})"
    assert notice.lines == ("1 day in 1 table: fact.", "Until it is approved, every table and report stays as it is.")
    assert notice.reports == (REPORT,)


def test_with_the_publication_they_learn_what_changed_who_approved_and_how_to_undo_it() -> None:
    """Days that moved after the approval are named."""
    change = table_difference("fact", {DAY: DayContent(2, "a")}, {DAY: DayContent(3, "b")})
    notice = completion(PLAN, [change], [REPORT], "ana", {"fact": (str(DAY),)})
    assert len(notice.lines) == 2 and notice.lines[0].startswith("fact") and str(DAY) in notice.lines[1]
    assert (notice.reports, notice.approved_by) == ((REPORT,), "ana")
    assert notice.undo == f"backfill rollback {PLAN.id}"
    assert len(completion(PLAN, [change], [REPORT], "ana").lines) == 1
    stale = completion(PLAN, [change], [REPORT], "ana", stale={"weekly": [DAY]})
    assert stale.lines[1:] == (f"weekly: stale until built again: {DAY}.",)


def test_weeks_are_called_weeks() -> None:
    """What is announced is one count; of what was published each table has its own."""
    weekly = PlannedStep(
        tables=("weekly",), version="v1", cadence=Cadence.WEEKLY, rebuild={Cause.INPUT_REBUILT: ("2017-02-27",)}
    )
    plan = PLAN.model_copy(update={"steps": (*PLAN.steps, weekly)})
    assert begins(plan, []).lines[0] == "1 day and 1 week in 2 tables: fact, weekly."
    week = date(2017, 2, 27)
    change = table_difference("weekly", {week: DayContent(2, "a")}, {week: DayContent(3, "b")})
    assert completion(plan, [change], [], "ana").lines == (
        "weekly: 1 of 1 published week changes; on this week rows +50.0 %.",
    )


def test_when_a_limit_stops_it_people_learn_which_and_where_to_look() -> None:
    """At once; that most of a budget is spent can wait until somebody is there."""
    stopped = over_budget("seconds", Decimal(10), Decimal(11), "it has taken 11 s")
    near = over_budget("seconds", Decimal(10), Decimal(9), "it has taken 9 s")
    assert stopped and near
    found = [limit_reached(PLAN, each, "sales") for each in (stopped, near)]
    assert [each.severity for each in found] == ["critical", "warning"] and found[0].dataset == "sales"
    assert found[0].title == f"fact of 2017-03-01 was stopped by a limit ({PLAN.id})"
    assert found[0].lines == (
        "seconds: it has taken 11 s, and at most 10 s was granted.",
        f"Nothing was published. Look at it: backfill status {PLAN.id}",
    )


def test_what_it_is_for_comes_first() -> None:
    """As the file of the plan says it."""
    terms = PlanTerms(title="Rates", reason="v1 was wrong.")
    plan = PLAN.model_copy(update={"asked": PLAN.asked.model_copy(update={"terms": terms})})
    assert begins(plan, []).lines[0] == completion(plan, [], [], "ana").lines[0] == "Rates: v1 was wrong."
