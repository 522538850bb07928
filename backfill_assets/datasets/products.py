"""The dataset ``products``: the catalogue, whole at least once a month, and its changes on any day."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from backfill_assets.datasets.fx_rates import FX_DATASET
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.declaration import Dataset, Reads, Source, Version
from backfill_assets.model.landed import BronzeColumns, landed_steps
from backfill_assets.model.refinement import Refinement, refined

PRODUCTS = Source(
    name="products",
    event_day_field="valid_from",
    key_fields=("product_id",),
    version_field="updated_at",
    fields=(
        "product_id",
        "manufacturer_id",
        "department",
        "brand",
        "product_category",
        "product_type",
        "package_size",
        "valid_from",
        "updated_at",
    ),
    types={"valid_from": "date", "updated_at": "timestamp"},
)


class TypedProducts(Contract):
    """A sound entry of the catalogue."""

    product_id: T.StringType = Field(str_length={"min_value": 1}, description="As on the lines of a receipt.")
    manufacturer_id: T.StringType = Field(nullable=True, description="Who makes it.")
    department: T.StringType = Field(str_length={"min_value": 1}, description="Where in a store it is sold.")
    brand: T.StringType = Field(nullable=True, description="National, or the store's own.")
    product_category: T.StringType = Field(nullable=True, description="Within the department.")
    product_type: T.StringType = Field(nullable=True, description="Within the category.")
    package_size: T.StringType = Field(nullable=True, description="As printed: `22 LB`.")
    valid_from: T.DateType = Field(description="The first day that this entry counts; the same as `day`.")
    updated_at: T.TimestampType = Field(description="When the source wrote this version.")


class BronzeProducts(BronzeColumns, TypedProducts):
    """One entry per product and the day it begins to count; when it ends is in the next entry, see `products_as_of`."""


REFINEMENT = Refinement(source=PRODUCTS, contract=BronzeProducts, key=("product_id",))


def bronze(inputs: Mapping[str, DataFrame]) -> Mapping[str, DataFrame]:
    """Typed entries with one winner per product and day, and the rejected rows."""
    return refined(inputs, REFINEMENT)


PRODUCTS_DATASET = Dataset(
    name="products",
    description="What is sold: the department, category and brand of each product, with the days they count from.",
    owners=("team:retail-data",),
    first_day=FX_DATASET.first_day,
    steps=landed_steps(
        PRODUCTS,
        BronzeProducts,
        rows="entries of the product catalogue",
        key=("product_id",),
        versions=(Version("v1", "Newest version of each entry.", (Reads("raw_products"),), bronze),),
        current="v1",
        most_rows=5_000_000,
        tolerated_rejects=20,
        # The day of a whole catalogue has its changes twice: within it, and by themselves.
        most_duplicates=Decimal("0.05"),
    ),
)
