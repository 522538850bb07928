"""What tests cost is counted by tier, over all their processes; and what is too much fails a run where it is asked."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from backfill_assets_tests.cpu_budget import AS_IT_WAS, ENFORCED, PACE, CpuBudget, count, used

pytestmark = pytest.mark.data
BURN = "import time\nend = time.process_time() + {seconds}\nwhile time.process_time() < end: pass\n"
CONFTEST = """
from backfill_assets_tests.cpu_budget import PACE, CpuBudget

def pytest_configure(config):
    budgets, limits = {"burn": 0.3, "idle": 9}, {"burn": LIMIT, "idle": 9}
    config.pluginmanager.register(CpuBudget(config, lambda item: item.name[5:9], budgets, limits, count=lambda: PACE))
"""
TESTS = f"""
import subprocess, sys

def test_burn():
    subprocess.run([sys.executable, "-c", {BURN.format(seconds=0.4)!r}])

def test_idle():
    pass
"""


TICK = 0.02
"""The operating system counts CPU seconds in ticks of up to two hundredths."""


def charged(steps: Sequence[tuple[str, float]], *paces: float, counting: float = 0) -> dict[str, float]:
    """What each tier is charged when tests of these tiers begin at these seconds; the last one is the end.

    Seconds of ``counting`` go by each time, beside those of ``steps``.
    """
    looks = [second + at * counting for number, (_, second) in enumerate(steps) for at in (number, number + 1)]
    clock, counts = iter(looks), iter(paces or [PACE] * (len(steps) + 1))
    config = SimpleNamespace(pluginmanager=SimpleNamespace(hasplugin=lambda name: False))
    budget = CpuBudget(cast("pytest.Config", config), str, {}, {}, lambda: next(clock), lambda: next(counts))
    for tier, _ in steps[:-1]:
        next(cast("Any", budget.pytest_runtest_protocol)(tier))
    budget.pytest_sessionfinish(cast("pytest.Session", SimpleNamespace()))
    assert budget.seconds.pop(AS_IT_WAS) == steps[-1][1]
    return dict(budget.seconds)


def test_what_lies_between_two_tiers_is_charged_to_the_first() -> None:
    steps = [("fast", 2.0), ("spark", 5.0), ("fast", 15.0), ("end", 16.0)]
    assert charged(steps) == charged(steps, counting=0.25) == {"collection": 2.0, "fast": 4.0, "spark": 10.0}


def test_seconds_of_a_slow_hour_count_as_those_of_a_quiet_one() -> None:
    steps = [("fast", 2.0), ("spark", 5.0), ("end", 15.0)]
    assert charged(steps, PACE, PACE, 2 * PACE, 2 * PACE) == {"collection": 2.0, "fast": 2.0, "spark": 5.0}
    assert charged(steps, *4 * [PACE / 2]) == charged(steps), "a core that counts faster is charged what it took"
    assert 0 < count() < 1


def test_processes_that_ended_and_that_still_run_are_counted() -> None:
    before = used()
    subprocess.run([sys.executable, "-c", BURN.format(seconds=0.2)], check=True)
    after = used()
    assert after - before >= 0.2 - TICK
    script = BURN.format(seconds=0.2) + "print('burnt', flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", script], stdin=-1, stdout=-1, text=True) as running:
        assert running.stdout and running.stdout.readline() == "burnt\n"
        assert used() - after >= 0.2 - TICK
        running.communicate("\n")


@pytest.mark.parametrize(
    ("processes", "enforced", "limit", "code"),
    [([], "", 0.3, 0), ([], "1", 9, 0), (["-p", "xdist", "-n", "2"], "1", 0.3, 1)],
    ids=["told of one process", "over its budget and within its limit", "enforced over two processes"],
)
def test_a_tier_over_its_budget_is_named_and_fails_the_run_beyond_its_limit_where_it_is_enforced(
    tmp_path: Path, processes: list[str], enforced: str, limit: float, code: int
) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST.replace("LIMIT", str(limit)))
    (tmp_path / "test_burning.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *processes]
    environment = {**os.environ, ENFORCED: enforced, "PYTHONPATH": str(Path(__file__).parents[1])}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == code, ran.stdout + ran.stderr
    over = "OVER ITS LIMIT OF 0.3" if limit < 1 else "OVER ITS BUDGET"
    assert re.search(rf"burn +0\.[4-9] of 0\.3: {over}\n", ran.stdout), ran.stdout
    assert re.search(r"idle +[0-8]\.\d of 9\n", ran.stdout)
