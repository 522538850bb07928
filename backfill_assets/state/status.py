"""Which days are missing, fresh, stale or of a foreign write, and which readers of a publication become stale. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date

from backfill_assets.days import Cadence, DayRange, TableDay
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.records import DayContent, DayState, TableChange, content_in, day_record, logical_of
from backfill_assets.model.declaration import Reads, Source, Step, Version
from backfill_assets.model.graph import NO_DAYS, Days, Filled, made_of, reading
from backfill_assets.state.diagnosis import STALE, Cause, cause_of
from backfill_assets.state.input_changes import InputChanges
from backfill_assets.state.observed import LogView, filled_in

NO_PARAMETERS = ""


Entries = Mapping[str, Mapping[int, str]]
"""Logical fingerprints for :func:`fingerprints.inputs_of`, by table and ordinal."""
Statuses = Mapping[str, Mapping[date, Cause | None]]
"""By table in build order, and by day ascending; None: fresh."""


def day_statuses(
    steps: Sequence[Step],
    observed: LogView,
    days: DayRange | None = None,
    *,
    as_published: bool = False,
    versions: Mapping[str, str] | None = None,
) -> Statuses:
    """Statuses of every known day of ``steps``, or of each day of ``days``.

    - ``steps`` are in build order, with all they read.
    - Known days were published, or the same day of an input was. Unreadable tables, and all that is built from them,
      have none.
    - A day is compared with the current version, that of ``versions``, or (``as_published``) its own. A day of another
      version is ``CODE_CHANGED``, or ``GONE_VERSION`` if that is not declared.
    - Adopted days are fresh.
    """
    published = _by_table(observed)
    known = _known_days(steps, observed, published) if days is None else {}
    entries = _entries(steps, observed, published)
    found: dict[str, Mapping[date, Cause | None]] = {}
    undecided, changes = observed.undecided(steps), InputChanges(steps, observed)
    for step in steps:
        if step.name in undecided:
            found |= {name: {} for name in step.table_names}
            continue
        asked = step.cadence.starts(days) if days is not None else sorted(known[step.name])
        wanted = _versions(step, (versions or {}).get(step.name), as_published)
        found |= _of_step(step, asked, changes, entries, wanted)
    return found


def diagnosed(statuses: Statuses, beside: Mapping[TableDay, Iterable[Cause]]) -> Statuses:
    """Adds signs beside the logs: each day gets the gravest cause."""
    found = {table: {**days} for table, days in statuses.items()}
    for (table, day), signs in beside.items():
        if day in (days := found.get(table, {})):
            days[day] = cause_of(filter(None, (days[day], *signs)))
    return found


def _versions(step: Step, wanted: str | None, as_published: bool) -> Mapping[str, Version]:
    if step.source:
        return {}
    return {version.name: version for version in (step.versions if as_published else [step.version(wanted)])}


def _of_step(
    step: Step, days: Iterable[date], changes: InputChanges, entries: Entries, versions: Mapping[str, Version]
) -> dict[str, Mapping[date, Cause | None]]:
    """Tables of a step share its inputs' fingerprint."""
    found: dict[str, dict[date, Cause | None]] = {table.name: {} for table in step.tables}
    observed, filled = changes.observed, changes.observed.filled([step])
    for day in days:
        judged: dict[tuple[str, str], Cause | None] = {}
        for name, statuses in found.items():
            content = _known_content(step, name, day, observed)
            if not isinstance(content, DayContent):
                statuses[day] = content
                continue
            version = versions.get(content.code_version)
            if step.source or content.is_adopted or version is None or content.parameters != NO_PARAMETERS:
                statuses[day] = _whatever_its_inputs(step, day, content)
                continue
            made = (version.name, content.inputs)
            if made not in judged:
                now = fingerprints.inputs_of(_inputs_of(step, version, day, entries, filled))
                judged[made] = None if content.inputs == now else changes.cause(step, version, day)
            statuses[day] = judged[made]
    return dict(found)


def _whatever_its_inputs(step: Step, day: date, content: DayContent) -> Cause | None:
    if content.is_adopted:
        return None
    if step.source is not None:
        return Cause.CODE_CHANGED if _lies_elsewhere(step.source, day, content) else None
    return Cause.CODE_CHANGED if declared_version(step, content) else Cause.GONE_VERSION


def _lies_elsewhere(source: Source, day: date, content: DayContent) -> bool:
    """Do rows of a raw day belong to other days, as placement is declared now?"""
    return source.placement.concerns(day, content.code_version, content.metrics)


def _known_content(step: Step, table: str, day: date, observed: LogView) -> DayContent | Cause:
    state = observed.states.get(key := TableDay(table, day))
    physical, foreign = observed.now(key), Cause.FOREIGN_RAW if step.source else Cause.FOREIGN_WRITE
    if state is not None and state.content is not None:
        return state.content if state.physical == physical else foreign
    return Cause.MISSING if physical == fingerprints.EMPTY_DAY else foreign


def _inputs_of(step: Step, version: Version, day: date, entries: Entries, filled: Filled) -> dict[str, list[str]]:
    if filled:
        made = made_of(step, version, day, filled)
        ordinals = {table: range(days.first.toordinal(), days.last.toordinal() + 1) for table, days in made.items()}
        return {table: [entries[table].get(each) or _never(each) for each in days] for table, days in ordinals.items()}
    # By ordinals and not through DayRange, which would take most of the time over tens of thousands of days.
    first = day.toordinal()
    last = first if step.cadence is Cadence.DAILY else step.cadence.period(day).last.toordinal()
    return {read.table: _read(read, first, last, entries[read.table]) for read in version.reads}


def _read(read: Reads, first: int, last: int, entries: Mapping[int, str]) -> list[str]:
    days = range(first + read.first, last + read.last + 1)
    return [entries.get(each) or _never(each) for each in days]


def _never(ordinal: int) -> str:
    return fingerprints.entry(date.fromordinal(ordinal), fingerprints.NEVER_PUBLISHED)


def _by_table(observed: LogView) -> dict[str, dict[date, DayState]]:
    states: dict[str, dict[date, DayState]] = {}
    for (table, day), state in observed.states.items():
        states.setdefault(table, {})[day] = state
    return states


def _entries(steps: Sequence[Step], observed: LogView, published: Mapping[str, Mapping[date, DayState]]) -> Entries:
    entries: dict[str, dict[int, str]] = {}
    for read in {read.table for step in steps for version in step.versions for read in version.reads}:
        states, physicals = published.get(read, {}), observed.pinned.get(read, {})
        for day in states.keys() | physicals.keys():
            found = logical_of(states.get(day), physicals.get(day, fingerprints.EMPTY_DAY))
            entries.setdefault(read, {})[day.toordinal()] = fingerprints.entry(day, found)
        entries.setdefault(read, {})
    return entries


def _known_days(
    steps: Sequence[Step], observed: LogView, published: Mapping[str, Mapping[date, DayState]]
) -> dict[str, set[date]]:
    known: dict[str, set[date]] = {}
    for step in steps:
        same_day = (read.table for read in step.reads if read.first == read.last == 0)
        days = set(step.cadence.starts(set().union(*(known.get(table, set()) for table in same_day))))
        for table in step.tables:
            seen = published.get(table.name, {}).keys() | observed.newest.get(table.name, {}).keys()
            days.update(seen)
        known |= dict.fromkeys(step.table_names, days)
    return known


# ------------------------------------------------------------------ readers of days that change


def published_version(step: Step, day: date, states: Mapping[TableDay, DayState]) -> str | None:
    for table in step.table_names:
        if content := content_in(states, TableDay(table, day)):
            # With parameters it is other code than the declared version of that name.
            return f"{content.code_version} {content.parameters}" if content.parameters else content.code_version
    return None


def reading_as_published(step: Step, changed: Days, states: Mapping[TableDay, DayState]) -> set[date]:
    """Periods of ``step`` whose own version reads a changed day; unpublished ones by the current version."""
    filled = filled_in([step], states)
    found = {version.name: reading(step, changed, version, filled) for version in step.versions}
    return {
        day
        for name, days in found.items()
        for day in days
        if (published_version(step, day, states) or step.current) == name
    }


def declared_version(step: Step, content: DayContent) -> Version | None:
    """The version that made ``content``; None if it is not declared any more."""
    if content.parameters:
        return None
    return next((version for version in step.versions if version.name == content.code_version), None)


def stale_readers(
    steps: Sequence[Step], view: LogView, changed: Days, brought: Days = NO_DAYS
) -> dict[str, tuple[date, ...]]:
    """Published days that read a ``changed`` day and are stale in ``view``, without those ``brought`` and of unreadable
    tables.
    """
    entries, changes = _entries(steps, view, _by_table(view)), InputChanges(steps, view)
    found = dict[str, tuple[date, ...]]()
    for step in view.readable(steps):
        days = reading_as_published(step, changed, view.states) if step.versions else set()
        for table, statuses in _of_step(step, sorted(days), changes, entries, _versions(step, None, True)).items():
            own = brought.get(table, ())
            stale = tuple(day for day, status in statuses.items() if status in STALE and day not in own)
            found |= {table: stale} if stale else {}
    return found


def left_stale(steps: Sequence[Step], view: LogView, brought: Iterable[TableChange]) -> dict[str, tuple[date, ...]]:
    """:func:`stale_readers` of what a publication is about to bring to ``view``."""
    own = {
        change.table: {day.day: day_record(day.day, day.adds, day.content) for day in change.days} for change in brought
    }
    changed = {
        table: {day for day, record in days.items() if record.logical != view.logical(TableDay(table, day))}
        for table, days in own.items()
    }
    return stale_readers(steps, view.over(own), changed, own)
