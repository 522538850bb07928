"""A campaign that is nothing but begun and given up, for those to whom it matters only that it is under way."""

from __future__ import annotations

from datetime import datetime

from backfill_assets import clock
from backfill_assets.lakehouse import campaign_journal
from backfill_assets.lakehouse.campaign_journal import JournalEntry, campaign_of
from backfill_assets.lakehouse.campaign_reports import StopReport
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.log import PublicationLog
from backfill_assets.state.campaigns import plans_under_way


def begin(storage: Storage, plan: str, at: datetime | None = None) -> None:
    _write(
        storage, plan, JournalEntry(kind="started", at=at or clock.now(), log=PublicationLog(storage).head().version)
    )


def give_up(storage: Storage, plan: str) -> None:
    _write(storage, plan, JournalEntry(kind="stopped", at=clock.now(), report=StopReport(abandoned=True)))


def going(storage: Storage) -> list[str]:
    """Plans that are under way."""
    return list(plans_under_way(PublicationLog(storage)))


def _write(storage: Storage, plan: str, entry: JournalEntry) -> None:
    campaign_journal.write(storage, campaign_of(plan), entry)
