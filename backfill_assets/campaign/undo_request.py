"""Undoing a campaign where people ask for it, so that its journal knows."""

from __future__ import annotations

from datetime import UTC, datetime

from backfill_assets.campaign.course import state_of
from backfill_assets.campaign.undo import Undone, UndoPlan, undo
from backfill_assets.campaign.undo_days import require_undoable
from backfill_assets.lakehouse import campaign_journal as journal
from backfill_assets.lakehouse.campaign_journal import CampaignStep
from backfill_assets.publication.publisher import Publisher
from backfill_assets.publication.rollback import newest
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.outcome import RunInfo


def carry_out_undo(lake: Lake, plan: UndoPlan, run: RunInfo, progress: Progress) -> Undone:
    """Undo what ``plan`` says, and write it into the campaign's journal. Raises like :func:`undo`."""
    require_undoable(plan.days)
    done = undo(lake, plan.publication, run, progress)
    record_in_journal(lake.publisher, plan.campaign, run.launched_by)
    return done


def record_in_journal(publisher: Publisher, campaign: str, by: str) -> None:
    """Write into the journal whether the log has ``campaign`` as rolled back, or in force again; nothing if it knows.

    A process that dies between the publication of an undo and the journal is followed by one that asks for this.
    """
    known, now = state_of(campaign, journal.entries(publisher.storage, campaign)), newest(publisher, campaign)
    if now is None or CampaignStep.CUT_OVER not in known.done or bool(known.rolled_back) == now.undoes:
        return
    kind: journal.Kind = "rolled back" if now.undoes else "restored"
    entry = journal.JournalEntry(kind=kind, at=datetime.now(UTC), by=by, reason=f"by {now.publication}")
    journal.write(publisher.storage, campaign, entry)
