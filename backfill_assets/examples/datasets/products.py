"""The catalogue, whole at least once a month, and its changes on any day."""

from __future__ import annotations

from decimal import Decimal

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.examples.datasets.fx_rates import FX_RATES
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.landed_dataset import LandedDataset

LONGEST_CATALOGUE_GAP_DAYS = 35
"""No older entry is used; the catalogue comes monthly."""

PRODUCTS = LandedDataset(
    name="products",
    description="What is sold: the department, category and brand of each product, with the days they count from.",
    owners=("team:retail-data",),
    first_day=FX_RATES.first_day,
    rows="entries of the product catalogue",
    most_rows=5_000_000,
    tolerated_rejects=20,
    # The day of a whole catalogue has its changes twice: within it, and by themselves.
    most_duplicates=Decimal("0.05"),
)


@PRODUCTS.row("v1", "Newest version of each entry.")
class CatalogueEntry(Contract):
    """A sound entry of the catalogue: one per product and the day it begins to count. See :func:`products_as_of`."""

    product_id: T.StringType = Field(key=True, str_length={"min_value": 1}, description="As on the lines of a receipt.")
    manufacturer_id: T.StringType = Field(nullable=True, description="Who makes it.")
    department: T.StringType = Field(str_length={"min_value": 1}, description="Where in a store it is sold.")
    brand: T.StringType = Field(nullable=True, description="National, or the store's own.")
    product_category: T.StringType = Field(nullable=True, description="Within the department.")
    product_type: T.StringType = Field(nullable=True, description="Within the category.")
    package_size: T.StringType = Field(nullable=True, description="As printed: `22 LB`.")
    valid_from: T.DateType = Field(
        event_day=True, description="The first day that this entry counts; the same as `day`."
    )
    updated_at: T.TimestampType = Field(version=True, description="When the source wrote this version.")


def products_as_of(products: DataFrame) -> DataFrame:
    """``product_id, department, valid_from, valid_until`` of the rows of ``bronze_products``; both days inclusive.

    An entry counts until the day before the next one of its product, for :data:`LONGEST_CATALOGUE_GAP_DAYS` at most:
    however many days are built together.
    """
    entries = Window.partitionBy("product_id").orderBy("valid_from")
    day_before_next = F.date_sub(F.lead("valid_from").over(entries), 1)
    oldest_use = F.date_add("valid_from", LONGEST_CATALOGUE_GAP_DAYS)
    return products.select(
        "product_id", "department", "valid_from", F.least(oldest_use, day_before_next).alias("valid_until")
    )
