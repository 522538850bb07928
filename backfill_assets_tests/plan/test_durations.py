"""How long a campaign takes follows from what earlier ones took; what was spent is beside it."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.days import Cadence, DayRange
from backfill_assets.lakehouse.campaign_journal import CampaignStep, JournalEntry, Kind, Spent
from backfill_assets.plan.durations import (
    SPARK,
    basis_line,
    estimate_times,
    pieces,
    spent_by_step,
    step_line,
    times_table,
    together,
)
from backfill_assets.plan.records import Cost, Estimate, Plan, PlannedStep, PlanRequest, StepTime, Why
from backfill_assets.report.answer import plain, shown

NOW = datetime(2026, 3, 1, tzinfo=UTC)
COST = Cost(seconds=4.0)
VERIFY, SHADOW, VALIDATE = CampaignStep.VERIFY_SOURCE, CampaignStep.SHADOW, CampaignStep.VALIDATE
DAYS = DayRange.parse("2017-03-01..2017-05-29")
FACT = PlannedStep(
    tables=("fact",),
    version="v2",
    rebuild={Why.CODE_CHANGED: (str(DAYS),)},
    estimate=Estimate(rows_read=1_000, rows_written=1_000, seconds=3.0),
)
MONTHLY = PlannedStep(
    tables=("monthly",),
    version="v1",
    cadence=Cadence.MONTHLY,
    rebuild={Why.INPUT_REBUILT: ("2017-03-01", "2017-04-01", "2017-05-01")},
    estimate=Estimate(rows_read=1_000, rows_written=1_000, seconds=1.0),
)
STEPS = (FACT, MONTHLY)


def entry(kind: Kind, step: str = "", seconds: float | None = None, wave: int = -1, **more: object) -> JournalEntry:
    spent = None if seconds is None else Spent(seconds=seconds, **more)  # type: ignore[arg-type]
    return JournalEntry(kind=kind, at=NOW, step=step, wave=wave, spent=spent)


def carried(seconds: float, rows: int = 2_000, of_pieces: int = 8) -> list[JournalEntry]:
    """A campaign each of whose steps took ``seconds``, five of them for Spark in the first that needed it."""
    return [
        entry("started"),
        entry("step", CampaignStep.ANNOUNCE, seconds),
        entry("step", VERIFY, seconds + 5, spark_start=5.0, size=rows),
        entry("step", CampaignStep.PIN, seconds),
        entry("wave", seconds=seconds / 2, wave=0, pieces=of_pieces),
        entry("step", SHADOW, seconds / 2, size=rows),
        entry("step", VALIDATE, seconds, size=rows),
        entry("step", CampaignStep.CUT_OVER, seconds, size=90 + 3),
        entry("step", CampaignStep.DOWNSTREAM, seconds, size=rows),
        entry("step", CampaignStep.NOTIFY, seconds),
    ]


def times(*journals: list[JournalEntry], steps: tuple[PlannedStep, ...] = STEPS) -> dict[str, StepTime]:
    return {each.step: each for each in estimate_times(steps, COST, journals)}


def larger(factor: int) -> tuple[PlannedStep, ...]:
    estimate = Estimate(rows_read=1_000 * factor, rows_written=1_000 * factor, seconds=1.0)
    return tuple(step.model_copy(update={"estimate": estimate}) for step in STEPS)


def plan_of(found: tuple[StepTime, ...]) -> Plan:
    return Plan(asked=PlanRequest(target="fact", days=str(DAYS)), steps=STEPS, cost=COST, times=found, made_at=NOW)


def test_without_a_campaign_the_band_is_a_default_and_is_called_one() -> None:
    """It is wide, it knows how much there is to stage, and nothing of it claims to be measured."""
    found = times()
    assert {each.campaigns for each in found.values()} == {0}
    assert all((each.low or 0) < (each.high or 0) for each in found.values())
    assert (found[SHADOW].low or 0) > 2.0, "its days were timed to take 4"
    assert basis_line(tuple(found.values())) == "These are defaults: no campaign was carried out here yet."
    assert [(found[step].low, found[step].high) for step in (SPARK, CampaignStep.CUT_OVER)] == [(4, 40), (1, 60)]
    many = times(steps=larger(10_000))
    assert (many[VALIDATE].high or 0) > 4 * (found[VALIDATE].high or 0), "rows take their time"
    assert estimate_times((), COST, ()) == ()


@given(st.floats(0.01, 10_000), st.integers(1, 10**6))
def test_the_band_of_the_same_campaign_again_holds_what_the_first_one_took(seconds: float, rows: int) -> None:
    """And goes by it, step by step."""
    steps = tuple(each.model_copy(update={"estimate": Estimate(rows_read=rows, rows_written=rows)}) for each in STEPS)
    journal = carried(seconds, rows=2 * rows, of_pieces=pieces(steps))
    spent = spent_by_step(journal)
    for step, band in times(journal, steps=steps).items():
        assert band.campaigns == 1 and band.low is not None and band.high is not None
        assert band.low - 0.01 <= spent[step] <= band.high + 0.01


def test_a_larger_campaign_takes_from_as_long_to_as_much_longer_as_it_is_larger() -> None:
    """What of a step is fixed is not known; some steps have no size at all."""
    found = times(carried(10.0, of_pieces=pieces(STEPS)), steps=larger(3))
    assert (found[VALIDATE].low, found[VALIDATE].high) == (5.0, 60.0)
    assert (found[SHADOW].low, found[SHADOW].high) == (5.0, 60.0)
    assert (found[CampaignStep.NOTIFY].low, found[CampaignStep.NOTIFY].high) == (5.0, 20.0)
    assert (found[SPARK].low, found[SPARK].high) == (2.5, 10.0)
    fewer = times(carried(10.0, of_pieces=2 * pieces(STEPS)))
    assert (fewer[SHADOW].low, fewer[SHADOW].high) == (3.2, 20.0), "half as many pieces of as many rows"


def test_of_several_campaigns_the_extremes_count_little() -> None:
    """From the first to the last tenth of what they took."""
    found = times(*(carried(float(seconds)) for seconds in (10, 20, 30, 40, 50)))
    assert (found[VALIDATE].low, found[VALIDATE].high, found[VALIDATE].campaigns) == (11.67, 55.2, 5)


def test_staging_takes_at_least_what_its_days_were_timed_to_take() -> None:
    """And is unknown where they were not timed, or the number of rows is unknown."""
    assert times(carried(2.0))[SHADOW].low == 2.0, "not 1.6, and not above what it took"
    untimed = estimate_times(STEPS, Cost(unknown=("fact",)), [])
    assert [(each.low, each.high) for each in untimed if each.step == SHADOW] == [(None, None)]
    first = (FACT.model_copy(update={"estimate": Estimate(rows_read=None, rows_written=None)}),)
    found = times(carried(2.0), steps=first)
    assert [step for step, each in found.items() if each.low is None] == [
        VERIFY,
        SHADOW,
        VALIDATE,
        CampaignStep.DOWNSTREAM,
    ]
    everything = together(tuple(found.values()))
    assert everything.low is not None and everything.high is None, "the known steps take their time"
    assert shown(times_table(plan_of(tuple(found.values()))).rows[-1][1]).startswith("at least")


def test_a_campaign_that_got_half_way_is_gone_by_as_far_as_it_got() -> None:
    """Steps that no campaign took keep their defaults, and the sentence names them."""
    found = times(carried(10.0)[:7])
    assert [step for step, each in found.items() if not each.campaigns] == [
        SPARK,
        CampaignStep.CUT_OVER,
        CampaignStep.DOWNSTREAM,
        CampaignStep.NOTIFY,
    ]
    assert basis_line(tuple(found.values())).startswith("From 1 earlier campaign; defaults for spark started, cut over")
    old = [each.model_copy(update={"spent": None}) for each in carried(10.0)]
    assert not any(each.campaigns for each in times(old).values()), "a journal from before times were kept"


def test_what_was_spent_has_all_tries_of_each_step() -> None:
    """A killed process writes nothing; the next one writes its own time. Dagster's runs write what they staged."""
    journal = [
        entry("started"),
        entry("step", VERIFY, 8.0, spark_start=6.0),
        entry("staged", seconds=3.0, spark_start=2.0, wave=0),
        entry("wave", seconds=4.0, wave=0),
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
    first = [*carried(10.0), entry("rolled back")]
    assert spent_by_step(first)[SHADOW] == 10.0
    again = [*first, entry("resumed"), entry("wave", seconds=3.0, wave=0), entry("step", SHADOW, 1.0)]
    assert spent_by_step(again) == {SHADOW: 4.0, SPARK: 0.0}


@pytest.mark.parametrize("begun", [1, 2, 3])
def test_a_run_that_has_only_begun_after_a_rollback_is_no_measure(begun: int) -> None:
    """Its canary took a second: that is not what all waves take, nor is there a cut-over yet to know Spark by."""
    again = [
        entry("resumed"),
        entry("step", CampaignStep.ANNOUNCE, 10.0),
        entry("wave", seconds=1.5, spark_start=0.5, wave=0, pieces=2),
    ]
    first = carried(10.0)
    assert times([*first, entry("rolled back"), *again[:begun]]) == times(first)


def test_a_run_after_a_rollback_that_was_carried_out_is_the_measure() -> None:
    first, second = carried(100.0, of_pieces=16), carried(10.0, of_pieces=8)
    assert times([*first, entry("rolled back"), *second, entry("rolled back")]) == times(second)


@pytest.mark.parametrize("known", [True, False])
def test_both_numbers_are_side_by_side(known: bool) -> None:
    """In a table and in a line; a plan from before there were bands has unknown ones."""
    plan = plan_of((StepTime(step=VERIFY, low=8.0, high=20.4, campaigns=2),) if known else ())
    journal = [entry("step", VERIFY, 12.0, spark_start=0.5)]
    told = "8..20 s" if known else "unknown"
    assert step_line(plan, VERIFY, journal) == f"source verified: spent 12 s, estimated {told}"
    rows = {str(row[0]): row for row in times_table(plan, journal).rows}
    assert [shown(cell) for cell in rows["source verified"]] == ["source verified", told, "12 s"]
    assert [shown(cell) for cell in rows["together"]] == ["together", told, "12 s"]
    assert plain(rows["source verified"]) == [
        "source verified",
        {"low": 8.0, "high": 20.4, "campaigns": 2} if known else None,
        11.5,
    ]


def test_pieces_are_the_steps_of_the_plan_in_all_waves() -> None:
    """Ninety days go in four waves; one day goes in one."""
    assert pieces((FACT,)) == 4
    assert pieces((FACT, MONTHLY)) == 8
    single = PlannedStep(tables=("t",), version="v1", rebuild={Why.MISSING: (str(date(2017, 3, 1)),)})
    assert pieces((single,)) == 1 and pieces(()) == 0
