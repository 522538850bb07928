"""How many CPU seconds the tests of each tier take, in their processes and all that those start, and how many they may.

It is printed at the end of each run, also of one in several processes. With ``CPU_BUDGETS`` set, as CI does, a run
that takes more than the limit of a tier has failed. The same work takes up to 1.5 times the CPU seconds where
neighbours share a machine's caches: seconds of a core that counts slower than ``PACE`` says count as those of one that
does not, and how fast this one counts is looked at wherever they are charged. What that takes is no test's.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import islice
from typing import Any

import psutil
import pytest

ENFORCED = "CPU_BUDGETS"
BUDGETS = {"fast": 20, "data": 100, "protocol": 150, "spark": 300, "dagster": 120, "stories": 500}
LIMITS = {"fast": 27, "data": 110, "protocol": 310, "spark": 470, "dagster": 120, "stories": 690}
"""Beyond them a run fails: what each tier took when they were set, and a third. Protocol and Spark are over budget."""
BEFORE_TESTS, AS_IT_WAS = "collection", "as it was"
"""What is charged before the first test; and all of it in seconds of this hour."""
PACE = 0.0165
"""CPU seconds of :func:`count` while `make test` runs on two cores of a cloud machine, where the budgets were set."""
_SENT = "cpu_seconds"


def used() -> float:
    """By this process and those that it started, whether they still run or were waited for."""
    this, seconds = psutil.Process(), 0.0
    for process in (this, *this.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            seconds += sum(process.cpu_times()[:4])
    return seconds


@cache
def _scattered() -> dict[int, int]:
    """More than a core's own cache holds, in no order."""
    return {number: number for number in random.Random(1).sample(range(300_000), 300_000)}


def count() -> float:
    """CPU seconds of a fixed piece of work of this process, half of it in memory, at its best of three."""
    numbers, took = _scattered(), []
    for _ in range(3):
        began, total = time.process_time(), 0
        for number in range(100_000):
            total += number * number % 7
        for number in islice(numbers, 0, None, 6):
            total += numbers[number]
        took.append(time.process_time() - began)
    return min(took)


def at_pace(pace: float) -> float:
    """What a second of this core counts as now."""
    return min(1.0, PACE / pace)


class CpuBudget:
    """A plugin of pytest. Processes are looked at only where a test of another tier begins: that takes milliseconds."""

    def __init__(
        self,
        config: pytest.Config,
        tier_of: Callable[[pytest.Item], str],
        budgets: Mapping[str, float],
        limits: Mapping[str, float],
        used: Callable[[], float] = used,
        count: Callable[[], float] = count,
    ) -> None:
        self._config, self._tier_of, self._budgets, self._limits = config, tier_of, budgets, limits
        self._used, self._count = used, count
        self._tier, self._charged, self._pace = BEFORE_TESTS, 0.0, count()
        self.seconds: Counter[str] = Counter()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        if (tier := self._tier_of(item)) != self._tier:
            self._charge()
            self._tier = tier
        return (yield)

    def _charge(self) -> None:
        now, pace = self._used(), self._count()
        took, counts = max(0.0, now - self._charged), at_pace((self._pace + pace) / 2)
        self.seconds.update({self._tier: took * counts, AS_IT_WAS: took})
        self._charged, self._pace = self._used(), pace

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """One of several processes of tests has ended."""
        self.seconds.update(getattr(node, "workeroutput", {}).get(_SENT, {}))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not self._config.pluginmanager.hasplugin("dsession"):
            self._charge()
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput[_SENT] = dict(self.seconds)
        elif self.over(self._limits) and os.environ.get(ENFORCED) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def over(self, bounds: Mapping[str, float]) -> list[str]:
        """The tiers that took more than ``bounds``."""
        return [tier for tier, bound in bounds.items() if self.seconds[tier] > bound]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("CPU seconds of the tests, and of the processes that they started")
        for tier in sorted(self.seconds, key=[BEFORE_TESTS, *self._budgets, *self.seconds].index):
            may = f" of {self._budgets[tier]:g}" if tier in self._budgets else ""
            over = ": OVER ITS BUDGET" if tier in self.over(self._budgets) else ""
            over = f": OVER ITS LIMIT OF {self._limits[tier]:g}" if tier in self.over(self._limits) else over
            terminalreporter.write_line(f"{tier:12}{self.seconds[tier]:8.1f}{may}{over}")
