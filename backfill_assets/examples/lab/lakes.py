"""A plain Delta table or a lakehouse, beside a landing folder, to play hazards on."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from backfill_assets.campaign.cutover import cut_over
from backfill_assets.campaign.undo import undo
from backfill_assets.campaign.undo_days import UndoAction
from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.examples.lab.counts import Key, SourceReads, TableCount, count_table
from backfill_assets.examples.sample.landing_writer import landing
from backfill_assets.examples.sample.references import RATES_LEAD_DAYS, land_rates
from backfill_assets.examples.sample.sales_line import FIELDS
from backfill_assets.lakehouse.arrow_dataset import arrow_dataset
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.zone import LandedFile, LandingZone, position_id
from backfill_assets.model.declaration import Source
from backfill_assets.publish.crash_points import Reached, nowhere
from backfill_assets.publish.promote import silent
from backfill_assets.publish.publisher import Publisher
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.outcome import ADOPTED, RunInfo
from backfill_assets.rebuild.step_look import StepRequest
from backfill_assets.rebuild.walk import shadow
from backfill_assets.state.reading import read_published
from backfill_assets.stream.landed import LandingReading

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    Change = Callable[[DataFrame], DataFrame]

SOURCE = "sales"
PLAIN = "sales"
RAW, BRONZE, QUARANTINE, FACT = "raw_sales", "bronze_sales", "quarantine_sales", "fact_sales_transactions"
KEY = ("day", "basket_id", "product_id")
STAGED, OVERTAKEN = "days staged", "another run took in the same files"
Files = Mapping[date, Mapping[str, Sequence[str]]]

_LINE = ", ".join(f"{name} string" for name in FIELDS)
_WRITTEN_AGAIN = ("numTargetRowsCopied", "numTargetRowsUpdated")
_CAMPAIGN = "campaign-lab"
_RUN = RunInfo("lab", launched_by="backfill lab")


@dataclass
class ScratchLake:
    spark: SparkSession
    home: Path
    files: Files
    progress: Progress = silent
    sent: Counter[Key] = field(default_factory=Counter)
    days_computed: int = 0
    days_thrown_away: int = 0

    @property
    def days(self) -> list[date]:
        return sorted(self.files)

    @property
    def landing(self) -> Path:
        return self.home / "landing"

    def land(self, name: str, day: date | None = None) -> None:
        with landing(self.landing) as writer:
            for each in [day] if day else self.days:
                if name in self.files[each]:
                    writer.write(SOURCE, each, self.files[each][name], name)
                    self.sent.update(map(key_of, self.files[each][name]))

    def landed(self, days: Sequence[date] = ()) -> list[Path]:
        folders = (self.landing / SOURCE / str(day) for day in days or self.days)
        return [path for folder in folders for path in sorted(folder.glob("*.jsonl.gz"))]

    def compare(self, table: str, rows: pa.Table) -> TableCount:
        names = zip(*(rows[name].to_pylist() for name in KEY), strict=True)
        found = Counter((day, f"{basket}-{product}") for day, basket, product in names)
        return count_table(table, self.sent, found)


def sold_at(line: str) -> datetime:
    return datetime.fromisoformat(_values(line)["transaction_timestamp"])


def key_of(line: str) -> Key:
    values = _values(line)
    return date.fromisoformat(values["transaction_timestamp"][:10]), f"{values['basket_id']}-{values['product_id']}"


def _values(line: str) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(line)
    return values


# ------------------------------------------------------------ without this project


def unchanged(rows: DataFrame) -> DataFrame:
    return rows


@dataclass
class PlainLake(ScratchLake):
    read: SourceReads = field(default_factory=SourceReads)

    @property
    def table(self) -> str:
        return str(self.home / PLAIN)

    @property
    def checkpoint(self) -> Path:
        return self.home / "checkpoint"

    def stream(self, only: Change = unchanged) -> None:
        writer = only(self._new_files()).writeStream.format("delta").partitionBy("day").outputMode("append")
        query = writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start(self.table)
        query.awaitTermination()

    def stream_by_batch(self, write: Callable[[DataFrame, int], None]) -> None:
        writer = self._new_files().writeStream.foreachBatch(write).option("checkpointLocation", str(self.checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()

    def stream_merging(self) -> None:
        self.stream_by_batch(self.merge_batch)

    def merge_batch(self, rows: DataFrame, batch: int) -> None:
        """Once by batch number, which a new checkpoint counts from 0 again."""
        stream = json.loads((self.checkpoint / "metadata").read_text())["id"]
        rows.sparkSession.conf.set("spark.databricks.delta.write.txnAppId", stream)
        rows.sparkSession.conf.set("spark.databricks.delta.write.txnVersion", str(batch))
        self.merge(rows)

    def merge(self, rows: DataFrame) -> None:
        """Keeps each sale's newest version, like authors who know of retries."""
        rows.sparkSession.sql(
            f"CREATE TABLE IF NOT EXISTS delta.`{self.table}` ({_LINE}, day date) USING delta PARTITIONED BY (day)"
        )
        newest_versions(rows).createOrReplaceTempView("incoming")
        same = " AND ".join(f"kept.{name} = incoming.{name}" for name in KEY)
        rows.sparkSession.sql(
            f"MERGE INTO delta.`{self.table}` AS kept USING incoming ON {same} "
            "WHEN MATCHED AND incoming.updated_at >= kept.updated_at THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def rows_again(self) -> int:
        metrics = [entry.get("operationMetrics", {}) for entry in DeltaTable(self.table).history()]
        return sum(int(each.get(name, 0)) for each in metrics for name in _WRITTEN_AGAIN)

    def restore(self, version: int) -> None:
        self.spark.sql(f"RESTORE TABLE delta.`{self.table}` TO VERSION AS OF {version}")

    def lose_checkpoint(self) -> None:
        shutil.rmtree(self.checkpoint)

    def source(self, days: Sequence[date] = ()) -> DataFrame:
        return self.lines_of(self.landed(days))

    def lines_of(self, files: Sequence[Path]) -> DataFrame:
        size = sum(file.stat().st_size for file in files)
        read = self.read
        self.read = SourceReads(read.files + len(files), read.bytes + size, max(read.most_at_once, size))
        return with_day(self.spark.read.schema(_LINE).json([str(file) for file in files]))

    def append(self, rows: DataFrame) -> None:
        rows.write.format("delta").mode("append").partitionBy("day").save(self.table)

    def replace_days(self, rows: DataFrame, days: Sequence[date] = ()) -> None:
        first, last = min(days or self.days), max(days or self.days)
        within = f"day >= '{first}' AND day <= '{last}'"
        writer = rows.where(within).write.format("delta").mode("overwrite").option("replaceWhere", within)
        writer.partitionBy("day").save(self.table)

    def count(self, table: str = PLAIN) -> TableCount:
        return self.compare(table, arrow_dataset(Storage(str(self.home)), table).to_table(list(KEY)))

    def _new_files(self) -> DataFrame:
        return with_day(self.spark.readStream.schema(_LINE).json(str(self.landing / SOURCE / "*")))


def newest_versions(rows: DataFrame) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    versions = Window.partitionBy(*KEY).orderBy(F.desc("updated_at"))
    return rows.withColumn("version", F.row_number().over(versions)).where("version = 1").drop("version")


def with_day(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return rows.withColumn("day", F.substring("transaction_timestamp", 1, 10).cast("date"))


# --------------------------------------------------------------- with this project


@dataclass(frozen=True)
class CountedZone(LandingZone):
    """Counts openings of files, also for hashes."""

    opened: list[int] = field(default_factory=list)

    def _landed_file(self, source: Source, day: date, path: Path) -> LandedFile:
        found = super()._landed_file(source, day, path)
        self.opened.append(found.size)
        return found

    def locate(self, path: str) -> Path:
        found = super().locate(path)
        self.opened.append(found.stat().st_size)
        return found


@dataclass
class SafeLake(ScratchLake):
    zone: CountedZone = field(init=False)
    messages: list[str] = field(default_factory=list)
    most_at_once: int = 0

    def __post_init__(self) -> None:
        self.zone = CountedZone(self.landing)

    @property
    def storage(self) -> Storage:
        return Storage(str(self.home / "lakehouse"))

    @property
    def read(self) -> SourceReads:
        return SourceReads(len(self.zone.opened), sum(self.zone.opened), self.most_at_once)

    def forget_work(self) -> None:
        self.zone.opened.clear()
        self.most_at_once = self.days_computed = self.days_thrown_away = 0

    def stream(self, days: Sequence[date], reached: Reached = nowhere) -> None:
        """Takes unread files of ``days`` into raw; bronze follows. ``reached`` hears each step of raw's publication."""
        before, lake = sum(self.zone.opened), self._lake(reached)
        lake.publisher.recover([RAW])
        LandingReading(lake, CATALOG.step(RAW), _RUN, self._report).take_in(self.landed(days))
        self.most_at_once = max(self.most_at_once, sum(self.zone.opened) - before)
        self.build(BRONZE, days)

    def build(
        self,
        table: str,
        days: Sequence[date],
        *,
        when_staged: Callable[[], object] | None = None,
        force: bool = False,
    ) -> None:
        """By published versions; ``when_staged`` is called once, before publication."""
        waiting = [when_staged] if when_staged else []

        def hear(message: str) -> None:
            self._report(message)
            if waiting and STAGED in message:
                waiting.pop()()

        before, builder = sum(self.zone.opened), Builder(self._lake())
        builder.build(CATALOG.step(table), days, run=_RUN, version=AS_PUBLISHED, force=force, progress=hear)
        self.most_at_once = max(self.most_at_once, sum(self.zone.opened) - before)
        if waiting:
            raise InvalidRequest(f"{table}: nothing was staged, so nothing could happen meanwhile.")

    def take_in_rates(self, days: DayRange) -> None:
        with landing(self.landing) as writer:
            land_rates(writer, days)
        for table in ("raw_fx_rates", "bronze_fx_rates"):
            self.build(table, list(days.widened(before=RATES_LEAD_DAYS)))

    def cut_over(self, days: Sequence[date], version: str) -> str:
        step, lake = CATALOG.step(FACT), self._lake()
        steps = [StepRequest(step, tuple(days), version)]
        shadow(lake, _CAMPAIGN, steps, _RUN, self._report)
        return cut_over(lake, _CAMPAIGN, steps, _RUN, self._report).published.publication

    def undo(self, publication: str) -> Mapping[UndoAction, int]:
        undone = undo(self._lake(), publication, _RUN, self._report)
        return Counter(day.action for day in undone.plan.days)

    def count(self, table: str) -> TableCount:
        """Like any Delta reader; ``+`` joins several tables."""
        import pyarrow as pa
        import pyarrow.dataset as ds

        # Without raw's markers about other rows.
        events = ds.field("record_kind") == "received" if table == RAW else None
        datasets = [read_published(self.storage, name).dataset() for name in table.split(" + ")]
        return self.compare(table, pa.concat_tables([each.to_table(list(KEY), filter=events) for each in datasets]))

    def positions(self) -> int:
        main = MainTable.open(self.storage, RAW)
        prefix = position_id(SOURCE, "")
        return sum(id.startswith(prefix) for id in main.transactions()) if main else 0

    def reported(self, words: str) -> int:
        return sum(words in message for message in self.messages)

    def staged_before(self) -> int:
        counts = [int(message.split(": ")[1].split()[0]) for message in self.messages if ADOPTED in message]
        return counts[-1] if counts else 0

    def _lake(self, reached: Reached = nowhere) -> Lake:
        publisher = Publisher(self.storage, reached=reached)
        return Lake(CATALOG, self.storage, publisher, self.zone, lambda: self.spark, str(self.home / "token.key"))

    def _report(self, message: str) -> None:
        self.messages.append(message)
        self.progress(message)
