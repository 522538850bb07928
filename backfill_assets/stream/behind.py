"""Which days follow later than they should: their raw rows are published, and what is made of them is not."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import date

from backfill_assets.days import TableDay
from backfill_assets.lakehouse.records import DayState, is_of_stream
from backfill_assets.model.declaration import Step
from backfill_assets.publication_log.log import PublicationLog
from backfill_assets.published.of_streams import moved_by_streams
from backfill_assets.rebuild import decide


def find_days_behind(log: PublicationLog, raw: str, refined: Step) -> set[date]:
    """:func:`days_behind` as of now."""
    states = log.day_states(log.head(), {raw, *refined.table_names})
    # A compaction hides who brought the rows: of these days the log is asked.
    hidden = [
        each
        for each, state in states.items()
        if each.table == raw and not is_of_stream(state.publication) and not _is_built(refined, each.day, states)
    ]
    return days_behind(raw, refined, states, moved_by_streams(log.storage, -1, hidden))


def days_behind(
    raw: str, refined: Step, states: Mapping[TableDay, DayState], streamed: Collection[TableDay] = frozenset()
) -> set[date]:
    """The days that a stream brings up to date when it starts: one that was killed may have left them.

    They are those whose ``refined`` table was published from other raw rows than there are, and those that only a
    stream has brought rows to; ``streamed`` are such days that were compacted since. Other days that were never built
    wait for a person: they are history.
    """
    behind = set()
    for (table, day), state in states.items():
        if table != raw or state.content is None:
            continue
        built = states.get(TableDay(refined.name, day))
        if built is None or built.content is None:
            if state.content.rows and (is_of_stream(state.publication) or TableDay(raw, day) in streamed):
                behind.add(day)
        elif built.content.inputs != _inputs(refined, day, raw, state):
            behind.add(day)
    return behind


def _is_built(refined: Step, day: date, states: Mapping[TableDay, DayState]) -> bool:
    built = states.get(TableDay(refined.name, day))
    return built is not None and built.content is not None


def _inputs(refined: Step, day: date, raw: str, state: DayState) -> str:
    logicals = {raw: {day: state.content.logical if state.content else ""}}
    return decide.wanted(refined, refined.version(), [day], logicals)[day].inputs
