"""Rewinding makes a timeline of days as they were at a moment, by naming files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from backfill_assets import clock
from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest, PublicationRefused
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.named_timelines import (
    NamedTimeline,
    create_timeline,
    delete_timeline,
    new_timeline_id,
    timeline_called,
)
from backfill_assets.lakehouse.records import DayRecord, DayRecords
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import expand_tables, steps_of, walk_downstream
from backfill_assets.publish.log import PublicationLog
from backfill_assets.publish.past import Brought, brought_days
from backfill_assets.state.boundaries import boundary_line
from backfill_assets.state.positions import read_boundaries
from backfill_assets.state.view import View, differing, find_moment, is_version
from backfill_assets.text import format_count
from backfill_assets.timeline.arrivals import base_of, missing_files, needed_tables, raw_reads
from backfill_assets.timeline.view import inputs_shown, made_of, tables_around


@dataclass(frozen=True)
class RewindRequest:
    """Rewinds ``tables`` and their readers: the given ``days``, or all that differ."""

    name: str
    tables: Sequence[str]
    days: DayRange | None = None
    by: str = ""


def new_timeline(storage: Storage, name: str, by: str, now: datetime) -> NamedTimeline:
    base = View.newest(storage)
    return NamedTimeline(
        id=new_timeline_id(now),
        name=name,
        made_at=now,
        by=by,
        base=base.base,
        changed_at=now,
    )


def copied_timeline(timeline: NamedTimeline, name: str, by: str, now: datetime) -> NamedTimeline:
    values = {"id": new_timeline_id(now), "name": name, "made_at": now, "changed_at": now, "by": by, "revision": 0}
    own = {"change": f"copied from {timeline.name}", "keep_until": None, "of_version": None}
    return timeline.model_copy(update={**values, **own})


def differing_from_main(storage: Storage, timeline: NamedTimeline) -> dict[str, set[date]]:
    own = timeline.records
    found = differing(own, View.newest(storage).records(own))
    return {table: found[table] & own[table].keys() for table in own}


def days_of_same_logic(storage: Storage, timeline: NamedTimeline) -> dict[str, set[date]]:
    own = timeline.records
    main = View.newest(storage).records(own)
    return {
        table: {day for day, held in days.items() if _logic(held) and _logic(held) == _logic(main[table].get(day))}
        for table, days in own.items()
    }


def _logic(record: DayRecord | None) -> tuple[str, str] | None:
    content = record.content if record else None
    return (content.code_version, content.parameters) if content else None


def rewound_timeline(
    storage: Storage, steps: Sequence[Step], asked: RewindRequest, moment: View, now: datetime
) -> NamedTimeline:
    """The timeline for ``asked``, not written yet. Raises :class:`InvalidRequest` for raw tables and if nothing
    differs, :class:`PublicationRefused` if files are gone, and before an adoption.
    """
    _refuse_raw(steps, asked.tables)
    timeline = new_timeline(storage, asked.name, asked.by, now)
    around = tables_around(steps, {name for step in _concerned(steps, asked) for name in step.table_names})
    since = View.at(storage, timeline.base).records(around)
    then = moment.records(around)
    held = rewound_days(steps, asked, then, since)
    if not held:
        raise InvalidRequest(
            f"Nothing of {', '.join(asked.tables)} differs from {moment.name}: there is nothing to rewind.",
            hint=f"backfill timeline rewind {asked.tables[0]} lists the moments worth going to; --days A..B takes days "
            "that are equal too.",
        )
    _refuse_before_adoption(held, then, since, moment.name)
    require_files(storage, held, moment.name)
    reads = {table: days for table, days in held.items() if table in moment.versions}
    return timeline.with_days(held).model_copy(
        update={
            "change": f"rewound to {moment.name}",
            "moment": moment.name,
            "targets": tuple(asked.tables),
            "moment_base": base_of(moment, needed_tables(steps, held)),
            "moment_reads": raw_reads(moment, steps, held),
            "read_up_to": tuple(map(boundary_line, read_boundaries(moment, reads))),
        }
    )


def _refuse_before_adoption(tables: Iterable[str], then: DayRecords, since: DayRecords, moment: str) -> None:
    """An adopted table's earlier days were elsewhere: a rewind would show them as lost."""
    for table in tables:
        adopted = (each for each in since.get(table, {}).values() if each.content and each.content.is_adopted)
        if not then.get(table) and any(adopted):
            raise PublicationRefused(
                f"{table} was adopted after {moment}: before it, nothing here knew its days.",
                hint=f"Choose a later moment: backfill timeline rewind {table} lists them. To give the table back: "
                f"backfill adopt --release {table}",
            )


def rewound_days(
    steps: Sequence[Step], asked: RewindRequest, then: DayRecords, since: DayRecords
) -> dict[str, dict[date, DayRecord]]:
    """Days of the requested tables and of their readers, with what the timeline will hold of each. Pure.

    ``then`` and ``since`` are all days at the moment and now. Requested days become as they were, and so do their
    readers, if computed from exactly what the timeline shows; others stay published, and are stale until it goes
    forward.
    """
    given, shown = _asked_days(steps, asked, then, since), {table: dict(held) for table, held in since.items()}

    def visit(step: Step, own: set[date], readers: set[date]) -> set[date]:
        return (own | readers) & {day for name in step.table_names for of in (then, since) for day in of.get(name, ())}

    found: dict[str, dict[date, DayRecord]] = {}
    concerned = _concerned(steps, asked)
    days = walk_downstream(concerned, given, visit)
    for step in steps_of(concerned, days):
        own = days[step.name]
        back = own & {day for name in step.table_names for day in given.get(name, ())}
        back |= _right_as_they_were(step, own - back, then, shown)
        for name in step.table_names:
            held = {
                day: (then if day in back else since).get(name, {}).get(day, DayRecord(day=day)) for day in sorted(own)
            }
            found[name] = held
            shown.setdefault(name, {}).update(held)
    return found


def _right_as_they_were(step: Step, days: set[date], then: DayRecords, shown: DayRecords) -> set[date]:
    held = [then.get(name, {}).get(day, DayRecord(day=day)) for name in step.table_names for day in days]
    something = {each.day for each in held if each.content is not None or each.foreign}
    wrong = {each.day for each in held if each.foreign}
    for name in step.table_names:
        contents = {day: each.content for day, each in then.get(name, {}).items() if day in days and each.content}
        wrong |= contents.keys() - made_of(step, contents, shown)
    nothing = sorted(days - something)
    for version in step.versions:
        before, now = (inputs_shown(step, version, nothing, of) for of in (then, shown))
        wrong |= {day for day in nothing if before[day] != now[day]}
    return days - wrong


def _concerned(steps: Sequence[Step], asked: RewindRequest) -> list[Step]:
    return steps_of(steps, expand_tables(steps, asked.tables, downstream=True))


def _asked_days(
    steps: Sequence[Step], asked: RewindRequest, then: DayRecords, since: DayRecords
) -> dict[str, set[date]]:
    found = {}
    for step in steps_of(steps, asked.tables):
        for name in step.table_names:
            before, now = then.get(name, {}), since.get(name, {})
            if asked.days is None:
                found[name] = differing({name: before}, {name: now})[name]
            else:
                found[name] = set(step.cadence.starts(asked.days)) & {*before, *now}
    return found


def _refuse_raw(steps: Sequence[Step], tables: Collection[str]) -> None:
    for step in steps_of(steps, tables):
        if step.external is not None:
            step.external.refuse(
                "it is not rewound", "Rewind what is computed from it, or rewind it where it is written."
            )
        if step.source is not None:
            raise InvalidRequest(
                f"{step.name} is not rewound: raw is only ever appended to.",
                hint="Rewind what is computed from it. Going forward takes the rows that arrived since from raw, once.",
            )


def require_files(storage: Storage, held: DayRecords, moment: str) -> None:
    """Raise :class:`PublicationRefused` with the earliest possible moment of each table if files are gone."""
    gone = {table: missing_files(storage, table, days.values()) for table, days in held.items()}
    lost = {table: len(paths) for table, paths in gone.items() if paths}
    if not lost:
        return
    earliest = {table: earliest_moment(storage, table) for table in lost}
    named = "; ".join(
        f"{table}: {format_count(count, 'file')} gone, "
        + (f"the earliest moment is {at.publication} ({at.at:%Y-%m-%d %H:%M:%S} UTC)" if at else "no moment is left")
        for table, count in lost.items()
        for at in [earliest[table]]
    )
    raise PublicationRefused(
        f"What was published at {moment} is not kept any more. {named}. Nothing was changed.",
        hint="Choose a later moment: backfill timeline rewind TABLES lists them. Or rebuild the days.",
    )


def earliest_moment(storage: Storage, table: str) -> Brought | None:
    """The oldest publication whose state is complete, by bisection: files are reclaimed oldest first."""
    brought = brought_days(PublicationLog(storage).files(), [table])
    records = [*{each.publication: each for each in brought}.values()][::-1]
    low, high = 0, len(records)
    while low < high:
        middle = (low + high) // 2
        held = View.closed(storage, records[middle].publication).records([table])
        low, high = (middle + 1, high) if missing_files(storage, table, held[table].values()) else (low, middle)
    return records[low] if low < len(records) else None


# ------------------------------------------------------------------ new timelines on a base of one's choice

_MAIN = "main"


def timeline_based_on(storage: Storage, base: str, name: str, by: str, now: datetime) -> NamedTimeline:
    """A timeline without own days, based on main, a publication or a time in UTC, or a copy of a timeline; not
    written yet.

    Raises :class:`InvalidRequest` if ``base`` names no state, and :class:`PublicationRefused` if files are gone.
    """
    if base == _MAIN:
        return new_timeline(storage, name, by, now)
    if (other := timeline_called(storage, base, now)) is not None:
        return copied_timeline(other, name, by, now)
    if is_version(base):
        raise InvalidRequest(
            f"{base} is a version of one table, and a base is a state of all of them.",
            hint="Name a publication (backfill history), a time in UTC, or another timeline.",
        )
    moment = find_moment(storage, base, "")
    require_files(storage, moment.records(moment.versions), moment.name)
    change = f"created at {moment.name}"
    return new_timeline(storage, name, by, now).model_copy(update={"base": moment.base, "change": change})


# ------------------------------------------------------------------ beside reclaiming


def create_whole(storage: Storage, make: Callable[[], NamedTimeline]) -> NamedTimeline:
    """Write the timeline from ``make``, whose files may be reclaimed meanwhile.

    Reclaiming looks at timelines before and after it logs what will go, this at the log after it wrote: one of them
    sees the other. Raises like :func:`create_timeline`; :class:`PublicationRefused` for files that are going leaves
    no timeline.
    """
    log = PublicationLog(storage)
    before = log.head().state
    made = create_timeline(storage, make())
    after = log.head().state
    if not before.reclaiming and after.reclaimed == before.reclaimed:
        return made
    going = {path for file in after.reclaiming.values() for path in log.reclaim_paths(file)}
    held = View.at(storage, made.base).records(made.base.versions)
    named = [f"{table}/{each.path}" for days in (held, made.records) for table in days for each in _files(days[table])]
    if going.isdisjoint(named) and not storage.missing(named):
        return made
    delete_timeline(storage, made, clock.now())
    raise PublicationRefused(
        f"Files of {made.change.partition(' to ')[2] or made.change} are being reclaimed. Nothing was changed.",
        hint="Type it again: it says which moment is kept.",
    )


def _files(held: Mapping[date, DayRecord]) -> list[AddedFile]:
    return [file for each in held.values() for file in each.files]
