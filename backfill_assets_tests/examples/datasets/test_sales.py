from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.examples.datasets.products import LONGEST_CATALOGUE_GAP_DAYS, products_as_of
from backfill_assets.examples.datasets.sales import SALES, half_up_quotient, rates_as_of
from backfill_assets.model.declaration import Version
from backfill_assets.spark.computed import computed
from backfill_assets_tests.strategies.by_the_query import accepted
from backfill_assets_tests.strategies.raw_sales import DAY, marker, raw_sales

REFINEMENT = SALES.refinement()


def _rates(spark: SparkSession, *rates: tuple[str, date, str]) -> DataFrame:
    rows = [(currency, day, Decimal(rate)) for currency, day, rate in rates]
    return spark.createDataFrame(rows, "currency string, rate_day date, rate decimal(18,6)")


def test_an_amount_is_rounded_half_up_exactly_once(spark: SparkSession) -> None:
    """Compared with exact fractions, on quotients that lie a hair below, on, and above a half of the last digit.

    12345.67 / 1912400.000001 and the like are where two roundings, or a double, come out one digit too high.
    """
    pairs = [("0.50", "1.053300"), ("0.01", "200.000000"), ("0.01", "199.999999"), ("0.01", "200.000001")]
    pairs += [(f"{n}.{n % 100:02d}", f"{n * 7919 % 1912400}.{n * 104729 % 1000000:06d}") for n in range(1, 400)]
    pairs += [("0.00", "1.000000"), ("100000000.00", "0.388300"), ("1.00", "16000.000000"), ("3.00", "16000.000000")]
    rows = spark.createDataFrame(
        [(Decimal(amount), Decimal(rate)) for amount, rate in pairs if Decimal(rate) > 0],
        "amount decimal(18,2), rate decimal(18,6)",
    )
    found = rows.withColumn("eur", half_up_quotient(F.col("amount"), F.col("rate")))
    assert dict(found.dtypes)["eur"] == "decimal(18,4)"
    for row in found.collect():
        tenths = Fraction(row.amount) / Fraction(row.rate) * 10_000
        expected = Decimal((2 * tenths.numerator + tenths.denominator) // (2 * tenths.denominator)).scaleb(-4)
        assert row.eur == expected, row
        if tenths.denominator == 1:
            assert row.eur == (row.amount / row.rate).quantize(Decimal("0.0001"), ROUND_HALF_UP)


def test_a_rate_serves_until_the_next_one_and_at_most_seven_days(spark: SparkSession) -> None:
    """Known answers: over a weekend Friday's rate counts, Monday's from Monday, and the eighth day has none."""
    friday, monday = date(2017, 3, 3), date(2017, 3, 6)
    rates = rates_as_of(_rates(spark, ("USD", friday, "1.05"), ("USD", monday, "1.06")), days_before=0)
    found = {row.day: row.rate_day for row in rates.collect()}
    expected = {friday + timedelta(days=n): friday for n in range(3)}
    expected |= {monday + timedelta(days=n): monday for n in range(8)}
    assert found == expected


def _facts(
    spark: SparkSession, version: Version, raw: list[dict[str, Any]], *rates: tuple[str, date, str]
) -> list[Any]:
    inputs = {"bronze_sales": accepted(raw_sales(spark, raw), REFINEMENT), "bronze_fx_rates": _rates(spark, *rates)}
    return computed(version, inputs)["fact_sales_transactions"].collect()


V1, V2 = (CATALOG.step("fact_sales_transactions").version(name) for name in ("v1", "v2"))


def test_version_1_takes_the_previous_day_and_version_2_the_day_itself(spark: SparkSession) -> None:
    """The bug of the story and its fix, to the digit: 10 / 1.25 = 8 and 10 / 1.6 = 6.25."""
    rates = (("USD", DAY - timedelta(days=1), "1.25"), ("USD", DAY, "1.6"))
    sale = [{"sales_value": "10.00"}]
    [old], [new] = _facts(spark, V1, sale, *rates), _facts(spark, V2, sale, *rates)
    assert (old.amount_eur, old.rate_day) == (Decimal("8.0000"), DAY - timedelta(days=1))
    assert (new.amount_eur, new.rate_day) == (Decimal("6.2500"), DAY)


def test_euros_need_no_rate_a_missing_rate_leaves_nothing_and_superseded_rows_are_left_out(spark: SparkSession) -> None:
    """A line without a rate stays in, without an amount, so that the gate can count it.

    A superseded line counts on the day that its newer version belongs to.
    """
    sales = [
        {"basket_id": "1", "currency": "EUR", "sales_value": "2.00"},
        {"basket_id": "2", "currency": "CHF", "sales_value": "2.00"},
        {"currency": "GBP"},
        marker("2017-03-02T00:00:00.000000Z", 5, date(2017, 3, 4)),
    ]
    found = {row.currency: row for row in _facts(spark, V2, sales, ("CHF", DAY - timedelta(days=8), "1.1"))}
    assert (found["EUR"].amount_eur, found["EUR"].rate, found["EUR"].rate_day) == (Decimal("2.0000"), Decimal(1), DAY)
    assert (found["CHF"].amount_eur, found["CHF"].rate) == (None, None)
    assert set(found) == {"EUR", "CHF"}


def test_daily_revenue_adds_up_lines_baskets_and_pieces(spark: SparkSession) -> None:
    """Known answer: two stores, three lines, two lines of one basket."""
    names = ("store_id", "basket_id", "product_id", "sales_value", "quantity")
    lines = (("1", "1", "1", "1.10", "2"), ("1", "1", "2", "2.20", "3"), ("2", "2", "1", "4.00", "1"))
    sales = [{"currency": "EUR", **dict(zip(names, line, strict=True))} for line in lines]
    inputs = {"bronze_sales": accepted(raw_sales(spark, sales), REFINEMENT), "bronze_fx_rates": _rates(spark)}
    revenue = CATALOG.step("fact_daily_revenue").version("v1")
    rows = computed(revenue, computed(V2, inputs))["fact_daily_revenue"].collect()
    assert {(row.store_id, row.revenue_eur, row.lines, row.baskets, row.quantity, row.day) for row in rows} == {
        ("1", Decimal("3.3000"), 2, 1, 5, DAY),
        ("2", Decimal("4.0000"), 1, 1, 1, DAY),
    }


# ----------------------------------------------------------------- which entry of the catalogue counts on which day


ENTRIES = [
    ("1", "MEAT", date(2017, 3, 1)),
    ("1", "DELI", date(2017, 3, 4)),
    ("1", "MEAT", date(2017, 4, 1)),
    ("2", "FLORAL", date(2017, 3, 1)),
]


Entries = Sequence[tuple[str, str, date]]


def periods(spark: SparkSession, entries: Entries) -> list[tuple[Any, ...]]:
    catalogue = spark.createDataFrame(entries, "product_id string, department string, valid_from date")
    return sorted(tuple(row) for row in products_as_of(catalogue).collect())


def on(day: date, found: Sequence[tuple[Any, ...]]) -> dict[str, str]:
    """The departments that count on ``day``."""
    return {product: department for product, department, first, last in found if first <= day <= last}


def test_an_entry_counts_until_the_day_before_the_next_and_for_five_weeks(spark: SparkSession) -> None:
    """No day has two departments of a product. One that was not listed for five weeks is unknown."""
    found = periods(spark, ENTRIES)
    assert found == [
        ("1", "DELI", date(2017, 3, 4), date(2017, 3, 31)),
        ("1", "MEAT", date(2017, 3, 1), date(2017, 3, 3)),
        ("1", "MEAT", date(2017, 4, 1), date(2017, 5, 6)),
        ("2", "FLORAL", date(2017, 3, 1), date(2017, 4, 5)),
    ]
    for day in (date(2017, 3, 3), date(2017, 3, 4), date(2017, 4, 1), date(2017, 4, 5)):
        oldest = day - timedelta(days=LONGEST_CATALOGUE_GAP_DAYS)
        alone = [entry for entry in ENTRIES if oldest <= entry[2] <= day]
        assert on(day, periods(spark, alone)) == on(day, found), "a day that is built alone reads fewer days"
