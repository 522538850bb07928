"""Fields that rows carried before they were declared: read from what raw kept, with the content hash of that time."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.model.canonical import raw_content_hash, sum_of_hashes
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.declaration import Source
from backfill_assets.model.landed import raw_schema
from backfill_assets.model.landed_dataset import LandedDataset
from backfill_assets.model.measure import hashes_of
from backfill_assets.model.rules import ContentIntact
from backfill_assets_tests.strategies.by_the_query import accepted

DAY = date(2017, 3, 1)
VISITS = LandedDataset(
    name="visits", description="", owners=(), first_day=DAY, rows="visits", most_rows=10, tolerated_rejects=1
)


@VISITS.row("v3", "With the till and the lane.")
class Visit(Contract):
    """A visit that may say at which till and in which lane it was paid."""

    id: T.StringType = Field(key=True)
    seen_at: T.TimestampType = Field(event_day=True)
    sent_at: T.TimestampType = Field(version=True)
    till: T.LongType = Field(nullable=True, rescued=True)
    lane: T.StringType = Field(nullable=True, rescued=True)


BOTH = VISITS.refinement().source
TILL = replace(BOTH, fields=BOTH.fields[:-1], rescued_fields=("till",))
NEITHER = replace(BOTH, fields=BOTH.fields[:-2], rescued_fields=())


def landed(spark: SparkSession, source: Source, id: str, **fields: str | None) -> DataFrame:
    """A row as it was landed while ``source`` was what was declared."""
    kept: dict[str, Any] = {
        "id": id,
        "seen_at": "2017-03-01T10:00:00Z",
        "sent_at": "2017-03-01T11:00:00Z",
        "record_kind": "received",
        "source_file": "visits/2017-03-01/a.jsonl.gz",
        "source_line": int(id),
        "arrival_day": DAY,
        "day_is_arrival": False,
        "content_hash": 0,
        "day": DAY,
        **fields,
    }
    schema = raw_schema(BOTH)
    rows = spark.createDataFrame([tuple(kept.get(name) for name in schema.names)], schema)
    return rows.withColumn("content_hash", raw_content_hash(source))


def raw(spark: SparkSession) -> DataFrame:
    rows = landed(spark, NEITHER, "1", rescued='{"till":"7","lane":"left"}')
    rows = rows.union(landed(spark, TILL, "2", till="8", rescued='{"lane":"right"}'))
    rows = rows.union(landed(spark, BOTH, "3", till="9", lane="middle", rescued='{"lane":"other"}'))
    return rows.union(landed(spark, BOTH, "4"))


def test_they_are_read_from_what_raw_kept_where_they_were_not_declared(spark: SparkSession) -> None:
    found = accepted(raw(spark), VISITS.refinement()).select("id", "till", "lane").collect()
    assert sorted(map(tuple, found)) == [("1", 7, "left"), ("2", 8, "right"), ("3", 9, "middle"), ("4", None, None)]


def test_the_content_hash_is_that_of_the_fields_that_were_declared_then(spark: SparkSession) -> None:
    """And a value that is another one afterwards is still noticed."""
    bronze = accepted(raw(spark), VISITS.refinement())
    carried, recomputed = hashes(bronze, ContentIntact(BOTH, "values"))
    assert carried == recomputed
    for name, value in (("sent_at", F.lit("2017-03-01 12:00:00").cast("timestamp")), ("id", F.lit("5"))):
        carried, recomputed = hashes(bronze.withColumn(name, value), ContentIntact(BOTH, "values"))
        assert carried != recomputed, name


def hashes(rows: DataFrame, rule: ContentIntact) -> tuple[int, int]:
    (recomputed,) = hashes_of(rule.measure()).values()
    found = rows.agg(sum_of_hashes(F.col("content_hash")), sum_of_hashes(recomputed.column())).first()
    assert found is not None
    return int(found[0]), int(found[1])
