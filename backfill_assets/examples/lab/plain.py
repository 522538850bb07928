"""The naive way: a plain Delta table, a plain stream from the landing folder into it, and plain jobs beside it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from backfill_assets.examples.lab.events import SOURCE, SentEvents
from backfill_assets.examples.lab.hazard import SourceReads, TableCount
from backfill_assets.examples.sample.sales_line import FIELDS
from backfill_assets.lakehouse.arrow_dataset import arrow_dataset
from backfill_assets.lakehouse.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    Change = Callable[[DataFrame], DataFrame]

TABLE = "sales"
KEY = ("day", "basket_id", "product_id")
_WRITTEN_AGAIN = ("numTargetRowsCopied", "numTargetRowsUpdated")


def unchanged(rows: DataFrame) -> DataFrame:
    return rows


@dataclass
class PlainLake:
    """A table without this project; ``home`` has its landing folder, its rows and its stream's checkpoint."""

    spark: SparkSession
    home: Path
    landed: SentEvents = field(init=False)
    read: SourceReads = field(default_factory=SourceReads)

    def __post_init__(self) -> None:
        self.landed = SentEvents(self.home / "landing")

    @property
    def table(self) -> str:
        return str(self.home / TABLE)

    @property
    def checkpoint(self) -> Path:
        return self.home / "checkpoint"

    def stream(self, only: Change = unchanged) -> None:
        """One trigger of the stream: it appends what has landed since the trigger before, and waits for the next."""
        writer = only(self._new_files()).writeStream.format("delta").partitionBy("day").outputMode("append")
        query = writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start(self.table)
        query.awaitTermination()

    def stream_by_batch(self, write: Callable[[DataFrame, int], None]) -> None:
        """One trigger of a stream that writes by itself; an error of ``write`` ends it, as the end of a process would.

        Spark records a batch as done only after ``write`` has returned.
        """
        writer = self._new_files().writeStream.foreachBatch(write).option("checkpointLocation", str(self.checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()

    def stream_until_it_dies(self, write: Callable[[DataFrame, int], None]) -> None:
        """The same, for a ``write`` that ends in an error."""
        from pyspark.errors import StreamingQueryException

        with suppress(StreamingQueryException):
            self.stream_by_batch(write)

    def stream_merging(self) -> None:
        """One trigger of a stream that merges each batch by key."""
        self.stream_by_batch(self.merge_batch)

    def merge_batch(self, rows: DataFrame, batch: int) -> None:
        """A batch is merged once, by the number that its checkpoint gives it; a new checkpoint counts from 0 again."""
        options = rows.sparkSession.conf
        options.set(
            "spark.databricks.delta.write.txnAppId", json.loads((self.checkpoint / "metadata").read_text())["id"]
        )
        options.set("spark.databricks.delta.write.txnVersion", str(batch))
        self.merge(rows)

    def merge(self, rows: DataFrame) -> None:
        """``MERGE`` by key: of each sale its newest version, as a person would write it who knows of retries."""
        fields = ", ".join(f"{name} string" for name in FIELDS)
        rows.sparkSession.sql(
            f"CREATE TABLE IF NOT EXISTS delta.`{self.table}` ({fields}, day date) USING delta PARTITIONED BY (day)"
        )
        newest_versions(rows).createOrReplaceTempView("incoming")
        same = " AND ".join(f"kept.{name} = incoming.{name}" for name in KEY)
        rows.sparkSession.sql(
            f"MERGE INTO delta.`{self.table}` AS kept USING incoming ON {same} "
            "WHEN MATCHED AND incoming.updated_at >= kept.updated_at THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def rows_again(self) -> int:
        """How many rows all merges have written that were in the table already: they rewrite whole files."""
        metrics = [entry.get("operationMetrics", {}) for entry in DeltaTable(self.table).history()]
        return sum(int(each.get(name, 0)) for each in metrics for name in _WRITTEN_AGAIN)

    def version(self) -> int:
        return DeltaTable(self.table).version()

    def restore(self, version: int) -> None:
        self.spark.sql(f"RESTORE TABLE delta.`{self.table}` TO VERSION AS OF {version}")

    def lose_checkpoint(self) -> None:
        """As a bucket's lifecycle rule, a move to another cluster, or a person who tidies up."""
        shutil.rmtree(self.checkpoint)

    def source(self, days: Sequence[date]) -> DataFrame:
        """A batch job's read of the source: the files that are there when it is planned."""
        return self.lines_of(self.landed.files(days))

    def lines_of(self, files: Sequence[Path]) -> DataFrame:
        self.read = more_reads(self.read, files)
        return with_day(self.spark.read.schema(line_schema()).json([str(file) for file in files]))

    def append(self, rows: DataFrame) -> None:
        rows.write.format("delta").mode("append").partitionBy("day").save(self.table)

    def replace_days(self, rows: DataFrame, days: Sequence[date]) -> None:
        """``replaceWhere`` over the range of ``days``."""
        within = f"day >= '{min(days)}' AND day <= '{max(days)}'"
        rows.where(within).write.format("delta").mode("overwrite").option("replaceWhere", within).partitionBy(
            "day"
        ).save(self.table)

    def count(self) -> TableCount:
        """The table beside what was sent, read without Spark."""
        rows = arrow_dataset(Storage(str(self.home)), TABLE).to_table(list(KEY))
        return self.landed.count(TABLE, rows)

    def _new_files(self) -> DataFrame:
        folders = str(self.landed.root / SOURCE / "*")
        return with_day(self.spark.readStream.schema(line_schema()).json(folders))


def more_reads(read: SourceReads, files: Collection[Path]) -> SourceReads:
    """``read`` and one more job that reads ``files`` once."""
    size = sum(file.stat().st_size for file in files)
    return SourceReads(read.files + len(files), read.bytes + size, max(read.most_at_once, size))


def line_schema() -> StructType:
    """A line's fields, as text."""
    from pyspark.sql import types as T

    return T.StructType([T.StructField(name, T.StringType()) for name in FIELDS])


def newest_versions(rows: DataFrame) -> DataFrame:
    """Of each sale the version that was updated last."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    versions = Window.partitionBy(*KEY).orderBy(F.desc("updated_at"))
    return rows.withColumn("version", F.row_number().over(versions)).where("version = 1").drop("version")


def with_day(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return rows.withColumn("day", F.substring("transaction_timestamp", 1, 10).cast("date"))
