"""How much repairs may do unattended: days, money, time, attempts. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, ValidationError

from backfill_assets.errors import InvalidRequest
from backfill_assets.text import format_count

_SECONDS_AN_HOUR = 3600


class RepairBounds(BaseModel):
    """A repair beyond them becomes a plan that waits for a person."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    days: NonNegativeInt = 400
    core_seconds: Decimal | None = Field(default=None, ge=0)
    """Budget of all repairs in 24 hours."""
    money: Decimal | None = Field(default=None, ge=0)
    """Budget of 24 hours, by the price of a core hour."""
    attempts: PositiveInt = 3
    pause: float = Field(default=60, ge=0)
    """Seconds before the second attempt; each later pause is five times as long."""
    settle: float = Field(default=60, ge=0)
    """Seconds without new late rows before a repair, at most ten times as long."""
    confidence: Decimal = Field(default=Decimal("0.5"), ge=0, le=1)

    @classmethod
    def parse(cls, text: str) -> RepairBounds:
        """Parses ``days=100,core_seconds=3600,confidence=0.7``; raises :class:`InvalidRequest`."""
        parts = (part.partition("=") for part in text.split(",") if part.strip())
        try:
            return cls(**{name.strip(): value.strip() for name, _, value in parts})  # type: ignore[arg-type]
        except ValidationError as error:
            first = error.errors()[0]
            raise InvalidRequest(
                f"The bound {first['loc'][0]} of repairs is {first['input']!r}: {first['msg']}.",
                hint=f"There are {', '.join(f'{name}=N' for name in cls.model_fields)}.",
            ) from None

    def pause_after(self, attempts: int) -> timedelta:
        return timedelta(seconds=self.pause * 5 ** (attempts - 1))


DEFAULT_BOUNDS = RepairBounds()


@dataclass(frozen=True)
class Spending:
    lately: Decimal = Decimal(0)
    cores: int = 1
    core_hour_price: Decimal | None = None


NOTHING_SPENT = Spending()


def why_beyond(bounds: RepairBounds, days: int, needs: Decimal, lately: Decimal, price: Decimal | None) -> str:
    """The bound that a repair would break, in words, or empty.

    ``needs`` and ``lately`` (24 hours) are estimated core seconds; ``price`` is that of a core hour.
    """
    rate = None if price is None else price / _SECONDS_AN_HOUR
    found: Sequence[tuple[bool, str]] = [
        (days > bounds.days, f"it would rebuild {format_count(days, 'day')}, and a repair may rebuild {bounds.days:,}"),
        *_budget("core seconds", bounds.core_seconds, needs, lately),
        *_budget("money", bounds.money, rate and needs * rate, rate and lately * rate),
    ]
    return next((words for is_beyond, words in found if is_beyond), "")


def _budget(
    name: str, most: Decimal | None, needed: Decimal | None, spent: Decimal | None
) -> Sequence[tuple[bool, str]]:
    """Without a price, every repair is beyond a budget in money."""
    if most is None:
        return ()
    if needed is None or spent is None:
        return [(True, f"its {name} are unknown without a price of a core hour, and repairs have a budget of {most}")]
    words = f"it needs about {needed:.0f} {name}, {spent:.0f} were spent in 24 hours, and repairs have {most:f}"
    return [(needed + spent > most, words)]
