"""Finds what a published day was computed from, in what its publication recorded, and whether it can still be read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from itertools import product

from backfill_assets.lakehouse.delta_log import VersionGone, files_at
from backfill_assets.lakehouse.records import DayContent, DayRecord, DayRecords, InputRead, Prepared, day_record
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Step, Version
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.place import Overlay


@dataclass(frozen=True)
class RecordedInput:
    """The days of one table that a day was computed from: from main at ``version``, or ``own``."""

    table: str
    version: int | None
    logicals: Mapping[date, str]
    """The logical fingerprint of each day."""
    own: frozenset[date] = frozenset()
    """Days that the same publication brought: these were read as it brought them."""


Inputs = tuple[RecordedInput, ...]


@dataclass(frozen=True)
class RecordedInputs:
    """What one publication recorded of what its days were computed from."""

    made_by: Prepared

    @cached_property
    def own(self) -> dict[str, dict[date, DayRecord]]:
        """The days that the publication brought."""
        return {
            change.table: {day.day: day_record(day.day, day.adds, day.content) for day in change.days}
            for change in self.made_by.publication.tables
        }

    def inputs_of(self, step: Step, version: Version, day: date, content: DayContent) -> Inputs | None:
        """What ``content`` of ``day`` was computed from; None if the log does not say.

        It keeps the fingerprint of all inputs of a day together: of several versions of a table that were read, these
        are the ones that it fits.
        """
        needed = decide.read_days(step, version, [day])
        for inputs in product(*(list(self._candidates(table, days)) for table, days in needed.items())):
            logicals = {each.table: each.logicals for each in inputs}
            if decide.wanted(step, version, [day], logicals)[day].inputs == content.inputs:
                return inputs
        return None

    def _candidates(self, table: str, needed: list[date]) -> Iterable[RecordedInput]:
        held = self.own.get(table, {})
        own = {day: held[day].logical for day in needed if day in held}
        for brought in (own, {}) if own else ({},):
            rest = [day for day in needed if day not in brought]
            if not rest:
                yield RecordedInput(table, None, brought, frozenset(brought))
            for read in self.made_by.publication.inputs:
                if rest and read.table == table and read.days.keys() >= set(rest):
                    logicals = {**{day: read.days[day] for day in rest}, **brought}
                    yield RecordedInput(table, read.version, logicals, frozenset(brought))

    def overlay(self, inputs: Iterable[RecordedInput]) -> Overlay:
        """The days of ``inputs`` that the publication brought itself."""
        days: dict[str, dict[date, DayRecord]] = {}
        for each in inputs:
            days.setdefault(each.table, {}).update({day: self.own[each.table][day] for day in each.own})
        return Overlay(days)


def merge_inputs(inputs: Iterable[RecordedInput]) -> dict[str, InputRead]:
    """The inputs of several days that were read at the same versions, by table."""
    versions: dict[str, int | None] = {}
    days: dict[str, dict[date, str]] = {}
    for each in inputs:
        versions[each.table] = each.version
        days.setdefault(each.table, {}).update(each.logicals)
    return {table: InputRead(table=table, version=versions[table], days=dates) for table, dates in days.items()}


@dataclass
class Readable:
    """Says whether days of tables can still be read at a version. Each version and each day is looked at once."""

    storage: Storage
    _files: dict[tuple[str, int], dict[date, list[str]] | None] = field(default_factory=dict)
    """Paths by day, by table and version; None if the version itself is gone."""
    _lost: dict[tuple[str, int, date], bool] = field(default_factory=dict)

    def first_lost(self, inputs: Iterable[RecordedInput], own: DayRecords) -> str:
        """A sentence that names the first of ``inputs`` that can no longer be read; empty if all can.

        ``own`` are the days that the publication brought itself: they are read by their files.
        """
        for each in inputs:
            main = sorted(each.logicals.keys() - each.own)
            if each.version is not None and main and (lost := self._first(each.table, each.version, main)):
                return lost
            for record in (own[each.table][day] for day in sorted(each.own)):
                if self.storage.missing(f"{each.table}/{file.path}" for file in record.files):
                    return f"files of {each.table} {record.day} that it brought itself are gone"
        return ""

    def _first(self, table: str, version: int, days: list[date]) -> str:
        files = self._files_of(table, version)
        if files is None:
            return f"{table} cannot be read at version {version} any more"
        new = {path: day for day in days if (table, version, day) not in self._lost for path in files.get(day, ())}
        gone = {new[path] for path in self.storage.missing(new)}
        self._lost.update({(table, version, day): day in gone for day in new.values()})
        lost = (day for day in days if self._lost.get((table, version, day)))
        return next((f"files of {table} {day} at version {version} are gone" for day in lost), "")

    def _files_of(self, table: str, version: int) -> dict[date, list[str]] | None:
        if (table, version) not in self._files:
            self._files[table, version] = _paths_by_day(self.storage, table, version)
        return self._files[table, version]


def _paths_by_day(storage: Storage, table: str, version: int) -> dict[date, list[str]] | None:
    try:
        paths_of = files_at(storage, table, version).by_day()
    except VersionGone:
        return None
    return {day: [f"{table}/{path}" for path in sorted(paths)] for day, paths in paths_of.items()}
