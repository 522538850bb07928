"""Decides about each day that is undone, by a rollback of one publication or by the undo of a campaign. Pure.

Both put before-images back. A rollback computes nothing: it refuses a day that others have changed since, and one that
was made of other inputs than main has, unless one of them only gained rows. The undo of a campaign puts a day back only
if it was made of exactly what will be there after the undo, and else restates it; readers of a changing day follow.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

from backfill_assets.days import TableDay
from backfill_assets.errors import PublicationRefused
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.records import Before, DayContent, DayState, Prepared
from backfill_assets.publish.torn_days import is_as
from backfill_assets.rebuild.decide import made_from

AS_BEFORE = "it is as it was before already"


class UndoAction(enum.StrEnum):
    PUT_BACK = "put back"
    RESTATE = "stage again"
    """Compute it by its former version from today's inputs."""
    WITHDRAW = "withdraw"
    """It was not published before, or its inputs are gone."""
    STANDS = "stands"
    LEFT_STALE = "left stale"
    REFUSED = "refused"


class Refusal(enum.Enum):
    MOVED = enum.auto()
    OLDER = enum.auto()
    NOT_KNOWN = enum.auto()
    NOT_RESTATED = enum.auto()


@dataclass(frozen=True)
class TableDayState:
    """A day now; ``files`` and ``content`` are what the undone publication left."""

    table: str
    before: Before | None
    """A day that only reads one of the publication has none."""
    files: frozenset[str]
    content: DayContent | None
    now: DayState | None
    now_files: frozenset[str]
    other_campaign: str = ""
    """One that published the day since and was not undone."""
    computed_since: bool = False
    """Another publication has computed the rows, maybe equal ones."""

    @property
    def moved(self) -> bool:
        """A compaction or an identical rebuild moves no day."""
        if self.before is None or self.now_files == self.files:
            return False
        now = self.content_now
        return now is None or self.content is None or now.logical != self.content.logical

    @property
    def is_of_others(self) -> bool:
        """An identical rebuild counts, a compaction does not."""
        return self.moved or (self.computed_since and self.now_files != self.files)

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
        """Compares rows: with equal inputs and version, a forced rebuild may have given others."""
        before, now = self.content_before, self.content_now
        return before is not None and now is not None and before.logical == now.logical

    @property
    def is_of_the_same_inputs(self) -> bool:
        """Of main's rows only some were computed, or will be put back: all are as stale as before."""
        before, now = self.content_before, self.content_now
        if self.before is None or self.now is None or before is None or now is None:
            return False
        some = self.before.origin.only_where or self.now.origin.only_where
        return bool(some) and before.input_fingerprint == now.input_fingerprint

    @property
    def is_published_as_before(self) -> bool:
        before = self.content_before
        return before is not None and self.now is not None and is_as(self.now.content, before)


def day_state(
    prepared: Prepared, key: TableDay, now: DayState | None, now_files: Collection[str], other_campaign: str = ""
) -> TableDayState:
    before, files = prepared.before_of(*key), frozenset(now_files)
    if before is None:
        return TableDayState(key.table, None, frozenset(), None, now, files)
    change = prepared.change(key.table)
    since = now is not None and now.origin.computed_by != prepared.origin(*key).computed_by
    return TableDayState(
        table=key.table,
        before=before,
        files=frozenset(prepared.target_of(key.table, change.by_day[key.day])),
        content=prepared.result(*key),
        now=now,
        now_files=files,
        other_campaign=other_campaign,
        computed_since=since and change.mode != "append",
    )


@dataclass(frozen=True)
class InputsAfter:
    wanted: str = ""
    """The day's input fingerprint, or empty if its inputs are unknown."""
    version: str = ""
    missing: str = ""
    withdrawn: str = ""
    restated: str = ""
    """An input day whose content is unknown, since it is restated."""
    changes: str = ""
    brought: bool = False
    gained: bool = False
    """The before-image was made of this, before one input gained rows."""

    @property
    def can_restate(self) -> bool:
        return bool(self.version) and not self.missing


@dataclass(frozen=True)
class UndoneDay:
    """``seconds``: what staging took last time."""

    step: str
    day: date
    action: UndoAction
    reason: str = ""
    version: str = ""
    seconds: float | None = None
    refusal: Refusal | None = None
    is_reader: bool = False


class _Outcome(NamedTuple):
    action: UndoAction
    reason: str = ""
    refusal: Refusal | None = None


def decide_day(
    step: str, day: date, tables: Iterable[TableDayState], inputs: InputsAfter, *, computes: bool
) -> UndoneDay:
    """``tables`` of a step go together. With ``computes`` days may be restated; else only files are put back."""
    made = list(tables)
    old, shown = made[0].content_before, made[0].content_now
    if any(each.before is None for each in made):
        found = _reader(made, inputs)
        version, seconds = shown.code_version if shown else "", _seconds(shown)
    else:
        found = _restated(made, old, inputs) if computes else _by_files(made, old, inputs)
        version, seconds = old.code_version if old else "", _seconds(old, made[0].content)
    is_reader = made[0].before is None
    return UndoneDay(step, day, found.action, found.reason, version, seconds, found.refusal, is_reader)


# ------------------------------------------------------------------ a rollback: by files alone


def _by_files(made: Sequence[TableDayState], old: DayContent | None, inputs: InputsAfter) -> _Outcome:
    """Also a day whose rows are as before: its files go back."""
    if old is not None and old.inputs:
        if not inputs.wanted:
            why = f"it was made by {old.code_version}, which is not declared any more, and the log does not say of what"
            return _Outcome(UndoAction.REFUSED, why, Refusal.NOT_KNOWN)
        same = made_from(inputs.wanted, [each.content_before for each in made])
        as_stale = all(each.is_published_as_before or each.is_of_the_same_inputs for each in made)
        untouched = not inputs.brought and as_stale
        if not (same or inputs.gained or untouched):
            return _Outcome(UndoAction.REFUSED, "it would be older than what it is made of", Refusal.OLDER)
    if other := next((each for each in made if each.is_of_others), None):
        return _Outcome(UndoAction.REFUSED, f"published again since by {_by(other)}", Refusal.MOVED)
    if old is None and not _has_files(made):
        return _Outcome(UndoAction.WITHDRAW, "it was published first by what is undone")
    return _Outcome(UndoAction.PUT_BACK, "its inputs have gained rows since" if inputs.gained else "")


# ------------------------------------------------------------------ a campaign: restated where files do not fit


def _restated(made: Sequence[TableDayState], old: DayContent | None, inputs: InputsAfter) -> _Outcome:
    moved = next((each for each in made if each.moved), None)
    if other := next((each.other_campaign for each in made if each.moved and each.other_campaign), ""):
        return _Outcome(UndoAction.REFUSED, f"{other} has published it since, undo that one first", Refusal.MOVED)
    if old is None:
        return _without_content(made, moved)
    if not old.inputs and (moved is None or old.is_adopted):
        return _taken_in(made, old, moved)
    if not (inputs.restated and inputs.can_restate) and inputs.wanted:
        shown = made_from(inputs.wanted, [each.content_now for each in made])
        back = all(each.holds_before for each in made)
        if made_from(inputs.wanted, [each.content_before for each in made]) and not (shown and back):
            return _Outcome(UndoAction.PUT_BACK)
        if shown:
            return _Outcome(UndoAction.STANDS, AS_BEFORE if back else "the logic from before gives just what it holds")
    return _of_other_inputs(made, old, moved, inputs)


def _taken_in(made: Sequence[TableDayState], old: DayContent, moved: TableDayState | None) -> _Outcome:
    if old.is_adopted and all(each.is_as_before for each in made):
        return _Outcome(UndoAction.STANDS, AS_BEFORE)
    return _Outcome(UndoAction.PUT_BACK, "as it was adopted: what came since is not in it" if moved else "")


def _of_other_inputs(
    made: Sequence[TableDayState], old: DayContent, moved: TableDayState | None, inputs: InputsAfter
) -> _Outcome:
    if not (inputs.restated or moved) and all(each.is_of_the_same_inputs for each in made):
        return _Outcome(UndoAction.PUT_BACK, "its other rows stay as they are")
    since = f"published again since by {_by(moved)}" if moved else ""
    if inputs.can_restate:
        reads = f"reads {inputs.restated}" if inputs.restated else inputs.changes
        return _Outcome(UndoAction.RESTATE, since or reads or "what it is computed from has changed since it was built")
    first = f"{moved.table} was {since}" if moved else "what it was computed from has changed since"
    why = (
        f"the version {old.code_version} that it had is not there any more"
        if not inputs.version
        else f"{inputs.missing}, which it was computed from, is not published"
    )
    return _Outcome(UndoAction.REFUSED, f"{first}, and {why}", Refusal.NOT_RESTATED)


def _without_content(made: Sequence[TableDayState], moved: TableDayState | None) -> _Outcome:
    if all(each.is_back for each in made):
        return _Outcome(UndoAction.STANDS, AS_BEFORE)
    if _has_files(made):
        if moved is None:
            return _Outcome(UndoAction.PUT_BACK)
        why = f"{moved.table} was published again since by {_by(moved)}, and before it was not built by this code"
        return _Outcome(UndoAction.REFUSED, why, Refusal.MOVED)
    if foreign := next((each for each in made if not each.is_known_now), None):
        why = f"{foreign.table} was not published before, and has rows of {_by(foreign)}"
        return _Outcome(UndoAction.REFUSED, why, Refusal.MOVED)
    since = f", and again since by {_by(moved)}: what arrived stays in its inputs" if moved else ""
    return _Outcome(UndoAction.WITHDRAW, f"it was published first by what is undone{since}")


def _reader(made: Sequence[TableDayState], inputs: InputsAfter) -> _Outcome:
    if not inputs.restated and made_from(inputs.wanted, [each.content_now for each in made]):
        return _Outcome(UndoAction.STANDS, "what it reads comes out the same")
    if inputs.withdrawn and inputs.missing:
        return _Outcome(UndoAction.WITHDRAW, f"reads {inputs.withdrawn}, which is withdrawn")
    if not inputs.can_restate:
        why = f"{inputs.missing} is not published" if inputs.version else "its version is not declared any more"
        return _Outcome(UndoAction.LEFT_STALE, f"cannot be staged again: {why}")
    return _Outcome(UndoAction.RESTATE, f"reads {inputs.restated}" if inputs.restated else "reads what is undone")


def _has_files(made: Iterable[TableDayState]) -> bool:
    return any(each.before and each.before.files for each in made)


def _by(moved: TableDayState) -> str:
    return moved.now.publication if moved.now and moved.is_known_now else "a writer that bypassed the log"


def _seconds(*contents: DayContent | None) -> float | None:
    measured = [each.staged_ms for each in contents if each is not None and each.staged_ms is not None]
    return measured[0] / 1000 if measured else None


# ------------------------------------------------------------------ of all days together


def require_undoable(days: Iterable[UndoneDay]) -> None:
    """Raises :class:`PublicationRefused` if one is refused."""
    if first := next((each for each in days if each.action is UndoAction.REFUSED), None):
        raise PublicationRefused(
            f"{first.step} {first.day} cannot be put back: {first.reason}. Nothing was changed.",
            hint="Roll back the later publications first (backfill history shows them), or rebuild the days.",
        )


def seconds_of(days: Iterable[UndoneDay]) -> float | None:
    again = [each.seconds for each in days if each.action is UndoAction.RESTATE]
    return None if None in again else sum(each for each in again if each is not None)


def versions_back(days: Iterable[UndoneDay]) -> dict[str, set[str]]:
    """Versions by step that days get back: a switch to another since is a later decision."""
    found: dict[str, set[str]] = {}
    for each in days:
        if each.action in (UndoAction.PUT_BACK, UndoAction.RESTATE) and not each.is_reader:
            found.setdefault(each.step, set()).add(each.version)
    return found


def first_of(reads: Mapping[str, Iterable[date]], days: Mapping[str, frozenset[date]]) -> str:
    return next((f"{table} {day}" for table, read in reads.items() for day in read if day in days.get(table, ())), "")
