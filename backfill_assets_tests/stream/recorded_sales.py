"""A dataset ``sales`` whose key, headers and time of record are columns: the record's key is the transaction's."""

from __future__ import annotations

from datetime import date

from pyspark.sql import types as T

from backfill_assets.model.catalog import Catalog
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.landed_dataset import LandedDataset
from backfill_assets.model.record_parts import Header, Key, RecordTime


class RecordedSale(Contract):
    """A sound sale."""

    sale: T.StringType = Field(key=True, record=Key(), description="The key of the record.")
    till: T.LongType = Field(nullable=True, record=Header("till"), description="Where it was sold.")
    household: T.StringType = Field(nullable=True, record=Header("household_id", personal=True), description="Whose.")
    sent_at: T.TimestampType = Field(version=True, record=RecordTime(), description="When it was sent.")
    sold_at: T.TimestampType = Field(event_day=True, description="When it was sold.")


def recorded(rejected_to: str = "", row: type[Contract] = RecordedSale) -> LandedDataset:
    found = LandedDataset(
        name="sales",
        description="Sales, and what their records say.",
        owners=("team:tests",),
        first_day=date(2026, 1, 1),
        rows="sales",
        most_rows=1_000,
        tolerated_rejects=5,
        rejected_to=rejected_to,
    )
    found.row("v1", "Newest of each sale.")(row)
    return found


SOURCE = recorded().source


def catalog_of(rejected_to: str) -> Catalog:
    return Catalog((recorded(rejected_to).dataset(),))
