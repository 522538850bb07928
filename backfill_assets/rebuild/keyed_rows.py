"""Rows by their keys: which keys raw brought, and where these keys are now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.rows import FILE, path_in
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.canonical import joined_key, parsed
from backfill_assets.model.refinement import Refinement

_ROWS_AT_ONCE = 16_384
_CHANGED_DAY = "changed day"
"""No column of a table has a space in its name."""


@dataclass(frozen=True)
class KeyedFiles:
    """Files of a table, and the columns of its rows that hold a key."""

    table: str
    files: tuple[AddedFile, ...]
    key: tuple[Column, ...]
    rows: DataFrame


def key_of_landed(refinement: Refinement) -> tuple[Column, ...]:
    """The typed key of a raw row, made of its landed texts alone; null where a part of it cannot be read."""
    return tuple(_typed(refinement, name) for name in refinement.key)


def _typed(refinement: Refinement, name: str) -> Column:
    if name in refinement.derived:
        return joined_key(refinement.source, refinement.derived[name])
    return parsed(F.col(name), refinement.source.type_of(name))


def changed_keys(new: DataFrame, refinement: Refinement) -> DataFrame:
    """The day and the typed key of each of the ``new`` raw rows, under names that no table has."""
    key = (column.alias(_changed(number)) for number, column in enumerate(key_of_landed(refinement)))
    return new.select(F.col("day").alias(_CHANGED_DAY), *key)


def of_keys(rows: DataFrame, key: Sequence[Column], changed: DataFrame, *, others: bool = False) -> DataFrame:
    """The ``rows`` whose day and key are among ``changed``, or with ``others`` all others. They keep their columns."""
    same = [F.col(_changed(number)).eqNullSafe(column) for number, column in enumerate(key)]
    condition = reduce(Column.__and__, same, F.col("day") == F.col(_CHANGED_DAY))
    return rows.join(F.broadcast(changed), condition, "left_anti" if others else "left_semi")


def count_rows_of_keys(places: Sequence[KeyedFiles], changed: DataFrame) -> dict[str, dict[str, int]]:
    """How many rows of ``changed`` keys each file has, by table and path: one job over the columns of the keys."""
    found: dict[str, dict[str, int]] = {place.table: {} for place in places}
    counted = [_count(place, changed) for place in places if place.files]
    if not counted:
        return found
    for row in reduce(DataFrame.unionByName, counted).collect():
        found[row["table"]][path_in(row["table"], row[FILE])] = row["rows"]
    return found


def keys_in(storage: Storage, table: str, files: Sequence[AddedFile], key: Sequence[str]) -> set[tuple[object, ...]]:
    """The keys of the rows in a few ``files`` of ``table``, read without Spark."""
    batches = (batch for file in files for batch in storage.parquet_batches(f"{table}/{file.path}", _ROWS_AT_ONCE, key))
    return {row for batch in batches for row in zip(*(batch.column(name).to_pylist() for name in key), strict=True)}


def _count(place: KeyedFiles, changed: DataFrame) -> DataFrame:
    keyed = place.rows.select("day", FILE, *(each.alias(f"key {n}") for n, each in enumerate(place.key)))
    matching = of_keys(keyed, [F.col(f"key {n}") for n in range(len(place.key))], changed)
    return matching.groupBy(FILE).agg(F.count("*").alias("rows")).withColumn("table", F.lit(place.table))


def _changed(number: int) -> str:
    return f"changed {number}"
