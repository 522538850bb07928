"""What days hold, added up over spans of them."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.days import Cadence, DayRange, TableDay
from backfill_assets.lakehouse.campaign_journal import CampaignStep, JournalEntry, Kind, Spent
from backfill_assets.lakehouse.records import DayContent, DayState
from backfill_assets.plan.cost import (
    SPARK,
    TIMED,
    Volumes,
    estimate_times,
    spent_by_step,
    step_line,
    times_table,
    together,
)
from backfill_assets.plan.records import Estimate, Plan, PlannedStep, PlanRequest, Span
from backfill_assets.plan.situation import PlanContext
from backfill_assets.report.answer import plain, shown
from backfill_assets.state.diagnosis import Cause
from backfill_assets.state.observed import LogView
from backfill_assets_tests.plan.world import noon_of

BEGINS = date(2017, 3, 1)
ORDINALS = st.integers(BEGINS.toordinal(), BEGINS.toordinal() + 12)


@given(sizes=st.dictionaries(ORDINALS, st.integers(0, 1000), max_size=8), first=ORDINALS, length=st.integers(0, 14))
def test_the_bytes_between_two_days_are_those_of_each_day_between(
    sizes: dict[int, int], first: int, length: int
) -> None:
    """Also where days were never published, and past both ends."""
    days = {date.fromordinal(at): size for at, size in sizes.items()}
    content = DayContent(rows=1, checksum="1")
    states = {TableDay("fact", day): DayState("fact", day, "p", 1, "f", content) for day in days}
    volumes = Volumes(PlanContext((), LogView(states=states), BEGINS, noon_of(BEGINS), bytes={"fact": days}))
    expected = sum(sizes.get(at, 0) for at in range(first, first + length))
    assert volumes.bytes_between("fact")(first, first + length) == expected
    assert volumes.bytes_between("nothing")(first, first + length) == 0


NOW = datetime(2026, 3, 1, tzinfo=UTC)
VERIFY, SHADOW, VALIDATE = CampaignStep.VERIFY_SOURCE, CampaignStep.SHADOW, CampaignStep.VALIDATE
DAYS = DayRange.parse("2017-03-01..2017-05-29")
FACT = PlannedStep(
    tables=("fact",),
    version="v2",
    rebuild={Cause.CODE_CHANGED: (str(DAYS),)},
    estimate=Estimate(rows_read=1_000, rows_written=1_000),
)
MONTHLY = PlannedStep(
    tables=("monthly",),
    version="v1",
    cadence=Cadence.MONTHLY,
    rebuild={Cause.INPUT_REBUILT: ("2017-03-01", "2017-04-01", "2017-05-01")},
    estimate=Estimate(rows_read=1_000, rows_written=1_000),
)
STEPS = (FACT, MONTHLY)


def entry(kind: Kind, step: str = "", seconds: float | None = None, wave: int = -1, **more: object) -> JournalEntry:
    spent = None if seconds is None else Spent(seconds=seconds, **more)  # type: ignore[arg-type]
    return JournalEntry(kind=kind, at=NOW, step=step, wave=wave, spent=spent)


AGAIN = entry("resumed").model_copy(update={"again": True})


def carried(seconds: float, rows: int = 2_000) -> list[JournalEntry]:
    """A campaign each of whose steps took ``seconds``, five of them for Spark in the first that needed it."""
    return [
        entry("started"),
        entry("step", CampaignStep.ANNOUNCE, seconds),
        entry("step", VERIFY, seconds + 5, spark_start=5.0, size=rows),
        entry("step", CampaignStep.PIN, seconds),
        entry("wave", seconds=seconds / 2, wave=0),
        entry("step", SHADOW, seconds / 2, size=rows),
        entry("step", VALIDATE, seconds, size=rows),
        entry("step", CampaignStep.CUT_OVER, seconds, size=90 + 3),
        entry("step", CampaignStep.DOWNSTREAM, seconds, size=rows),
        entry("step", CampaignStep.NOTIFY, seconds),
    ]


def times(*journals: list[JournalEntry], steps: tuple[PlannedStep, ...] = STEPS) -> dict[str, Span | None]:
    return estimate_times(steps, journals)


def larger(factor: int) -> tuple[PlannedStep, ...]:
    estimate = Estimate(rows_read=1_000 * factor, rows_written=1_000 * factor)
    return tuple(step.model_copy(update={"estimate": estimate}) for step in STEPS)


def plan_of(found: dict[str, Span | None]) -> Plan:
    return Plan(asked=PlanRequest(target="fact", days=str(DAYS)), steps=STEPS, times=found, made_at=NOW)


def exactly(seconds: float, samples: int = 1) -> Span:
    return Span(median=seconds, low=seconds, high=seconds, samples=samples)


def test_without_a_campaign_every_step_is_unknown() -> None:
    """It is not guessed."""
    found = times()
    assert list(found) == list(TIMED) and set(found.values()) == {None}
    assert {shown(row[1]) for row in times_table(plan_of(found)).rows} == {"unknown"}
    assert estimate_times((), [carried(10.0)]) == {}


@given(st.floats(0.01, 10_000), st.integers(1, 10**6))
def test_the_same_campaign_again_takes_what_the_first_one_took(seconds: float, rows: int) -> None:
    steps = tuple(each.model_copy(update={"estimate": Estimate(rows_read=rows, rows_written=rows)}) for each in STEPS)
    journal = carried(seconds, rows=2 * rows)
    spent = spent_by_step(journal)
    found = {step: span.median for step, span in times(journal, steps=steps).items() if span}
    assert found == pytest.approx({step: spent[step] for step in TIMED}, abs=0.01)


def test_of_several_campaigns_the_median_and_the_tenths_count() -> None:
    """One that took very long moves the median little; one that is larger takes longer, where a step has a size; one
    that got half way is gone by as far as it got."""
    larger_one = times(carried(10.0), steps=larger(3))
    assert [larger_one[step] for step in (VALIDATE, SHADOW, CampaignStep.NOTIFY, SPARK)] == [
        exactly(seconds) for seconds in (30.0, 30.0, 10.0, 5.0)
    ]
    half = times(carried(10.0)[:7])
    assert {step for step, each in half.items() if each is None} == {
        SPARK,
        CampaignStep.CUT_OVER,
        CampaignStep.DOWNSTREAM,
        CampaignStep.NOTIFY,
    }
    assert set(times([each.model_copy(update={"spent": None}) for each in carried(10.0)]).values()) == {None}
    found = times(*(carried(float(seconds)) for seconds in (10, 20, 30, 40, 500)))
    assert found[VALIDATE] == Span(median=30.0, low=14.0, high=316.0, samples=5)
    assert shown(times_table(plan_of(found)).rows[-1][1]) == "about 0:04:05 (117 s to 0:42:13)"


def test_a_step_of_unknown_size_is_unknown_and_so_is_the_sum() -> None:
    """A table that was never published: nothing says how many rows there will be."""
    first = (FACT.model_copy(update={"estimate": Estimate(rows_read=None, rows_written=None)}),)
    found = times(carried(2.0), steps=first)
    assert [step for step, each in found.items() if each is None] == [
        VERIFY,
        SHADOW,
        VALIDATE,
        CampaignStep.DOWNSTREAM,
    ]
    rows = {row[0]: shown(row[1]) for row in times_table(plan_of(found)).rows}
    assert together(found) is None and rows["together"] == "unknown"
    assert rows["spark started"] == "about 5.0 s" and rows["validated"] == "unknown"


def test_what_was_spent_has_all_tries_of_each_step() -> None:
    """A killed process writes nothing; the next one writes its own time."""
    journal = [
        entry("started"),
        entry("step", VERIFY, 8.0, spark_start=6.0),
        entry("wave", seconds=7.0, spark_start=2.0, wave=0),
        entry("stopped", SHADOW, 5.0),
        entry("resumed"),
        entry("wave", seconds=1.0, wave=0),
        entry("step", SHADOW, 2.0),
        entry("approved"),
        entry("withdrawn", CampaignStep.CUT_OVER, 7.0),
    ]
    assert spent_by_step(journal) == {VERIFY: 2.0, SPARK: 8.0, SHADOW: 13.0, CampaignStep.CUT_OVER: 7.0}


def test_a_campaign_that_runs_again_after_a_rollback_has_the_time_of_that() -> None:
    """Not both times together; until it is carried out once more, as it was."""
    first = carried(10.0)
    assert spent_by_step(first)[SHADOW] == 10.0
    again = [*first, AGAIN, entry("wave", seconds=3.0, wave=0), entry("step", SHADOW, 1.0)]
    assert spent_by_step(again) == {SHADOW: 4.0, SPARK: 0.0}


@pytest.mark.parametrize("begun", [1, 2, 3])
def test_a_run_after_a_rollback_is_no_measure_until_it_was_carried_out(
    begun: int,
) -> None:
    """Its canary took a second: that is not what all waves take, nor is there a cut-over yet to know Spark by."""
    again = [
        AGAIN,
        entry("step", CampaignStep.ANNOUNCE, 10.0),
        entry("wave", seconds=1.5, spark_start=0.5, wave=0),
    ]
    first = carried(10.0)
    assert times([*first, *again[:begun]]) == times(first)
    second = carried(20.0)
    assert times([*first, AGAIN, *second, AGAIN]) == times(second)


@pytest.mark.parametrize("known", [True, False])
def test_both_numbers_are_side_by_side(known: bool) -> None:
    """In a table and in a line."""
    span = Span(median=14.0, low=8.0, high=20.4, samples=2)
    plan = plan_of({VERIFY: span} if known else {})
    journal = [entry("step", VERIFY, 12.0, spark_start=0.5)]
    told = "about 14 s (8.0 s to 20 s)" if known else "unknown"
    estimated = f", estimated {told}" if known else ""
    assert step_line(plan, VERIFY, journal) == f"source verified: spent 12 s{estimated}"
    rows = {str(row[0]): row for row in times_table(plan, journal).rows}
    assert [shown(cell) for cell in rows["source verified"]] == ["source verified", told, "12 s"]
    assert [shown(cell) for cell in rows["together"]] == ["together", told, "12 s"]
    assert plain(rows["source verified"]) == [
        "source verified",
        {"median": 14.0, "low": 8.0, "high": 20.4, "samples": 2} if known else None,
        11.5,
    ]
