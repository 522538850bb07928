"""How limits are written, and what is over one."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.errors import InvalidRequest
from backfill_assets.limits import BackfillLimits, Limits, over_budget
from backfill_assets.settings import Settings

SHARE, NUMBER = st.none() | st.decimals(0, 1, places=4), st.none() | st.decimals(0, 10**6, places=2)


@given(
    st.builds(Limits, *([SHARE] * 4), *([NUMBER] * 2)),
    st.builds(BackfillLimits, SHARE, NUMBER, NUMBER, NUMBER),
)
def test_limits_read_what_they_write(limits: Limits, of_backfill: BackfillLimits) -> None:
    assert Limits.parse(str(limits)) == limits
    assert BackfillLimits.parse(str(of_backfill)) == of_backfill


@pytest.mark.parametrize(
    "text",
    [
        "speed=1",
        "errors=5",
        "seconds=5%",
        "gates=many",
        "money=-1",
        "errors",
        "slower=10",
        "seconds=1e999999999",
        "gates=1e999999999999999999%",
        "deviation=1e-999999999%",
    ],
)
def test_invalid_limits_are_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        Limits.parse(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gates=5%", "no limit 'gates'"),
        ("slower=5%", "Write it as slower=10, or slower=none"),
        ("core_seconds=5%", "Write it as core_seconds=36000"),
        ("money=5.00", "the price of a core hour is not set"),
    ],
)
def test_the_limits_of_backfills_are_a_setting(text: str, said: str) -> None:
    """What is not written keeps its default; what cannot be read is refused by the name of the variable."""
    with pytest.raises(InvalidRequest, match="BACKFILL_BREAKER") as refused:
        Settings.from_environment({"BACKFILL_BREAKER": text})
    assert said in str(refused.value)
    found = Settings.from_environment({"BACKFILL_BREAKER": "money=5.00,slower=none", "BACKFILL_CORE_HOUR_PRICE": "1"})
    assert found.breaker == BackfillLimits(Decimal("0.2"), None, None, Decimal("5.00"))


@pytest.mark.parametrize(
    ("observed", "stops", "said"),
    [
        (80, None, ""),
        (81, False, "it ran 81 s: 81 % of the 100 s granted."),
        (100, False, "it ran 100 s: 100 % of the 100 s granted."),
        (101, True, "it ran 101 s, and at most 100 s was granted."),
    ],
)
def test_a_budget_warns_near_its_end(observed: int, stops: bool | None, said: str) -> None:
    found = over_budget("core_seconds", Decimal(100), Decimal(observed), f"it ran {observed} s")
    assert (found and found.stops, found.sentence if found else "") == (stops, said)
