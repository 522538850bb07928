"""Whether a native backfill or repair goes on, by the ends of its runs and its limits. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from statistics import median
from typing import Literal

from backfill_assets.lakehouse.records import Notice
from backfill_assets.limits import BackfillLimits, Exceeded, over, over_budget

RunOutcome = Literal["succeeded", "failed", "under way", "canceled"]
_FEWEST = 3
"""Fewest failures for a rate, fewest successes for a median."""
_LONG_SECONDS = 600


@dataclass(frozen=True)
class RunAttempt:
    """Dagster's retries share ``of``, the first run's id."""

    id: str
    of: str
    outcome: RunOutcome
    seconds: float


def judge_backfill(
    limits: BackfillLimits, attempts: Sequence[RunAttempt], cores: int, price_per_core_second: Decimal | None
) -> list[Exceeded]:
    """Exceeded limits, then warnings of budgets 80 % spent.

    ``attempts`` are oldest first: a run's newest gives its outcome, all of them the cost.
    """
    newest = list({each.of: each for each in attempts}.values())
    failed, succeeded = ([each for each in newest if each.outcome == how] for how in ("failed", "succeeded"))
    ended = len(failed) + len(succeeded)
    spent = Decimal(str(sum(each.seconds for each in attempts))) * cores
    found = [over_budget("core_seconds", limits.core_seconds, spent, f"it has taken {spent:,.0f} core seconds")]
    if len(failed) >= _FEWEST:
        rate = Decimal(len(failed)) / ended
        found.append(over("errors", limits.errors, rate, f"{len(failed)} of {ended} runs failed"))
    if len(succeeded) >= _FEWEST:
        found.append(_too_slow(limits, newest, median(each.seconds for each in succeeded)))
    if price_per_core_second is not None:
        cost = spent * price_per_core_second
        found.append(over_budget("money", limits.money, cost, f"it has cost {cost:.4f}"))
    return sorted((each for each in found if each), key=lambda each: not each.stops)


def _too_slow(limits: BackfillLimits, runs: Sequence[RunAttempt], usual: float) -> Exceeded | None:
    slowest = max((each for each in runs if each.outcome == "under way"), key=lambda each: each.seconds, default=None)
    if slowest is None or slowest.seconds < _LONG_SECONDS:
        return None
    times = Decimal(str(slowest.seconds / max(1.0, usual)))
    took = f"the run {slowest.id[:8]} has taken {slowest.seconds:,.0f} s"
    return over("slower", limits.slower, times, f"{took}, {times:.0f} times the median of the others")


def backfill_notice(backfill: str, title: str, exceeded: Exceeded, dataset: str) -> Notice:
    what = "was stopped by a limit" if exceeded.stops else "has spent most of a budget"
    stopped = "What was published stays. Fix the cause, then re-execute it from failure on its page in Dagster."
    return Notice(
        title=f"The backfill {backfill} {what}{f': {title}' if title else ''}",
        lines=(f"{exceeded.limit}: {exceeded.sentence}", *([stopped] if exceeded.stops else [])),
        severity="critical" if exceeded.stops else "warning",
        dataset=dataset,
    )
