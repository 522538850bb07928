"""The reports on sales: by department and day, by store and week, by currency and month."""

from __future__ import annotations

from decimal import Decimal

from backfill_assets.datasets.products_as_of import LONGEST_CATALOGUE_GAP_DAYS
from backfill_assets.datasets.sales import reports_v1 as v1
from backfill_assets.datasets.sales.report_contracts import (
    ReportDepartmentRevenue,
    ReportMonthlyClose,
    ReportStoreRanking,
)
from backfill_assets.days import Cadence
from backfill_assets.model.declaration import DayRule, Reads, Step, Table, Version
from backfill_assets.model.rules import FewUnknown, TotalAgrees, VolumeWithin

_TOTALS = ("revenue_eur", "lines", "quantity")
_UNKNOWN_BASELINE = Decimal("0.0033")
"""Of the 1,469,307 real lines of 2017, the catalogue does not have the products of 4,836; 0.8 % on the worst day."""

_ADDS_UP: tuple[DayRule, ...] = (
    TotalAgrees("revenue_eur", fact=v1.FACT, fact_total="amount_eur"),
    TotalAgrees("quantity", fact=v1.FACT, fact_total="quantity"),
    TotalAgrees("lines", fact=v1.FACT, fact_total="rows"),
    VolumeWithin(at_most=1_000_000, made_of=v1.FACT),
)

SUMS_OF_LINES = {
    "revenue_eur": (f"{v1.FACT}.amount_eur",),
    "lines": (f"{v1.FACT}.transaction_id",),
    "baskets": (f"{v1.FACT}.basket_id",),
}
_COMPLETENESS = dict.fromkeys(("days_published", "complete"), (f"{v1.FACT}.day",))

DEPARTMENTS = Table(
    name="report_department_revenue",
    layer="report",
    description=(
        "Revenue in euros, lines, baskets and pieces of each department and day. A product counts in the department "
        "that the catalogue has for it as of that day, and as UNKNOWN if it has none."
    ),
    contract=ReportDepartmentRevenue,
    key=("department",),
    rules=(
        *_ADDS_UP,
        FewUnknown("department", unknown=v1.UNKNOWN, lines="lines", baseline=_UNKNOWN_BASELINE),
    ),
    totals=_TOTALS,
    groups=("department",),
    made_of=SUMS_OF_LINES,
)

RANKING = Table(
    name="report_store_ranking",
    layer="report",
    description=(
        "The stores of each ISO week, the one with the most revenue first. A week some of whose days are not published "
        "says so in `complete`."
    ),
    contract=ReportStoreRanking,
    key=("store_id",),
    rules=_ADDS_UP,
    totals=_TOTALS,
    groups=("store_id",),
    made_of={**SUMS_OF_LINES, **_COMPLETENESS, "rank": (f"{v1.FACT}.amount_eur",)},
)

CLOSE = Table(
    name="report_monthly_close",
    layer="report",
    description=(
        "The sales of each month in each currency, also in euros. A month is flagged incomplete until all its days are "
        "published."
    ),
    contract=ReportMonthlyClose,
    key=("currency",),
    rules=_ADDS_UP,
    totals=_TOTALS,
    groups=("currency",),
    made_of={
        **SUMS_OF_LINES,
        **_COMPLETENESS,
        "revenue": (f"{v1.FACT}.sales_value",),
        "stores": (f"{v1.FACT}.store_id",),
    },
)

_WHOLE_PERIOD = Reads(v1.FACT, partial=True)

REPORT_STEPS = (
    Step(
        tables=(DEPARTMENTS,),
        versions=(
            Version(
                "v1",
                "Sums by department as of the day.",
                (Reads(v1.FACT), Reads("bronze_products", -LONGEST_CATALOGUE_GAP_DAYS, 0)),
                v1.department_revenue,
            ),
        ),
        current="v1",
    ),
    Step(
        tables=(RANKING,),
        versions=(Version("v1", "Ranks by revenue in euros.", (_WHOLE_PERIOD,), v1.store_ranking),),
        current="v1",
        cadence=Cadence.WEEKLY,
    ),
    Step(
        tables=(CLOSE,),
        versions=(Version("v1", "Sums by currency.", (_WHOLE_PERIOD,), v1.monthly_close),),
        current="v1",
        cadence=Cadence.MONTHLY,
    ),
)
