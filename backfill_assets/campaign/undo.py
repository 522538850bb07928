"""Undoes a campaign: all its tables in one publication, keeping rows that arrived since.

A day whose before-image was made of exactly today's inputs gets those files back, in about a second at any size.
Others, and their published readers, are restated on a timeline of the undo.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from backfill_assets.campaign.later_decisions import SwitchedSince, switched_since
from backfill_assets.campaign.undo_days import (
    AS_BEFORE,
    UndoAction,
    UndoneDay,
    require_undoable,
    seconds_of,
    versions_back,
)
from backfill_assets.campaign.undo_look import StepUndo, UndoLook
from backfill_assets.campaign.undo_publication import main_schema, origin_before, put_back, undoing, undone_text
from backfill_assets.campaign.undoable import undoable
from backfill_assets.days import TableDay, all_days, by_table
from backfill_assets.errors import InvalidRequest, PublicationRefused
from backfill_assets.lakehouse.campaign_journal import shown_name
from backfill_assets.lakehouse.records import (
    Before,
    DayChange,
    InputRead,
    Prepared,
    Provenance,
    Publication,
    TableChange,
    day_record,
)
from backfill_assets.lakehouse.timelines import CAMPAIGN
from backfill_assets.model.declaration import Step
from backfill_assets.publish.closed_days import Books, DaysClosed
from backfill_assets.publish.holds import HeldDays, holding
from backfill_assets.publish.promote import Again, main_moved, promote, silent
from backfill_assets.publish.publisher import Conflict, Published
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.place import Overlay, Place
from backfill_assets.rebuild.step_look import StepRequest
from backfill_assets.rebuild.walk import Walk, request_of
from backfill_assets.state.readers import naming_readers
from backfill_assets.text import format_are, format_scope

_NOBODY = RunInfo("")
_MOVES = (UndoAction.PUT_BACK, UndoAction.RESTATE, UndoAction.WITHDRAW)


@dataclass
class UndoAttempt:
    lake: Lake
    prepared: Prepared
    run: RunInfo = _NOBODY
    progress: Progress = silent
    days: list[UndoneDay] = field(default_factory=list)
    changes: dict[str, list[DayChange]] = field(default_factory=dict)
    read: list[InputRead] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.walk = Walk(self.lake, Place(self.name), self.run, self.progress, holds_back=False)
        self.looking = UndoLook(self.lake, self.prepared)

    @property
    def overlay(self) -> Overlay:
        return self.walk.place.overlay

    @property
    def name(self) -> str:
        """Prefix of the undo's timelines, shared by undos of one campaign."""
        return f"{CAMPAIGN}undo-{self.prepared.publication.provenance.campaign.removeprefix(CAMPAIGN)}"

    def look(self) -> None:
        self._walk(self._name_unknown)

    def stage(self) -> None:
        """Put back what can be, and restate the rest; raises if a day can be neither."""
        self._walk(self._restate)
        self._refuse_lost_files()

    def require_open(self) -> None:
        """Raises :class:`DaysClosed` before anything is staged again."""
        publisher = self.lake.publisher
        books = Books(publisher.log.head().state.books, publisher.declared)
        moves = (each for each in self.days if each.action in _MOVES)
        keys = [TableDay(name, each.day) for each in moves for name in self.lake.catalog.step(each.step).table_names]
        if closed := {key: closing for key in keys if (closing := books.closing(*key))}:
            raise DaysClosed("The rollback", closed)

    def _walk(self, restate: Callable[[StepUndo], None]) -> None:
        for step in self.lake.catalog.steps:
            self.looking.overlay = self.overlay
            if undo := self.looking.decide(step):
                self.days += undo.decided
                self._put_back(undo)
                restate(undo)

    def _name_unknown(self, undo: StepUndo) -> None:
        self.looking.restated |= dict.fromkeys(undo.tables, frozenset(undo.days(UndoAction.RESTATE)))

    def _restate(self, undo: StepUndo) -> None:
        require_undoable(undo.decided)
        again = {day: version for day in undo.days(UndoAction.RESTATE) if (version := undo.versions[day])}
        for version, days in decide.by_version(again):
            self.lake.require_clean_tree()  # putting files back computes nothing, and needs no clean tree
            self.progress(f"{undo.step.name}: {format_are(len(days), 'day')} staged again by {version.name}")
            self.walk.take(StepRequest(undo.step, days, version.name))

    def _put_back(self, undo: StepUndo) -> None:
        back, gone = undo.days(UndoAction.PUT_BACK), undo.days(UndoAction.WITHDRAW)
        for table in undo.tables:
            before = {day: self.prepared.before[table][day] for day in back} | dict.fromkeys(gone, Before())
            made = [
                put_back(each, day, undo.pin.expected[TableDay(table, day)], made_of=undo.reads[day])
                for day, each in before.items()
            ]
            self.changes.setdefault(table, []).extend(made)
            held = {each.day: day_record(each.day, each.adds, each.content) for each in made}
            self.walk.place = self.walk.place.over({table: held})
            self.looking.withdrawn[table] = frozenset(gone)
        for table, read in all_days(undo.reads[day] for day in back).items():
            logicals = {day: undo.pin.inputs[table].days[day] for day in sorted(read)}
            self.read.append(self.overlay.from_main(undo.pin.inputs[table].model_copy(update={"days": logicals})))

    def _refuse_lost_files(self) -> None:
        paths = (f"{table}/{add.path}" for table, days in self.changes.items() for day in days for add in day.adds)
        if lost := self.lake.storage.missing(paths):
            raise PublicationRefused(
                f"{self.prepared.publication.id} cannot be undone: {lost[0]} is gone, and {len(lost) - 1} more files.",
                hint="Rebuild the days with the version of the code that they had then.",
            )

    # ------------------------------------------------------------------ say, or publish

    @property
    def plan(self) -> UndoPlan:
        undone, brings = self.prepared.publication, versions_back(self.days)
        closed = self.looking.closed_at(undone.id)
        switched = switched_since(self.lake.publisher.log, closed, brings, self.lake.catalog.steps)
        restores = undone.provenance.withdraws
        return UndoPlan(undone.id, undone.provenance.campaign, tuple(self.days), restores, switched)

    def request(self, made: Provenance) -> Publication:
        id = self.lake.new_id("rollback")
        staged = request_of(self.walk.done, id) or Publication(id=id, kind="rollback", tables=())
        schemas = {change.table: change.table_schema for change in staged.tables}
        days = {table: list(found) for table, found in self.changes.items() if found}
        for change in staged.tables:
            days.setdefault(change.table, []).extend(change.days)
        tables = tuple(
            TableChange(
                table=table,
                table_schema=schemas.get(table) or main_schema(self.lake.publisher, table),
                days=tuple(self._with_origin(table, day, id) for day in sorted(found, key=lambda day: day.day)),
            )
            for table, found in days.items()
        )
        stale = (each for each in self.days if each.action is UndoAction.LEFT_STALE)
        left = by_table((name, each.day) for each in stale for name in self.lake.catalog.step(each.step).table_names)
        request = Publication(
            id=id,
            kind="rollback",
            tables=tables,
            inputs=tuple(each for each in (*self.read, *staged.inputs) if each.days),
            provenance=made,
            leaves_stale={table: tuple(sorted(days)) for table, days in left.items()},
        )
        return undoing(self.prepared, request)

    def _with_origin(self, table: str, day: DayChange, id: str) -> DayChange:
        """A day with a before-image counts as put back, even if computed."""
        if self.prepared.before_of(table, day.day) is None:
            return day
        back = origin_before(self.prepared, TableDay(table, day.day), id)
        return day.model_copy(update={"origin": replace(back, computed_by=id) if day.lineage else back})

    def close(self) -> None:
        for done in self.walk.done:
            done.build.close_timelines()


@dataclass(frozen=True)
class UndoPlan:
    publication: str
    campaign: str
    days: tuple[UndoneDay, ...]
    restores: bool = False
    switched: tuple[SwitchedSince, ...] = ()

    @property
    def restated(self) -> tuple[UndoneDay, ...]:
        return tuple(each for each in self.days if each.action is UndoAction.RESTATE)

    @property
    def seconds(self) -> float | None:
        """0 without staging, None if unknown."""
        return seconds_of(self.days)


@dataclass(frozen=True)
class Undone:
    published: Published
    plan: UndoPlan
    tables: Mapping[str, str]


def undone_sentence(done: Undone, steps: Sequence[Step]) -> str:
    """``Undone: 12 days, 2 weeks and 1 month in 5 tables are as before.``"""
    cadences = {table.name: (step.name, step.cadence) for step in steps for table in step.tables}
    built = {name: [each.day for each in done.plan.days if each.step == name] for name, _ in cadences.values()}
    what = format_scope((cadence, built[name]) for name, cadence in map(cadences.__getitem__, done.tables))
    again = len(done.plan.restated)
    more = f" {format_are(again, 'day')} computed again, because inputs have changed since." if again else ""
    if done.plan.restores:
        return f"Brought back: {what} are as the campaign published them.{more}"
    return f"Undone: {what} are as before.{more}"


def plan_undo(lake: Lake, publication: str) -> UndoPlan:
    """Reads logs. Raises :class:`InvalidRequest` for what was never published, :class:`PublicationRefused` after the
    rollback window.
    """
    lake.publisher.recover()
    found = UndoAttempt(lake, undoable(lake.publisher, publication))
    found.look()
    found.require_open()
    return found.plan


def undo(lake: Lake, publication: str, run: RunInfo, progress: Progress, *, reason: str = "") -> Undone:
    """Undo ``publication`` of a campaign in one publication, which can itself be undone.

    Raises like :func:`plan_undo`; also :class:`PublicationRefused` for days that cannot be put back and if main keeps
    moving, :class:`DaysFailed` if a day staged again fails its gates, :class:`InvalidRequest` if all is back already.
    """
    lake.publisher.recover()
    if lake.publisher.log.head().state.books:
        plan_undo(lake, publication)
    prepared = undoable(lake.publisher, publication)
    campaign = prepared.publication.provenance.campaign
    touched = {change.table: [day.day for day in change.days] for change in prepared.publication.tables}
    with holding(lake.storage, campaign, touched) as hold:
        work = _Undoing(lake, prepared, run, progress, hold, reason or f"rollback of {publication}")
        readers = naming_readers(lake.catalog.steps, lake.publisher.log, then=partial(undoing, prepared))
        published = promote(lake.publisher, work, progress, readers=readers)
        if published is None:
            raise InvalidRequest(_nothing_to_publish(publication, work.tried.days))
        work.tried.close()
    return Undone(published, work.tried.plan, work.tables)


@dataclass
class _Undoing:
    """The undo for ``promote``, decided anew whenever main has moved."""

    lake: Lake
    prepared: Prepared
    run: RunInfo
    progress: Progress
    hold: HeldDays
    reason: str
    tables: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tried = UndoAttempt(self.lake, self.prepared)

    def stage(self, *, held: bool) -> Publication | None:
        self.tried = UndoAttempt(self.lake, self.prepared, self.run, self.progress)
        self.tried.stage()
        self.hold.extend()
        made = self.run.provenance(self.tried.name, reason=self.reason)
        request = self.tried.request(made)
        self.tables = {change.table: undone_text(self.prepared, change) for change in request.tables}
        return request if request.tables else None

    def overtaken(self, by: Conflict) -> Again:
        shown = shown_name(self.prepared.publication.provenance.campaign)
        refused = main_moved(shown, "it was undone", "roll back again")
        return Again(f"{shown}: main moved while it was undone ({'; '.join(by.reasons[:2])}), looking again", refused)


def _nothing_to_publish(publication: str, days: Iterable[UndoneDay]) -> str:
    if all(each.reason == AS_BEFORE for each in days):
        return f"{publication} is undone already: all of its days are as they were before it."
    return f"{publication} has nothing to undo: of what there is now, the logic from before it gives the same rows."
