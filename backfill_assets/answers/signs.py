"""Causes that no log shows: missing files, gates of streams, edited logic, rollbacks, too few rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from backfill_assets.days import Cadence, DayRange, TableDay
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import expand_tables
from backfill_assets.quality.as_usual import fewer_rows
from backfill_assets.state.diagnosis import Cause
from backfill_assets.state.edited_logic import EditedLogic
from backfill_assets.state.observed import LogView
from backfill_assets.state.positions import is_raw
from backfill_assets.state.rolled_back import NOTHING_UNDONE, Undo
from backfill_assets.stream.lease import HeldEvents

_LATELY, _SHORT = 7, 0.1
"""The newest seven days of a source are reported if they lack a tenth of usual rows."""


def beside_the_logs(
    steps: Sequence[Step],
    damaged: Iterable[TableDay] = (),
    held: Iterable[HeldEvents] = (),
    edited: Iterable[EditedLogic] = (),
    undone: Mapping[TableDay, Undo] = NOTHING_UNDONE,
) -> dict[TableDay, set[Cause]]:
    found: dict[TableDay, set[Cause]] = {}
    for key in damaged:
        found.setdefault(key, set()).add(Cause.LOST_RAW if is_raw(key.table) else Cause.LOST_FILES)
    for each in held:
        for table in _behind(steps, each.table):
            found.setdefault(TableDay(table, each.day), set()).add(Cause.HELD_BACK)
    for version in edited:
        for key in (TableDay(table, day) for table in version.tables for day in version.days):
            found.setdefault(key, set()).add(Cause.EDITED_LOGIC)
    for key, undo in undone.items():
        if undo.cause is not None:
            found.setdefault(key, set()).add(undo.cause)
    return found


def _behind(steps: Sequence[Step], table: str) -> list[str]:
    daily = [step for step in steps if step.cadence is Cadence.DAILY]
    together = next((step.table_names for step in daily if table in step.table_names), ())
    return expand_tables(daily, together, downstream=True)


def short_days(
    step: Step, observed: LogView, days: DayRange | None, least: float = _SHORT
) -> Iterator[tuple[TableDay, str]]:
    if step.source is None:
        return
    own = {key.day: each.content for key, each in observed.states.items() if key.table == step.name}
    measured = {day: {**each.metrics, "rows": each.rows} for day, each in own.items() if each}
    lately = sorted(day for day in measured if days is None or day in days)[-_LATELY:]
    for day in lately:
        if words := fewer_rows(step, measured, day, least):
            yield TableDay(step.name, day), words
