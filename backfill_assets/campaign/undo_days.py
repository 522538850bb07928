"""Pure decisions of an undo: which days get their files back, which are staged again, and which are taken away.

One rule for all: a day gets the files that it had only if what these were made of is what is there once the undo is
published. What reads a day that changes follows, whether the campaign had brought it or not.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date

from backfill_assets.errors import PublicationRefused
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.records import Before, DayContent, DayState
from backfill_assets.rebuild.decide import made_from

AS_BEFORE = "it is as it was before already"


class UndoAction(enum.StrEnum):
    """What an undo does with a day."""

    PUT_BACK = "put back"
    """Give the day the files that it had; no byte is copied."""
    STAGE_AGAIN = "stage again"
    """Stage the day by the version of the logic that it had, from what there is now: rows that arrived are kept."""
    WITHDRAW = "withdraw"
    """Take the day away: it was not published before, or nothing is left that it can be made of."""
    STANDS = "stands"
    """The day is as it has to be already."""
    LEFT_STALE = "left stale"
    """The day reads one that changes, and cannot be staged again: it stays, and is named as stale."""
    REFUSED = "refused"


@dataclass(frozen=True)
class TableDayState:
    """One table's day: before the publication that is undone, as it left it, and as main has it now."""

    table: str
    before: Before | None
    """None if the publication did not bring the day: it reads one that changes."""
    files: frozenset[str]
    content: DayContent | None
    now: DayState | None
    now_files: frozenset[str]
    other_campaign: str = ""
    """A campaign that has published the day since, and was not undone: a later decision about its logic."""

    @property
    def moved(self) -> bool:
        """Has the content of the day changed since? A compaction or an identical rebuild does not change it."""
        if self.before is None or self.now_files == self.files:
            return False
        now = self.content_now
        return now is None or self.content is None or now.logical != self.content.logical

    @property
    def content_now(self) -> DayContent | None:
        """None if a writer that bypassed the log changed the day."""
        return self.now.content if self.now is not None and self.is_known_now else None

    @property
    def is_known_now(self) -> bool:
        return self.now is not None and self.now.physical == fingerprints.physical(self.now_files)

    @property
    def is_back(self) -> bool:
        """Of a day that was not published by this code before: is it just so again?"""
        return self.content_now is None and self.is_as_before

    @property
    def is_as_before(self) -> bool:
        """Has it the very files that it had?"""
        return self.before is not None and self.now_files == {file.path for file in self.before.files}

    @property
    def content_before(self) -> DayContent | None:
        return self.before.content if self.before else None

    @property
    def holds_before(self) -> bool:
        """A rebuild that was forced may have given other rows of the same inputs by the same version."""
        before, now = self.content_before, self.content_now
        return before is not None and now is not None and before.logical == now.logical


@dataclass(frozen=True)
class Remaking:
    """What the version of the logic that a day had would make of it, after what is undone before it."""

    wanted: str = ""
    """The input fingerprint that the day would have; empty if it is not known what it was made of."""
    version: str = ""
    """The version that can stage the day; empty if it is not declared any more."""
    missing: str = ""
    """An input day that is not published, so that the day cannot be staged."""
    withdrawn: str = ""
    """An input day that is taken away."""
    again: str = ""
    """An input day that is staged again: what it will hold is not known yet."""
    changes: str = ""
    """Which of its inputs has other rows than it was built from, in words; empty if that is not known."""

    @property
    def possible(self) -> bool:
        return bool(self.version) and not self.missing


@dataclass(frozen=True)
class UndoneDay:
    """What an undo does with a day of a step, and why. ``seconds`` is what staging it took the last time."""

    step: str
    day: date
    way: UndoAction
    reason: str = ""
    version: str = ""
    """The version of the logic that the day has then; empty if it is not known."""
    seconds: float | None = None


def decide_day(step: str, day: date, tables: Iterable[TableDayState], remaking: Remaking) -> UndoneDay:
    """``tables`` are all of the step, which are put back, or staged again, together."""
    made = list(tables)
    if any(each.before is None for each in made):
        way, reason = _way_of_reader(made, remaking)
        shown = made[0].content_now
        return UndoneDay(step, day, way, reason, shown.code_version if shown else "", _seconds(shown))
    old = made[0].content_before
    way, reason = _way(made, old, remaking)
    return UndoneDay(step, day, way, reason, old.code_version if old else "", _seconds(old, made[0].content))


def _way(made: list[TableDayState], old: DayContent | None, remaking: Remaking) -> tuple[UndoAction, str]:
    moved = next((each for each in made if each.moved), None)
    if other := next((each.other_campaign for each in made if each.moved and each.other_campaign), ""):
        return UndoAction.REFUSED, f"{other} has published it since, undo that one first"
    if old is None:
        return _way_without_content(made, moved)
    if not old.inputs and (moved is None or old.is_adopted):
        return _way_of_taken_in(made, old, moved)
    if not (remaking.again and remaking.possible) and remaking.wanted:
        shown = made_from(remaking.wanted, [each.content_now for each in made])
        back = all(each.holds_before for each in made)
        if made_from(remaking.wanted, [each.content_before for each in made]) and not (shown and back):
            return UndoAction.PUT_BACK, ""
        if shown:
            return UndoAction.STANDS, AS_BEFORE if back else "the logic from before gives just what it holds"
    return _way_again(old, moved, remaking)


def _way_of_taken_in(made: list[TableDayState], old: DayContent, moved: TableDayState | None) -> tuple[UndoAction, str]:
    """Of rows that were taken in, or taken over with their table: they are made of nothing that is published."""
    if old.is_adopted and all(each.is_as_before for each in made):
        return UndoAction.STANDS, AS_BEFORE
    return UndoAction.PUT_BACK, "as it was adopted: what came since is not in it" if moved else ""


def _way_again(old: DayContent, moved: TableDayState | None, remaking: Remaking) -> tuple[UndoAction, str]:
    """Of a day that was made of something else than there is now."""
    since = f"published again since by {_by(moved)}" if moved else ""
    if remaking.possible:
        reads = f"reads {remaking.again}" if remaking.again else remaking.changes
        return UndoAction.STAGE_AGAIN, since or reads or "what it is computed from has changed since it was built"
    first = f"{moved.table} was {since}" if moved else "what it was computed from has changed since"
    if not remaking.version:
        return UndoAction.REFUSED, f"{first}, and the version {old.code_version} that it had is not there any more"
    return UndoAction.REFUSED, f"{first}, and {remaking.missing}, which it was computed from, is not published"


def _way_without_content(made: list[TableDayState], moved: TableDayState | None) -> tuple[UndoAction, str]:
    """Of a day that was not published before, or had a foreign write."""
    if all(each.is_back for each in made):
        return UndoAction.STANDS, AS_BEFORE
    if any(each.before and each.before.files for each in made):
        if moved is None:
            return UndoAction.PUT_BACK, ""
        return UndoAction.REFUSED, (
            f"{moved.table} was published again since by {_by(moved)}, and before it was not built by this code"
        )
    if foreign := next((each for each in made if not each.is_known_now), None):
        return UndoAction.REFUSED, f"{foreign.table} was not published before, and has rows of {_by(foreign)}"
    since = f", and again since by {_by(moved)}: what arrived stays in its inputs" if moved else ""
    return UndoAction.WITHDRAW, f"it was published first by what is undone{since}"


def _way_of_reader(made: list[TableDayState], remaking: Remaking) -> tuple[UndoAction, str]:
    """Of a day that was not in the publication, and reads one that changes."""
    if not remaking.again and made_from(remaking.wanted, [each.content_now for each in made]):
        return UndoAction.STANDS, "what it reads comes out the same"
    if remaking.withdrawn and remaking.missing:
        return UndoAction.WITHDRAW, f"reads {remaking.withdrawn}, which is withdrawn"
    if not remaking.possible:
        why = f"{remaking.missing} is not published" if remaking.version else "its version is not declared any more"
        return UndoAction.LEFT_STALE, f"cannot be staged again: {why}"
    return UndoAction.STAGE_AGAIN, f"reads {remaking.again}" if remaking.again else "reads what is undone"


def _by(moved: TableDayState) -> str:
    return moved.now.publication if moved.now and moved.is_known_now else "a writer that bypassed the log"


def _seconds(*contents: DayContent | None) -> float | None:
    measured = [each.staged_ms for each in contents if each is not None and each.staged_ms is not None]
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


def first_of(reads: Mapping[str, Iterable[date]], days: Mapping[str, frozenset[date]]) -> str:
    """The first of the input days ``reads`` that is among ``days``, by table; empty if none is."""
    return next((f"{table} {day}" for table, read in reads.items() for day in read if day in days.get(table, ())), "")
