"""Pure decisions of an undo: which days get their files back, and which have to be staged again first."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date

from backfill_assets.errors import PublicationRefused
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.records import Before, DayContent, DayState
from backfill_assets.rebuild.decide import InputFingerprint


class UndoAction(enum.StrEnum):
    """How a day gets back to the logic that it had before."""

    PUT_BACK = "put back"
    """Give the day the files that it had; no byte is copied."""
    STAGE_AGAIN = "stage again"
    """Stage the day by the version of the logic that it had, so that rows that arrived since are kept."""
    STANDS = "stands"
    """The day is as it was before the campaign already."""
    REFUSED = "refused"


@dataclass(frozen=True)
class TableDayState:
    """One table's day: before the publication that is undone, as it left it, and as main has it now."""

    table: str
    before: Before
    files: frozenset[str]
    content: DayContent | None
    now: DayState | None
    now_files: frozenset[str]
    other_campaign: str = ""
    """A campaign that has published the day since, and was not undone: a later decision about its logic."""

    @property
    def moved(self) -> bool:
        """Has the content of the day changed since? A compaction or an identical rebuild does not change it."""
        if self.now_files == self.files:
            return False
        now = self.content_now
        return now is None or self.content is None or now.logical != self.content.logical

    @property
    def content_now(self) -> DayContent | None:
        """None if a writer that bypassed the log changed the day."""
        known = self.now is not None and self.now.physical == fingerprints.physical(self.now_files)
        return self.now.content if self.now is not None and known else None

    def is_now(self, wanted: InputFingerprint) -> bool:
        """Does main have exactly what ``wanted`` would give?"""
        now = self.content_now
        return now is not None and now.input_fingerprint == wanted.input_fingerprint


@dataclass(frozen=True)
class UndoneDay:
    """What an undo does with a day of a step, and why. ``seconds`` is what staging it took the last time."""

    step: str
    day: date
    way: UndoAction
    reason: str = ""
    version: str = ""
    """The version of the logic that the day had before; empty if it is not known."""
    seconds: float | None = None


def decide_day(
    step: str,
    day: date,
    tables: Iterable[TableDayState],
    wanted: InputFingerprint | None,
    reads_again: str = "",
    *,
    version_known: bool,
    reads_raw: bool = False,
) -> UndoneDay:
    """``wanted`` is what the logic from before would be given now, None if it cannot be computed.

    ``reads_again`` names an input day that is staged again itself: what it will hold is not known yet. A day that
    ``reads_raw`` keeps the rows that the campaign took in: raw is appended to, and is not undone.
    """
    made = list(tables)
    old = made[0].before.content
    moved = next((each for each in made if each.moved and each.other_campaign), None)
    moved = moved or next((each for each in made if each.moved), None)
    way, reason = _way(made, moved, old, wanted if version_known else None, reads_again, reads_raw=reads_raw)
    if moved is not None and way is UndoAction.REFUSED:
        reason = _refusal(moved, old, version_known=version_known)
    return UndoneDay(step, day, way, reason, old.code_version if old else "", _seconds(old, made[0].content))


def _way(
    made: list[TableDayState],
    moved: TableDayState | None,
    old: DayContent | None,
    wanted: InputFingerprint | None,
    reads_again: str,
    *,
    reads_raw: bool,
) -> tuple[UndoAction, str]:
    if old is None or wanted is None:
        return (UndoAction.PUT_BACK, "") if moved is None else (UndoAction.REFUSED, "")
    if moved is not None:
        return _way_of_moved(made, moved, wanted, reads_again)
    if reads_again:
        return UndoAction.STAGE_AGAIN, f"reads {reads_again}"
    if wanted.input_fingerprint != old.input_fingerprint and (reads_raw or not _is_what_was_built(made, wanted)):
        return UndoAction.STAGE_AGAIN, "what it is computed from has changed since it was built"
    return UndoAction.PUT_BACK, ""


def _way_of_moved(
    made: Iterable[TableDayState], moved: TableDayState, wanted: InputFingerprint, reads_again: str
) -> tuple[UndoAction, str]:
    if moved.other_campaign:
        return UndoAction.REFUSED, ""
    if not reads_again and all(each.is_now(wanted) for each in made):
        return UndoAction.STANDS, "it has been brought back already"
    return UndoAction.STAGE_AGAIN, f"published again since by {_by(moved)}"


def _is_what_was_built(made: Iterable[TableDayState], wanted: InputFingerprint) -> bool:
    """The campaign built just this: its inputs had changed before it, and have not changed since."""
    return all(each.content and each.content.input_fingerprint == wanted.input_fingerprint for each in made)


def _refusal(moved: TableDayState, old: DayContent | None, *, version_known: bool) -> str:
    """Why a day that moved cannot be staged again."""
    if moved.other_campaign:
        return f"{moved.other_campaign} has published it since, undo that one first"
    since = f"{moved.table} was published again since by {_by(moved)}"
    if old is None:
        return f"{since}, and before it was not built by this code"
    if not version_known:
        return f"{since}, and the version {old.code_version} that it had before is not there any more"
    return f"{since}, and what it was computed from before is not published"


def _by(moved: TableDayState) -> str:
    known = moved.now is not None and moved.now.physical == fingerprints.physical(moved.now_files)
    return moved.now.publication if moved.now and known else "a writer that bypassed the log"


def _seconds(old: DayContent | None, new: DayContent | None) -> float | None:
    measured = [each.staged_ms for each in (old, new) if each is not None and each.staged_ms is not None]
    return measured[0] / 1000 if measured else None


def require_undoable(days: Iterable[UndoneDay]) -> None:
    """Raise :class:`PublicationRefused` if one of ``days`` cannot be put back; nothing is changed then."""
    if first := next((each for each in days if each.way is UndoAction.REFUSED), None):
        raise PublicationRefused(
            f"{first.step} {first.day} cannot be put back: {first.reason}. Nothing was changed.",
            hint="Roll back the later publications first (backfill history shows them), or rebuild the days.",
        )


def seconds_of(days: Iterable[UndoneDay]) -> float | None:
    """What staging again takes together; None if one of these days was never timed."""
    again = [each.seconds for each in days if each.way is UndoAction.STAGE_AGAIN]
    return None if None in again else sum(each for each in again if each is not None)


def first_read_again(reads: Mapping[str, Iterable[date]], again: Mapping[str, frozenset[date]]) -> str:
    """The first of the input days ``reads`` that is staged again itself; empty if none is."""
    return next((f"{table} {day}" for table, days in reads.items() for day in days if day in again.get(table, ())), "")
