"""The contracts of the reports on sales: what each row says, and in which unit."""

from __future__ import annotations

from typing import Annotated

from pyspark.sql import types as T

from backfill_assets.model.contract import Contract, Field


class ReportSums(Contract):
    """What every report adds up, from lines and never from rounded sums."""

    revenue_eur: Annotated[T.DecimalType, 18, 4] = Field(ge=0, description="The sum of the lines' amounts.")
    lines: T.LongType = Field(ge=1, description="Transactions.")
    baskets: T.LongType = Field(ge=1, description="Different baskets with such lines.")
    quantity: T.LongType = Field(ge=0, description="Pieces.")


class Period(Contract):
    """How much of its period a report has seen."""

    days_published: T.LongType = Field(ge=1, description="Days of the period whose transactions are published.")
    complete: T.BooleanType = Field(description="Every day of the period is in it.")


class Department(Contract):
    """What a row of the departments' report is about."""

    department: T.StringType = Field(
        str_length={"min_value": 1}, description="As of the day; UNKNOWN for products the catalogue does not have."
    )


class RankedStore(Contract):
    """What a row of the stores' ranking is about."""

    store_id: T.StringType = Field(str_length={"min_value": 1}, description="The store.")
    rank: T.LongType = Field(ge=1, description="1 is the store with the most revenue; ties go by store id.")


class SalesCurrency(Contract):
    """What a row of the monthly close is about."""

    currency: T.StringType = Field(str_matches="^[A-Z]{3}$", description="The currency the sales were made in.")
    stores: T.LongType = Field(ge=1, description="Different stores.")
    revenue: Annotated[T.DecimalType, 18, 2] = Field(ge=0, description="In `currency`.")


# Columns come in the order of the bases from the last to the first, then the class's own.


class ReportDepartmentRevenue(ReportSums, Department):
    """Revenue of a department on a day."""

    day: T.DateType = Field(description="The day of the sales.")


class ReportStoreRanking(Period, ReportSums, RankedStore):
    """A store in the ranking of an ISO week."""

    day: T.DateType = Field(description="The Monday of the week.")


class ReportMonthlyClose(Period, ReportSums, SalesCurrency):
    """A month's sales in one currency."""

    day: T.DateType = Field(description="The first day of the month.")
