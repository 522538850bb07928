"""Which published days read which others, and which are stale once a publication has brought other content."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date

from backfill_assets.days import DayRange, TableDay
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.records import DayContent, DayState, TableChange
from backfill_assets.model.declaration import Step, Version
from backfill_assets.model.graph import Days, made_of, reading
from backfill_assets.state.observed import LogView

Logicals = Mapping[TableDay, str]
"""Logical fingerprints, by table and day."""


def published_version(step: Step, day: date, states: Mapping[TableDay, DayState]) -> str | None:
    """The version that ``day`` of ``step`` was published with; None for a day that is not published."""
    for table in step.tables:
        state = states.get(TableDay(table.name, day))
        if state is not None and state.content is not None:
            content = state.content
            # With parameters it is other code than the declared version of that name.
            return f"{content.code_version} {content.parameters}" if content.parameters else content.code_version
    return None


def reading_as_published(step: Step, changed: Days, states: Mapping[TableDay, DayState]) -> set[date]:
    """The periods of ``step`` whose own version reads one of the changed days; the current one, of those without."""
    found = {version.name: reading(step, changed, version) for version in step.versions}
    return {
        day
        for name, days in found.items()
        for day in days
        if (published_version(step, day, states) or step.current) == name
    }


def inputs_in(view: LogView, reads: Mapping[str, DayRange], after: Logicals) -> str:
    """The fingerprint of the days of ``reads``, as ``view`` shows them with ``after`` over it."""
    keys = {table: [TableDay(table, day) for day in days] for table, days in reads.items()}
    return fingerprints.inputs(
        {
            table: {key.day: after[key] if key in after else view.logical(key) for key in of_table}
            for table, of_table in keys.items()
        }
    )


def declared_version(step: Step, content: DayContent) -> Version | None:
    """The version that made ``content``; None if it is not declared any more."""
    if content.parameters:
        return None
    return next((version for version in step.versions if version.name == content.code_version), None)


def changed_by(view: LogView, after: Logicals) -> dict[str, set[date]]:
    """The days, by table, that hold something else than ``view`` shows once they hold ``after``."""
    changed: dict[str, set[date]] = {}
    for key, logical in after.items():
        if logical != view.logical(key):
            changed.setdefault(key.table, set()).add(key.day)
    return changed


def stale_readers(steps: Iterable[Step], view: LogView, changed: Days, after: Logicals) -> dict[str, tuple[date, ...]]:
    """By table, the published days that read one of the ``changed`` days and are made of something else than ``after``.

    Days that are in ``after`` themselves are left out, and so are days with a foreign write: what they are made of is
    not known.
    """
    found: dict[str, tuple[date, ...]] = {}
    for step in steps:
        readers = reading_as_published(step, changed, view.states) if changed and step.versions else set()
        for table in step.table_names:
            stale = [day for day in sorted(readers) if _is_stale(step, TableDay(table, day), view, after)]
            found |= {table: tuple(stale)} if stale else {}
    return found


def left_stale(steps: Iterable[Step], view: LogView, brought: Iterable[TableChange]) -> dict[str, tuple[date, ...]]:
    """:func:`stale_readers` of what a publication is about to bring."""
    after = {TableDay(change.table, day.day): day.logical for change in brought for day in change.days}
    return stale_readers(steps, view, changed_by(view, after), after)


def _is_stale(step: Step, key: TableDay, view: LogView, after: Logicals) -> bool:
    state = view.states.get(key)
    if key in after or state is None or state.content is None or state.physical != view.physical(key):
        return False
    version = declared_version(step, state.content)
    return version is None or inputs_in(view, made_of(step, version, key.day), after) != state.content.inputs
