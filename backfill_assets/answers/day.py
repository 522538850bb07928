"""One day of a table: what is known, its files, its first rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from backfill_assets import clock
from backfill_assets.answers.held_back import find_held
from backfill_assets.answers.signs import beside_the_logs, short_days
from backfill_assets.answers.status import UNDO_IS
from backfill_assets.days import DayRange, TableDay
from backfill_assets.external.files import VERSION
from backfill_assets.lakehouse.arrow_dataset import python_rows
from backfill_assets.lakehouse.campaign_journal import plan_of
from backfill_assets.lakehouse.delta_log import AddedFile, newest_version, read_log
from backfill_assets.lakehouse.records import DayContent
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import CAMPAIGN
from backfill_assets.model.declaration import Step
from backfill_assets.model.external_table import OBSERVED
from backfill_assets.model.graph import step_by_table
from backfill_assets.publish.closed_days import BookEntry, how_to_reopen
from backfill_assets.report.answer import Answer, Datum, Fact, Grid, Id, Line, Part, Tone, size
from backfill_assets.state.closed import books_of, closed_words, waiting_rows
from backfill_assets.state.damage import gone_files, note_damage
from backfill_assets.state.diagnosis import FOREIGN, Cause, cause_of, in_a_word
from backfill_assets.state.edited_logic import contents_of, edited_logic
from backfill_assets.state.observed import observe_each
from backfill_assets.state.positions import is_raw
from backfill_assets.state.reading import pinned_version, published_day, published_versions, read_published
from backfill_assets.state.rolled_back import rollbacks, undone_days
from backfill_assets.state.status import day_statuses
from backfill_assets.state.view import View
from backfill_assets.text import format_count
from backfill_assets.timeline.view import find_place, stale_days

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds

_MOST_ROWS = 10
_TOTAL = "total_"
_DETAIL = ("table version", "checksum", "parameters", "inputs", "staged ms", "metrics", "files")


@dataclass(frozen=True)
class FoundDay:
    table: str
    day: date
    status: str = ""
    on: str = ""
    version: int | None = None
    at: str = ""
    publication: str = ""
    content: DayContent | None = None
    only_where: str = ""
    """The rows that were computed last, if others were carried over."""
    files: Sequence[AddedFile] = ()
    gone: Sequence[str] = ()
    reclaimed: bool = False
    written_since: Mapping[str, int] = field(default_factory=dict)
    """A foreign write in Delta's log; the rest is the publication's."""
    sample: pa.Grid | None = None
    period: date | None = None
    has: tuple[date, ...] = ()
    notes: Sequence[str] = ()

    @property
    def is_damaged(self) -> bool:
        return bool(self.gone) and not self.reclaimed


def look_at_day(
    storage: Storage, declared: Sequence[Step], table: str, day: date, publication: str | None = None
) -> FoundDay:
    """At the last closed log entry, or at ``publication``. Missing files are recorded as damage."""
    now = _NOT_ASKED if publication else _look_at_present(storage, declared, table, day)
    version = published_versions(storage, publication).get(table)
    if version is None:
        period = _period(declared, table, day)
        return FoundDay(table, day, now.status(()), at=publication or "", period=period, notes=now.notes)
    log = read_log(storage, table, version)
    files = log.of_days([day])[day]
    gone = gone_files(storage, table, files)
    state = published_day(storage, table, day, publication)
    found = FoundDay(
        table,
        day,
        now.status([Cause.LOST_RAW if is_raw(table) else Cause.LOST_FILES] if gone else ()),
        version=version,
        at=publication or "",
        publication=state.publication if state else "",
        content=state.content if state else None,
        only_where=state.origin.only_where if state else "",
        files=files,
        gone=gone,
        reclaimed=publication is not None and not _main_names(storage, table, day, gone),
        written_since=_written_since(storage, table, day) if not FOREIGN.isdisjoint(now.signs or ()) else {},
        period=_period(declared, table, day),
        has=() if state else _first_and_last(log.by_day()),
        notes=now.notes,
    )
    if found.is_damaged:
        note_damage(storage, table, day, gone)
    return found if gone else _with_sample(found, read_published(storage, table, publication).dataset())


def look_at_day_on_timeline(storage: Storage, declared: Sequence[Step], table: str, day: date, name: str) -> FoundDay:
    timeline = find_place(storage, name, clock.now())
    shown = View.of(storage, timeline)
    held = shown.held(table).get(day)
    if held is None:
        return FoundDay(table, day, f"nothing on {name}", on=name, period=_period(declared, table, day))
    own = day in timeline.held(table)
    status = f"a day of {name}" if own else f"read through to the base of {name}"
    why = stale_days(storage, timeline, declared).get(table, {}).get(day)
    found = FoundDay(
        table,
        day,
        f"{status}, stale: it {why}" if why else status,
        on=name,
        version=None if own else shown.versions.get(table),
        content=held.content,
        files=held.files,
        gone=gone_files(storage, table, held.files),
    )
    return _with_sample(found, shown.dataset(table)) if held.files and not found.gone else found


def _with_sample(found: FoundDay, rows: ds.Dataset) -> FoundDay:
    return replace(found, sample=rows.head(_MOST_ROWS, filter=pc.field("day") == found.day))


@dataclass(frozen=True)
class _Present:
    signs: Collection[Cause] | None = None
    notes: Sequence[str] = ()
    unknown: str = ""

    def status(self, gone: Collection[Cause]) -> str:
        return self.unknown if self.signs is None else in_a_word(cause_of([*self.signs, *gone]))


_NOT_ASKED = _Present()


def _look_at_present(storage: Storage, declared: Sequence[Step], table: str, day: date) -> _Present:
    observed = observe_each(storage, [each.name for step in declared for each in step.tables])
    observed.require([table])
    if blamed := observed.undecided(declared).get(table):
        return _Present(unknown=f"not known: {blamed.table} cannot be read")
    steps, key = observed.with_current(declared), TableDay(table, day)
    statuses = day_statuses(steps, observed, DayRange.of(day))
    step = next(each for each in steps if table in each.table_names)
    undone = dict(undone_days(rollbacks(storage), steps, observed, {name: statuses[name] for name in step.table_names}))
    held = [each for each in find_held(storage, observed.states) if each.day == day]
    edited = edited_logic(storage, [step], contents_of(observed.states))
    beside = beside_the_logs(steps, held=held, edited=edited, undone=undone).get(key, set())
    # Weekly and monthly tables have only first days of periods.
    in_log = statuses[table].get(day, Cause.MISSING)
    notes = [f"Rolled back by {undo.rollback}: {UNDO_IS[undo.state]}." for undo in (undone.get(key),) if undo]
    notes += [words for each, words in short_days(step, observed, DayRange.of(day), least=0.05) if each == key]
    signs = {*beside, *([in_log] if in_log else [])}
    books = books_of(observed, steps, clock.now())
    if closing := books.closings_of(step.table_names, [day]).get(day):
        notes += _closed(closing, waiting_rows(observed, steps, books).get(TableDay(step.name, day), 0))
        signs |= {Cause.CLOSED} if signs else set()
    return _Present(signs, tuple(notes))


def _closed(closing: BookEntry, waiting: int) -> list[str]:
    return [f"It is {closed_words(closing, waiting)}.", how_to_reopen(closing)]


def _period(declared: Sequence[Step], table: str, day: date) -> date | None:
    first = step_by_table(declared)[table].cadence.start(day)
    return None if first == day else first


def _first_and_last(days: Collection[date]) -> tuple[date, ...]:
    return (min(days), max(days)) if days else ()


def _main_names(storage: Storage, table: str, day: date, paths: Sequence[str]) -> bool:
    version = pinned_version(storage, table)
    files = read_log(storage, table, version).of_days([day])[day] if version is not None else ()
    return not {file.path for file in files}.isdisjoint(paths)


def _written_since(storage: Storage, table: str, day: date) -> Mapping[str, int]:
    version = newest_version(storage, table)
    if version is None:
        return {}
    files = read_log(storage, table, version).of_days([day])[day]
    return {"version": version, "rows": sum(file.rows for file in files), "files": len(files)}


# ------------------------------------------------------------------ the answer


def day_answer(found: FoundDay) -> Answer:
    rows = python_rows(found.sample) if found.sample is not None else []
    columns = tuple(found.sample.column_names) if found.sample is not None else ()
    sample = Grid("sample", columns, [[*map(Datum, row.values())] for row in rows], one_by_one=True)
    nothing = [] if rows or found.gone else [_without_rows(found)]
    made_of = (f"backfill history {found.table} --days {found.day}",) if found.publication and not found.on else ()
    told: tuple[Part, ...] = (*_absence(found), *_trouble(found), sample, *nothing)
    at, on = (f" --at {found.at}" if found.at else ""), (f" --on {found.on}" if found.on else "")
    more = Line(
        f"Checksum, metrics, inputs and files: backfill show {found.table} {found.day}{at}{on} --long", Tone.QUIET
    )
    short = [part for part in _facts(found) if not isinstance(part, Fact) or part.name not in _DETAIL]
    brief = Answer(parts=(*short, *_totals(found), *told, *([more] if found.content else [])), next=made_of)
    return Answer(parts=(*_facts(found), *told), next=made_of, brief=brief)


def _without_rows(found: FoundDay) -> Line:
    if found.content is None or found.content.code_version != OBSERVED:
        return Line("No rows.")
    return Line(f"Others have its rows: it moved last in version {found.content.metrics.get(VERSION)} of their table.")


def _totals(found: FoundDay) -> Iterator[Fact]:
    metrics = found.content.metrics if found.content else {}
    sums = {name.removeprefix(_TOTAL): value for name, value in metrics.items() if name.startswith(_TOTAL)}
    if sums:
        yield Fact("totals", sums)


def _absence(found: FoundDay) -> Iterator[Line]:
    if found.content or found.publication or found.files or found.written_since:
        return
    if found.period is not None:
        show = f"backfill show {found.table} {found.period}"
        yield Line(f"{found.table} has a row for each period, called by its first day: {found.period}.", do=show)
        return
    has = f" It has days from {found.has[0]} to {found.has[1]}." if found.has else ""
    if found.on:
        absent, do = f"{found.on} has no such day.", f"backfill run {found.table} --days {found.day} --on {found.on}"
    elif found.at:
        absent, do = f"It was not published by then.{has}", f"backfill history {found.table} --days {found.day}"
    else:
        table = found.table if is_raw(found.table) else f"+{found.table}"
        absent, do = f"It was never published.{has}", f"backfill run {table} --days {found.day}"
    yield Line(absent, Tone.WARN, do)


def _facts(found: FoundDay) -> Iterator[Part]:
    yield Fact("table", found.table)
    yield Fact("day", found.day)
    yield Fact("status", found.status)
    for note in found.notes:
        yield Line(note, Tone.WARN)
    if found.content and found.content.is_adopted:
        yield Line(f"Computed by: {found.content.code_version}. It came with its table, and is right as it is.")
    if found.content and found.content.breaks:
        yield Line(f"It breaks {found.content.breaks}, and was taken over as it is.", Tone.WARN)
    yield Fact("publication", Id(found.publication))
    yield Fact("table version", found.version)
    if found.only_where:
        yield Fact("computed", f"only rows with {found.only_where}; all others were carried over")
    if found.content:
        yield Fact("rows", found.content.rows)
        yield Fact("checksum", found.content.checksum)
        yield Fact("code", found.content.code_version)
        yield Fact("parameters", found.content.parameters)
        yield Fact("inputs", found.content.inputs)
        yield Fact("staged ms", found.content.staged_ms)
        yield Fact("metrics", found.content.metrics)
    yield Fact("files", [{"path": each.path, "bytes": size(each.size), "rows": each.rows} for each in found.files])
    if found.gone:
        yield Fact("reclaimed files" if found.reclaimed else "damaged files", list(found.gone))
    if found.written_since:
        yield Fact("written since", found.written_since)


def _trouble(found: FoundDay) -> Iterator[Line]:
    if found.reclaimed:
        yield Line(
            f"{_are_gone(found)}; main does not name them any more. Files that a later publication replaced are kept "
            "for the rollback window; then maintenance deletes them. The numbers are those that were published.",
            do=f"backfill show {found.table} {found.day}",
        )
    elif found.gone:
        yield Line(
            f"Damaged: {_are_gone(found)}. No reader{f' of {found.on}' if found.on else ''} can read the day. The "
            f"numbers are those that were {'staged' if found.on else 'published'}.",
            Tone.BAD,
            _repair(found),
        )
        if not found.on:
            history = f"backfill history {found.table} --days {found.day}"
            yield Line("An earlier publication may still have its files.", do=history)
    if found.written_since:
        now = found.written_since
        yield Line(
            "Foreign write: another writer changed this day after its last publication. It holds "
            f"{format_count(now['rows'], 'row')} in {format_count(now['files'], 'file')} now. Checksum, metrics, files "
            "and rows that are shown are older: those of the publication.",
            Tone.WARN,
            f"backfill run {found.table} --days {found.day}",
        )


def _are_gone(found: FoundDay) -> str:
    verb = "is" if len(found.gone) == 1 else "are"
    return f"{len(found.gone)} of the day's {format_count(len(found.files), 'file')} {verb} gone"


def _repair(found: FoundDay) -> str:
    if is_raw(found.table):
        return f"backfill raw restore {found.table} {found.day}"
    if found.on.startswith(CAMPAIGN):
        return f"backfill run {plan_of(found.on)}"
    on = f" --on {found.on}" if found.on else ""
    return f"backfill run {found.table} --days {found.day}{on} --force"
