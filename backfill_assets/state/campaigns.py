"""Which campaigns are under way: journals say who began one and gave it up, the log what was published since.

A campaign is under way from its last start on, until the log has a publication of it, or it is given up or closed. A
start that knew of the newest publication counts only if that was an undo. Nothing else is kept about it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from backfill_assets.errors import LakehouseUnusable
from backfill_assets.lakehouse import campaign_journal
from backfill_assets.lakehouse.campaign_journal import JournalEntry, plan_of
from backfill_assets.lakehouse.plans import is_plan_id, tables_rebuilt
from backfill_assets.publish.log import PublicationLog
from backfill_assets.publish.past import Closed, closed_entries

NewestEntries = Mapping[str, JournalEntry | None]


@dataclass(frozen=True)
class PlanUnderWay:
    """``damage``: why its plan cannot be read."""

    plan: str
    tables: tuple[str, ...]
    since: datetime
    damage: str = ""


def plans_under_way(log: PublicationLog, newest: NewestEntries | None = None) -> dict[str, datetime]:
    """Since when, by plan. An unreadable entry may be a start: it counts as one, unless its campaign is published.

    ``newest``: by campaign, if they were read before.
    """
    newest = campaign_journal.newest_entries(log.storage) if newest is None else newest
    going = [
        each for each, entry in newest.items() if is_plan_id(plan_of(each)) and not (entry and entry.ends_campaign)
    ]
    published = newest_publications(log, going)
    journals = log.storage.each(lambda each: _back_to_its_start(log, each, published.get(each)), going)
    found = {
        plan_of(campaign): _since(log, campaign, entries, published.get(campaign))
        for campaign, entries in zip(going, journals, strict=True)
    }
    return {plan: since.replace(microsecond=0) for plan, since in found.items() if since is not None}


def under_way(log: PublicationLog) -> list[PlanUnderWay]:
    plans = []
    for id, since in plans_under_way(log).items():
        tables, damage = tuple[str, ...](), ""
        try:
            tables = tables_rebuilt(log.storage, id)
        except LakehouseUnusable as error:
            damage = str(error)
        plans.append(PlanUnderWay(id, tables, since, damage))
    return plans


def _back_to_its_start(log: PublicationLog, campaign: str, newest: Closed | None) -> list[JournalEntry | None]:
    """Or to what ended it."""

    def decides(entry: JournalEntry) -> bool:
        is_published = newest is not None and entry.kind == "step" and entry.tells_of(newest.publication)
        return entry.begins or entry.ends_campaign or is_published

    return campaign_journal.newest_until(log.storage, campaign, decides)


def _since(
    log: PublicationLog, campaign: str, entries: Sequence[JournalEntry | None], newest: Closed | None
) -> datetime | None:
    """When the attempt began that is under way; None if none is."""
    if newest is None and None in entries:
        return campaign_journal.first_written(log.storage, campaign)
    begun = entries[-1] if entries else None
    if begun is None or not begun.begins:
        return None
    goes_on = newest is None or (_knew(log, campaign, begun, newest) and _withdraws(log, newest))
    return begun.at if goes_on else None


def _knew(log: PublicationLog, campaign: str, begun: JournalEntry, newest: Closed) -> bool:
    """Entries of old journals do not say what was known of the log; they report publications themselves."""
    if begun.log >= 0:
        return begun.log >= newest.sequence
    before = campaign_journal.entries(log.storage, campaign)
    return any(each.tells_of(newest.publication) for each in before[: before.index(begun)])


def _withdraws(log: PublicationLog, newest: Closed) -> bool:
    found = log.find_prepared(newest.publication)
    return found is not None and found[0].publication.provenance.withdraws


def newest_publications(log: PublicationLog, campaigns: Collection[str]) -> dict[str, Closed]:
    """The cut-over of each campaign, or the last undo of one."""
    found: dict[str, Closed] = {}
    for entry in closed_entries(log.files(), campaign=campaigns, outcome="done") if campaigns else ():
        found.setdefault(str(entry.campaign), entry)
        if len(found) == len(campaigns):
            break
    return found
