"""What a version's function gives, as the rows of its table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill_assets.days import Cadence
from backfill_assets.model.contract import Contract
from backfill_assets.model.declaration import PUBLISHED_DAYS, Reads

COMPLETENESS = ("days_published", "complete")
"""Columns that the report of a week or a month may declare: how many of its days it has, and whether it has all."""


@dataclass(frozen=True)
class TableTransform:
    """The transform of one table: ``function`` of the frames of ``reads``, with the columns of ``contract`` in order.

    All rows of a day are brought into one partition, unless they are ``clustered`` that way already.
    """

    table: str
    contract: type[Contract]
    function: Callable[..., DataFrame]
    reads: tuple[Reads, ...]
    cadence: Cadence = Cadence.DAILY
    clustered: bool = False

    def __call__(self, inputs: Mapping[str, DataFrame]) -> Mapping[str, DataFrame]:
        """The rows of the table, under its name."""
        columns = self.contract.fields()
        rows = self.function(*(inputs[each.table] for each in self.reads))
        if self.cadence is not Cadence.DAILY and columns.keys() >= set(COMPLETENESS):
            rows = with_completeness(rows, inputs[PUBLISHED_DAYS], self.reads[0].table, self.cadence)
        selected = rows.select(*columns)
        return {self.table: selected if self.clustered else selected.repartition("day")}


def with_completeness(report: DataFrame, published: DataFrame, table: str, cadence: Cadence) -> DataFrame:
    """``report`` with the days of each period that ``table`` has published. Days without rows count, too."""
    period, days = ("week", F.lit(7)) if cadence is Cadence.WEEKLY else ("month", F.dayofmonth(F.last_day("day")))
    of_table = published.where(F.col("table") == table)
    counted = of_table.groupBy(F.trunc("day", period).alias("day")).agg(F.count("*").alias("days_published"))
    return report.join(F.broadcast(counted), "day").withColumn("complete", F.col("days_published") == days)
