"""What the framework does to the frame that a version's function gives."""

from __future__ import annotations

from datetime import date

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.days import Cadence
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.declaration import PUBLISHED_DAYS, Reads
from backfill_assets.model.landed_dataset import TableTransform

MONDAY = date(2017, 2, 27)


class ReportLines(Contract):
    """Lines of a shop."""

    shop: T.StringType = Field(key=True, description="Which.")
    lines: T.LongType = Field(description="How many.")
    day: T.DateType = Field(description="The day.")


class ReportPeriod(ReportLines):
    """Lines of a shop in a period."""

    complete: T.BooleanType = Field(description="Whether all of its days are in it.")
    days_published: T.LongType = Field(description="How many days are in it.")


def lines(spark: SparkSession) -> DataFrame:
    rows = [("A", date(2017, 2, 27)), ("A", date(2017, 3, 1)), ("B", date(2017, 3, 8))]
    return spark.createDataFrame(rows, "shop string, day date")


def count(frame: DataFrame) -> DataFrame:
    return frame.groupBy("day", "shop").agg(F.count("*").alias("lines"), F.max("shop").alias("unwanted"))


def test_columns_come_in_the_order_of_the_contract_and_each_day_in_one_file(spark: SparkSession) -> None:
    """The function may give them in any order and among other columns."""
    transform = TableTransform("report_lines", ReportLines, count, (Reads("fact"),))
    (rows,) = transform({"fact": lines(spark).repartition(5)}).values()
    assert rows.columns == ["shop", "lines", "day"]
    placed = rows.withColumn("part", F.spark_partition_id()).groupBy("day").agg(F.count_distinct("part").alias("parts"))
    assert {row.parts for row in placed.collect()} == {1}


def test_rows_that_lie_by_day_already_are_not_shuffled(spark: SparkSession) -> None:
    """Adding columns to a day costs no shuffle."""
    transforms = [
        TableTransform(
            "fact", ReportLines, lambda fact: fact.withColumn("lines", F.lit(1)), (Reads("fact"),), clustered=c
        )
        for c in (False, True)
    ]
    plans = [t({"fact": lines(spark)})["fact"]._jdf.queryExecution().optimizedPlan().toString() for t in transforms]
    assert ["Repartition" in plan for plan in plans] == [True, False]


def test_a_period_says_how_many_of_its_days_are_published(spark: SparkSession) -> None:
    """Days without rows count, too; days of other tables do not. Known answers for a week and for a month."""
    days = [MONDAY.replace(day=27), MONDAY.replace(day=28), *(date(2017, 3, number) for number in range(1, 9))]
    published = spark.createDataFrame(
        [("fact", day) for day in days] + [("other", date(2017, 3, 9))], "table string, day date"
    )
    found = {}
    for cadence, period in ((Cadence.WEEKLY, "week"), (Cadence.MONTHLY, "month")):

        def of_period(frame: DataFrame, period: str = period) -> DataFrame:
            return count(frame.withColumn("day", F.trunc("day", period)))

        transform = TableTransform("report", ReportPeriod, of_period, (Reads("fact", partial=True),), cadence)
        (rows,) = transform({"fact": lines(spark), PUBLISHED_DAYS: published}).values()
        assert rows.columns == ["shop", "lines", "day", "complete", "days_published"]
        found[cadence] = {
            (row.shop, row.lines, str(row.day), row.complete, row.days_published) for row in rows.collect()
        }
    assert found[Cadence.WEEKLY] == {("A", 2, "2017-02-27", True, 7), ("B", 1, "2017-03-06", False, 3)}
    assert found[Cadence.MONTHLY] == {
        ("A", 1, "2017-02-01", False, 2),
        ("A", 1, "2017-03-01", False, 8),
        ("B", 1, "2017-03-01", False, 8),
    }
