"""What has become of each day that a campaign is to bring: staged, held back, published. From the logs alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from backfill_assets.campaign.course import CampaignState, is_given_up, is_published, state_of
from backfill_assets.lakehouse import campaign_journal as journal
from backfill_assets.lakehouse.campaign_journal import CampaignStep, JournalEntry, campaign_of
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import newest_days
from backfill_assets.plan.records import Plan, PlannedStep, as_ranges, days_of
from backfill_assets.plan.shadow_steps import rebuilt_steps
from backfill_assets.rebuild.shadow import HeldBack

HELD_BACK_DAYS = journal.HELD_BACK_DAYS


@dataclass(frozen=True)
class CampaignDays:
    """The days of one table, or the first days of its periods, ascending."""

    table: str
    planned: tuple[date, ...]
    staged: tuple[date, ...]
    held_back: tuple[date, ...]
    published: tuple[date, ...]
    all_staged: bool = False
    """Whether the campaign has been through all days."""

    @property
    def unchanged(self) -> tuple[date, ...]:
        """Days that the campaign does not change; known once it has been through all days."""
        return self._others if self.all_staged else ()

    @property
    def left(self) -> tuple[date, ...]:
        """Days of which the campaign has not found out yet whether it changes them."""
        return () if self.all_staged else self._others

    @property
    def _others(self) -> tuple[date, ...]:
        return _among(self.planned, {*self.planned} - {*self.staged, *self.held_back, *self.published})


def campaign_days(storage: Storage, plan: Plan) -> list[CampaignDays]:
    """By table, in build order; empty for a plan that was never started."""
    entries = journal.entries(storage, campaign_of(plan.id))
    now = state_of(campaign_of(plan.id), entries)
    if not now.started:
        return []
    return [found for each in rebuilt_steps(plan) for found in _of_step(storage, each, now, entries)]


def held_back_days(held: Iterable[HeldBack]) -> dict[str, list[str]]:
    days: dict[str, set[date]] = {}
    for each in held:
        days.setdefault(each.table, set()).add(each.day)
    return {table: list(as_ranges(found)) for table, found in days.items()}


def _of_step(
    storage: Storage, step: PlannedStep, now: CampaignState, entries: Sequence[JournalEntry]
) -> Iterator[CampaignDays]:
    """Tables that are built together are held back together: a gate of one of them keeps the day of all."""
    published = is_published(now)
    passed = {table: {} if published else _newest_verdicts(storage, table, now.campaign) for table in step.tables}
    brought = now.done[CampaignStep.CUT_OVER].report["days"] if published else {}
    held = {day for found in passed.values() for day, good in found.items() if not good}
    # One that passed before a day that it reads was held back is not published either.
    held |= {day for table in step.tables for day in days_of(_last_held_back(entries).get(table, ()))}
    for table in step.tables:
        yield CampaignDays(
            table=table,
            planned=step.days,
            staged=_among(step.days, passed[table].keys() - held),
            held_back=_among(step.days, held),
            published=_among(step.days, {*days_of(brought.get(table, ()))}),
            all_staged=published or (CampaignStep.SHADOW in now.done and not _is_over(now)),
        )


def _is_over(now: CampaignState) -> bool:
    """Its timelines are closed then."""
    return bool(now.rolled_back or is_given_up(now))


def _newest_verdicts(storage: Storage, table: str, campaign: str) -> dict[date, bool]:
    """Of each day that was staged and judged: did it pass, the last time?"""
    newest = newest_days(storage, table, campaign, judged=True)
    return {day: staged.verdict.passed for day, (_, staged) in newest.items() if staged.verdict}


def _last_held_back(entries: Sequence[JournalEntry]) -> Mapping[str, Sequence[str]]:
    """Since the campaign was begun or begun again."""
    for entry in reversed(entries):
        if entry.kind in ("started", "resumed"):
            break
        if HELD_BACK_DAYS in entry.report:
            found: Mapping[str, Sequence[str]] = entry.report[HELD_BACK_DAYS]
            return found
    return {}


def _among(planned: Sequence[date], days: set[date]) -> tuple[date, ...]:
    return tuple(day for day in planned if day in days)
