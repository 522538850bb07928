"""A plan in words: each line and row with its singular, its unknown values and its limits."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from backfill_assets.days import Cadence
from backfill_assets.plan.basis import MovedTable, PlanDrift
from backfill_assets.plan.expectations import Expectation
from backfill_assets.plan.records import (
    Cost,
    Estimate,
    Lookback,
    Pinned,
    Plan,
    PlanFinding,
    PlannedStep,
    PlanRequest,
    PlanTerms,
    Recommended,
    Scope,
    Span,
    Why,
)
from backfill_assets.plan.text import (
    PINNED_COLUMNS,
    STEP_COLUMNS,
    STEP_NUMBERS,
    after_line,
    as_of_lines,
    command_of,
    cost_line,
    expectation_lines,
    headline,
    markdown,
    pinned_rows,
    ranges,
    scope_line,
    step_rows,
    time_lines,
)
from backfill_assets_tests.plan.world import D

NOW = datetime(2017, 4, 10, 12, tzinfo=UTC)


def exactly(seconds: float) -> Span:
    return Span(median=seconds, low=seconds, high=seconds, samples=1)


FACT = PlannedStep(
    tables=("fact",),
    version="v2",
    rebuild={Why.CODE_CHANGED: ("2017-03-08",)},
    skipped=("2017-03-09..2017-03-10",),
    estimate=Estimate(rows_read=1_200, bytes_read=2_048, rows_written=1_000, bytes_written=512, time=exactly(125.0)),
)
WEEKLY = PlannedStep(
    tables=("weekly",),
    version="v2",
    cadence=Cadence.WEEKLY,
    rebuild={Why.INPUT_REBUILT: ("2017-03-06",)},
    estimate=Estimate(rows_read=None, bytes_read=None),
)
FRESH = PlannedStep(tables=("daily",), version="v2", skipped=("2017-03-08",))


def _plan(*steps: PlannedStep, scope: Scope = Scope.ONWARDS, version: str = "", **more: object) -> Plan:
    question = PlanRequest(target="fact", days=str(D), version=version, scope=scope)
    return Plan(asked=question, steps=steps, made_at=NOW, **more)  # type: ignore[arg-type]


# ------------------------------------------------------------------ what it is


def test_a_headline_counts_days_periods_and_steps_that_are_rebuilt() -> None:
    """Skipped days and steps that only skip are not counted."""
    assert headline(_plan(FACT, FRESH)) == "fact 2017-03-08, from the table on: 1 day of 1 step."
    assert headline(_plan(FACT, WEEKLY, FRESH, version="v1", scope=Scope.WHOLE)) == (
        "fact 2017-03-08 by v1, whole pipeline: 1 day and 1 period of 2 steps."
    )
    years = FACT.model_copy(update={"rebuild": {Why.MISSING: ("2014-01-01..2016-12-31",)}})
    assert headline(_plan(years, scope=Scope.DOWNSTREAM)).endswith("downstream only: 1,096 days of 1 step.")
    assert headline(_plan(WEEKLY)).endswith("from the table on: 1 period of 1 step.")


@pytest.mark.parametrize("steps", [(), (FRESH,)], ids=["no step", "all skipped"])
def test_a_headline_of_nothing_to_do_is_without_a_scope(steps: Sequence[PlannedStep]) -> None:
    """With the version that was asked for."""
    assert headline(_plan(*steps)) == "fact 2017-03-08: nothing to rebuild, every day is fresh."
    assert headline(_plan(*steps, version="v1")) == "fact 2017-03-08 by v1: nothing to rebuild, every day is fresh."


def test_a_row_of_a_step_has_its_reasons_and_volumes() -> None:
    """As many cells as there are columns; the columns of numbers are among them."""
    assert step_rows(_plan(FACT)) == [
        ("fact", "1", "code changed: 2017-03-08", "2", "1,200", "2.0 KiB", "1,000", "512 B", "0:02:05")
    ]
    assert len(STEP_COLUMNS) == 9 and set(STEP_NUMBERS) < set(STEP_COLUMNS)


def test_a_row_has_unknown_volumes_by_name_and_none_for_a_step_that_is_skipped() -> None:
    """Nothing to go by is not 0, and 0 is not unknown."""
    none_yet = FACT.model_copy(update={"estimate": Estimate(rows_written=0, bytes_written=0, time=exactly(0.0))})
    assert step_rows(_plan(WEEKLY, FRESH, none_yet)) == [
        ("weekly", "1", "an input is rebuilt: 2017-03-06", "0", *["unknown"] * 5),
        ("daily", "0", "", "1", "", "", "", "", ""),
        ("fact", "1", "code changed: 2017-03-08", "2", "0", "0 B", "0", "0 B", "0.0 s"),
    ]


def test_a_row_joins_tables_and_reasons_and_cuts_ranges() -> None:
    """Of each reason the first three ranges."""
    days = ("2017-03-01", "2017-03-03", "2017-03-05", "2017-03-07", "2017-03-09..2017-03-11")
    step = PlannedStep(
        tables=("bronze", "quarantine"), version="v2", rebuild={Why.MISSING: days, Why.ASKED_FOR: ("2017-03-20",)}
    )
    assert step_rows(_plan(step))[0][:4] == (
        "bronze, quarantine",
        "8",
        "missing: 2017-03-01, 2017-03-03, 2017-03-05 and 2 more; asked for: 2017-03-20",
        "0",
    )


def test_up_to_three_ranges_are_listed_and_the_others_counted() -> None:
    """No range is no text."""
    assert ranges(()) == ""
    assert ranges(("a", "b", "c")) == "a, b, c"
    assert ranges(("a", "b", "c", "d")) == "a, b, c and 1 more"


# ------------------------------------------------------------------ what it reads


@pytest.mark.parametrize(
    ("version", "may_go", "cells"),
    [
        (None, NOW, ("never published", "")),
        (0, None, ("0", "all in main")),
        (7, NOW + timedelta(days=2), ("7", "may go in 2 days")),
        (7, NOW + timedelta(days=2, seconds=-1), ("7", "may go in 1 day")),
        (7, NOW, ("7", "may go in 0 days")),
        (7, NOW - timedelta(seconds=1), ("7", "may be gone")),
    ],
)
def test_a_pinned_table_says_how_long_its_files_are_kept(
    version: int | None, may_go: datetime | None, cells: tuple[str, str]
) -> None:
    """In whole days that are left."""
    pinned = Pinned(table="rates", version=version, days=("2017-03-06..2017-03-08",), files_may_go=may_go)
    assert pinned_rows(_plan(FACT, pinned=(pinned,)), NOW) == [
        ("rates", cells[0], "3: 2017-03-06..2017-03-08", cells[1])
    ]
    assert len(PINNED_COLUMNS) == 4


def test_days_of_a_pinned_table_that_were_never_published_are_not_in_main() -> None:
    """Where all of them are, its files do not matter."""
    days = ("2017-03-06..2017-03-08",)
    some = Pinned(table="rates", version=7, days=days, absent=("2017-03-08",))
    assert pinned_rows(_plan(FACT, pinned=(some,)), NOW)[0][3] == "all in main; never published: 2017-03-08"
    going = some.model_copy(update={"files_may_go": NOW + timedelta(days=2)})
    assert pinned_rows(_plan(FACT, pinned=(going,)), NOW)[0][3] == "may go in 2 days; never published: 2017-03-08"
    every = Pinned(table="rates", version=7, days=days, absent=days)
    assert pinned_rows(_plan(FACT, pinned=(every,)), NOW)[0][3] == "never published: 2017-03-06..2017-03-08"


def test_a_plan_without_inputs_has_no_rows_and_lines_of_them() -> None:
    """Each part may be left out."""
    plan = _plan(FACT)
    assert (pinned_rows(plan, NOW), as_of_lines(plan), expectation_lines(plan), time_lines(plan)) == ([], [], [], [])


@pytest.mark.parametrize(
    ("first", "last", "days", "absent", "line"),
    [
        (-2, 0, ("2017-03-06..2017-03-08",), (), "up to 2 days back: reads 2017-03-06..2017-03-08"),
        (-3, -1, ("2017-03-05",), (), "3 to 1 days back: reads 2017-03-05"),
        (-2, 0, (), ("2017-03-06..2017-03-08",), "up to 2 days back: reads nothing; not there: 2017-03-06..2017-03-08"),
    ],
)
def test_a_look_back_says_how_far_and_what_it_finds(
    first: int, last: int, days: tuple[str, ...], absent: tuple[str, ...], line: str
) -> None:
    """Up to the day itself, or to a day before it."""
    back = Lookback(step="fact", table="rates", first=first, last=last, days=days, absent=absent)
    assert as_of_lines(_plan(FACT, as_of=(back,))) == [f"fact looks for rates {line}"]


# ------------------------------------------------------------------ what it costs


def test_nothing_to_rebuild_costs_nothing() -> None:
    """Also where the cost of its steps is known."""
    assert cost_line(_plan(FRESH, cost=Cost(time=exactly(9.0)))) == "It costs nothing."
    assert cost_line(_plan()) == "It costs nothing."


def test_the_cost_has_time_cores_and_price() -> None:
    """A plan without a price says how to set one."""
    price = Cost(time=exactly(3600.0), cores=2, price_per_core_hour=Decimal("0.5"))
    assert cost_line(_plan(FACT, cost=price)) == (
        "Computing the days: about 1:00:00 on 2 cores, 7,200 core seconds, costs 1.0000."
    )
    assert cost_line(_plan(FACT, cost=Cost(time=exactly(8.0)))) == (
        "Computing the days: about 8.0 s on 1 core, 8 core seconds, set BACKFILL_CORE_HOUR_PRICE to have a cost."
    )


def test_steps_that_were_never_timed_are_named_beside_the_cost_of_the_others() -> None:
    """If none was timed, there is no cost; steps that are skipped need none."""
    some = Cost(time=exactly(8.0), unknown=("weekly",))
    assert cost_line(_plan(FACT, WEEKLY, cost=some)) == (
        "Computing the days: about 8.0 s on 1 core, 8 core seconds, set BACKFILL_CORE_HOUR_PRICE to have a cost; "
        "no earlier publication of weekly was timed: unknown."
    )
    line = "Computing the days: no earlier publication of fact, weekly was timed: unknown."
    assert cost_line(_plan(FACT, WEEKLY, FRESH, cost=Cost(unknown=("fact", "weekly")))) == line


def test_the_time_of_a_campaign_is_one_line() -> None:
    """None for a plan that rebuilds nothing."""
    assert time_lines(_plan(FACT, times={"source_verified": exactly(2.0)})) == [
        "Carried out as a campaign: about 2.0 s. By step: source verified about 2.0 s."
    ]
    assert time_lines(_plan()) == []


# ------------------------------------------------------------------ what follows


def test_expectations_are_listed_as_they_were_written() -> None:
    """In their order."""
    expected = tuple(map(Expectation.parse, ("rows unchanged", "revenue_eur<2% a day")))
    assert expectation_lines(_plan(FACT, expectations=expected)) == [
        "Expected: rows unchanged",
        "Expected: revenue_eur < 2% a day",
    ]


def test_no_change_recommends_no_scope() -> None:
    """It is said in as many words."""
    assert scope_line(_plan(FACT)) == "Scope: nothing has changed, in the table or in what it is computed from."


@pytest.mark.parametrize(
    ("scope", "option"),
    [
        (Scope.WHOLE, "with --source-too"),
        (Scope.ONWARDS, "without --source-too and --only-downstream"),
        (Scope.DOWNSTREAM, "with --only-downstream"),
    ],
)
def test_another_scope_comes_with_its_option_and_the_one_of_the_plan_without(scope: Scope, option: str) -> None:
    """Each scope has an option of its own."""
    recommended = Recommended(scope=scope, because="raw is missing on 2017-03-08")
    fits = f"Scope: {scope.value} fits (raw is missing on 2017-03-08)"
    for of_plan in Scope:
        end = "." if of_plan is scope else f": plan {option}."
        assert scope_line(_plan(FACT, scope=of_plan, recommended=recommended)) == f"{fits}{end}"


def test_how_long_it_can_be_undone_is_the_rollback_window() -> None:
    """That of the plan, and not a setting of today."""
    assert after_line(_plan(FACT, rollback_window_days=14)) == (
        "What the days hold now can be put back for 14 days after they are replaced."
    )


# ------------------------------------------------------------------ the whole plan

SMALLEST = """\
## {id}

fact 2017-03-08: nothing to rebuild, every day is fresh.

It costs nothing.

Scope: nothing has changed, in the table or in what it is computed from.

What the days hold now can be put back for 30 days after they are replaced.
"""
LARGEST = """\
## {id}

fact 2017-03-08, from the table on: 1 day of 1 step.

**It has moved since it was made; make it again:**

- rates: 1 day that the plan reads moved: 2017-03-08 (version 4 -> 5)
- fact: other code

| table | to rebuild | why | skipped | rows read | read | rows written | written | time |
| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |
| fact | 1 | code changed: 2017-03-08 | 2 | 1,200 | 2.0 KiB | 1,000 | 512 B | 0:02:05 |

Computing the days: about 0:02:05 on 1 core, 125 core seconds, set BACKFILL_CORE_HOUR_PRICE to have a cost.

| as a campaign | time |
| --- | ---: |
| source verified | about 2.0 s (1.0 s to 3.0 s) |
| together | about 2.0 s (1.0 s to 3.0 s) |

| reads | version | days | files |
| --- | --- | --- | --- |
| rates | 4 | 1: 2017-03-08 | all in main |

- fact looks for rates up to 2 days back: reads 2017-03-08

- Expected: rows unchanged

| finding | what | what to do |
| --- | --- | --- |
| warns | A \\| in a message. | Look \\*there\\*. |

Scope: from the table on fits (fact is missing on 2017-03-08).

What the days hold now can be put back for 30 days after they are replaced.
"""


def test_a_page_of_a_plan_that_does_nothing_has_no_empty_parts() -> None:
    """Not even of a drift that is none."""
    plan = _plan()
    assert markdown(plan, NOW) == markdown(plan, NOW, PlanDrift()) == SMALLEST.format(id=plan.id)


def test_a_page_of_a_plan_has_all_parts_in_order_and_messages_read_literally() -> None:
    """What has moved comes before anything else."""
    plan = _plan(
        FACT,
        cost=Cost(time=exactly(125.0)),
        times={"source_verified": Span(median=2.0, low=1.0, high=3.0, samples=2)},
        pinned=(Pinned(table="rates", version=4, days=(str(D),)),),
        as_of=(Lookback(step="fact", table="rates", first=-2, last=0, days=(str(D),)),),
        expectations=(Expectation.parse("rows unchanged"),),
        findings=(PlanFinding(kind="k", severity="warns", message="A | in a message.", next_step="Look *there*."),),
        recommended=Recommended(scope=Scope.ONWARDS, because="fact is missing on 2017-03-08"),
    )
    moved = PlanDrift((MovedTable("rates", "reads", (D,), 4, 5),), ("fact: other code",))
    assert markdown(plan, NOW, moved) == LARGEST.format(id=plan.id)


def test_the_command_of_a_plan_asks_for_the_same_again() -> None:
    """Version, scope and expectations are of the request; a plan from a file is asked for by its file."""
    asked = PlanRequest(target="fact", days="2017-03-08", version="v1", scope=Scope.DOWNSTREAM, force=True)
    found = Plan(asked=asked, steps=(FACT,), made_at=NOW)
    options = "--days 2017-03-08 --version v1 --only-downstream --force"
    assert command_of(found) == f"backfill plan fact {options}"
    assert command_of(found, "rows unchanged") == f"backfill plan fact {options} --expect 'rows unchanged'"
    from_file = found.model_copy(update={"terms": PlanTerms(reason="the rate")})
    assert command_of(from_file, "rows unchanged") == "backfill plan -f FILE"
    of_timeline = Plan(asked=asked.model_copy(update={"leaves": ("2017-03-09",)}), steps=(FACT,), made_at=NOW)
    assert command_of(of_timeline, "rows unchanged") == "backfill publish TIMELINE --expect 'rows unchanged'"
