"""Deletions: how rows that a source took back are cancelled in raw, which keeps them, and left out when raw is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill_assets.datasets import registry
from backfill_assets.days import TableDay
from backfill_assets.lakehouse.records import DayState
from backfill_assets.model.deletion import DELETED, DELETION

_ARRIVAL, _COUNTS = "arrival_day", "rows left"


def days_with_deletions(states: Mapping[TableDay, DayState], table: str, days: Iterable[date]) -> list[date]:
    """Those of ``days`` of a raw table that have deletions, or may have some: where ``states`` does not say it.

    None of any other table. No state at all is that of an earlier moment, which the log was not asked for.
    """
    if registry.step(table).source is None:
        return []
    return [day for day in days if not states or _may_have_deletions(states.get(TableDay(table, day)))]


def _may_have_deletions(state: DayState | None) -> bool:
    return state is not None and (state.content is None or DELETED in state.content.metrics)


def rows_that_stand(
    states: Mapping[TableDay, DayState], table: str, days: Sequence[date], rows: Callable[[Sequence[date]], DataFrame]
) -> DataFrame:
    """What ``rows`` reads of ``days`` of a table; of raw days with deletions, and only of these, what stands."""
    corrected = days_with_deletions(states, table, days)
    if not corrected:
        return rows(days)
    others = [day for day in days if day not in corrected]
    standing = standing_rows(rows(corrected))
    return rows(others).unionByName(standing) if others else standing


def standing_rows(raw: DataFrame) -> DataFrame:
    """``raw`` without its deletions, and without one equal row for each of them.

    A deletion does not say when the row that it cancels arrived: the place of a row does. Of equal rows it makes no
    difference which one goes, so the rest is the same in any order.
    """
    kinds = raw.withColumns({_COUNTS: F.when(_is_deletion(), -1).otherwise(1), "record_kind": _kind()})
    same = kinds.groupBy(*(name for name in raw.columns if name != _ARRIVAL))
    left = same.agg(F.max(_ARRIVAL).alias(_ARRIVAL), F.sum(_COUNTS).cast("int").alias(_COUNTS)).where(
        F.col(_COUNTS) > 0
    )
    return left.withColumn(_COUNTS, F.explode(F.array_repeat(F.lit(0), F.col(_COUNTS)))).select(*raw.columns)


def as_deletions(rows: DataFrame) -> DataFrame:
    """The rows that cancel ``rows``, which are raw rows that stand."""
    return rows.withColumns({"record_kind": F.lit(DELETION), "arrival_day": F.lit(None).cast("date")})


def deleted_arrival() -> Column:
    """The arrival day of the landed row that a deletion cancels, from the path of its file; else null."""
    return F.split_part("source_file", F.lit("/"), F.lit(2)).try_cast("date")


def _is_deletion() -> Column:
    return F.col("record_kind") == DELETION


def _kind() -> Column:
    """What a row is, and of a deletion what it cancels: a marker is the only row without a file."""
    cancelled = F.when(F.col("source_file").isNull(), "supersession").otherwise("received")
    return F.when(_is_deletion(), cancelled).otherwise(F.col("record_kind"))
