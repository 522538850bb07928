"""Decides about each day of an undo. Pure.

A day gets its before-image only if that was made of exactly what will be there after the undo. Readers of a changing
day follow, even outside the campaign.
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
    PUT_BACK = "put back"
    """Publish the before-image; no data is copied."""
    STAGE_AGAIN = "stage again"
    """Stage it by its former version from today's inputs, with rows that arrived since."""
    WITHDRAW = "withdraw"
    """Remove the day: it was not published before, or its inputs are gone."""
    STANDS = "stands"
    LEFT_STALE = "left stale"
    """The day reads a changing one and cannot be staged again: it is reported as stale."""
    REFUSED = "refused"


@dataclass(frozen=True)
class TableDayState:
    """``files`` and ``content`` are what the undone publication left."""

    table: str
    before: Before | None
    """None if the publication did not bring the day: it reads one that changes."""
    files: frozenset[str]
    content: DayContent | None
    now: DayState | None
    now_files: frozenset[str]
    other_campaign: str = ""
    """A campaign that published the day since and was not undone."""

    @property
    def moved(self) -> bool:
        """A compaction or an identical rebuild does not count."""
        if self.before is None or self.now_files == self.files:
            return False
        now = self.content_now
        return now is None or self.content is None or now.logical != self.content.logical

    @property
    def content_now(self) -> DayContent | None:
        return self.now.content if self.now is not None and self.is_known_now else None

    @property
    def is_known_now(self) -> bool:
        return self.now is not None and self.now.physical == fingerprints.physical(self.now_files)

    @property
    def is_back(self) -> bool:
        """A day without recorded content may have its former files again."""
        return self.content_now is None and self.is_as_before

    @property
    def is_as_before(self) -> bool:
        return self.before is not None and self.now_files == {file.path for file in self.before.files}

    @property
    def content_before(self) -> DayContent | None:
        return self.before.content if self.before else None

    @property
    def holds_before(self) -> bool:
        """Equal inputs and version do not suffice: a forced rebuild may have given other rows."""
        before, now = self.content_before, self.content_now
        return before is not None and now is not None and before.logical == now.logical


@dataclass(frozen=True)
class Remaking:
    """What a day's former version would make of it, after the steps already undone."""

    wanted: str = ""
    """The input fingerprint the day would have; empty if its inputs are unknown."""
    version: str = ""
    """The version that can stage the day; empty if no longer declared."""
    missing: str = ""
    """An unpublished input day: then the day cannot be staged."""
    withdrawn: str = ""
    again: str = ""
    """An input day that is staged again: its content is unknown."""
    changes: str = ""
    """Which input gained or lost rows, in words."""

    @property
    def possible(self) -> bool:
        return bool(self.version) and not self.missing


@dataclass(frozen=True)
class UndoneDay:
    """``seconds``: what staging took last time."""

    step: str
    day: date
    way: UndoAction
    reason: str = ""
    version: str = ""
    """The version of its rows after the undo; empty if unknown."""
    seconds: float | None = None


def decide_day(step: str, day: date, tables: Iterable[TableDayState], remaking: Remaking) -> UndoneDay:
    """``tables``: all of the step; they are put back or staged again together."""
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
    """Ingested or adopted rows: they have no published inputs."""
    if old.is_adopted and all(each.is_as_before for each in made):
        return UndoAction.STANDS, AS_BEFORE
    return UndoAction.PUT_BACK, "as it was adopted: what came since is not in it" if moved else ""


def _way_again(old: DayContent, moved: TableDayState | None, remaking: Remaking) -> tuple[UndoAction, str]:
    """A day whose before-image was made of other inputs than today's."""
    since = f"published again since by {_by(moved)}" if moved else ""
    if remaking.possible:
        reads = f"reads {remaking.again}" if remaking.again else remaking.changes
        return UndoAction.STAGE_AGAIN, since or reads or "what it is computed from has changed since it was built"
    first = f"{moved.table} was {since}" if moved else "what it was computed from has changed since"
    if not remaking.version:
        return UndoAction.REFUSED, f"{first}, and the version {old.code_version} that it had is not there any more"
    return UndoAction.REFUSED, f"{first}, and {remaking.missing}, which it was computed from, is not published"


def _way_without_content(made: list[TableDayState], moved: TableDayState | None) -> tuple[UndoAction, str]:
    """A day that was not published before, or had a foreign write."""
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
    """A day outside the publication that reads a changing one."""
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
    """Raise :class:`PublicationRefused` if one of ``days`` is refused."""
    if first := next((each for each in days if each.way is UndoAction.REFUSED), None):
        raise PublicationRefused(
            f"{first.step} {first.day} cannot be put back: {first.reason}. Nothing was changed.",
            hint="Roll back the later publications first (backfill history shows them), or rebuild the days.",
        )


def seconds_of(days: Iterable[UndoneDay]) -> float | None:
    """Returns None if one of the days staged again was never timed."""
    again = [each.seconds for each in days if each.way is UndoAction.STAGE_AGAIN]
    return None if None in again else sum(each for each in again if each is not None)


def first_of(reads: Mapping[str, Iterable[date]], days: Mapping[str, frozenset[date]]) -> str:
    return next((f"{table} {day}" for table, read in reads.items() for day in read if day in days.get(table, ())), "")
