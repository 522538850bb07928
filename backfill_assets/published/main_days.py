"""What every day of main holds now, file by file; found without reading the history of the log."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.named_timelines import HeldDay
from backfill_assets.lakehouse.records import DayState
from backfill_assets.publication_log.log import PublicationLog
from backfill_assets.publication_log.pinned import pinned_files


def main_days(log: PublicationLog, tables: Iterable[str]) -> dict[str, dict[date, HeldDay]]:
    """By table and day, as of the last closed entry; a day that was withdrawn is left out."""
    wanted = list(tables)
    head = log.head()
    states = log.day_states(head, wanted)
    found: dict[str, dict[date, HeldDay]] = {}
    for table in wanted:
        active = pinned_files(log, head, table)
        files = {day: [active.active[path] for path in paths] for day, paths in active.by_day().items()}
        known = {day: state for (name, day), state in states.items() if name == table}
        held = {day: held_day(day, files.get(day, ()), known.get(day)) for day in sorted({*files, *known})}
        found[table] = {day: each for day, each in held.items() if each.content is not None or each.files}
    return found


def held_day(day: date, files: Iterable[AddedFile], state: DayState | None) -> HeldDay:
    """A day with ``files``, of which the log knows ``state``."""
    found = tuple(sorted(files, key=lambda file: file.path))
    physical = fingerprints.physical(file.path for file in found)
    if state is not None and state.physical == physical:
        return HeldDay(day=day, content=state.content, files=found)
    return HeldDay(day=day, files=found, foreign=physical if found else "")
