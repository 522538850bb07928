"""A dataset with the shape of the real one, six steps and seven tables, and no transforms that do anything."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

from pyspark.sql.types import DateType, DecimalType, StringType

from backfill_assets.defs.partitions import PartitionedTables
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.dataset import Dataset
from backfill_assets.model.declaration import Layer, Reads, Source, Step, Table, Version


class Anything(Contract):
    """Any table's contract."""

    transaction_id: StringType() = Field(description="The key.")  # type: ignore[valid-type]
    amount: DecimalType(18, 4) = Field(ge=0, nullable=True)  # type: ignore[valid-type]
    sold_on: DateType() = Field()  # type: ignore[valid-type]
    updated_at: StringType() = Field()  # type: ignore[valid-type]
    day: DateType() = Field()  # type: ignore[valid-type]


def _table(name: str, layer: Layer) -> Table:
    return Table(name, layer, f"The table {name}.", Anything, ("transaction_id",))


def _source(name: str) -> Source:
    fields = ("transaction_id", "amount", "sold_on", "updated_at")
    types = {"amount": "decimal(18,4)", "sold_on": "date"}
    return Source(name, "sold_on", ("transaction_id",), "updated_at", fields, types)


def _built(*tables: Table, reads: tuple[Reads, ...]) -> Step:
    return Step(tables, (Version("v2", "Does nothing.", reads, dict),), "v2")


SMALL = Dataset(
    name="small",
    description="A chain for tests.",
    owners=("team:data",),
    first_day=date(2016, 12, 24),
    steps=(
        Step((_table("raw_sales", "raw"),), source=_source("sales")),
        Step((_table("raw_fx_rates", "raw"),), source=_source("fx_rates")),
        _built(_table("bronze_sales", "bronze"), _table("quarantine_sales", "quarantine"), reads=(Reads("raw_sales"),)),
        _built(_table("bronze_fx_rates", "bronze"), reads=(Reads("raw_fx_rates"),)),
        _built(
            _table("fact_sales_transactions", "fact"), reads=(Reads("bronze_sales"), Reads("bronze_fx_rates", -7, 0))
        ),
        _built(_table("fact_daily_revenue", "report"), reads=(Reads("fact_sales_transactions"),)),
    ),
)
TABLES = [table.name for table in SMALL.tables]

STREAMED = replace(SMALL, streamed=True)
"""The same, and Dagster has an asset for the stream of its sales."""

SMALL_CATALOG, STREAMED_CATALOG = Catalog((SMALL,)), Catalog((STREAMED,))
SMALL_TABLES = PartitionedTables(SMALL_CATALOG)
