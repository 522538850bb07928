"""The days of a campaign as a table, for every command that shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from backfill_assets.cli.output import ranges
from backfill_assets.cli.output import table as new_table

if TYPE_CHECKING:
    from datetime import date

    from backfill_assets.campaign.day_outcomes import CampaignDays
    from backfill_assets.cli.tables import ShownTable

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
