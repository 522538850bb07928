"""Limits that stop what goes wrong before it has cost more: how they are written, and what is over one. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from decimal import Decimal, InvalidOperation
from typing import Self

from backfill_assets.errors import InvalidRequest

_WARN_AT = Decimal("0.8")
_MOST_PLACES, _TOO_MUCH = 12, Decimal(10) ** 15
_NUMBERS = {"seconds": "3600", "money": "5.00", "core_seconds": "36000", "slower": "10"}
"""Limits that are no shares, with an example of each."""


@dataclass(frozen=True)
class _Limits:
    @classmethod
    def parse(cls, text: str, base: Self | None = None) -> Self:
        """Of ``deviation=2%,gates=20%,seconds=3600,money=5.00,errors=none``, over ``base`` or the defaults."""
        known = {field.name for field in fields(cls)}
        found = base or cls()
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, _, value = part.partition("=")
            if name not in known:
                raise InvalidRequest(f"There is no limit {name!r}.", hint=f"There are {', '.join(sorted(known))}.")
            found = replace(found, **{name: _limit(name, value)})
        return found

    def __str__(self) -> str:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return ",".join(f"{name}={_limit_text(name, value)}" for name, value in values.items())


@dataclass(frozen=True)
class Limits(_Limits):
    """Of a campaign. Shares are of 1. A limit that is None does not exist; what equals its limit is within it."""

    errors: Decimal | None = Decimal("0.05")
    """Days whose computation failed, of all days tried."""
    gates: Decimal | None = Decimal("0.10")
    """Days that their gates hold back, of all days tried."""
    nulls: Decimal | None = Decimal("0.01")
    """How much the share of nulls in a column may grow, compared with what is published."""
    deviation: Decimal | None = Decimal("0.10")
    """By how much a sum may differ from what is published for the same days."""
    seconds: Decimal | None = None
    money: Decimal | None = None

    def without_budgets(self) -> Limits:
        """The limits on what is staged, without those on what staging costs."""
        return replace(self, seconds=None, money=None)


@dataclass(frozen=True)
class BackfillLimits(_Limits):
    """Of a native backfill, a repair among them. What its gates hold back, nulls too, are runs that failed."""

    errors: Decimal | None = Decimal("0.20")
    """Runs that failed, of all that have ended."""
    slower: Decimal | None = Decimal(10)
    """How many times as long as the median of the others a run may take."""
    core_seconds: Decimal | None = None
    money: Decimal | None = None


@dataclass(frozen=True)
class Exceeded:
    """A limit, what was seen, and a sentence that says so. ``stops`` is False for a warning near a budget's end.

    ``observed`` is None for what is unknown: a limit that cannot be computed counts as exceeded.
    """

    limit: str
    observed: Decimal | None
    allowed: Decimal
    sentence: str
    stops: bool = True


def limit_examples() -> list[str]:
    """Each limit of a campaign with its default; one without has an example."""
    known = asdict(Limits())
    return [f"{name}={_NUMBERS[name] if value is None else _limit_text(name, value)}" for name, value in known.items()]


def over(limit: str, allowed: Decimal | None, observed: Decimal, sentence: str) -> Exceeded | None:
    """None within the limit."""
    if allowed is None or observed <= allowed:
        return None
    return Exceeded(limit, observed, allowed, f"{sentence}, and at most {limit_amount(limit, allowed)} may.")


def over_budget(limit: str, allowed: Decimal | None, observed: Decimal, sentence: str) -> Exceeded | None:
    """A warning when 80 % of it are spent."""
    if allowed is None or observed <= allowed * _WARN_AT:
        return None
    if observed > allowed:
        return Exceeded(
            limit, observed, allowed, f"{sentence}, and at most {limit_amount(limit, allowed)} was granted."
        )
    left = f"{sentence}: {short_percent(observed / allowed)} of the {limit_amount(limit, allowed)} granted."
    return Exceeded(limit, observed, allowed, left, stops=False)


def limit_amount(limit: str, value: Decimal) -> str:
    """A limit in words."""
    if limit in _NUMBERS:
        return f"{value:f}{' s' if limit.endswith('seconds') else ''}"
    return short_percent(value)


def short_percent(share: Decimal) -> str:
    return f"{float(share * 100):.4g} %"


def _limit(name: str, text: str) -> Decimal | None:
    if text == "none":
        return None
    percent = text.endswith("%")
    try:
        value = Decimal(text.removesuffix("%"))
    except InvalidOperation:
        value = Decimal("NaN")
    if not (value.is_finite() and value >= 0 and _is_exact(value)) or percent == (name in _NUMBERS):
        written = _NUMBERS.get(name, "5%")
        raise InvalidRequest(f"The limit {name} is {text!r}.", hint=f"Write it as {name}={written}, or {name}=none.")
    return value / 100 if percent else value


def _is_exact(value: Decimal) -> bool:
    """Whether it is written with few enough digits to be computed with, and read back as it was."""
    exponent = value.as_tuple().exponent
    return isinstance(exponent, int) and exponent >= -_MOST_PLACES and value < _TOO_MUCH


def _limit_text(limit: str, value: Decimal | None) -> str:
    """As it is parsed."""
    if value is None:
        return "none"
    return f"{value.normalize():f}" if limit in _NUMBERS else f"{(value * 100).normalize():f}%"
