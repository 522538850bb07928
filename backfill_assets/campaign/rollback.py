"""Rolls one publication back by its before-images; computes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from backfill_assets.campaign.later_decisions import SwitchedSince, switched_since
from backfill_assets.campaign.undo_days import (
    InputsAfter,
    Refusal,
    TableDayState,
    UndoneDay,
    day_state,
    decide_day,
    versions_back,
)
from backfill_assets.campaign.undo_publication import main_schema, origin_before, put_back, undo_switches, undoing
from backfill_assets.campaign.undoable import require_in_force, undoable
from backfill_assets.days import DayRange, TableDay
from backfill_assets.errors import PublicationRefused
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.records import (
    Before,
    DayChange,
    DayContent,
    DayState,
    Expected,
    InputRead,
    Position,
    Prepared,
    Provenance,
    Publication,
    TableChange,
)
from backfill_assets.model.declaration import Step, Version
from backfill_assets.model.graph import NOT_KNOWN, Filled, made_of, step_by_table
from backfill_assets.publish.log import PublicationLog, lineages
from backfill_assets.publish.past import brought_days
from backfill_assets.publish.promote import Again, promote, silent
from backfill_assets.publish.publisher import Conflict, Published, Publisher, Readers
from backfill_assets.rebuild.decide import Logicals
from backfill_assets.state.observed import LogView, observe_each
from backfill_assets.state.readers import tables_reading
from backfill_assets.state.status import declared_version, left_stale

_MOST_REASONS = 3
_MOVED = "Roll back the later publications first (backfill history shows them), or rebuild the days."
_GONE = "Bring the files back from a copy, or rebuild the days with the version of the code that they had then."


def roll_back(
    publisher: Publisher,
    publication: str,
    *,
    id: str,
    steps: Sequence[Step],
    provenance: Provenance | None = None,
    inputs: tuple[InputRead, ...] = (),
    progress: Callable[[str], None] = silent,
) -> Published:
    """Undo ``publication``: its days get their before-images, in all its tables at once.

    ``inputs``: what was read to decide; refused if that moved. ``steps``: all that are declared, to report stale
    readers. Raises :class:`InvalidRequest` if ``publication`` is unknown, aborted or undone;
    :class:`PublicationRefused` if a day was published again since, if its before-image was made of other inputs than
    main has, if files are gone, or after the rollback window.
    """
    publisher.recover()
    prepared = undoable(publisher, publication)
    require_in_force(publisher, prepared)
    back = _RollingBack(publisher, prepared, steps, id, provenance, inputs)
    readers = Readers(tables_reading(steps), back.completed, as_of=publisher.log.head().version)
    return promote(publisher, back, progress, readers=readers)


@dataclass
class _RollingBack:
    publisher: Publisher
    prepared: Prepared
    steps: Sequence[Step]
    id: str
    provenance: Provenance | None
    inputs: tuple[InputRead, ...]

    def stage(self, *, held: bool) -> Publication:
        request = _decide(self.publisher, self.prepared, self.steps).request(self.id, self.provenance)
        return request.model_copy(update={"inputs": (*request.inputs, *self.inputs)})

    def completed(self, _: Publication) -> Publication:
        return self.stage(held=False)

    def overtaken(self, by: Conflict) -> Again:
        publisher, publication = self.publisher, self.prepared.publication.id
        require_in_force(publisher, self.prepared)  # Another rollback may have won.
        refused = _refusal(publication, by)
        # An aborted id cannot be used again; and a day that differs from the published result will go on to differ.
        if publisher.log.outcome(publisher.log.head(), self.id) or publisher.foresee(self.stage(held=False)):
            raise refused
        return Again(f"{publication}: main moved while it was rolled back, looking again", refused)


@dataclass(frozen=True)
class RollbackPlan:
    days: tuple[UndoneDay, ...]
    leaves_stale: Mapping[str, tuple[date, ...]]
    switched: tuple[SwitchedSince, ...]


def plan_rollback(publisher: Publisher, prepared: Prepared, steps: Sequence[Step]) -> RollbackPlan:
    """Raises :class:`PublicationRefused` for what would be refused now."""
    decided = _decide(publisher, prepared, steps)
    request = decided.request()
    if moved := publisher.foresee(request):
        raise _refusal(request.provenance.undoes, moved)
    closed = publisher.log.closed_at(prepared.publication.id)
    switched = switched_since(publisher.log, closed, versions_back(decided.days), steps)
    return RollbackPlan(tuple(decided.days), request.leaves_stale, switched)


def _refusal(publication: str, moved: Conflict) -> PublicationRefused:
    named, more = moved.reasons[:_MOST_REASONS], len(moved.reasons) - _MOST_REASONS
    others = f"; and {more} more" if more > 0 else ""
    return PublicationRefused(
        f"{publication} cannot be rolled back as it is: {'; '.join(named)}{others}.",
        hint=_GONE if moved.gone else _MOVED,
    )


# ------------------------------------------------------------------ decide


@dataclass(frozen=True)
class _DayBack:
    key: TableDay
    state: TableDayState
    decided: UndoneDay
    made: Mapping[str, DayRange] | None = None
    """What the before-image was made of; None without published inputs."""
    given: Logicals = field(default_factory=dict)
    """The inputs of the before-image, if main has them now, or had them before one gained rows."""
    gained: bool = False


@dataclass(frozen=True)
class _Decided:
    publisher: Publisher
    prepared: Prepared
    steps: Sequence[Step]
    view: LogView
    found: Mapping[str, Sequence[_DayBack]]

    @property
    def days(self) -> list[UndoneDay]:
        return [each.decided for of_table in self.found.values() for each in of_table]

    def request(self, id: str = "", provenance: Provenance | None = None) -> Publication:
        undone = self.prepared.publication
        changes = tuple(self._change(change, id) for change in undone.tables)
        behind = {
            table: tuple(each.key.day for each in found if each.gained)
            for table, found in self.found.items()
            if any(each.gained for each in found)
        }
        request = Publication(
            id=id,
            kind="rollback",
            tables=changes,
            inputs=self._inputs(),
            provenance=provenance or Provenance(reason=f"rollback of {undone.id}"),
            switches=undo_switches(undone, self.publisher.log.head().state.current),
            leaves_stale={**left_stale(self.steps, self.view, changes), **behind},
        )
        return undoing(self.prepared, request)

    def _change(self, change: TableChange, id: str) -> TableChange:
        return TableChange(
            table=change.table,
            table_schema=main_schema(self.publisher, change.table),
            days=tuple(self._day(each, id) for each in self.found[change.table]),
            positions=tuple(Position(id=p.id, before=p.after, after=p.before or 0) for p in change.positions),
        )

    def _day(self, each: _DayBack, id: str) -> DayChange:
        """A day that others have changed is expected as it was left: PREPARE then names all that has moved. A later
        publication that was rolled back left our result in place.
        """
        state = each.state
        files = state.files if each.decided.refusal is Refusal.MOVED else state.now_files
        expected = Expected(files=tuple(sorted(files)), publication=self.view.states[each.key].publication)
        before, origin = self.prepared.before[each.key.table][each.key.day], origin_before(self.prepared, each.key, id)
        return put_back(before, each.key.day, expected, made_of=each.made, origin=origin)

    def _inputs(self) -> tuple[InputRead, ...]:
        read: dict[str, dict[date, str]] = {}
        for each in (each for of_table in self.found.values() for each in of_table):
            for table, days in each.given.items():
                brought = self.prepared.before.get(table, {})
                own = {day: logical for day, logical in days.items() if day not in brought}
                read.setdefault(table, {}).update(own)
        return tuple(InputRead(table=t, version=self.view.versions.get(t), days=days) for t, days in read.items())


def _decide(publisher: Publisher, prepared: Prepared, steps: Sequence[Step]) -> _Decided:
    undone = prepared.publication
    tables = sorted({*undone.writes, *(name for step in steps for name in step.table_names)})
    view = observe_each(publisher.storage, tables, log=publisher.log)
    view.require(undone.writes)
    look = _Look(publisher.log, prepared, step_by_table(steps), view)
    found = {
        change.table: [look.at(TableDay(change.table, day.day)) for day in change.days] for change in undone.tables
    }
    return _Decided(publisher, prepared, steps, view, found)


class _Look:
    def __init__(self, log: PublicationLog, prepared: Prepared, steps: Mapping[str, Step], view: LogView) -> None:
        self.log, self.prepared, self.steps, self.view = log, prepared, steps, view
        self.brought = {
            table: {day: before.record(day) for day, before in days.items()} for table, days in prepared.before.items()
        }
        self.after = view.over(self.brought)
        self.files = {table: view.files[table].by_day() for table in prepared.before}

    def at(self, key: TableDay) -> _DayBack:
        state = day_state(self.prepared, key, self.view.states[key], self.files[key.table].get(key.day, frozenset()))
        content = state.content_before
        made = self.made_of(key, content) if content is not None and content.inputs else None
        inputs, given = self.inputs(state, content, made) if content and made is not None else (InputsAfter(), {})
        step = self.steps.get(key.table)
        decided = decide_day(step.name if step else key.table, key.day, [state], inputs, computes=False)
        if decided.refusal is Refusal.NOT_KNOWN:
            raise PublicationRefused(
                f"{key} cannot be put back: {decided.reason}.", hint="Rebuild the day by a version that is declared."
            )
        if decided.refusal is Refusal.OLDER:
            raise self.made_of_other(key, made or {})
        return _DayBack(key, state, decided, made, given, inputs.gained)

    def inputs(
        self, state: TableDayState, content: DayContent, made: Mapping[str, DayRange]
    ) -> tuple[InputsAfter, Logicals]:
        now = {table: {day: self.after.logical(TableDay(table, day)) for day in days} for table, days in made.items()}
        wanted = fingerprints.input_fingerprint(content.code_version, content.parameters, fingerprints.inputs(now))
        brought = any(day in self.brought.get(table, ()) for table, days in made.items() for day in days)
        if state.is_published_as_before and not brought:
            return InputsAfter(wanted), {}
        given = self.given(content, made, now)
        return InputsAfter(wanted, brought=brought, gained=given not in (None, now)), given or {}

    def made_of(self, key: TableDay, content: DayContent) -> Mapping[str, DayRange] | None:
        step = self.steps.get(key.table)
        version = declared_version(step, content) if step else None
        filled = self.after.filled([step]) if step else NOT_KNOWN
        return made_then(self.log, step, version, key, self.prepared.before_of(*key), filled)

    def given(self, content: DayContent, made: Mapping[str, DayRange], now: Logicals) -> Logicals | None:
        """What the before-image was made of, if main has it, or had it before one input only gained rows."""
        if fingerprints.inputs(now) == content.inputs:
            return now
        for table, days in made.items():
            earlier = TableDay(table, days.first)
            if len(days) > 1 or days.first in self.brought.get(table, ()):
                continue
            for logical in before_rows_came(self.log, earlier, self.view.states.get(earlier)):
                then = {**now, table: {days.first: logical}}
                if fingerprints.inputs(then) == content.inputs:
                    return then
        return None

    def made_of_other(self, key: TableDay, made: Mapping[str, DayRange]) -> PublicationRefused:
        back = self.log.closed_at(self.prepared.before[key.table][key.day].publication)
        inputs = {TableDay(table, day) for table, days in made.items() for day in days}
        inputs -= {TableDay(table, day) for table, days in self.brought.items() for day in days}
        later = ((each, self.view.states[each]) for each in sorted(inputs) if each in self.view.states)
        since = next(((each, state.publication) for each, state in later if state.sequence > back), None)
        what = (
            f"{since[0]} was published again since, by {since[1]}" if since else "main has other content of its inputs"
        )
        first = f"Roll back {since[1]} first, then this one" if since else "Roll back what replaced its inputs first"
        return PublicationRefused(
            f"{self.prepared.publication.id} cannot be rolled back: {key} would be older than what it is made of "
            f"({what}). Nothing was changed.",
            hint=f"{first}; or build the day by the version that it had: backfill run {key.table} --days {key.day} "
            "--version V.",
        )


def before_rows_came(log: PublicationLog, key: TableDay, state: DayState | None) -> Iterator[str]:
    """Former logical fingerprints of a day, newest first, as far back as it only gained rows."""
    if state is None or not state.origin.is_as_of:
        return
    first, kind = log.closed_at(state.origin.is_as_of), ""
    for each in brought_days(log.files(), [key.table], [key.day], after=first - 1):
        yield each.logical
        kind = each.kind
    if kind == "append":
        yield fingerprints.NEVER_PUBLISHED


def made_then(
    log: PublicationLog,
    step: Step | None,
    version: Version | None,
    key: TableDay,
    before: Before | None,
    filled: Filled = NOT_KNOWN,
) -> Mapping[str, DayRange] | None:
    """The inputs of the before-image: those recorded if ``version`` is not declared any more, None if there are
    none.
    """
    if step is not None and version is not None:
        return made_of(step, version, key.day, filled)
    made = lineages(log.storage, [before.origin.computed_by] if before else [])
    return next((days[key].days_read for days in made.values() if key in days), None)
