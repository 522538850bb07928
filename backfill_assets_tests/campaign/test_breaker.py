from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.campaign.breaker import BreakerInput, Limits, judge
from backfill_assets.difference.records import Sums, TableDifference
from backfill_assets.errors import InvalidRequest


def revenue(before: int, after: int) -> tuple[TableDifference, ...]:
    return (TableDifference("revenue", sums={"eur": Sums(before=Decimal(before), after=Decimal(after))}),)


def rate(before: str, after: str | None) -> tuple[TableDifference, ...]:
    """Shares of nulls."""
    shares = Sums(before=Decimal(before), after=None if after is None else Decimal(after))
    return (TableDifference("fact", nulls={"rate": shares}),)


WELL = BreakerInput(tried=100, tables=revenue(1000, 1050), seconds=Decimal(10))


def test_nothing_stops_a_campaign_within_its_limits() -> None:
    assert judge(Limits(), WELL) == []


@pytest.mark.parametrize(
    ("limit", "seen"),
    [
        ("errors", replace(WELL, failed=6)),
        ("gates", replace(WELL, held_back=11)),
        ("nulls", replace(WELL, tables=rate("0.01", "0.03"))),
        ("deviation", replace(WELL, tables=revenue(1000, 890))),
        ("deviation", replace(WELL, tables=revenue(0, 1))),
    ],
)
def test_each_limit_stops_it_and_is_named(limit: str, seen: BreakerInput) -> None:
    (found,) = judge(Limits(), seen)
    assert (found.limit, found.stops) == (limit, True)
    assert found.observed is not None and found.observed > found.allowed


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (
            replace(WELL, tables=(TableDifference("fact", sums={"eur": Sums(before=None, after=Decimal(1050))}),)),
            "fact.eur cannot be compared: what is published is unknown, and at most 10 % may differ.",
        ),
        (
            replace(WELL, tables=rate("0", None)),
            "the nulls of fact.rate cannot be compared: what is staged is unknown, and at most 1 % may differ.",
        ),
    ],
    ids=["sums", "nulls"],
)
def test_a_limit_that_cannot_be_computed_stops_it(seen: BreakerInput, told: str) -> None:
    """An unknown sum is not 0, and does not pass by being unknown; without a limit there is nothing to check."""
    (found,) = judge(Limits(), seen)
    assert (found.sentence, found.observed, found.stops) == (told, None, True)
    assert judge(Limits(deviation=None, nulls=None), seen) == []


def test_it_says_by_how_much() -> None:
    (found,) = judge(Limits(), replace(WELL, tables=revenue(1000, 880)))
    assert found.sentence == "revenue.eur differs by 12 % from what is published, and at most 10 % may."


def test_a_budget_warns_at_eighty_percent_and_stops_when_it_is_spent() -> None:
    limits = Limits.parse("seconds=100,money=2")
    assert judge(limits, replace(WELL, seconds=Decimal(80), money=Decimal("1.6"))) == []
    near = judge(limits, replace(WELL, seconds=Decimal(81), money=Decimal("1.7")))
    assert [(each.limit, each.stops) for each in near] == [("seconds", False), ("money", False)]
    assert near[0].sentence == "it has taken 81 s: 81 % of the 100 s granted."
    over = judge(limits, replace(WELL, seconds=Decimal(101), money=Decimal("1.7")))
    assert [(each.limit, each.stops) for each in over] == [("seconds", True), ("money", False)]


def test_a_limit_that_is_none_is_not_judged() -> None:
    assert judge(Limits.parse("errors=none"), replace(WELL, failed=100)) == []


@given(
    st.builds(
        Limits,
        *([st.none() | st.decimals(0, 1, places=4)] * 4),
        *([st.none() | st.decimals(0, 10**6, places=2)] * 2),
    )
)
def test_limits_read_what_they_write(limits: Limits) -> None:
    assert Limits.parse(str(limits)) == limits


@pytest.mark.parametrize(
    "text",
    [
        "speed=1",
        "errors=5",
        "seconds=5%",
        "gates=many",
        "money=-1",
        "errors",
        "seconds=1e999999999",
        "gates=1e999999999999999999%",
        "deviation=1e-999999999%",
    ],
)
def test_invalid_limits_are_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        Limits.parse(text)
