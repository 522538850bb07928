"""What an approval covers: the difference it was given for, and what moved since as long as it is within bounds. Pure.

Days may move between the moment the difference was shown and the publication. What moved is staged again, so that it is
no longer what was approved. It is published all the same if every expectation of the plan and every limit still holds.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from backfill_assets.campaign.breaker import Exceeded
from backfill_assets.days import TableDay
from backfill_assets.difference.kept import Difference
from backfill_assets.difference.records import Sides, fingerprint_of
from backfill_assets.plan.records import as_ranges

MovedDays = Mapping[str, list[str]]
"""Ranges of days by table."""


class ApprovalVerdict(enum.StrEnum):
    PUBLISH = "publish"
    COMPARE = "compare it with main first"
    STAGE_AGAIN = "stage it again"
    WAIT = "wait for another approval"
    STOP = "stop"


@dataclass(frozen=True)
class ApprovalDecision:
    verdict: ApprovalVerdict
    reason: str
    as_approved: bool = False


@dataclass(frozen=True)
class Attempt:
    """What a cut-over is about to publish, and what is known of it.

    ``approved`` is the fingerprint of the difference that the approval was given for. ``compared`` is the newest
    comparison of this cut-over, None before there is one, and ``exceeded`` what the breaker says of the same days.
    ``held_back`` are lines about days that are left out without a person's consent.
    """

    approved: str
    staged: Sides
    compared: Difference | None = None
    exceeded: tuple[Exceeded, ...] = ()
    held_back: tuple[str, ...] = ()


def decide(attempt: Attempt) -> ApprovalDecision:
    """What to do with an attempt. Nothing is published that was neither approved as it is nor judged as it is."""
    if fingerprint_of(attempt.staged) == attempt.approved:
        return ApprovalDecision(ApprovalVerdict.PUBLISH, "it is what was approved", as_approved=True)
    difference = attempt.compared
    if difference is None:
        return ApprovalDecision(ApprovalVerdict.COMPARE, "it is not what was approved")
    if difference.sides != attempt.staged:
        return ApprovalDecision(ApprovalVerdict.STAGE_AGAIN, "main moved while it was compared")
    if unmet := difference.unmet:
        return ApprovalDecision(ApprovalVerdict.STOP, f"{difference.sentence} Not as expected: {unmet[0].expectation}.")
    if reason := _held_back_text(attempt.held_back) or next(
        (each.sentence for each in attempt.exceeded if each.stops), ""
    ):
        return ApprovalDecision(ApprovalVerdict.WAIT, reason)
    return ApprovalDecision(ApprovalVerdict.PUBLISH, difference.sentence)


def _held_back_text(lines: Sequence[str]) -> str:
    more = f", and {len(lines) - 1} more" if len(lines) > 1 else ""
    return f"Days are held back: {lines[0]}{more}." if lines else ""


def moved_days(approved: Sides, staged: Sides) -> dict[str, list[str]]:
    """The days that are not as they were approved, days that are left out included."""
    found: dict[str, set[date]] = {}
    for table, day in approved.keys() | staged.keys():
        if approved.get(TableDay(table, day)) != staged.get(TableDay(table, day)):
            found.setdefault(table, set()).add(day)
    return {table: list(as_ranges(days)) for table, days in sorted(found.items())}


def moved_sentence(moved: MovedDays) -> str:
    """``MovedDays after the approval: fact_sales_transactions 2017-03-07; report_monthly_close 2017-03-01.``"""
    days = "; ".join(f"{table} {', '.join(ranges)}" for table, ranges in moved.items() if ranges)
    return f"Moved after the approval: {days or 'what was staged'}."
