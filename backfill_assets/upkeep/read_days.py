"""What main holds of days now, as read; days whose files nothing doubts have published figures."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import date
from decimal import Decimal
from typing import NoReturn

from backfill_assets.days import TableDay
from backfill_assets.errors import BackfillError, PublicationRefused
from backfill_assets.judge.engine import DayFiles
from backfill_assets.judge.measure import measure_files
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.fingerprints import EMPTY_DAY
from backfill_assets.lakehouse.records import TOTAL
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Metrics, Step, Table
from backfill_assets.state.observed import LogView
from backfill_assets.text import format_are
from backfill_assets.upkeep.effect import ReadDay, published_day

MOST_BYTES = 256 * 2**20
"""Read of a table at most, since a person waits for the alarm; beyond it, file statistics give only rows."""


class ReadDays:
    def __init__(
        self, storage: Storage, steps: Iterable[Step], observed: LogView, doubted: Collection[TableDay]
    ) -> None:
        self._storage, self._observed, self._doubted = storage, observed, set(doubted)
        self._tables = {table.name: table for step in steps for table in step.tables}
        self._read: dict[TableDay, ReadDay] = {}

    def of(self, key: TableDay) -> ReadDay:
        if self._is_as_published(key):
            content = self._observed.content(key)
            return published_day(content) if content else ReadDay()
        if key not in self._read:
            doubted = {each for each in self._doubted if each.table == key.table and each not in self._read}
            self._read |= self._looked_at(key.table, sorted({key, *doubted}))
        return self._read[key]

    def _is_as_published(self, key: TableDay) -> bool:
        state, files = self._observed.states.get(key), self._observed.now(key)
        return key not in self._doubted and (state.physical if state else EMPTY_DAY) == files

    def _looked_at(self, name: str, keys: Sequence[TableDay]) -> dict[TableDay, ReadDay]:
        state, table = self._observed.files.get(name), self._tables.get(name)
        if state is None or table is None:
            return dict.fromkeys(keys, ReadDay(problem="it cannot be read"))
        files = state.of_days(key.day for key in keys)
        gone = {day: self._storage.missing(f"{name}/{file.path}" for file in files[day]) for day in files}
        there = {day: [file.below(name) for file in files[day]] for day in files if files[day] and not gone[day]}
        found = {day: ReadDay(problem=f"{format_are(len(lost), 'file')} gone") for day, lost in gone.items() if lost}
        found |= self._measured(table, there)
        return {key: found.get(key.day, ReadDay()) for key in keys}

    def _measured(self, table: Table, files: DayFiles) -> dict[date, ReadDay]:
        if not files:
            return {}
        size = sum(file.size for some in files.values() for file in some)
        if size > MOST_BYTES:
            return {day: _counted(some) for day, some in files.items()}
        wanted = {"rows", *(f"{TOTAL}{name}" for name in table.totals)}
        try:
            found = measure_files(self._storage, table, files, _no_spark, only=wanted)
        except BackfillError as error:
            if len(files) == 1:
                return dict.fromkeys(files, ReadDay(problem=f"it cannot be read: {error.message.splitlines()[0]}"))
            each = (self._measured(table, {day: some}) for day, some in files.items())
            return {day: held for part in each for day, held in part.items()}
        return {day: _held(found.get(day, {"rows": 0}), table.totals) for day in files}


def _counted(files: Iterable[AddedFile]) -> ReadDay:
    try:
        return ReadDay(sum(each.rows for each in files))
    except PublicationRefused:
        return ReadDay(None)


def _no_spark() -> NoReturn:
    raise LookupError("Rows and totals need no Spark.")


def _held(measured: Metrics, totals: Iterable[str]) -> ReadDay:
    values = {name: measured.get(f"{TOTAL}{name}") for name in totals}
    known = {name: Decimal(str(value)) for name, value in values.items() if value is not None}
    return ReadDay(int(str(measured["rows"])), known)
