"""What became of the rows of each day and group, and their sums: as ``rows.py`` finds it with Spark, from the files."""

from __future__ import annotations

import heapq
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from backfill_assets.difference.day_rows import DayFiles, DayRows, arrow_types, day_batches, read_day
from backfill_assets.difference.records import COUNTS, EXACT
from backfill_assets.lakehouse.content_sums import ContentSums, content_sums
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Table
from backfill_assets.quality.arrow_hashes import NotRendered
from backfill_assets.quality.arrow_rows import DAY
from backfill_assets.quality.compilation import compile_for
from backfill_assets.quality.xxh64 import Words
from backfill_assets.rebuild.measure_files import MOST_BYTES_FROM_A_BUCKET

MOST_BYTES_OF_A_DAY = 256 * 2**20
"""Of both sides, as Parquet: some 40 bytes a row stay in memory while a day is compared, for each thread."""
_BYTES_OF_A_ROW = 32
_MOST_THREADS = 4
_SIDES = ("before", "after")
TOGETHER = "values of a row that are other ones together"
"""What differs where each column alone has the values that it had."""
Codes = npt.NDArray[np.int64]
"""Which group each row is in, by its number."""


def can_compare(storage: Storage, before: DayFiles, after: DayFiles) -> bool:
    """Whether the files are few enough to be compared in this process."""
    days = {day: _size(before, day) + _size(after, day) for day in {*before, *after}}
    in_reach = storage.is_folder or sum(days.values()) <= MOST_BYTES_FROM_A_BUCKET
    return in_reach and max(days.values(), default=0) <= MOST_BYTES_OF_A_DAY


def compare_days(
    storage: Storage, table: Table, days: Sequence[date], before: DayFiles, after: DayFiles, most_groups: int
) -> list[dict[str, Any]]:
    """The rows of :func:`backfill_assets.difference.rows.compare_rows`, with the same names. Reads each side once.

    Raises :class:`NotRendered` where only Spark can compare them.
    """
    compile_for(sum(_size(side, day) for side in (before, after) for day in days) // _BYTES_OF_A_ROW)

    def compared(day: date) -> dict[str, pa.Table]:
        sides = (read_day(storage, table, day, files.get(day, ())) for files in (before, after))
        return compare_day(table, day, *sides)

    with ThreadPoolExecutor(min(os.cpu_count() or 1, _MOST_THREADS)) as threads:
        found = list(threads.map(compared, days))
    return [row for kind in (DAY, *table.groups) for row in _most(table, kind, found, most_groups)]


def columns_beside(
    storage: Storage, table: Table, day: date, sides: Sequence[Sequence[AddedFile]], column: str
) -> tuple[str, ...]:
    """The columns of a day, beside ``column``, that do not hold the same on both sides; all of them if rows differ.

    They are compared row by row; only where that differs, each by itself. Raises :class:`NotRendered` if a file has
    other types than are declared.
    """
    names = [name for name in arrow_types(table.contract) if name != column]

    def sums(files: Sequence[AddedFile], *of: list[str]) -> list[ContentSums]:
        found = [ContentSums()] * len(of)
        for rows in day_batches(storage, table.contract, day, files):
            found = [known + content_sums([rows.batch.select(each)]) for known, each in zip(found, of, strict=True)]
        return found

    before, after = (sums(files, names) for files in sides)
    if before == after:
        return ()
    one, other = (sums(files, *([name] for name in names)) for files in sides)
    return tuple(name for name, a, b in zip(names, one, other, strict=True) if a != b) or (TOGETHER,)


def compare_day(table: Table, day: date, before: DayRows, after: DayRows) -> dict[str, pa.Table]:
    """What became of the rows of one day: by kind, that is the day or a column of groups, a line for each value."""
    pairs = pairs_by_key(before, after) if table.key else pairs_of_equal_rows(before, after)
    sides = (before, after)
    whole = [np.zeros(len(side), np.int64) for side in sides]
    found = {DAY: _lines(table, pa.array([day.isoformat()]), whole, sides, pairs)}
    for number, name in enumerate(table.groups):
        values, codes = _coded([side.groups[number] for side in sides])
        found[name] = _lines(table, values, codes, sides, pairs)
    return found


def _size(files: DayFiles, day: date) -> int:
    return sum(file.size for file in files.get(day, ()))


def _coded(texts: Sequence[pa.ChunkedArray]) -> tuple[pa.Array, list[Codes]]:
    """The different values of both sides, and for each row of a side which one it has. Null is a value."""
    together = pa.chunked_array([chunk for side in texts for chunk in side.chunks], pa.string())
    encoded = together.combine_chunks().dictionary_encode(null_encoding="encode")
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return encoded.dictionary, np.split(codes, [len(texts[0])])


def _lines(
    table: Table, values: pa.Array, codes: Sequence[Codes], sides: Sequence[DayRows], pairs: RowPairs
) -> pa.Table:
    """Rows that leave their group are removed from it, and added to the other one."""
    before, after = (np.bincount(each, minlength=len(values)) for each in codes)
    left, come = codes[0][pairs.before], codes[1][pairs.after]
    kept = np.bincount(left[left == come], minlength=len(values))
    same = np.bincount(left[pairs.same], minlength=len(values))
    counts = (after - kept, before - kept, kept - same, same)
    sums = {
        f"{name}_{measure}": _sums(code, side.totals[number], len(values))
        for name, code, side in zip(_SIDES, codes, sides, strict=True)
        for number, measure in enumerate(table.totals)
    }
    return pa.table({"value": values, **dict(zip(COUNTS, map(pa.array, counts), strict=True)), **sums})


def _sums(codes: Codes, totals: pa.ChunkedArray, groups: int) -> pa.Array:
    rows = pa.table({"group": codes, "total": totals})
    found = rows.group_by("group", use_threads=False).aggregate([("total", "sum")]).combine_chunks()
    places = np.full(groups, -1)
    places[found["group"].to_numpy()] = np.arange(len(found))
    taken = found["total_sum"].take(pa.array(places, mask=places < 0))
    return taken.fill_null(pa.scalar(Decimal(0), taken.type))


def _most(table: Table, kind: str, days: Sequence[Mapping[str, pa.Table]], most: int) -> list[dict[str, Any]]:
    """All days; of a column the ``most`` groups that differ most, by the first total, then by rows, then by value."""
    together = pa.concat_tables([day[kind] for day in days])
    numbers = together.schema.names[1:]
    added_up = together.group_by("value").aggregate([(name, "sum") for name in numbers])
    lines = added_up.rename_columns({f"{name}_sum": name for name in numbers}).to_pylist()

    def differing(line: Mapping[str, Any]) -> int:
        return sum(int(line[name]) for name in ("added", "removed", "changed"))

    def order(line: Mapping[str, Any]) -> tuple[Decimal, int, bool, str]:
        change = [EXACT.subtract(line[f"after_{name}"], line[f"before_{name}"]) for name in table.totals[:1]]
        return (
            EXACT.minus(EXACT.abs(change[0])) if change else Decimal(0),
            -differing(line),
            line["value"] is not None,
            line["value"] or "",
        )

    counted = {"kind": kind, "groups": len(lines), "differing": sum(differing(line) > 0 for line in lines)}
    first = heapq.nsmallest(len(lines) if kind == DAY else most, lines, key=order)
    return [{**line, **counted, "place": place} for place, line in enumerate(first, 1)]


# ------------------------------------------------------------------ rows that belong together

Places = npt.NDArray[np.int64]
"""Where rows are on a side."""


@dataclass(frozen=True)
class RowPairs:
    """Rows that both sides have: where they are before and after, and whether all in them is the same."""

    before: Places
    after: Places
    same: npt.NDArray[np.bool_]


def pairs_by_key(before: DayRows, after: DayRows) -> RowPairs:
    """Raises :class:`NotRendered` if a side has a key twice, as only a foreign write brings it."""
    for side in (before, after):
        if len(np.unique(side.keys)) < len(side):
            raise NotRendered("A key that a day has twice.")
    old, new = _pairs(before.keys, after.keys)
    return RowPairs(old, new, before.rows[old] == after.rows[new])


def pairs_of_equal_rows(before: DayRows, after: DayRows) -> RowPairs:
    """Rows as a multiset: of a row that is there more often on one side, some belong to none."""
    old, new = _pairs(before.rows, after.rows)
    return RowPairs(old, new, np.ones(len(old), np.bool_))


def _pairs(before: Words, after: Words) -> tuple[Places, Places]:
    """The first row of each hash with the first one of the other side, the second with the second, and so on."""
    old, new = _Ordered.of(before), _Ordered.of(after)
    _, in_old, in_new = np.intersect1d(old.hashes, new.hashes, assume_unique=True, return_indices=True)
    both = np.minimum(old.counts[in_old], new.counts[in_new])
    numbers = np.arange(both.sum()) - np.repeat(np.cumsum(both) - both, both)
    places = [side.order[np.repeat(side.first[at], both) + numbers] for side, at in ((old, in_old), (new, in_new))]
    return places[0], places[1]


@dataclass(frozen=True)
class _Ordered:
    """The rows of a side ordered by hash: each hash once, where its rows begin in that order, and how many they are."""

    order: Places
    hashes: Words
    first: Places
    counts: Places

    @classmethod
    def of(cls, hashes: Words) -> _Ordered:
        order = np.argsort(hashes, kind="stable")
        return cls(order, *np.unique(hashes[order], return_index=True, return_counts=True))
