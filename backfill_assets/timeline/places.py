"""All places: timelines with a name, and those of open campaigns, which are read like the others.

A campaign works on its own timeline: what it has staged and its gates have passed are days, and all others read through
to what is published now. It goes with the campaign.
"""

from __future__ import annotations

from datetime import datetime

from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.campaign_journal import campaign_of, plan_of
from backfill_assets.lakehouse.named_timelines import (
    HeldDay,
    NamedTimeline,
    TimelineBase,
    find_timeline,
    kept_timelines,
)
from backfill_assets.lakehouse.plans import PlanUnderWay, under_way
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import CAMPAIGN, StagedDay, newest_days
from backfill_assets.published.snapshot import Snapshot
from backfill_assets.text import suggest_or_list


def all_places(storage: Storage, now: datetime) -> list[NamedTimeline]:
    """The timelines that are kept, by name, and then those of open campaigns."""
    return [*kept_timelines(storage, now), *(_of_campaign(storage, each) for each in under_way(storage))]


def find_place(storage: Storage, name: str, now: datetime) -> NamedTimeline:
    """The timeline ``name``, or that of the open campaign ``name``; raises :class:`InvalidRequest` with the nearest."""
    if not is_of_campaign(name):
        return find_timeline(storage, name, now)
    plans = {campaign_of(each.plan): each for each in under_way(storage)}
    if name not in plans:
        raise InvalidRequest(
            f"There is no open campaign {name!r}.", hint=suggest_or_list(name, plans, "Open campaigns")
        )
    return _of_campaign(storage, plans[name])


def is_of_campaign(name: str) -> bool:
    return name.startswith(CAMPAIGN)


def refuse_campaign(name: str) -> None:
    """Raise :class:`InvalidRequest` for the timeline of a campaign: nothing else changes it."""
    if is_of_campaign(name):
        raise InvalidRequest(
            f"{name} is the timeline of a campaign: only the campaign changes it.",
            hint=f"It goes with the campaign: backfill timeline delete {plan_of(name)}. "
            "For days of your own: backfill timeline create NAME",
        )


def _of_campaign(storage: Storage, plan: PlanUnderWay) -> NamedTimeline:
    campaign, base = campaign_of(plan.plan), Snapshot.newest(storage)
    staged = {
        table: {day: held for day, (_, each) in newest_days(storage, table, campaign).items() if (held := _held(each))}
        for table in plan.tables
    }
    timeline = NamedTimeline(
        id=campaign,
        name=campaign,
        made_at=plan.since,
        base=TimelineBase(sequence=base.sequence, versions=base.versions),
        change=f"staged by the campaign of {plan.plan}",
        changed_at=plan.since,
    )
    return timeline.with_days(staged)


def _held(staged: StagedDay) -> HeldDay | None:
    """The day if its gates have passed."""
    if staged.verdict is None or not staged.verdict.passed:
        return None
    return HeldDay(day=staged.day, content=staged.verdict.content, files=staged.files)
