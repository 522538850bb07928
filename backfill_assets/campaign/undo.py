"""Undoes a campaign: all of its tables go back together, in one publication, and no row that arrived since is lost.

Days whose files from before were made of just what there is now get these back: about a second, for days of any size.
Others are staged again by the version of the logic that they had before, on a timeline of the undo, and so is every
published day that reads one that changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date

from backfill_assets.campaign.undo_attempt import UndoAttempt
from backfill_assets.campaign.undo_days import AS_BEFORE, UndoAction, UndoneDay, seconds_of
from backfill_assets.errors import InvalidRequest, PublicationRefused
from backfill_assets.publication.holds import holding
from backfill_assets.publication.publisher import Published
from backfill_assets.publication.rollback import restores, undoable, undone_text
from backfill_assets.rebuild.lake import Lake, Progress, provenance
from backfill_assets.rebuild.outcome import RunInfo

_MOST_ATTEMPTS = 5


@dataclass(frozen=True)
class UndoPlan:
    """What undoing ``publication`` of ``campaign`` does with every day of its steps."""

    publication: str
    campaign: str
    days: tuple[UndoneDay, ...]
    restores: bool = False
    """``publication`` has undone the campaign: undoing it brings the campaign back."""

    @property
    def again(self) -> tuple[UndoneDay, ...]:
        return tuple(each for each in self.days if each.way is UndoAction.STAGE_AGAIN)

    @property
    def seconds(self) -> float | None:
        """The seconds that staging again takes: 0 if no day needs it, None if they are not known."""
        return seconds_of(self.days)


@dataclass(frozen=True)
class Undone:
    """The publication that undid a campaign, and what it did with each day."""

    published: Published
    plan: UndoPlan
    tables: Mapping[str, str]
    """What was done with the days of each table, in words."""
    leaves_stale: Mapping[str, tuple[date, ...]]
    """The days that read what was undone and could not be staged again, by table."""


def plan_undo(lake: Lake, publication: str) -> UndoPlan:
    """Say what :func:`undo` would do; reads logs only.

    Raises :class:`InvalidRequest` for what was never published, and :class:`PublicationRefused` when the rollback
    window is over.
    """
    lake.publisher.recover()
    prepared = undoable(lake.publisher, publication)
    campaign, days = prepared.publication.provenance.campaign, UndoAttempt(lake, prepared).look()
    return UndoPlan(publication, campaign, days, restores(lake.publisher, prepared))


def undo(lake: Lake, publication: str, run: RunInfo, progress: Progress, *, reason: str = "") -> Undone:
    """Undo ``publication`` of a campaign in one publication, which can be undone like any other.

    Raises like :func:`plan_undo`; also :class:`PublicationRefused` for days that moved and cannot be staged again and
    when main keeps moving, :class:`DaysFailed` when a day that is staged again does not pass its gates, and
    :class:`InvalidRequest` when everything is back already.
    """
    lake.publisher.recover()
    prepared = undoable(lake.publisher, publication)
    campaign = prepared.publication.provenance.campaign
    touched = {change.table: [day.day for day in change.days] for change in prepared.publication.tables}
    with holding(lake.storage, campaign, touched, lake.publisher.now) as hold:
        for _ in range(_MOST_ATTEMPTS):
            attempt = UndoAttempt(lake, prepared)
            attempt.stage(run, progress)
            hold.extend()
            made = provenance(run, attempt.name).model_copy(update={"reason": reason or f"rollback of {publication}"})
            request = attempt.request(lake.new_id("rollback"), made)
            if not request.tables:
                raise InvalidRequest(_nothing_to_publish(publication, attempt.days))
            outcome = lake.publisher.publish(request)
            if isinstance(outcome, Published):
                attempt.close()
                plan = UndoPlan(publication, campaign, tuple(attempt.days), restores(lake.publisher, prepared))
                tables = {change.table: undone_text(prepared, change) for change in request.tables}
                return Undone(outcome, plan, tables, request.leaves_stale)
            progress(f"{campaign}: main moved while it was undone ({'; '.join(outcome.reasons[:2])}), looking again")
    raise PublicationRefused(
        f"{campaign}: main moved {_MOST_ATTEMPTS} times while it was undone.",
        hint="Another run is rewriting the same days; let it finish, then roll back again.",
    )


def _nothing_to_publish(publication: str, days: Iterable[UndoneDay]) -> str:
    if all(each.reason == AS_BEFORE for each in days):
        return f"{publication} is undone already: all of its days are as they were before it."
    return f"{publication} has nothing to undo: of what there is now, the logic from before it gives the same rows."
