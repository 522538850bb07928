"""A folder of Parquet files that others write, read where it lies."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest, LakehouseUnusable
from backfill_assets.external.observe import observe_tables, tables_of_others
from backfill_assets.external.rows import require_as_looked_at
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.token_key import token_of
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.derived_dataset import DerivedDataset
from backfill_assets.model.external_table import ExternalTable
from backfill_assets.publish.publisher import Publisher
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.settings import Settings
from backfill_assets.state.reading import read_published
from backfill_assets.state.view import View

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST = date(2025, 1, 1)
DAYS = DayRange.parse("2025-01-01..2025-01-04")


class Ride(Contract):
    """A ride."""

    ride_id: int = Field()
    price: Annotated[T.DecimalType, 12, 2] = Field(landed="Price", ge=0)
    rider_token: str = Field(personal="Rider", nullable=True)


class DailyRides(Contract):
    """What rides brought on each day."""

    rides: T.LongType = Field(made_of="ride_id")
    price: Annotated[T.DecimalType, 18, 2] = Field()
    last_rider: str = Field(nullable=True, made_of="rider_token")
    day: T.DateType = Field(key=True)


def declared(location: Path, day: str) -> Catalog:
    rides = DerivedDataset(
        name="rides",
        description="Rides.",
        owners=("team:rides",),
        first_day=FIRST,
        external=(ExternalTable("rides_of_others", Ride, location=str(location), day=day, written="parquet"),),
    )
    rides.table("fact_daily_rides")(DailyRides)

    @rides.version(DailyRides, "v1", "Sums.", "rides_of_others")
    def daily_rides(rides: DataFrame) -> DataFrame:
        return rides.groupBy("day").agg(
            F.count("*").alias("rides"),
            F.sum("price").cast("decimal(18,2)").alias("price"),
            F.max("rider_token").alias("last_rider"),
        )

    return Catalog.of([rides])


def write(path: Path, days: list[date], price: str = "1.50", column: str = "") -> None:
    """A file of a ride a day; with the moment in a ``column`` of that name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = {
        "ride_id": pa.array(range(len(days)), pa.int32()),
        "Price": pa.array([Decimal(price)] * len(days), pa.decimal128(9, 2)),
        "Rider": pa.array(["" if day == FIRST else f"rider {day.day}" for day in days]),
    }
    if column:
        moments = [datetime.combine(day, datetime.min.time()) + timedelta(hours=12) for day in days]
        columns[column] = pa.array(moments, pa.timestamp("us", tz="UTC"))
    pq.write_table(pa.table(columns), path)


class Rides:
    def __init__(self, spark: SparkSession, home: Path, day: str) -> None:
        self.spark, self.location, self.settings = spark, home / "others", Settings.at(home / "ours")
        self.catalog = declared(self.location, day)

    def run(self) -> set[int]:
        builder = Builder.from_settings(self.settings, self.catalog, lambda: self.spark)
        built = builder.build(self.catalog.step("fact_daily_rides"), list(DAYS), run=RunInfo("test"))
        return {each.day.day for each in built.days if not each.reused}

    def published(self, column: str) -> dict[int, Any]:
        rows = read_published(Storage(str(self.settings.lakehouse)), "fact_daily_rides").dataset().to_table()
        return {row["day"].day: row[column] for row in rows.to_pylist()}


def test_days_of_folders_follow_the_files_in_them(spark: SparkSession, tmp_path: Path) -> None:
    rides = Rides(spark, tmp_path, "ride_day")
    for day in DAYS:
        write(rides.location / f"ride_day={day}" / "a.parquet", [day])
    write(rides.location / "_temporary" / "x.parquet", [FIRST])
    assert rides.run() == {1, 2, 3, 4}
    assert rides.run() == set()
    write(rides.location / "ride_day=2025-01-02" / "b.parquet", [FIRST], "2.00")
    (rides.location / "ride_day=2025-01-04" / "a.parquet").unlink()
    assert rides.run() == {2, 4}
    assert rides.published("price") == {1: Decimal("1.50"), 2: Decimal("3.50"), 3: Decimal("1.50")}


def test_days_of_moments_are_known_from_the_statistics_of_files(spark: SparkSession, tmp_path: Path) -> None:
    rides = Rides(spark, tmp_path, "ridden_at")
    write(rides.location / "one.parquet", [FIRST, date(2025, 1, 2)], column="ridden_at")
    write(rides.location / "deep" / "two.parquet", [date(2025, 1, 4)], column="ridden_at")
    assert rides.run() == {1, 2, 3, 4}
    write(rides.location / "deep" / "two.parquet", [date(2025, 1, 4)], "9.00", column="ridden_at")
    assert rides.run() == {4}
    assert rides.published("price") == {1: Decimal("1.50"), 2: Decimal("1.50"), 4: Decimal("9.00")}
    token = partial(token_of, key_file=rides.settings.token_key_file)
    assert rides.published("last_rider") == {1: None, 2: token("rider 2"), 4: token("rider 4")}


def test_files_that_others_replace_after_the_look_are_not_read_as_what_was_looked_at(tmp_path: Path) -> None:
    """A file may have the name of the one before; days of other files stay readable."""
    catalog, settings = declared(tmp_path / "others", "ride_day"), Settings.at(tmp_path / "ours")
    for day in DAYS:
        write(tmp_path / "others" / f"ride_day={day}" / "a.parquet", [day])
    publisher = Publisher(Storage(str(settings.lakehouse)), retention_days=30)
    ((rides, _),) = tables = tables_of_others(catalog.steps, catalog.datasets)
    (looked,) = observe_tables(publisher, tables)
    known = View.newest(publisher.log.storage).records([rides.name])[rides.name]
    days = {day: record.measured for day, record in known.items()}
    require_as_looked_at(rides, {looked.version: days})
    write(tmp_path / "others" / "ride_day=2025-01-02" / "a.parquet", [FIRST], "9.00")
    with pytest.raises(LakehouseUnusable, match="rides_of_others 2025-01-02 is made of other files"):
        require_as_looked_at(rides, {looked.version: days})
    del days[date(2025, 1, 2)]
    require_as_looked_at(rides, {looked.version: days})


def test_a_delta_table_is_no_folder_of_files(tmp_path: Path) -> None:
    (tmp_path / "others" / "_delta_log").mkdir(parents=True)
    write(tmp_path / "others" / "a.parquet", [FIRST], column="ridden_at")
    catalog, settings = declared(tmp_path / "others", "ridden_at"), Settings.at(tmp_path / "ours")
    publisher = Publisher(Storage(str(settings.lakehouse)), retention_days=30)
    with pytest.raises(InvalidRequest, match="is a Delta table"):
        observe_tables(publisher, tables_of_others(catalog.steps, catalog.datasets))
