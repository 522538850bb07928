"""What repairs may do by themselves: read from one setting, and compared with what they need."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from backfill_assets.errors import InvalidRequest
from backfill_assets.upkeep.bounds import RepairBounds, why_beyond

D = Decimal


@pytest.mark.parametrize(
    ("text", "days", "needs", "lately", "price", "said"),
    [
        ("", 400, "0", "0", None, ""),
        ("", 401, "0", "0", None, "it would rebuild 401 days, and a repair may rebuild 400"),
        ("core_seconds=100", 1, "60", "40", None, ""),
        ("core_seconds=100", 1, "60", "41", None, "it needs about 60 core seconds, 41 were spent in 24 hours"),
        ("money=1", 1, "3600", "0", "1", ""),
        ("money=1", 1, "3600", "36", "1", "it needs about 1 money"),
        ("money=1", 1, "0", "0", None, "its money are unknown without a price of a core hour"),
    ],
)
def test_what_is_beyond_a_bound(text: str, days: int, needs: str, lately: str, price: str | None, said: str) -> None:
    why = why_beyond(RepairBounds.parse(text), days, D(needs), D(lately), D(price) if price else None)
    assert why.startswith(said) and bool(why) == bool(said)


@pytest.mark.parametrize("text", ["dayz=1", "days=x", "days=-1", "attempts=0", "confidence=2", "pause=soon"])
def test_a_bound_that_is_none_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidRequest, match=f"The bound {text.partition('=')[0]} of repairs is"):
        RepairBounds.parse(text)


def test_pauses_grow() -> None:
    bounds = RepairBounds.parse("pause=60, attempts=5")
    assert [bounds.pause_after(number) for number in (1, 2, 3)] == [timedelta(minutes=n) for n in (1, 5, 25)]
