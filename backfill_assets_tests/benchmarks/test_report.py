"""What a benchmark says of its goals follows from what it measured."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from backfill_assets.answers.run import StepRan, ran_answer
from backfill_assets.rebuild.outcome import BuildResult
from benchmarks.backfill.report import Goal, figure, ratios, seconds
from benchmarks.backfill.shared_server import beside, steps_of
from benchmarks.backfill.timed import Timed


def _run(clock: float, cpu: float = 1.0) -> Timed:
    return Timed(seconds=clock, cpu_seconds=cpu, peak_mib=100, load=0.5, jvm=True)


@pytest.mark.parametrize(
    ("value", "goal", "verdict"),
    [
        (1.15, Goal(1.15), "reached"),
        (1.151, Goal(1.15), "NOT REACHED"),
        (6.0, Goal(6, at_least=True), "reached"),
        (5.9, Goal(6, at_least=True), "NOT REACHED"),
        (5.9, None, ""),
    ],
)
def test_the_median_is_held_against_the_goal(value: float, goal: Goal | None, verdict: str) -> None:
    assert figure("a figure", [value, 0.0, 100.0], "s", goal).verdict == verdict


def test_ratios_are_taken_round_by_round() -> None:
    clock, cpu = ratios(
        "a / b", [_run(2, 30), _run(9, 30), _run(4, 10)], [_run(1, 10), _run(3, 10), _run(4, 10)], Goal(2)
    )
    assert list(clock.rounds) == [2, 3, 1]
    assert (clock.value, clock.verdict) == (2, "reached")
    assert (cpu.value, cpu.verdict) == (3, "")


def test_only_runs_that_the_long_one_outlasted_stand_for_its_goal() -> None:
    all_of_them = beside("beside", [(_run(30), True), (_run(10), True)])
    assert (list(all_of_them.rounds), all_of_them.verdict, "after" in all_of_them.note) == ([30, 10], "reached", False)
    the_first = beside("beside", [(_run(30), True), (_run(5), False)])
    assert (list(the_first.rounds), the_first.verdict) == ([30], "NOT REACHED")
    assert the_first.note.endswith("1 more ended after the long run")
    none = beside("beside", [(_run(5), False)])
    assert (none.value, none.goal, none.verdict) == (5, None, "")
    assert none.note.endswith("the long run ended before any of them did")


def test_seconds_have_the_largest_process_and_the_greatest_load_beside_them() -> None:
    line = seconds("runs", [_run(3, 6), _run(1, 2), _run(2, 4)])
    assert (line.value, line.note, line.load) == (2, "CPU 4 s, 100 MiB", 0.5)


def test_the_time_of_each_step_is_read_from_what_a_run_prints() -> None:
    ran = [StepRan("bronze_sales", BuildResult(()), 1.2), StepRan("fact_daily_revenue", BuildResult(()), 0.5)]
    printed = json.dumps(ran_answer(ran, {}).as_json())
    assert steps_of(replace(_run(2), output=printed)) == "bronze_sales 1.2, fact_daily_revenue 0.5"
