"""Chooses files of the publication log by statistics, and reads them.

Recent entries have a file each, older ones one a month: a query opens files whose bounds match, however long the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from backfill_assets.lakehouse.delta_log import bound_as_json, statistics_json
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.rows import ARROW_SCHEMA

LOG_TABLE = "_publications"
ENTRIES = f"{LOG_TABLE}/_entries"
"""VACUUM skips folders with an underscore."""
_BATCH = 32
_MANY = 500
Value = str | int | datetime


def statistics(rows: pa.Table) -> str:
    """Bounds of every column, long text shortened: delta-rs skips a file that has bounds of some columns only."""
    bounds = {name: pc.min_max(column).as_py() for name, column in zip(rows.column_names, rows.columns, strict=True)}
    ends = {
        kind: {
            name: text
            for name, of_column in bounds.items()
            if (text := bound_as_json(of_column[end], up=end == "max")) is not None
        }
        for kind, end in (("minValues", "min"), ("maxValues", "max"))
    }
    return statistics_json(rows.num_rows, ends, {name: rows.column(name).null_count for name in bounds})


@dataclass(frozen=True)
class LogFiles:
    storage: Storage
    adds: pa.Table

    @classmethod
    def of(cls, storage: Storage, handle: DeltaTable | None) -> LogFiles:
        if handle is None:
            return cls(storage, pa.table({"path": pa.array([], pa.string()), "size_bytes": pa.array([], pa.int64())}))
        return cls(storage, pa.table(handle.get_add_actions(flatten=True)))

    @property
    def paths(self) -> list[str]:
        return [f"{LOG_TABLE}/{path}" for path in self.adds.column("path").to_pylist()]

    @property
    def sizes(self) -> list[tuple[str, int]]:
        return list(zip(self.paths, self.adds.column("size_bytes").to_pylist(), strict=True))

    def only(self, paths: Iterable[str]) -> LogFiles:
        names = pa.array([path.removeprefix(f"{LOG_TABLE}/") for path in paths], pa.string())
        return self._only(pc.is_in(self.adds.column("path").cast(pa.string()), value_set=names))

    def holding(self, column: str, values: Iterable[Value]) -> LogFiles:
        return self._only(self._holding(column, values))

    def between(self, column: str, low: Value | None = None, high: Value | None = None) -> LogFiles:
        """Both ends are included."""
        return self._only(self._between(column, low, high))

    def _holding(self, column: str, values: Iterable[Value]) -> Any:
        listed = sorted(set(values))
        if len(listed) > _MANY:
            return self._between(column, listed[0], listed[-1])
        wanted = [_scalar(column, value) for value in listed]
        low, high = self._bounds(column)
        within = (pc.and_(_or_unknown(pc.less_equal, low, v), _or_unknown(pc.greater_equal, high, v)) for v in wanted)
        nothing = pa.array([False] * self.adds.num_rows, pa.bool_())
        return pc.and_(reduce(pc.or_, within, nothing), self._has_any(column))

    def _between(self, column: str, low: Value | None, high: Value | None) -> Any:
        lowest, highest = self._bounds(column)
        mask = self._has_any(column)
        if low is not None:
            mask = pc.and_(mask, _or_unknown(pc.greater_equal, highest, _scalar(column, low)))
        if high is not None:
            mask = pc.and_(mask, _or_unknown(pc.less_equal, lowest, _scalar(column, high)))
        return mask

    def spans(self) -> list[tuple[datetime | None, datetime | None, int | None]]:
        """Times of the first and last entry, and the newest sequence, by file; None if not known."""
        columns = (*self._bounds("at"), self._bounds("sequence")[1])
        return list(zip(*(column.to_pylist() for column in columns), strict=True))

    def _only(self, mask: pa.Array) -> LogFiles:
        return replace(self, adds=self.adds.filter(mask))

    def _bounds(self, column: str) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
        return self._column(f"min.{column}", column), self._column(f"max.{column}", column)

    def _column(self, name: str, like: str) -> pa.ChunkedArray:
        kind = ARROW_SCHEMA.field(like).type
        if name in self.adds.column_names:
            return self.adds.column(name).cast(kind)
        return pa.chunked_array([pa.nulls(self.adds.num_rows, kind)])

    def _has_any(self, column: str) -> pa.ChunkedArray:
        name = f"null_count.{column}"
        if name not in self.adds.column_names:
            return pa.chunked_array([pa.array([True] * self.adds.num_rows, pa.bool_())])
        return pc.fill_null(pc.less(self.adds.column(name), self.adds.column("num_records")), True)

    def read(self, columns: Sequence[str]) -> pa.Table:
        return _concatenate(self._tables(self.paths, columns), columns)

    def rows(
        self,
        columns: Sequence[str],
        *,
        after: int | None = None,
        until: int | None = None,
        **wanted: Value | Iterable[Value],
    ) -> pa.Table:
        """Oldest first, with ``sequence`` and the columns of ``wanted``."""
        chosen = _Chosen.of(after, until, wanted)
        return chosen.rows(self._holding_any(chosen).read(chosen.columns(columns)))

    def newest_first(
        self,
        columns: Sequence[str],
        *,
        after: int | None = None,
        until: int | None = None,
        **wanted: Value | Iterable[Value],
    ) -> Iterator[pa.Table]:
        """The same rows, some files at a time, newest parts first. Folded and gathered files overlap: rows older than
        unread files wait, so that parts are in order and entries whole.
        """
        chosen = _Chosen.of(after, until, wanted)
        for part in self._holding_any(chosen)._parts(chosen.columns(columns)):
            yield chosen.rows(part)

    def _holding_any(self, chosen: _Chosen) -> LogFiles:
        within = self._between("sequence", None if chosen.after is None else chosen.after + 1, chosen.until)
        masks = (self._holding(name, values) for name, values in chosen.values_of.items())
        return self._only(reduce(pc.and_, masks, within))

    def _parts(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        bounds = self._column("max.sequence", "sequence")
        newest = pc.sort_indices(bounds, sort_keys=[("", "descending", "at_start")])
        paths = [f"{LOG_TABLE}/{path}" for path in self.adds.column("path").take(newest).to_pylist()]
        highest, waiting = bounds.take(newest).to_pylist(), _schema(_with_sequence(columns)).empty_table()
        for start in range(0, len(paths), _BATCH):
            rows = _concatenate([waiting, *self._tables(paths[start : start + _BATCH], columns)], columns)
            unread = highest[start + _BATCH :][:1]
            complete = _are_above(rows, unread[0]) if unread else pa.repeat(pa.scalar(value=True), len(rows))
            waiting = rows.filter(pc.invert(complete))
            yield rows.filter(complete)

    def _tables(self, paths: Sequence[str], columns: Sequence[str]) -> list[pa.Table]:
        names = _with_sequence(columns)
        return self.storage.each(lambda path: read_entry(self.storage, path, names), paths)


@dataclass(frozen=True)
class _Chosen:
    after: int | None
    until: int | None
    values_of: Mapping[str, list[Value]]

    @classmethod
    def of(cls, after: int | None, until: int | None, wanted: Mapping[str, Value | Iterable[Value]]) -> _Chosen:
        listed = {name: [each] if isinstance(each, Value) else sorted(set(each)) for name, each in wanted.items()}
        return cls(after, until, listed)

    def columns(self, asked: Sequence[str]) -> list[str]:
        return [*asked, *(name for name in self.values_of if name not in asked)]

    def rows(self, found: pa.Table) -> pa.Table:
        for name, values in self.values_of.items():
            among_them = pa.array(values, ARROW_SCHEMA.field(name).type)
            found = found.filter(pc.is_in(found.column(name), value_set=among_them))
        for compare, bound in ((pc.greater, self.after), (pc.less_equal, self.until)):
            if bound is not None:
                found = found.filter(compare(found.column("sequence"), _scalar("sequence", bound)))
        return found


def read_entry(storage: Storage, path: str, columns: Sequence[str]) -> pa.Table:
    """The log's types, whichever engine wrote the file; absent columns are null."""
    rows = storage.read_parquet(path, list(columns))
    there, schema = rows.column_names, _schema(columns)
    for name in (name for name in columns if name not in there):
        rows = rows.append_column(name, pa.nulls(rows.num_rows, ARROW_SCHEMA.field(name).type))
    found = rows.select(list(columns))
    return found if found.schema == schema else found.cast(schema)


def equal(rows: pa.Table, **values: Value) -> pa.Table:
    masks = (pc.equal(rows.column(name), value) for name, value in values.items())
    return rows.filter(reduce(pc.and_, masks))


def among(rows: pa.Table, column: str, values: Iterable[str]) -> pa.Table:
    return rows.filter(pc.is_in(rows.column(column), value_set=pa.array(sorted(set(values)), pa.string())))


def _are_above(rows: pa.Table, sequence: int | None) -> Any:
    return pc.fill_null(pc.greater(rows.column("sequence"), pa.scalar(sequence, pa.int64())), fill_value=False)


def _concatenate(tables: Sequence[pa.Table], columns: Sequence[str]) -> pa.Table:
    empty = _schema(_with_sequence(columns)).empty_table()
    return pa.concat_tables([empty, *tables]).sort_by("sequence")


def _with_sequence(columns: Sequence[str]) -> list[str]:
    return [*columns, *(["sequence"] if "sequence" not in columns else [])]


def _schema(columns: Sequence[str]) -> pa.Schema:
    return _schema_of(tuple(columns))


@cache
def _schema_of(columns: tuple[str, ...]) -> pa.Schema:
    return pa.schema([ARROW_SCHEMA.field(name) for name in columns])


def _scalar(column: str, value: Value) -> pa.Scalar:
    return pa.scalar(value, ARROW_SCHEMA.field(column).type)


def _or_unknown(compare: Callable[..., Any], bound: pa.ChunkedArray, value: pa.Scalar) -> Any:
    return pc.fill_null(compare(bound, value), True)
