"""What had been read of each source at any published state of a table, from the logs alone.

A raw table's positions are transactions of its Delta log, committed with the rows; a computed table's are those of raw
versions in its days' lineage. Raw's Delta log is cleaned up after the rollback window; the publication log keeps the
positions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import NamedTuple

from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.delta_log import VersionGone, newest_version, oldest_version, read_transactions
from backfill_assets.lakehouse.records import DayLineage, PartitionPosition
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.arrival_days import arrival_day
from backfill_assets.publish.log import PublicationLog, lineages
from backfill_assets.publish.past import Brought, brought_days, prepared_entries
from backfill_assets.state.boundaries import (
    DaysBoundary,
    RawBoundary,
    group_days,
    lowest,
    merge_tables,
)
from backfill_assets.state.stream_positions import KAFKA, TopicPositions, parse_positions
from backfill_assets.state.view import View

RAW_PREFIX = "raw_"
_LANDED = "landed:"


# --------------------------------------------------------------------- raw


@dataclass
class RawVersions:
    storage: Storage
    _found: dict[tuple[str, int], RawBoundary] = field(default_factory=dict)

    def at(self, table: str, version: int) -> RawBoundary:
        """If the version's Delta log is gone: the topics' positions in the publication log."""
        key = table, version
        if key not in self._found:
            self._found[key] = self._read(table, version)
        return self._found[key]

    def _read(self, table: str, version: int) -> RawBoundary:
        try:
            return _boundary_of(table, version, read_transactions(self.storage, table, version))
        except VersionGone:
            return self._from_log(table, version)

    def _from_log(self, table: str, version: int) -> RawBoundary:
        newest = newest_version(self.storage, table)
        known = read_transactions(self.storage, table, newest) if newest is not None else {}
        wanted = {id for id in known if id.startswith(f"{KAFKA}:")}
        found = logged_positions(self.storage, table, version, wanted) if wanted else {}
        oldest = oldest_version(self.storage, table)
        files = f"landed files of version {version} are not known any more, those of version {oldest} and later are"
        boundary = _boundary_of(table, version, found)
        return RawBoundary(table, (version,), boundary.positions, landed_files=None, unknown=files)

    def require(self, table: str, version: int) -> RawBoundary:
        """Raises :class:`VersionGone` if only a part is known, and no stream wrote it."""
        found = self.at(table, version)
        if found.unknown and not found.is_streamed:
            raise VersionGone(
                f"Version {version} of {table} cannot be read any more: its Delta log was cleaned up.",
                hint=f"The oldest version that can be read is {oldest_version(self.storage, table)}.",
            )
        return found

    def streamed(self, versions: Mapping[str, int]) -> set[str]:
        return {table for table, version in versions.items() if is_raw(table) and self.at(table, version).is_streamed}


def is_raw(table: str) -> bool:
    return table.startswith(RAW_PREFIX)


def _boundary_of(table: str, version: int, transactions: Mapping[str, int]) -> RawBoundary:
    source = table.removeprefix(RAW_PREFIX)
    prefix = f"{_LANDED}{source}:"
    paths = [id.removeprefix(prefix) for id, value in transactions.items() if value and id.startswith(prefix)]
    arrivals = (day for path in paths if (day := arrival_day(path)))
    topics = parse_positions(source, transactions)
    positions = tuple(each for topic in sorted(topics) for each in _positions_of(topics[topic]))
    return RawBoundary(table, (version,), positions, len(paths), max(arrivals, default=None))


def _positions_of(topic: TopicPositions) -> Iterable[PartitionPosition]:
    """A partition with a boundary and no position was begun, and not read."""
    for partition in sorted({*topic.next_offsets, *topic.boundary}):
        offset = topic.next_offsets.get(partition, 0)
        yield PartitionPosition(topic.topic, partition, offset, topic.boundary.get(partition))


def logged_positions(storage: Storage, table: str, version: int, wanted: Collection[str]) -> dict[str, int]:
    """The newest value of each ``wanted`` id that publications brought by ``version``, read backwards as far as
    needed.
    """
    log = PublicationLog(storage).files()
    rows = [each for each in brought_days(log, [table]) if each.table_version <= version]
    if not rows:
        return {}
    done, found = {each.publication for each in rows}, dict[str, int]()
    for entry in prepared_entries(log.holding("table", [table]), until=rows[0].sequence):
        for change in json.loads(entry.detail)["publication"]["tables"] if entry.publication in done else ():
            for position in change["positions"] if change["table"] == table else ():
                if position["id"] in wanted:
                    found.setdefault(position["id"], position["after"])
        if found.keys() >= set(wanted):
            break
    return found


# ----------------------------------------------------------------- derived


class _Node(NamedTuple):
    table: str
    day: date
    sequence: int
    computed_by: str


Versions = Mapping[str, frozenset[int]]


@dataclass
class DaySources:
    """Follows days back to the raw versions that they were computed from, as of one log entry."""

    view: View
    _rows: dict[str, dict[date, list[Brought]]] = field(default_factory=dict)
    """Newest first."""
    _brought: dict[tuple[str, TableDay], Brought] = field(default_factory=dict)
    _known: dict[_Node, Versions] = field(default_factory=dict)

    def of_table(self, table: str) -> dict[date, Versions]:
        newest = {day: rows[0] for day, rows in self._rows_of(table).items() if rows[0].rows is not None}
        return self._of_rows(newest)

    def of_days(self, table: str, days: Collection[date], version: int) -> dict[date, Versions]:
        """``days`` as they are at ``version``; a raw table's own version counts."""
        if is_raw(table):
            return {day: {table: frozenset({version})} for day in days}
        found = {day: row for day in days if (row := self._row_at(table, day, version)) is not None}
        return self._of_rows(found)

    def of_publications(self, publications: Collection[str]) -> dict[tuple[str, TableDay], Versions]:
        """Reads the entries of ``publications``, and of what they read from main."""
        files = PublicationLog(self.view.storage).files()
        rows = brought_days(files, publication=publications)
        self._brought |= {(each.publication, each.key): each for each in rows if each.rows is not None}
        nodes = {key: _node(each) for key, each in self._brought.items() if not is_raw(each.table)}
        self._follow(set(nodes.values()))
        return {key: self._known[node] for key, node in nodes.items()}

    def _of_rows(self, rows: Mapping[date, Brought]) -> dict[date, Versions]:
        nodes = {day: _node(row) for day, row in rows.items()}
        self._follow(set(nodes.values()))
        return {day: self._known[node] for day, node in nodes.items()}

    def _follow(self, nodes: set[_Node]) -> None:
        """One level at a time: the lineages of a level are read together."""
        new = nodes - self._known.keys()
        if not new:
            return
        below: dict[_Node, set[_Node]] = {}
        own: dict[_Node, dict[str, set[int]]] = {}
        for node, (publication, lineage) in self._lineages(new).items():
            below[node], own[node] = self._reads(lineage, publication)
        self._follow({child for children in below.values() for child in children})
        for node in new:
            versions = own.get(node, {})
            for child in below.get(node, ()):
                for table, found in self._known[child].items():
                    versions.setdefault(table, set()).update(found)
            self._known[node] = {table: frozenset(found) for table, found in versions.items()}

    def _reads(self, lineage: DayLineage, publication: str) -> tuple[set[_Node], dict[str, set[int]]]:
        children: set[_Node] = set()
        raws: dict[str, set[int]] = {}
        for read in lineage.reads:
            if is_raw(read.table) and read.version is not None:
                raws.setdefault(read.table, set()).add(read.version)
                continue
            for day in read.days:
                row = (
                    self._row_of(read.table, day, publication)
                    if read.staged
                    else self._row_at(read.table, day, read.version)
                )
                children |= {_node(row)} if row is not None else set()
        return children, raws

    def _lineages(self, nodes: set[_Node]) -> dict[_Node, tuple[str, DayLineage]]:
        """Lineages with the publication that computed the day, where known."""
        made = self._lineages_of({node.computed_by for node in nodes})
        return {
            node: (node.computed_by, made[key])
            for node in nodes
            if (key := (node.computed_by, TableDay(node.table, node.day))) in made
        }

    def _lineages_of(self, publications: set[str]) -> dict[tuple[str, TableDay], DayLineage]:
        if not publications:
            return {}
        return {
            (publication, key): lineage
            for (publication, _), days in lineages(self.view.storage, publications).items()
            for key, lineage in days.items()
        }

    def _row_at(self, table: str, day: date, version: int | None) -> Brought | None:
        rows = self._rows_of(table).get(day, [])
        return next((row for row in rows if version is not None and row.table_version <= version), None)

    def _row_of(self, table: str, day: date, publication: str) -> Brought | None:
        if (row := self._brought.get((publication, TableDay(table, day)))) is not None:
            return row
        rows = self._rows_of(table).get(day, [])
        return next((row for row in rows if row.publication == publication), None)

    def _rows_of(self, table: str) -> dict[date, list[Brought]]:
        if table not in self._rows:
            by_day: dict[date, list[Brought]] = {}
            files = PublicationLog(self.view.storage).files()
            for row in brought_days(files, [table], until=self.view.sequence):
                by_day.setdefault(row.day, []).append(row)
            self._rows[table] = by_day
        return self._rows[table]


def _node(row: Brought) -> _Node:
    return _Node(row.table, row.day, row.sequence, row.computed_by)


# ----------------------------------------------------------------- boundaries


def table_boundaries(view: View, table: str) -> list[DaysBoundary]:
    """A raw table as a whole, others by days. Raises :class:`InvalidRequest` if nothing was published to it by then,
    :class:`VersionGone` if it is no longer known.
    """
    version = view.versions.get(table)
    if version is None:
        raise InvalidRequest(
            f"Nothing was published to {table} by entry {view.sequence} of the publication log.",
            hint=f"backfill history {table} lists its publications.",
        )
    raw = RawVersions(view.storage)
    if is_raw(table):
        return [DaysBoundary((table,), (), raw.require(table, version))]
    return group_days(_boundaries(DaySources(view).of_table(table), raw.at), table)


def read_boundaries(view: View, read: Mapping[str, Collection[date]]) -> list[DaysBoundary]:
    """How far topics had been read for these days of ``view``; empty without one."""
    raw = RawVersions(view.storage)
    if not (streamed := raw.streamed(view.versions)):
        return []
    sources = DaySources(view)
    return [
        each
        for table, days in read.items()
        if (version := view.versions.get(table)) is not None
        for each in group_days(_boundaries(_only(sources.of_days(table, days, version), streamed), raw.at), table)
    ]


def publication_boundaries(storage: Storage, publications: Collection[str]) -> dict[str, list[DaysBoundary]]:
    """How far topics had been read for the days that each publication computed; empty without one."""
    if not publications:
        return {}
    head, raw = PublicationLog(storage).head(), RawVersions(storage)
    newest = View(storage, head.version, head.state.versions)
    if not (streamed := raw.streamed(newest.versions)):
        return {}
    found: dict[str, dict[str, dict[date, Versions]]] = {}
    for (publication, key), versions in DaySources(newest).of_publications(publications).items():
        found.setdefault(publication, {}).setdefault(key.table, {})[key.day] = versions
    return {
        publication: merge_tables(
            each
            for table, days in sorted(by_table.items())
            for each in group_days(_boundaries(_only(days, streamed), raw.at), table)
        )
        for publication, by_table in found.items()
    }


def _only(found: Mapping[date, Versions], tables: Collection[str]) -> dict[date, Versions]:
    return {day: {table: held for table, held in by.items() if table in tables} for day, by in found.items()}


def _boundaries(found: Mapping[date, Versions], at: Callable[[str, int], RawBoundary]) -> dict[date, list[RawBoundary]]:
    return {
        day: [lowest([at(table, each) for each in sorted(versions)]) for table, versions in sorted(by_table.items())]
        for day, by_table in found.items()
    }
