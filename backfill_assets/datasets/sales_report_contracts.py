"""The contracts of the reports on sales: what each row says, and in which unit."""

from __future__ import annotations

from typing import Annotated

import pandera.pyspark as pa
from pyspark.sql import types as T

from backfill_assets.datasets.contract_model import Contract


class Sums(Contract):
    """What every report adds up, from lines and never from rounded sums."""

    revenue_eur: Annotated[T.DecimalType, 18, 4] = pa.Field(ge=0, description="The sum of the lines' amounts.")
    lines: T.LongType = pa.Field(ge=1, description="Transactions.")
    baskets: T.LongType = pa.Field(ge=1, description="Different baskets with such lines.")
    quantity: T.LongType = pa.Field(ge=0, description="Pieces.")


class Period(Contract):
    """How much of its period a report has seen."""

    days_published: T.LongType = pa.Field(ge=1, description="Days of the period whose transactions are published.")
    complete: T.BooleanType = pa.Field(description="Every day of the period is in it.")


class ReportDepartmentRevenue(Sums):
    """Revenue of a department on a day."""

    department: T.StringType = pa.Field(
        str_length={"min_value": 1}, description="As of the day; UNKNOWN for products the catalogue does not have."
    )
    day: T.DateType = pa.Field()


class ReportStoreRanking(Sums, Period):
    """A store in the ranking of an ISO week."""

    store_id: T.StringType = pa.Field(str_length={"min_value": 1})
    rank: T.LongType = pa.Field(ge=1, description="1 is the store with the most revenue; ties go by store id.")
    day: T.DateType = pa.Field(description="The Monday of the week.")


class ReportMonthlyClose(Sums, Period):
    """A month's sales in one currency."""

    currency: T.StringType = pa.Field(str_matches="^[A-Z]{3}$", description="The currency the sales were made in.")
    revenue: Annotated[T.DecimalType, 18, 2] = pa.Field(ge=0, description="In `currency`.")
    stores: T.LongType = pa.Field(ge=1, description="Different stores.")
    day: T.DateType = pa.Field(description="The first day of the month.")
