"""Limits that stop campaigns and backfills. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from decimal import Decimal, InvalidOperation
from typing import Self

from backfill_assets.errors import InvalidRequest

_WARN_AT = Decimal("0.8")
_MOST_PLACES, _TOO_MUCH = 12, Decimal(10) ** 15
_NUMBERS = {"seconds": "3600", "money": "5.00", "core_seconds": "36000", "slower": "10"}


@dataclass(frozen=True)
class _Limits:
    @classmethod
    def parse(cls, text: str, base: Self | None = None) -> Self:
        """``deviation=2%,gates=20%,seconds=3600,money=5.00,errors=none``, over ``base``."""
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
    """A campaign's limits. Shares are of 1; None is unlimited; equality is within."""

    errors: Decimal | None = Decimal("0.05")
    """Share of tried days not computed."""
    gates: Decimal | None = Decimal("0.10")
    """Share of tried days held back."""
    nulls: Decimal | None = Decimal("0.01")
    """Growth of a column's share of nulls."""
    deviation: Decimal | None = Decimal("0.10")
    """Relative difference of a sum from the published one."""
    seconds: Decimal | None = None
    money: Decimal | None = None

    def without_budgets(self) -> Limits:
        return replace(self, seconds=None, money=None)


@dataclass(frozen=True)
class BackfillLimits(_Limits):
    """For native backfills and repairs, where a day held back is a failed run."""

    errors: Decimal | None = Decimal("0.20")
    """Share of ended runs that failed."""
    slower: Decimal | None = Decimal(10)
    """How many times the others' median duration a run may take."""
    core_seconds: Decimal | None = None
    money: Decimal | None = None


@dataclass(frozen=True)
class Exceeded:
    """A warning unless ``stops``; an unknown ``observed`` is exceeded."""

    limit: str
    observed: Decimal | None
    allowed: Decimal
    sentence: str
    stops: bool = True


def limit_examples() -> list[str]:
    known = asdict(Limits())
    return [f"{name}={_NUMBERS[name] if value is None else _limit_text(name, value)}" for name, value in known.items()]


def over(limit: str, allowed: Decimal | None, observed: Decimal, sentence: str) -> Exceeded | None:
    if allowed is None or observed <= allowed:
        return None
    return Exceeded(limit, observed, allowed, f"{sentence}, and at most {limit_amount(limit, allowed)} may.")


def over_budget(limit: str, allowed: Decimal | None, observed: Decimal, sentence: str) -> Exceeded | None:
    """Warns from 80 % on."""
    if allowed is None or observed <= allowed * _WARN_AT:
        return None
    if observed > allowed:
        return Exceeded(
            limit, observed, allowed, f"{sentence}, and at most {limit_amount(limit, allowed)} was granted."
        )
    left = f"{sentence}: {short_percent(observed / allowed)} of the {limit_amount(limit, allowed)} granted."
    return Exceeded(limit, observed, allowed, left, stops=False)


def limit_amount(limit: str, value: Decimal) -> str:
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
    exponent = value.as_tuple().exponent
    return isinstance(exponent, int) and exponent >= -_MOST_PLACES and value < _TOO_MUCH


def _limit_text(limit: str, value: Decimal | None) -> str:
    if value is None:
        return "none"
    return f"{value.normalize():f}" if limit in _NUMBERS else f"{(value * 100).normalize():f}%"
