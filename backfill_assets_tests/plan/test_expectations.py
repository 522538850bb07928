"""What is expected of a difference is read strictly, and broken by exactly the days that are not as expected."""

from __future__ import annotations

from datetime import date
from typing import Annotated

import pytest
from pyspark.sql import types as T

from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.declaration import Table
from backfill_assets.plan.expectations import Expectation, require_known

FRIDAY = date(2017, 3, 3)
FACT, REVENUE = "fact_sales_transactions", "fact_daily_revenue"


@pytest.mark.parametrize(
    "text",
    [
        "revenue_eur < 2% a day",
        "revenue_eur < 0.5%",
        "revenue_eur < 0.0000001% a day",
        "revenue_eur < 1000",
        "rows unchanged",
        "rows < 5 a day on weekdays",
        "weekends unchanged",
        "everything unchanged",
        "everything unchanged on 2017-03-01..2017-03-05",
        "currency=EUR unchanged in fact_sales_transactions",
        "quantity unchanged on weekdays in fact_sales_transactions",
        "only quantity changes",
        "only quantity changes on weekends in fact_sales_transactions",
    ],
)
def test_an_expectation_is_written_as_it_is_read(text: str) -> None:
    """The text in the plan is the one that was given."""
    found = Expectation.parse(text)
    assert str(found) == text
    assert Expectation.model_validate_json(found.model_dump_json()) == found


def test_ways_to_write_the_same() -> None:
    """Spaces, a single day, and the long form of a shorthand."""
    assert Expectation.parse(" revenue_eur<2 % a  day ") == Expectation.parse("revenue_eur < 2% a day")
    assert Expectation.parse("everything unchanged on weekends") == Expectation.parse("weekends unchanged")
    assert str(Expectation.parse("rows unchanged on 2017-03-01")) == "rows unchanged on 2017-03-01..2017-03-01"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "revenue_eur",
        "revenue_eur < 2% a week",
        "revenue_eur <= 2%",
        "revenue_eur < -2%",
        "revenue_eur < 0%",
        "revenue_eur unchanged a day",
        "weekends < 2%",
        "everything < 2%",
        "currency=EUR < 2%",
        "currency=EUR unchanged on weekends",
        "rows unchanged on mondays",
        "rows unchanged on 2017-03-05..2017-03-01",
        "rows unchanged in",
        "rows unchanged please",
        "only revenue_eur unchanged",
        "only currency=EUR changes",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    """A plan never holds an expectation that means something else than was written."""
    with pytest.raises(InvalidRequest):
        Expectation.parse(text)


def test_an_expectation_of_what_is_not_there_is_refused_with_the_nearest() -> None:
    """Before the plan is kept."""
    tables = [CATALOG.table(FACT), CATALOG.table(REVENUE)]
    require_known([Expectation.parse(t) for t in ("revenue_eur < 2%", "currency=EUR unchanged", "rows < 1")], tables)
    require_known([Expectation.parse("only transaction_id changes")], tables)
    for text, hint in (
        ("revenue_euro < 2%", "Did you mean revenue_eur?"),
        ("curency=EUR unchanged", "Did you mean currency?"),
        ("rows unchanged in fact_daily_revenues", f"Did you mean {REVENUE}?"),
        (f"revenue_eur < 2% in {FACT}", "There are: amount_eur"),
        ("only quantty changes", "Did you mean quantity?"),
    ):
        with pytest.raises(InvalidRequest, match=hint.replace("?", "[?]")):
            require_known([Expectation.parse(text)], tables)


class Sold(Contract):
    """Columns whose values may be written in several ways."""

    rate: Annotated[T.DecimalType, 18, 2] = Field()
    online: T.BooleanType = Field()
    pieces: T.LongType = Field()
    bought: T.DateType = Field()
    shop: T.StringType = Field()
    day: T.DateType = Field()


@pytest.mark.parametrize(
    ("written", "right"),
    [
        ("rate=1.5", "rate=1.50"),
        ("rate=1.50", None),
        ("rate=1.505", "no decimal"),
        ("rate=cheap", "no decimal"),
        ("online=True", "online=true"),
        ("online=false", None),
        ("online=yes", "no boolean"),
        ("pieces=007", "pieces=7"),
        ("pieces=-7", None),
        ("pieces=7.0", "no bigint"),
        ("bought=2017-03-01", None),
        ("bought=20170301", "bought=2017-03-01"),
        ("shop=007", None),
        ("shop=True", None),
    ],
)
def test_a_value_is_written_as_its_group_is(written: str, right: str | None) -> None:
    """A group that is not found would be one that does not differ."""
    groups = ("rate", "online", "pieces", "bought", "shop")
    table = Table("sold", "fact", "", Sold, key=("shop",), groups=groups)
    asked = [Expectation.parse(f"{written} unchanged")]
    if right is None:
        require_known(asked, [table])
    else:
        with pytest.raises(InvalidRequest, match=right):
            require_known(asked, [table])
