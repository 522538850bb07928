"""The boundary of a plan: kept with it, and absent without a stream."""

from __future__ import annotations

from datetime import UTC, date, datetime

from backfill_assets.plan.boundaries import planned_boundaries
from backfill_assets.plan.records import Plan, PlanRequest
from backfill_assets.published.boundaries import DaysBoundary, PartitionPosition, RawBoundary

FIRST, SECOND = date(2017, 3, 1), date(2017, 3, 2)
NOW = datetime(2017, 6, 1, tzinfo=UTC)
STREAMED = RawBoundary("raw_sales", (12,), (PartitionPosition("orders", 0, 1_234, 1_000),))
LANDED = RawBoundary("raw_fx_rates", (3,), (), 4)
PLAN = Plan(asked=PlanRequest(target="fact", days="2017-03-01..2017-03-02"), steps=(), made_at=NOW)


def planned(*found: DaysBoundary) -> Plan:
    return PLAN.model_copy(update={"boundaries": planned_boundaries(found)})


def test_days_that_come_from_a_stream_have_their_boundary() -> None:
    """Read from raw itself, or through a table that is not rebuilt; landed days have none."""
    plan = planned(
        DaysBoundary(("raw_sales",), (FIRST, SECOND), STREAMED),
        DaysBoundary(("bronze_sales",), (FIRST,), STREAMED),
        DaysBoundary(("bronze_fx_rates",), (FIRST,), LANDED),
    )
    assert [(each.tables, each.days, each.raw, each.versions) for each in plan.boundaries] == [
        (("raw_sales",), ("2017-03-01..2017-03-02",), "raw_sales", (12,)),
        (("bronze_sales",), ("2017-03-01",), "raw_sales", (12,)),
    ]
    (position,) = plan.boundaries[0].positions
    assert (position.topic, position.partition, position.next_offset, position.live_since) == (
        "orders",
        0,
        1_234,
        1_000,
    )


def test_a_plan_without_a_stream_is_what_it_was() -> None:
    """The same text, so the same id: plans that are kept stay as they are."""
    plan = planned(DaysBoundary(("bronze_fx_rates",), (FIRST,), LANDED))
    assert plan.id == PLAN.id and "boundaries" not in plan.to_json()


def test_it_is_kept_with_the_plan() -> None:
    """What is approved is this boundary: another one is another plan."""
    plan = planned(DaysBoundary(("raw_sales",), (FIRST,), STREAMED))
    assert Plan.from_json(plan.to_json(), id=plan.id) == plan
    assert plan.id != PLAN.id
