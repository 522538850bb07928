"""What the source has and raw has not, as received rows; and what raw has and the source has not, as deletions."""

from __future__ import annotations

from datetime import date

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from backfill_assets.landing.deletions import as_deletions, deleted_arrival
from backfill_assets.model.deletion import DELETION

_SIDE, _KEPT = "is in the source", "rescued or nothing"
"""No landed field has a space in its name."""
_CONTENT = ["arrival_day", "day", "day_is_arrival", "content_hash", _KEPT]
"""What makes two rows the same, wherever they are in the files of their arrival day."""
_PLACE = ["source_file", "source_line"]
RowCounts = dict[tuple[date, date], tuple[int, int]]
"""Rows that are added and deleted, by arrival day and event day."""


def row_difference(source: DataFrame, standing: DataFrame) -> DataFrame:
    """``source`` are the rows of all files of some arrival days as they are now, ``standing`` what raw has of these.

    Rows are compared as multisets of arrival day, event day and whether that is the arrival day for want of a possible
    one, content hash and unknown fields. A row that moved to another line or file of its arrival day is the same row,
    and stays in raw as it is. Of equal rows those stay that are where the source has them, then those that come first
    by file and line.
    """
    names = source.columns
    both = source.withColumn(_SIDE, F.lit(True)).unionByName(standing.withColumn(_SIDE, F.lit(False)))
    both = both.withColumn(_KEPT, F.coalesce("rescued", F.lit("")))
    uneven = both.groupBy(*_CONTENT).agg(F.sum(_sign()).alias("more")).where(F.col("more") != 0)
    # Hardly any content differs: what is numbered is little, and all else is only counted.
    few = both.join(F.broadcast(uneven.drop("more")), _CONTENT, "left_semi")
    at_place = Window.partitionBy(*_CONTENT, *_PLACE)
    placed = few.withColumn("stays", F.min(_SIDE).over(at_place) != F.max(_SIDE).over(at_place))
    of_side = Window.partitionBy(*_CONTENT, _SIDE).orderBy(F.col("stays").desc(), *_PLACE)
    of_content = Window.partitionBy(*_CONTENT)
    counted = placed.withColumns(
        {
            "number": F.row_number().over(of_side),
            "there": F.count_if(F.col(_SIDE)).over(of_content),
            "held": F.count_if(~F.col(_SIDE)).over(of_content),
        }
    )
    surplus = counted.where(F.col("number") > F.least("there", "held"))
    added, gone = (surplus.where(each).select(*names) for each in (F.col(_SIDE), ~F.col(_SIDE)))
    return added.unionByName(as_deletions(gone)).repartition("day")


def count_rows(difference: DataFrame) -> RowCounts:
    """How many rows a difference adds and deletes. Runs Spark."""
    arrival, deletes = F.coalesce("arrival_day", deleted_arrival()), F.col("record_kind") == DELETION
    by_day = difference.groupBy(arrival.alias("arrival"), "day").agg(
        F.count_if(~deletes).alias("added"), F.count_if(deletes).alias("deleted")
    )
    return {(row["arrival"], row["day"]): (row["added"], row["deleted"]) for row in by_day.collect()}


def _sign() -> Column:
    return F.when(F.col(_SIDE), 1).otherwise(-1)
