"""Undoes a campaign: all its tables in one publication, keeping rows that arrived since.

A day whose before-image was made of exactly today's inputs gets those files back, in about a second at any size.
Others, and published days that read a changing day, are staged again on a timeline of the undo.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cache, cached_property, partial

from backfill_assets.campaign.later_decisions import SwitchedSince, switched_since
from backfill_assets.campaign.rollback import (
    made_then,
    main_schema,
    origin_before,
    undoable,
    undoing,
    undone_text,
)
from backfill_assets.campaign.undo_days import (
    AS_BEFORE,
    Remaking,
    TableDayState,
    UndoAction,
    UndoneDay,
    decide_day,
    first_of,
    require_undoable,
    seconds_of,
)
from backfill_assets.days import DayRange, TableDay, all_days, by_table
from backfill_assets.errors import InvalidRequest, PublicationRefused
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.campaign_journal import shown_name
from backfill_assets.lakehouse.records import (
    DayChange,
    DayContent,
    DayRecord,
    InputRead,
    Origin,
    Prepared,
    Provenance,
    Publication,
    TableChange,
    content_in,
)
from backfill_assets.lakehouse.timelines import CAMPAIGN
from backfill_assets.model.declaration import Step, Version
from backfill_assets.model.graph import made_of, missing_inputs
from backfill_assets.publish.holds import HeldDays, holding
from backfill_assets.publish.promote import Again, main_moved, promote, silent
from backfill_assets.publish.publisher import Conflict, Pin, Published
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.place import Overlay, Place
from backfill_assets.rebuild.stage import filled_in, recorded_upstream
from backfill_assets.rebuild.step_look import StepRequest
from backfill_assets.rebuild.walk import Walk, request_of
from backfill_assets.state.observed import LogView, observe
from backfill_assets.state.readers import naming_readers
from backfill_assets.state.status import declared_version, reading_as_published
from backfill_assets.text import format_are, format_count, format_scope

_COMES_BACK = (UndoAction.PUT_BACK, UndoAction.STAGE_AGAIN)
_NOBODY = RunInfo("")


@dataclass(frozen=True)
class StepUndo:
    step: Step
    tables: tuple[str, ...]
    versions: Mapping[date, Version | None]
    reads: Mapping[date, Mapping[str, DayRange]]
    pin: Pin
    found: Sequence[UndoneDay]

    def days(self, way: UndoAction) -> list[date]:
        return [each.day for each in self.found if each.way is way]


@dataclass
class UndoAttempt:
    """A walk in a place of the undo: inputs of a step are put back or staged before it."""

    lake: Lake
    prepared: Prepared
    run: RunInfo = _NOBODY
    progress: Progress = silent
    days: list[UndoneDay] = field(default_factory=list)
    changes: dict[str, list[DayChange]] = field(default_factory=dict)
    read: list[InputRead] = field(default_factory=list)
    again: dict[str, frozenset[date]] = field(default_factory=dict)
    """Only set by :meth:`look`: days to stage again, whose content is unknown."""
    withdrawn: dict[str, frozenset[date]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.walk = Walk(self.lake, Place(self.name), self.run, self.progress, holds_back=False)

    @property
    def overlay(self) -> Overlay:
        return self.walk.place.overlay

    @property
    def name(self) -> str:
        """Prefix of the undo's timelines: only an undo of the same campaign adopts from them."""
        return f"{CAMPAIGN}undo-{self.prepared.publication.provenance.campaign.removeprefix(CAMPAIGN)}"

    @cached_property
    def view(self) -> LogView:
        return observe(self.lake.storage, self.lake.catalog.table_names, log=self.lake.publisher.log)

    @cached_property
    def contents(self) -> Callable[[str], Mapping[date, DayContent | None]]:
        """Contents of a table's published days; None for a foreign write."""
        return cache(self.view.contents)

    def look(self) -> None:
        """Decide without staging: readers of days to stage again count as staged again."""
        for undo in self.steps():
            self.again |= dict.fromkeys(undo.tables, frozenset(undo.days(UndoAction.STAGE_AGAIN)))

    def stage(self) -> None:
        """Put back what can be put back, and stage the rest; raises if a day can be neither."""
        for undo in self.steps():
            require_undoable(undo.found)
            again = {day: version for day in undo.days(UndoAction.STAGE_AGAIN) if (version := undo.versions[day])}
            for version, days in decide.by_version(again):
                self.lake.require_clean_tree()  # putting files back computes nothing, and needs no clean tree
                self.progress(f"{undo.step.name}: {format_are(len(days), 'day')} staged again by {version.name}")
                self.walk.take(StepRequest(undo.step, days, version.name))
        self.refuse_lost_files()

    def steps(self) -> Iterator[StepUndo]:
        """Decides each step in build order and puts days back; the caller stages the rest before the next one."""
        for step in self.lake.catalog.steps:
            if versions := self.versions_then(step):
                undo = self.decide(step, versions)
                self.days += undo.found
                self.put_back(undo)
                yield undo

    # ------------------------------------------------------------------ decide

    def tables(self, step: Step) -> tuple[str, ...]:
        """The step's tables that the publication brought; all tables if it brought none."""
        return tuple(name for name in step.table_names if name in self.prepared.before) or step.table_names

    def versions_then(self, step: Step) -> dict[date, Version | None]:
        """Days that the publication brought, by their former version; reading days, by their present one.

        None if the version is unknown or no longer declared: then recorded inputs are used.
        """
        table = self.tables(step)[0]
        contents = self.readers(step) | {day: each.content for day, each in self.prepared.before.get(table, {}).items()}
        return {
            day: declared_version(step, content) if (content := contents[day]) is not None else None
            for day in sorted(contents)
        }

    def readers(self, step: Step) -> dict[date, DayContent | None]:
        """Published days that read a changing one. Days with a foreign write are left to people."""
        changed = self.changed if step.versions else {}
        if not any(changed.values()):
            return {}
        contents = self.contents(step.table_names[0])
        readers = reading_as_published(step, changed, self.view.states)
        return {day: contents[day] for day in readers if contents.get(day) is not None}

    def made_of(self, step: Step, day: date, version: Version | None) -> Mapping[str, DayRange]:
        key = TableDay(self.tables(step)[0], day)
        return made_then(self.lake.publisher.log, step, version, key, self.prepared.before_of(*key)) or {}

    def decide(self, step: Step, versions: Mapping[date, Version | None]) -> StepUndo:
        tables, looked_at = self.tables(step), {day: self.made_of(step, day, each) for day, each in versions.items()}
        main = self.lake.publisher.pin(dict.fromkeys(tables, versions), all_days(looked_at.values()))
        pin = self.overlay.over(main)
        filled = filled_in(step, pin)
        reads = {
            day: made_of(step, version, day, filled) if version else looked_at[day] for day, version in versions.items()
        }
        # Readers must find the days to stage again, which a look does not stage.
        published = all_days([{**decide.published_days(pin.states), **filled}, self.again])
        found = []
        for day, version in versions.items():
            missing = missing_inputs(step, version, [day], published).get(day, ()) if version else ()
            remaking = self.remaking(TableDay(tables[0], day), version, missing, reads[day], pin)
            decided = decide_day(step.name, day, [self.state_of(table, day, pin) for table in tables], remaking)
            # A reader that needs no change is no part of the undo.
            if decided.way is not UndoAction.STANDS or self.prepared.before_of(tables[0], day):
                found.append(decided)
        return StepUndo(step, tables, versions, reads, pin, found)

    def remaking(
        self, key: TableDay, version: Version | None, missing: Sequence[str], reads: Mapping[str, DayRange], pin: Pin
    ) -> Remaking:
        before = self.prepared.before_of(*key)
        content = before.content if before else self.contents(key.table).get(key.day)
        wanted = ""
        if reads and content is not None:
            inputs = fingerprints.inputs(
                {table: {each: pin.inputs[table].days[each] for each in days} for table, days in reads.items()}
            )
            wanted = fingerprints.input_fingerprint(content.code_version, content.parameters, inputs)
        return Remaking(
            wanted=wanted,
            version=version.name if version else "",
            missing=missing[0] if missing else "",
            withdrawn=first_of(reads, self.withdrawn),
            again=first_of(reads, self.again),
            changes=_changes(content, pin, reads),
        )

    def state_of(self, table: str, day: date, pin: Pin) -> TableDayState:
        now, before = pin.states.get(TableDay(table, day)), self.prepared.before_of(table, day)
        now_files = frozenset(pin.expected[TableDay(table, day)].files)
        if before is None:
            return TableDayState(table, None, frozenset(), None, now, now_files)
        change = next(each for each in self.prepared.change(table).days if each.day == day)
        return TableDayState(
            table=table,
            before=before,
            files=frozenset(self.prepared.target_of(table, change)),
            content=self.prepared.result(table, day),
            now=now,
            now_files=now_files,
            other_campaign=self.other_campaign(now.origin) if now else "",
        )

    def other_campaign(self, origin: Origin) -> str:
        """The other campaign that last published a day after the undone publication."""
        undone = self.prepared.publication
        if origin.campaign in ("", undone.provenance.campaign):
            return ""
        return origin.campaign if self.closed_at(origin.brought_by) > self.closed_at(undone.id) else ""

    @cached_property
    def closed_at(self) -> Callable[[str], int]:
        return cache(self.lake.publisher.log.closed_at)

    # ------------------------------------------------------------------ put back

    def put_back(self, undo: StepUndo) -> None:
        back, gone = undo.days(UndoAction.PUT_BACK), undo.days(UndoAction.WITHDRAW)
        for table in undo.tables:
            held = {day: self.prepared.before[table][day].record(day) for day in back}
            held |= {day: DayRecord(day=day) for day in gone}
            self.changes.setdefault(table, []).extend(
                DayChange(
                    day=day,
                    adds=each.files,
                    content=each.content,
                    expected=undo.pin.expected[TableDay(table, day)],
                    made_of=undo.reads[day] if each.content is not None else None,
                )
                for day, each in held.items()
            )
            self.walk.place = self.walk.place.over({table: held})
            self.withdrawn[table] = frozenset(gone)
        for table, read in all_days(undo.reads[day] for day in back).items():
            logicals = {day: undo.pin.inputs[table].days[day] for day in sorted(read)}
            self.read.append(self.overlay.from_main(undo.pin.inputs[table].model_copy(update={"days": logicals})))

    @property
    def changed(self) -> dict[str, set[date]]:
        laid = ((table, each) for table, days in self.overlay.days.items() for each in days.values())
        other = by_table((table, each.day) for table, each in laid if not self.is_in_main(table, each))
        return all_days([other, self.again])

    def is_in_main(self, table: str, record: DayRecord) -> bool:
        content = self.contents(table).get(record.day)
        return content is not None and content.logical == record.logical

    def refuse_lost_files(self) -> None:
        paths = (f"{table}/{add.path}" for table, days in self.changes.items() for day in days for add in day.adds)
        if lost := self.lake.storage.missing(paths):
            raise PublicationRefused(
                f"{self.prepared.publication.id} cannot be undone: {lost[0]} is gone, and {len(lost) - 1} more files.",
                hint="Rebuild the days with the version of the code that they had then.",
            )

    # ------------------------------------------------------------------ say, or publish

    @property
    def plan(self) -> UndoPlan:
        undone, steps = self.prepared.publication, self.lake.catalog.steps
        brings: dict[str, set[str]] = {}
        for each in self.days:
            tables = self.tables(self.lake.catalog.step(each.step))
            if each.way in _COMES_BACK and self.prepared.before_of(tables[0], each.day):
                brings.setdefault(each.step, set()).add(each.version)
        switched = switched_since(self.lake.publisher.log, self.closed_at(undone.id), brings, steps)
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
                days=tuple(self.with_origin(table, day, id) for day in sorted(found, key=lambda day: day.day)),
            )
            for table, found in days.items()
        )
        stale = (each for each in self.days if each.way is UndoAction.LEFT_STALE)
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

    def with_origin(self, table: str, day: DayChange, id: str) -> DayChange:
        """A day with a before-image counts as put back, even if it had to be computed."""
        if self.prepared.before_of(table, day.day) is None:
            return day
        back = origin_before(self.prepared, TableDay(table, day.day), id)
        return day.model_copy(update={"origin": replace(back, computed_by=id) if day.lineage else back})

    def close(self) -> None:
        for done in self.walk.done:
            done.build.close_timelines()


def _changes(content: DayContent | None, pin: Pin, reads: Mapping[str, DayRange]) -> str:
    for table, days in reads.items():
        then = recorded_upstream(content, table) if content is not None else None
        contents = (content_in(pin.states, TableDay(table, day)) for day in days)
        rows = sum(each.rows for each in contents if each is not None)
        if then is not None and rows != then.rows:
            more = "more" if rows > then.rows else "fewer"
            return f"{table} has {format_count(abs(rows - then.rows), 'row')} {more} than it was built from"
    return ""


@dataclass(frozen=True)
class UndoPlan:
    publication: str
    campaign: str
    days: tuple[UndoneDay, ...]
    restores: bool = False
    """``publication`` is itself an undo: undoing it brings the campaign back."""
    switched: tuple[SwitchedSince, ...] = ()
    """Steps whose current version was changed since to another than the days get back."""

    @property
    def again(self) -> tuple[UndoneDay, ...]:
        return tuple(each for each in self.days if each.way is UndoAction.STAGE_AGAIN)

    @property
    def seconds(self) -> float | None:
        """0 if nothing is staged again, None if unknown."""
        return seconds_of(self.days)


@dataclass(frozen=True)
class Undone:
    published: Published
    plan: UndoPlan
    tables: Mapping[str, str]
    """What was done, in words."""


def undone_sentence(done: Undone, steps: Sequence[Step]) -> str:
    """``Undone: 12 days, 2 weeks and 1 month in 5 tables are as before.``"""
    cadences = {table.name: (step.name, step.cadence) for step in steps for table in step.tables}
    built = {name: [each.day for each in done.plan.days if each.step == name] for name, _ in cadences.values()}
    what = format_scope((cadence, built[name]) for name, cadence in map(cadences.__getitem__, done.tables))
    again = len(done.plan.again)
    more = f" {format_are(again, 'day')} computed again, because inputs have changed since." if again else ""
    if done.plan.restores:
        return f"Brought back: {what} are as the campaign published them.{more}"
    return f"Undone: {what} are as before.{more}"


def plan_undo(lake: Lake, publication: str) -> UndoPlan:
    """Reads only logs.

    Raises :class:`InvalidRequest` for what was never published, :class:`PublicationRefused` after the rollback window.
    """
    lake.publisher.recover()
    found = UndoAttempt(lake, undoable(lake.publisher, publication))
    found.look()
    return found.plan


def undo(lake: Lake, publication: str, run: RunInfo, progress: Progress, *, reason: str = "") -> Undone:
    """Undo ``publication`` of a campaign in one publication, which can itself be undone.

    Raises like :func:`plan_undo`; also :class:`PublicationRefused` for days that cannot be put back and if main keeps
    moving, :class:`DaysFailed` if a day staged again fails its gates, :class:`InvalidRequest` if all is back already.
    """
    lake.publisher.recover()
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
    """The undo as ``promote`` drives it: decided anew whenever main has moved."""

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
