"""Which plan brings a timeline into main."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from backfill_assets.campaign.course import CampaignState, state_of
from backfill_assets.campaign.timeline_plan import left_sentence, plan_begun, timeline_request
from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.campaign_journal import CampaignStep, JournalEntry, Kind
from backfill_assets.lakehouse.named_timelines import NamedTimeline, TimelineBase
from backfill_assets.lakehouse.records import DayRecord
from backfill_assets.plan.expectations import Expectation
from backfill_assets.plan.records import Plan, PlanRequest
from backfill_assets.state.status import DayStatus

NOW = datetime(2017, 6, 1, tzinfo=UTC)
FACT, REVENUE, RANKING, RATES = (
    "fact_sales_transactions",
    "fact_daily_revenue",
    "report_store_ranking",
    "bronze_fx_rates",
)
FIRST, SECOND, THIRD = (date(2017, 3, day) for day in (6, 7, 8))
WENT = {FACT: "v1", REVENUE: "v3", RANKING: "v1"}


def timeline(**versions: str) -> NamedTimeline:
    base = TimelineBase()
    return NamedTimeline(id="timeline-x", name="x", made_at=NOW, base=base, changed_at=NOW, versions=versions)


def test_the_target_is_the_first_table_that_differs_with_all_of_its_days() -> None:
    differing = {RANKING: {FIRST}, FACT: {SECOND, THIRD}, REVENUE: {FIRST, SECOND, THIRD}}
    asked = timeline_request(CATALOG.steps, timeline(**WENT), differing)
    assert (asked.target, asked.days, asked.version) == (FACT, "2017-03-07..2017-03-08", "v1")
    asked = timeline_request(CATALOG.steps, timeline(**WENT), {**differing, FACT: set(), RANKING: set()})
    assert (asked.target, asked.days, asked.version) == (REVENUE, "2017-03-06..2017-03-08", "v3")


def test_days_that_do_not_differ_are_left_as_they_are() -> None:
    """Main has a day between, by another version: it is no day of the timeline, and no part of what is published."""
    asked = timeline_request(CATALOG.steps, timeline(**WENT), {FACT: {FIRST, THIRD}})
    assert (asked.days, asked.leaves) == ("2017-03-06..2017-03-08", ("2017-03-07",))
    assert timeline_request(CATALOG.steps, timeline(**WENT), {RANKING: {FIRST}}).leaves == ()


def test_days_that_stay_of_other_code_are_named_with_what_to_do() -> None:
    """Both versions make the same of them: nothing is published over them, and their status stays what it was."""
    asked = timeline_request(CATALOG.steps, timeline(**WENT), {FACT: {FIRST, THIRD}})
    before = dict.fromkeys((date(2017, 3, 5), FIRST, SECOND, THIRD), DayStatus.CODE_CHANGED)
    assert left_sentence(asked, "x", before) == (
        f"2 days of {FACT} stay as they are, stale: code changed: x holds nothing else for 2017-03-05, 2017-03-07. "
        f"To have the current version there too, afterwards: "
        f"backfill run {FACT}+ --days 2017-03-05..2017-03-07"
    )
    assert left_sentence(asked, "x", before | dict.fromkeys((date(2017, 3, 5), SECOND), DayStatus.FRESH)) == ""
    one = left_sentence(asked, "x", {SECOND: DayStatus.CODE_CHANGED})
    assert one.startswith(f"1 day of {FACT} stays as it is, ") and one.endswith("--days 2017-03-07")


def test_tables_that_are_not_computed_from_each_other_need_a_plan_each() -> None:
    differing = {RATES: {FIRST}, "bronze_sales": {FIRST}, FACT: {FIRST}}
    with pytest.raises(InvalidRequest, match="neither is computed from the other"):
        timeline_request(CATALOG.steps, timeline(**WENT), differing)
    alike = {FACT: set[date]()}
    assert timeline_request(CATALOG.steps, timeline(**WENT), differing, FACT, same_logic=alike).target == FACT
    with pytest.raises(InvalidRequest, match="does not differ on x"):
        timeline_request(CATALOG.steps, timeline(**WENT), differing, REVENUE)


def test_a_table_that_differs_through_one_that_is_left_out_is_refused() -> None:
    """Computed from what main has, it is as main has it: a plan would have no day."""
    differing = {FACT: {FIRST, SECOND}, REVENUE: {FIRST}, RANKING: {FIRST}}
    alike = {FACT: set[date](), REVENUE: {FIRST, SECOND}, RANKING: {FIRST}}
    with pytest.raises(InvalidRequest) as refused:
        timeline_request(CATALOG.steps, timeline(**WENT), differing, REVENUE, same_logic=alike)
    assert str(refused.value).startswith(
        f"{REVENUE} differs on x only through {FACT}: without that, nothing of {REVENUE} would change."
    )
    assert refused.value.hint == "Publish both: backfill timeline publish x"
    besides = differing | {"report_sea_temperature": {FIRST}}
    with pytest.raises(InvalidRequest) as refused:
        timeline_request(CATALOG.steps, timeline(**WENT), besides, RANKING, same_logic=alike)
    assert refused.value.hint == f"Publish both: backfill timeline publish x --table {FACT}"


def test_a_table_of_other_logic_or_of_inputs_of_main_is_published_alone() -> None:
    differing = {FACT: {FIRST, SECOND}, REVENUE: {FIRST, SECOND}}
    own = timeline_request(CATALOG.steps, timeline(**WENT), differing, REVENUE, same_logic={REVENUE: {FIRST}})
    assert (own.target, own.days) == (REVENUE, "2017-03-06..2017-03-07")
    alone = {FACT: set[date](), REVENUE: {FIRST}}
    assert timeline_request(CATALOG.steps, timeline(**WENT), alone, REVENUE, same_logic=alone).target == REVENUE


def test_a_timeline_that_did_not_go_forward_or_does_not_differ_is_refused() -> None:
    rewound = timeline().model_copy(update={"days": {FACT: (DayRecord(day=FIRST),)}})
    with pytest.raises(InvalidRequest, match="has not gone forward"):
        timeline_request(CATALOG.steps, rewound, {FACT: {FIRST}})
    with pytest.raises(InvalidRequest, match="no days of its own") as refused:
        timeline_request(CATALOG.steps, timeline(), {})
    assert refused.value.hint == "backfill run TABLE --days A..B --on x builds some there."
    with pytest.raises(InvalidRequest, match="nothing to publish"):
        timeline_request(CATALOG.steps, timeline(**WENT), {FACT: set()})


def test_the_plan_that_was_begun_for_the_same_goes_on_until_it_is_approved() -> None:
    asked = PlanRequest(target=FACT, days="2017-03-06", expectations=(Expectation.parse("rows unchanged"),))
    plan = Plan(asked=asked, steps=(), made_at=NOW)

    def state(*kinds: Kind) -> CampaignState:
        return state_of("campaign-x", [JournalEntry(kind=kind, at=NOW) for kind in kinds])

    for begun in (state(), state("started"), state("started", "stopped", "resumed")):
        assert plan_begun(asked, [(plan, begun)]) is plan
    cut_over = JournalEntry(kind="step", step=CampaignStep.CUT_OVER.value, at=NOW)
    for over in (state("started", "approved"), state_of("campaign-x", [cut_over]), state("started", "rolled back")):
        assert plan_begun(asked, [(plan, over)]) is None
    assert plan_begun(asked.model_copy(update={"expectations": ()}), [(plan, state())]) is None
    assert plan_begun(asked.model_copy(update={"version": "v1"}), [(plan, state())]) is None
