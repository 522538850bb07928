"""The catalogue as of a day: for how long each entry counts."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

LONGEST_CATALOGUE_GAP_DAYS = 35
"""No entry is used that is older than this; the whole catalogue comes at least once a month."""


def products_as_of(products: DataFrame) -> DataFrame:
    """``product_id, department, valid_from, valid_until`` of the rows of ``bronze_products``; both days inclusive.

    An entry counts until the day before the next one of its product, and for :data:`LONGEST_CATALOGUE_GAP_DAYS` at
    most: so what counts on a day depends on these days before it only, however many days are built together.
    """
    entries = Window.partitionBy("product_id").orderBy("valid_from")
    day_before_next = F.date_sub(F.lead("valid_from").over(entries), 1)
    oldest_use = F.date_add("valid_from", LONGEST_CATALOGUE_GAP_DAYS)
    return products.select(
        "product_id", "department", "valid_from", F.least(oldest_use, day_before_next).alias("valid_until")
    )
