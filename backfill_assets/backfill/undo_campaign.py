"""Undoing a campaign where people ask for it, so that its journal knows."""

from __future__ import annotations

from datetime import UTC, datetime

from backfill_assets.build.lake import Lake, Progress
from backfill_assets.build.outcome import RunInfo
from backfill_assets.build.undo import Undone, UndoPlan, undo
from backfill_assets.errors import InvalidRequest, PublicationRefused
from backfill_assets.lakehouse import campaign_journal as journal


def require_undoable(plan: UndoPlan) -> None:
    """Raise :class:`PublicationRefused` if a day cannot be put back; nothing is changed then."""
    if plan.refused:
        first = plan.refused[0]
        raise PublicationRefused(
            f"{first.step} {first.day} cannot be put back: {first.reason}. Nothing was changed.",
            hint="Roll back the later publications first (backfill history shows them), or rebuild the days.",
        )


def carry_out_undo(lake: Lake, plan: UndoPlan, run: RunInfo, progress: Progress) -> Undone:
    """Undo what ``plan`` says, and write it into the campaign's journal. Raises like :func:`undo`."""
    require_undoable(plan)
    done = undo(lake, plan.publication, run, progress)
    _tell_journal(lake, plan, done.published.publication, run.launched_by)
    return done


def _tell_journal(lake: Lake, plan: UndoPlan, publication: str, by: str) -> None:
    """A campaign that was cut over is rolled back now; one that was rolled back is in force again."""
    found = lake.publisher.log.find_prepared(plan.publication)
    if found is None:
        raise InvalidRequest(f"The publication {plan.publication} is not on the log.")
    if journal.entries(lake.storage, plan.campaign):
        entry = journal.JournalEntry(
            kind="restored" if found[0].publication.kind == "rollback" else "rolled back",
            at=datetime.now(UTC),
            by=by,
            reason=f"{plan.publication} was undone by {publication}",
        )
        journal.write(lake.storage, plan.campaign, entry)
