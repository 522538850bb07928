"""Raw rows of sales for tests, hashed as ingestion hashes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill_assets.examples.datasets.sales import SALES
from backfill_assets.model.canonical import raw_content_hash
from backfill_assets.model.landed import raw_schema
from backfill_assets_tests.strategies.landed_sales import SALE

SOURCE = SALES.source

DAY = date(2017, 3, 1)
TOKEN = "ab" * 32

_DEFAULTS: Mapping[str, Any] = {
    **{name: value for name, value in SALE.items() if name != "household_id"},
    "household_token": TOKEN,
    "rescued": None,
    "unparsed_line": None,
    "record_kind": "received",
    "source_file": "sales/2017-03-01/a.jsonl.gz",
    "arrival_day": DAY,
    "day_is_arrival": False,
    "content_hash": 0,
    "superseded_by_day": None,
    "day": DAY,
}


def raw_sales(spark: SparkSession, rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    """``rows`` say only what differs from a sound sale; lines are numbered unless they say theirs."""
    names = raw_schema(SOURCE).names
    full = [{**_DEFAULTS, "source_line": number, **row} for number, row in enumerate(rows, start=1)]
    frame = spark.createDataFrame([tuple(row[name] for name in names) for row in full], raw_schema(SOURCE))
    received = F.col("record_kind") == "received"
    hashed = F.when(received, raw_content_hash(SOURCE)).otherwise(F.col("content_hash"))
    return frame.withColumn("content_hash", hashed)


def marker(updated_at: str, content_hash: int, moved_to: date, **changes: Any) -> dict[str, Any]:
    """What ingestion writes for a newer version that belongs to another day."""
    nothing = {name: None for name in SOURCE.columns if name not in SOURCE.key_columns}
    technical = {"source_file": None, "source_line": None, "arrival_day": None, "record_kind": "supersession"}
    return {
        **nothing,
        **technical,
        "updated_at": updated_at,
        "content_hash": content_hash,
        "superseded_by_day": moved_to,
        **changes,
    }
