"""Reads published days again and compares them with the publication log and with each other."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from backfill_assets.days import DayRange, TableDay, all_days, parse_day
from backfill_assets.judge.by_pandera import AGREES, second_opinion
from backfill_assets.judge.engine import files_by_day
from backfill_assets.judge.measure import FilesUnreadable, measure_files
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.delta_log import read_log
from backfill_assets.lakehouse.records import DayContent, InputRead
from backfill_assets.lakehouse.rows import published_rows
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.checks import struct_type
from backfill_assets.model.declaration import DayFacts, Metrics, RuleOutcome, Table
from backfill_assets.publish.closed_days import Books, Declared
from backfill_assets.publish.log import PublicationLog
from backfill_assets.quality import gates, measures, watchdogs
from backfill_assets.quality.watchdogs import RecordedDay
from backfill_assets.state.closed import with_waiting
from backfill_assets.state.diagnosis import FOREIGN, INPUT_CHANGED
from backfill_assets.state.observed import LogView, observe_each
from backfill_assets.state.status import day_statuses
from backfill_assets.upkeep.trouble import digest_beside

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DAMAGED = "FAILED_READ_FILE"
_LONGEST_WORDS = 200


@dataclass(frozen=True)
class WatchedDay:
    table: str
    day: date
    publication: str
    physical: str
    rows: int
    rules: tuple[RuleOutcome, ...]
    is_behind: bool = False
    """Inputs or judging tables gained rows: tables may disagree."""
    lost: bool = False
    beside: str = ""

    @property
    def passed(self) -> bool:
        return all(rule.passed for rule in self.rules)

    @property
    def is_wrong(self) -> bool:
        """Whether files or rows are not as published, or tables disagree although nothing came since. pandera against
        the judge says nothing about the rows.
        """
        broken = {rule.rule for rule in self.rules if not rule.passed and rule.rule != AGREES}
        return bool(broken & {watchdogs.FILES, watchdogs.CONTENT}) or (bool(broken) and not self.is_behind)


@dataclass
class Watch:
    """Reads each table in one pass over all days that any day is judged by, and unchanged files once."""

    catalog: Catalog
    storage: Storage
    log: PublicationLog
    spark: Callable[[], SparkSession]
    believes_hashes: bool = False
    """Rows were staged just now: Spark hashes nothing again."""
    asks_pandera: bool = False
    """pandera also validates the newest day of each table, in half a second each."""
    _read: dict[TableDay, str] = field(default_factory=dict)
    _measured: dict[TableDay, Metrics] = field(default_factory=dict)
    _damaged: dict[TableDay, str] = field(default_factory=dict)
    _gone: set[TableDay] = field(default_factory=set)

    def look(self, tables: Sequence[Table], days: Iterable[date]) -> list[WatchedDay]:
        """Verdicts on published ``days``, of weekly and monthly tables by first day of a period.

        External tables are not judged. Raises :class:`LakehouseUnusable` for one of ``tables``; other unreadable
        ones judge nothing.
        """
        asked, tables = sorted(set(days)), [table for table in tables if table.layer != "external"]
        needed = {table.name: table for table in tables}
        needed |= {name: self.catalog.table(name) for t in tables for name in watchdogs.metrics_needed(t)}
        sight = observe_each(self.storage, {*needed, *_read_by(self.catalog, needed)}, self.log)
        sight.require(table.name for table in tables)
        needed = {name: table for name, table in needed.items() if name not in sight.unreadable}
        watched = {table.name: [day for day in asked if _published(sight, table.name, day)] for table in tables}
        columns = self._columns_then(sight, watched)
        self._measure(needed, sight, _days_to_measure(self.catalog, tables, watched))
        found = [self._judge(table, day, sight, columns) for table in tables for day in watched[table.name]]
        judged = _with_those_behind(self.catalog, found, sight)
        return self._with_second_opinions(judged, sight) if self.asks_pandera else judged

    def altered(self, tables: Iterable[str]) -> dict[str, set[date]]:
        """Days with a file gone or of another size, without unreadable tables."""
        named = sorted(tables)
        files = {
            name: list(state.active.values())
            for name, state in observe_each(self.storage, named, self.log).files.items()
        }
        sizes = self.storage.sizes(f"{name}/{file.path}" for name in files for file in files[name])
        found = {
            name: {parse_day(file.day) for file in files[name] if sizes[f"{name}/{file.path}"] != file.size}
            for name in files
        }
        return {name: days for name, days in found.items() if days}

    def _with_second_opinions(self, found: Sequence[WatchedDay], sight: LogView) -> list[WatchedDay]:
        newest = {each.table: each for each in sorted(found, key=lambda each: each.day) if each.rows}
        said = {each.table: self._second_opinion(each, sight) for each in newest.values()}
        return [
            replace(each, rules=(*each.rules, said[each.table])) if newest.get(each.table) is each else each
            for each in found
        ]

    def _second_opinion(self, watched: WatchedDay, sight: LogView) -> RuleOutcome:
        table = self.catalog.table(watched.table)
        by_day = sight.files[watched.table].of_days([watched.day])
        files = {day: [file.below(watched.table) for file in some] for day, some in by_day.items()}
        violating = int(str(self._measured[TableDay(watched.table, watched.day)][gates.VIOLATING]))
        return second_opinion(self.storage, table, files, violating).as_outcome(AGREES, "consistency")

    def _columns_then(self, sight: LogView, watched: Mapping[str, Sequence[date]]) -> dict[tuple[str, str], set[str]]:
        keys = (TableDay(table, day) for table, days in watched.items() for day in days)
        # A day that was never published may have the rows of a foreign write.
        wanted = {sight.states[key].publication for key in keys if key in sight.states}
        return {
            (prepared.publication.id, change.table): columns_of(change.table_schema)
            for prepared in self.log.prepared_of(wanted)
            for change in prepared.publication.tables
        }

    def _measure(self, tables: Mapping[str, Table], sight: LogView, days: Mapping[str, Collection[date]]) -> None:
        for name, table in tables.items():
            files = {day: sight.now(TableDay(name, day)) for day in days.get(name, ())}
            wanted = {day for day, has in files.items() if self._read.get(TableDay(name, day)) != has}
            gone = {day for day in wanted if self._missing(sight, name, day)}
            for key in (TableDay(name, day) for day in wanted):
                self._damaged.pop(key, None)
                self._read[key] = files[key.day]
            self._gone -= {TableDay(name, day) for day in wanted}
            self._gone |= {TableDay(name, day) for day in gone}
            found = self._readable(table, sight.files[name].version, sorted(wanted - gone))
            zero = measures.zero_metrics(table)
            self._measured |= {TableDay(name, day): found.get(day, zero) for day in wanted}

    def _readable(self, table: Table, version: int, days: Sequence[date]) -> dict[date, Metrics]:
        try:
            return self._pass(table, version, days)
        except (FilesUnreadable, PySparkException, Py4JJavaError) as error:
            if not isinstance(error, FilesUnreadable) and _DAMAGED not in str(error):
                raise
            if len(days) == 1:
                self._damaged[TableDay(table.name, days[0])] = _first_line(str(error))
                return {}
        half = len(days) // 2
        parts = (self._readable(table, version, part) for part in (days[:half], days[half:]))
        return {day: found for part in parts for day, found in part.items()}

    def _pass(self, table: Table, version: int, days: Collection[date]) -> dict[date, Metrics]:
        if version < 0 or not days:
            return {}

        def rows() -> DataFrame:
            read = InputRead(table=table.name, version=version, days=dict.fromkeys(days, ""))
            return published_rows(self.spark(), self.storage, read, struct_type(table.contract))

        by_day = read_log(self.storage, table.name, version).of_days(days)
        files = files_by_day(table.name, (file for listed in by_day.values() for file in listed))
        return measure_files(self.storage, table, files, rows, afresh=not self.believes_hashes)

    def _judge(
        self, table: Table, day: date, sight: LogView, columns: Mapping[tuple[str, str], set[str]]
    ) -> WatchedDay:
        state = sight.states.get(TableDay(table.name, day))
        publication = state.publication if state else ""
        physical = sight.now(TableDay(table.name, day))
        content = state.content if state and state.content else DayContent(rows=0, checksum="0")
        same_columns = columns.get((publication, table.name)) == set(struct_type(table.contract).names)
        recorded = RecordedDay(
            rows=content.rows,
            # Raw is appended to: its parts may have been published with different columns.
            checksum=content.checksum if same_columns and table.layer != "raw" else None,
            content_hash_sum=_text(content.metrics.get("content_hash_sum")),
            files_as_published=bool(state and state.content) and state is not None and state.physical == physical,
            missing_files=tuple(self._missing(sight, table.name, day)),
            unreadable=self._damaged.get(TableDay(table.name, day), ""),
            adopted=content.is_adopted,
        )
        own = self._measured[TableDay(table.name, day)]
        facts = DayFacts(own, upstream=self._others(table, day, sight))
        rules = watchdogs.judge(table, recorded, facts, self._unread(table, day, sight))
        lost = bool(recorded.missing_files or recorded.unreadable)
        others = watchdogs.metrics_needed(table)
        beside = digest_beside(sight, others, self.catalog.step(table.name).cadence.period(day)) if others else ""
        rows = int(str(own["rows"]))
        return WatchedDay(table.name, day, publication, physical, rows, rules, lost=lost, beside=beside)

    def _others(self, table: Table, day: date, sight: LogView) -> Mapping[str, Metrics]:
        period = self.catalog.step(table.name).cadence.period(day)
        found: dict[str, Metrics] = {
            name: measures.add_up([self._measured[TableDay(name, each)] for each in period])
            for name in watchdogs.metrics_needed(table)
            if name not in sight.unreadable
        }
        key, books = TableDay(table.name, day), Books(sight.closings, Declared.of(self.catalog.steps))
        if len(period) == 1 and books.closing(*key):
            found |= {name: with_waiting(sight, key, name, each) for name, each in found.items() if self._is_raw(name)}
        return found

    def _is_raw(self, table: str) -> bool:
        return self.catalog.step(table).source is not None

    def _unread(self, table: Table, day: date, sight: LogView) -> set[str]:
        period = self.catalog.step(table.name).cadence.period(day)
        unread = self._gone | self._damaged.keys()
        needed = watchdogs.metrics_needed(table)
        lost = {name for name in needed if any(TableDay(name, each) in unread for each in period)}
        return lost | sight.unreadable.keys()

    def _missing(self, sight: LogView, table: str, day: date) -> list[str]:
        return self.storage.missing(f"{table}/{path}" for path in _files(sight, table, day))


def _read_by(catalog: Catalog, tables: Iterable[str]) -> set[str]:
    versions = (version for name in tables for version in catalog.step(name).versions)
    return {read.table for version in versions for read in version.reads}


def _with_those_behind(catalog: Catalog, found: Sequence[WatchedDay], sight: LogView) -> list[WatchedDay]:
    """A stream brings rows downstream seconds after raw. Until then a day up to date disagrees with one behind: the
    status of each judging table counts, unless it has a foreign write.
    """
    failed = [each for each in found if not each.passed]
    if not failed:
        return list(found)
    cadences = {each.table: catalog.step(each.table).cadence for each in failed}
    ends = [cadences[each.table].period(each.day) for each in failed]
    judged_by = {name: (name, *watchdogs.metrics_needed(catalog.table(name))) for name in cadences}
    steps = {step.name: step for names in judged_by.values() for step in map(catalog.step, names)}
    days = DayRange(min(each.first for each in ends), max(each.last for each in ends))
    statuses = day_statuses(list(steps.values()), replace(sight, pinned=sight.newest), days, as_published=True)

    def is_behind(each: WatchedDay) -> bool:
        period = cadences[each.table].period(each.day)
        seen = {statuses[name].get(day) for name in judged_by[each.table] for day in period}
        return not INPUT_CHANGED.isdisjoint(seen) and FOREIGN.isdisjoint(seen)

    return [each if each.passed else replace(each, is_behind=is_behind(each)) for each in found]


def _first_line(error: str) -> str:
    start = max(0, error.find(_DAMAGED))
    return error[start : start + _LONGEST_WORDS].splitlines()[0]


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def columns_of(schema: str) -> set[str]:
    return {str(field["name"]) for field in json.loads(schema)["fields"]}


def _files(sight: LogView, table: str, day: date) -> list[str]:
    return sorted(file.path for file in sight.files[table].active.values() if file.day == str(day))


def _published(sight: LogView, table: str, day: date) -> bool:
    state = sight.states.get(TableDay(table, day))
    return bool(state and state.content) or sight.now(TableDay(table, day)) != fingerprints.EMPTY_DAY


def _days_to_measure(
    catalog: Catalog, tables: Sequence[Table], watched: Mapping[str, Sequence[date]]
) -> dict[str, set[date]]:
    periods = {
        table: [each for day in watched[table.name] for each in catalog.step(table.name).cadence.period(day)]
        for table in tables
    }
    beside = (dict.fromkeys(watchdogs.metrics_needed(table), days) for table, days in periods.items())
    return all_days([{table.name: watched[table.name] for table in tables}, *beside])
