"""The days of a campaign as a table, and what to type next, for every command that shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from backfill_assets.cli.ids import plans, publications, short_ids
from backfill_assets.cli.output import ranges, say
from backfill_assets.cli.output import table as new_table

if TYPE_CHECKING:
    from datetime import date

    from backfill_assets.campaign.day_outcomes import CampaignDays
    from backfill_assets.campaign.standing import PlanFacts
    from backfill_assets.cli.tables import ShownTable
    from backfill_assets.lakehouse.storage import Storage
    from backfill_assets.plan.records import Plan

_WHAT = ("staged", "held back", "published", "unchanged", "left")


def campaign_table(found: Sequence[CampaignDays]) -> ShownTable:
    """A line for each table; ``left`` are days of which it is not known yet whether they change."""
    rows = (
        (each.table, f"{len(each.planned):,}", *(ranges(days) for days in _by_what(each).values())) for each in found
    )
    return new_table("table", "planned", *_WHAT, rows=rows, numbers=["planned"], drop=["planned", "unchanged"])


def campaign_json(found: Sequence[CampaignDays]) -> dict[str, Any]:
    from backfill_assets.plan.records import as_ranges

    return {each.table: {what: list(as_ranges(days)) for what, days in _by_what(each).items()} for each in found}


def _by_what(each: CampaignDays) -> Mapping[str, Sequence[date]]:
    return dict(zip(_WHAT, (each.staged, each.held_back, each.published, each.unchanged, each.left), strict=True))


def say_next(storage: Storage, plan: str) -> None:
    """What to type next for ``plan``, if that is for a person."""
    from backfill_assets.campaign.standing import next_command
    from backfill_assets.lakehouse.plans import kept_plan
    from backfill_assets.plan.records import Plan

    facts = facts_of(storage, Plan.from_json(kept_plan(storage, plan), id=plan))
    show = short_ids(storage, plans, publications)
    shown = replace(
        facts,
        plan=show(plan),
        publication=show(facts.publication),
        half_done=show(facts.half_done),
        put_back_by=show(facts.put_back_by),
    )
    say(*filter(None, [next_command(shown)]))


def facts_of(storage: Storage, plan: Plan) -> PlanFacts:
    from backfill_assets.campaign.look import look
    from backfill_assets.lakehouse.campaign_journal import campaign_of
    from backfill_assets.publication.publisher import Publisher

    return look(Publisher(storage), campaign_of(plan.id), plan)
