"""Rollback: publishes before-images, by the same protocol as any publication."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from backfill_assets import clock
from backfill_assets.days import DayRange, TableDay
from backfill_assets.errors import InvalidRequest, PublicationRefused
from backfill_assets.external.observe import is_look
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.campaign_journal import shown_name
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.records import (
    Before,
    CurrentVersion,
    DayChange,
    DayContent,
    DayState,
    Expected,
    InputRead,
    Notice,
    Origin,
    Position,
    Prepared,
    Provenance,
    Publication,
    Switch,
    TableChange,
    logical_or_empty,
)
from backfill_assets.model.declaration import Step, Version
from backfill_assets.model.graph import NOT_KNOWN, Filled, made_of, step_by_table
from backfill_assets.publish.log import PublicationLog, lineages
from backfill_assets.publish.promote import Again, promote, silent
from backfill_assets.publish.publisher import Conflict, Published, Publisher, Readers
from backfill_assets.publish.torn_days import is_as
from backfill_assets.state.observed import LogView, observe_each
from backfill_assets.state.readers import tables_reading
from backfill_assets.state.reading import unknown_publication
from backfill_assets.state.status import declared_version, left_stale
from backfill_assets.text import format_count, format_ranges

_MOST_REASONS = 3
_UNDONE, _BACK = "Undone: ", "In force again: "
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
    readers. Raises :class:`InvalidRequest` if ``publication`` is unknown, aborted or undone already;
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
    """Tried again if main was only compacted."""

    publisher: Publisher
    prepared: Prepared
    steps: Sequence[Step]
    id: str
    provenance: Provenance | None
    inputs: tuple[InputRead, ...]

    def stage(self, *, held: bool) -> Publication:
        request = rollback_request(self.publisher, self.prepared, self.steps, self.id, self.provenance)
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


def require_in_force(publisher: Publisher, prepared: Prepared) -> None:
    """Raise :class:`InvalidRequest` if ``prepared`` is undone already."""
    publication = prepared.publication.id
    if undone := _undone_by(publisher, prepared):
        by, at = undone
        raise InvalidRequest(
            f"{publication} is undone already: {by} did it on {at:%Y-%m-%d %H:%M:%S} UTC.",
            hint=f"To bring it back: backfill rollback {by}",
        )


def _undone_by(publisher: Publisher, prepared: Prepared) -> tuple[str, datetime] | None:
    head, undone = publisher.log.head(), prepared.publication
    states = publisher.log.day_states(head, set(undone.writes))
    written = (TableDay(change.table, day.day) for change in undone.tables for day in change.days)
    origins = (states[key].origin for key in written if key in states)
    found = {origin.put_back_by for origin in origins if origin.undid == undone.id}
    found |= {head.state.current[step].publication for step in undone.switches if step in head.state.current}
    for publication in sorted(found):
        entry = publisher.log.find_prepared(publication)
        if entry is not None and entry[0].publication.provenance.undoes == undone.id:
            return publication, entry[1]
    return None


def require_in_place(publisher: Publisher, request: Publication) -> None:
    """Raise :class:`PublicationRefused` if ``request`` would be refused now: before a person is asked."""
    if moved := publisher.foresee(request):
        raise _refusal(request.provenance.undoes, moved)


def _refusal(publication: str, moved: Conflict) -> PublicationRefused:
    named, more = moved.reasons[:_MOST_REASONS], len(moved.reasons) - _MOST_REASONS
    others = f"; and {more} more" if more > 0 else ""
    return PublicationRefused(
        f"{publication} cannot be rolled back as it is: {'; '.join(named)}{others}.",
        hint=_GONE if moved.gone else _MOVED,
    )


def undoable(publisher: Publisher, publication: str) -> Prepared:
    """The publication with its before-images; raises like :func:`roll_back` if it cannot be undone."""
    entry = publisher.log.find_prepared(publication)
    if entry is None:
        raise unknown_publication(publisher.storage, publication)
    require_done(publisher, publication)
    prepared, at = entry
    _refuse_handed_over(prepared.publication)
    if is_look(prepared.publication):
        raise InvalidRequest(
            f"{publication} is a look at {', '.join(prepared.publication.writes)}, a table of others: the next one "
            "would find the same again.",
            hint="Undo what was published of it since, or have it put back where it is written: then it is looked at "
            "again.",
        )
    age, window = clock.now() - at, max(prepared.window_days, publisher.retention_days)
    if age > timedelta(days=window):
        raise PublicationRefused(
            f"The rollback window of {publication} is over: it was published {age.days} days ago,"
            f" and files are kept for {window} days.",
            hint="Rebuild the days with the version of the code that they had then.",
        )
    return prepared


def _refuse_handed_over(publication: Publication) -> None:
    """Adopting or releasing a table replaced no file: each has its own command to reverse it."""
    tables = " ".join(sorted(publication.writes))
    if publication.kind == "adopt":
        raise InvalidRequest(
            f"{publication.id} has taken {tables} over: before it, nothing here knew its days.",
            hint=f"To give the table back: backfill adopt --release {tables}",
        )
    if publication.kind == "release":
        raise InvalidRequest(
            f"{publication.id} has given {tables} back.",
            hint=f"To take it over again: backfill adopt {tables} LOCATION",
        )


def require_done(publisher: Publisher, publication: str) -> None:
    """Raise :class:`InvalidRequest` for a publication that was aborted or is still open."""
    head = publisher.log.head()
    if publication in head.state.open:
        raise InvalidRequest(
            f"The publication {publication} is not finished: there is nothing to roll back yet.",
            hint=f"If what keeps it from its end stays, give it up: backfill maintain --abort {publication}",
        )
    if publisher.log.outcome(head, publication) != "done":
        raise InvalidRequest(f"The publication {publication} was aborted: there is nothing to roll back.")


def rollback_request(
    publisher: Publisher,
    prepared: Prepared,
    steps: Sequence[Step],
    id: str = "",
    provenance: Provenance | None = None,
) -> Publication:
    """Raises :class:`PublicationRefused` for a before-image made of other inputs than main has."""
    undone = prepared.publication
    tables = sorted({*undone.writes, *(name for step in steps for name in step.table_names)})
    view = observe_each(publisher.storage, tables, log=publisher.log)
    view.require(undone.writes)
    origins = _Origins(publisher, prepared, steps, view)
    changes = tuple(_undo_table(prepared, change, origins, id) for change in undone.tables)
    request = Publication(
        id=id,
        kind="rollback",
        tables=changes,
        inputs=origins.inputs,
        provenance=provenance or Provenance(reason=f"rollback of {undone.id}"),
        switches=undo_switches(undone, publisher.log.head().state.current),
        leaves_stale={**left_stale(steps, view, changes), **origins.behind},
    )
    return undoing(prepared, request)


class _Origins:
    def __init__(self, publisher: Publisher, prepared: Prepared, steps: Sequence[Step], view: LogView) -> None:
        self.publisher, self.prepared, self.view = publisher, prepared, view
        self.steps = step_by_table(steps)
        self.brought = {
            table: {day: before.record(day) for day, before in days.items()} for table, days in prepared.before.items()
        }
        self.after = view.over(self.brought)
        self.read: dict[str, dict[date, str]] = {}
        self.behind: dict[str, tuple[date, ...]] = {}
        """Days put back although their inputs have gained rows since."""

    @property
    def inputs(self) -> tuple[InputRead, ...]:
        return tuple(
            InputRead(table=table, version=self.view.versions.get(table), days=days)
            for table, days in self.read.items()
        )

    def files_of_result(self, key: TableDay) -> Collection[str]:
        """The files that hold what ``prepared`` brought, also after a compaction.

        If the day changed otherwise, the original files: compare-and-swap then refuses the rollback.
        """
        ours, result = self.prepared.target(key.table)[key.day], self.prepared.result(*key)
        state, now = self.view.states[key], self.view.files[key.table].by_day().get(key.day, frozenset())
        same = result is not None and logical_or_empty(state.content_of(now)) == result.logical
        ours_still = state.origin.computed_by == self.prepared.origin(*key).computed_by
        return now if same and (ours_still or self.prepared.change(key.table).mode == "append") else ours

    def of(self, key: TableDay) -> Mapping[str, DayRange] | None:
        """Inputs of the before-image of ``key``; None without published inputs.

        Raises :class:`PublicationRefused` if main has others now; inputs that only gained rows are accepted
        (``behind``).
        """
        content = self.prepared.before[key.table][key.day].content
        if content is None or not content.inputs:
            return None
        step = self.steps.get(key.table)
        version = declared_version(step, content) if step else None
        filled = self.after.filled([step]) if step else NOT_KNOWN
        made = made_then(self.publisher.log, step, version, key, self.prepared.before_of(*key), filled)
        if made is None:
            raise PublicationRefused(
                f"{key} cannot be put back: it was made by {content.code_version}, which is not declared any more, and "
                "the log does not say of what.",
                hint="Rebuild the day by a version that is declared.",
            )
        brings = any(day in self.brought.get(table, ()) for table, days in made.items() for day in days)
        if not brings and is_as(self.view.content(key), content):
            return made
        given = self._given(key, made)
        if given is None:
            raise self._made_of_other(key, made)
        for table, days in given.items():
            own = {day: logical for day, logical in days.items() if day not in self.brought.get(table, ())}
            self.read.setdefault(table, {}).update(own)
            if any(logical != self.view.logical(TableDay(table, day)) for day, logical in own.items()):
                self.behind[key.table] = (*self.behind.get(key.table, ()), key.day)
        return made

    def _given(self, key: TableDay, made: Mapping[str, DayRange]) -> dict[str, dict[date, str]] | None:
        """What the before-image was made of, if that is what main has, or had before one input only gained rows."""
        before = self.prepared.before[key.table][key.day]
        now = {table: {day: self.after.logical(TableDay(table, day)) for day in days} for table, days in made.items()}
        wanted = before.content.inputs if before.content else ""
        if fingerprints.inputs(now) == wanted:
            return now
        for table, days in made.items():
            earlier = TableDay(table, days.first)
            if len(days) > 1 or days.first in self.brought.get(table, ()):
                continue
            for logical in before_rows_came(self.publisher.log, earlier, self.view.states.get(earlier)):
                then = {**now, table: {days.first: logical}}
                if fingerprints.inputs(then) == wanted:
                    return then
        return None

    def _made_of_other(self, key: TableDay, made: Mapping[str, DayRange]) -> PublicationRefused:
        back = self.publisher.log.closed_at(self.prepared.before[key.table][key.day].publication)
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
    first = log.closed_at(state.origin.is_as_of)
    columns = ["publication", "kind", "rows", "checksum"]
    brought = log.files().rows(columns, after=first - 1, event="published", table=key.table, day=str(key.day))
    rows = brought.to_pylist()
    for row in reversed(rows):
        yield (
            fingerprints.NEVER_PUBLISHED if row["rows"] is None else fingerprints.logical(row["rows"], row["checksum"])
        )
    if rows and rows[0]["kind"] == "append":
        yield fingerprints.NEVER_PUBLISHED


def made_then(
    log: PublicationLog,
    step: Step | None,
    version: Version | None,
    key: TableDay,
    before: Before | None,
    filled: Filled = NOT_KNOWN,
) -> Mapping[str, DayRange] | None:
    """The recorded inputs if ``version`` is not declared any more; None if there are none."""
    if step is not None and version is not None:
        return made_of(step, version, key.day, filled)
    made = lineages(log.storage, [before.origin.computed_by] if before else [])
    return next((days[key].days_read for days in made.values() if key in days), None)


def undo_switches(publication: Publication, current: Mapping[str, CurrentVersion]) -> dict[str, Switch]:
    """``former_by`` is as of now: a later switch may have been undone since."""
    return {
        step: Switch(
            version=switch.former,
            former=switch.version,
            former_by=current[step].publication if step in current else "",
        )
        for step, switch in publication.switches.items()
    }


def undoing(prepared: Prepared, request: Publication) -> Publication:
    """Marks ``request`` as the undo of ``prepared``; adds a notice for a campaign."""
    undone = prepared.publication
    made = request.provenance.model_copy(
        update={
            "campaign": undone.provenance.campaign,
            "undoes": undone.id,
            "first_undone": undone.provenance.first_undone or undone.id,
            "withdraws": not undone.provenance.withdraws,
        }
    )
    notice = _notice(prepared, request) if undone.provenance.campaign else None
    return request.model_copy(update={"provenance": made, "notice": notice})


def _notice(prepared: Prepared, request: Publication) -> Notice:
    undone = prepared.publication
    earlier = undone.notice
    stale = (
        f"{table}: stale until it is built again: {format_ranges(days)}."
        for table, days in request.leaves_stale.items()
    )
    return Notice(
        title=_title(earlier.title if earlier else shown_name(undone.provenance.campaign)),
        lines=(*(f"{change.table}: {undone_text(prepared, change)}." for change in request.tables), *stale),
        reports=earlier.reports if earlier else tuple(change.table for change in request.tables),
        approved_by=request.provenance.launched_by,
        undo=f"backfill rollback {request.id}",
        dataset=earlier.dataset if earlier else "",
    )


def undone_text(prepared: Prepared, change: TableChange) -> str:
    before = prepared.before.get(change.table, {})
    gone = [day for day in change.days if day.content is None and not day.adds]
    back = [day for day in change.days if day not in gone and _is_as_before(day, before.get(day.day))]
    again = [day for day in change.days if day not in gone and day not in back]
    own = [day for day in again if day.day in before]
    rows = sum(_rows(day.content) - _rows(before[day.day].content) for day in own)
    more = f"{format_count(abs(rows), 'row')} {'more' if rows > 0 else 'fewer'} than before" if rows else "as many rows"
    parts = {
        "as before": len(back),
        "withdrawn, since published first by what is undone": len(gone),
        f"staged again from what there is now ({more})": len(own),
        "staged again because they read what changed": len(again) - len(own),
    }
    return "; ".join(f"{count:,} {text}" for text, count in parts.items() if count)


def _is_as_before(day: DayChange, before: Before | None) -> bool:
    return before is not None and (day.adds, day.content) == (before.files, before.content)


def _rows(content: DayContent | None) -> int:
    return content.rows if content else 0


def _title(undone: str) -> str:
    if undone.startswith(_UNDONE):
        return _BACK + undone.removeprefix(_UNDONE)
    return _UNDONE + undone.removeprefix(_BACK)


def _undo_table(prepared: Prepared, change: TableChange, origins: _Origins, id: str) -> TableChange:
    """Adds are the before-image, expected is the publication's own result; source positions go back too.

    ``expected.publication`` is as of now: a later publication that was itself rolled back left our result in place.
    """
    before = prepared.before[change.table]
    days = tuple(
        DayChange(
            day=day.day,
            adds=before[day.day].files,
            content=before[day.day].content,
            expected=Expected(
                files=tuple(sorted(origins.files_of_result(key))), publication=origins.view.states[key].publication
            ),
            made_of=origins.of(key),
            origin=origin_before(prepared, key, id),
        )
        for day in change.days
        for key in [TableDay(change.table, day.day)]
    )
    positions = tuple(Position(id=p.id, before=p.after, after=p.before or 0) for p in change.positions)
    return TableChange(
        table=change.table,
        table_schema=main_schema(origins.publisher, change.table),
        days=days,
        positions=positions,
    )


def origin_before(prepared: Prepared, key: TableDay, by: str) -> Origin:
    """The origin of ``key`` after ``by`` has put its before-image back.

    For appended rows, the day's history of only gaining rows starts anew: rows were taken out.
    """
    back = prepared.before[key.table][key.day].origin.put_back(by, prepared.publication)
    return replace(back, computed_by=by, gained_by="") if prepared.change(key.table).mode == "append" else back


def main_schema(publisher: Publisher, table: str) -> str:
    """Main's present schema: columns added since stay, and read as null in older files."""
    main = MainTable.open(publisher.storage, table)
    if main is None:
        raise PublicationRefused(f"The table {table} does not exist any more.")
    return str(main.handle.schema().to_json())
