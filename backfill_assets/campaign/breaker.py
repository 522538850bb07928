"""The circuit breaker of a campaign: what was seen so far against its limits. Pure: counts in, verdict out.

A campaign that goes wrong stops by itself before it has cost more, and says what was exceeded and by how much.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

from backfill_assets.difference.difference import Contents, Sums, TableDifference, table_difference
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.records import DayContent

if TYPE_CHECKING:
    from backfill_assets.rebuild.walk import HeldBack, StepBuilt


_WARN_AT = Decimal("0.8")
_MOST_PLACES, _TOO_MUCH = 12, Decimal(10) ** 15
_BUDGETS = {"seconds", "money"}


@dataclass(frozen=True)
class Limits:
    """Shares are of 1. A limit that is None does not exist; what equals its limit is within it."""

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

    @classmethod
    def parse(cls, text: str, base: Limits | None = None) -> Limits:
        """Of ``deviation=2%,gates=20%,seconds=3600,money=5.00,errors=none``, over ``base`` or the defaults."""
        known = {field.name for field in fields(cls)}
        found = base or cls()
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, _, value = part.partition("=")
            if name not in known:
                raise InvalidRequest(f"There is no limit {name!r}.", hint=f"There are {', '.join(sorted(known))}.")
            found = replace(found, **{name: _limit(name, value)})
        return found

    def without_budgets(self) -> Limits:
        """The limits on what is staged, without those on what staging costs."""
        return replace(self, seconds=None, money=None)

    def __str__(self) -> str:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return ",".join(f"{name}={_limit_text(name, value)}" for name, value in values.items())


@dataclass(frozen=True)
class BreakerInput:
    """A campaign so far, all waves together."""

    tried: int
    failed: int = 0
    held_back: int = 0
    tables: tuple[TableDifference, ...] = ()
    """Of the days that were published before: a first build differs from nothing."""
    seconds: Decimal = Decimal(0)
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


def judge(limits: Limits, seen: BreakerInput) -> list[Exceeded]:
    """Every limit that is exceeded, then the warnings of budgets of which 80 % are spent."""
    found = [each for each in _judge_limits(limits, seen) if each is not None]
    return sorted(found, key=lambda each: not each.stops)


def _judge_limits(limits: Limits, seen: BreakerInput) -> Iterable[Exceeded | None]:
    if seen.tried:
        tried = Decimal(seen.tried)
        yield _over("errors", limits.errors, seen.failed / tried, f"{seen.failed} of {seen.tried} days failed")
        held = f"{seen.held_back} of {seen.tried} days are held back by their gates"
        yield _over("gates", limits.gates, seen.held_back / tried, held)
    for name, nulls in _by_name((each.table, each.nulls) for each in seen.tables):
        if nulls.change is None:
            yield _unknown("nulls", limits.nulls, f"the nulls of {name}", nulls.before)
        else:
            yield _over("nulls", limits.nulls, nulls.change, f"{_percent(nulls.change)} more of {name} is null")
    for name, sums in _by_name((each.table, each.sums) for each in seen.tables):
        share = deviation(sums)
        if share is None:
            yield _unknown("deviation", limits.deviation, name, sums.before)
        else:
            sentence = f"{name} differs by {_percent(share)} from what is published"
            yield _over("deviation", limits.deviation, share, sentence)
    yield _over_budget("seconds", limits.seconds, seen.seconds, f"it has taken {seen.seconds:.0f} s")
    if seen.money is not None:
        yield _over_budget("money", limits.money, seen.money, f"it has cost {seen.money:.4f}")


def _by_name(found: Iterable[tuple[str, Mapping[str, Sums]]]) -> Iterable[tuple[str, Sums]]:
    """Named ``table.column``."""
    return ((f"{table}.{column}", sums) for table, columns in found for column, sums in columns.items())


def deviation(sums: Sums) -> Decimal | None:
    """The change as a share of what is published; any sum counts as 1 where that is 0. None if a sum is unknown."""
    if sums.change is None:
        return None
    return Decimal(bool(sums.change)) if sums.share is None else abs(sums.share)


def _over(limit: str, allowed: Decimal | None, observed: Decimal, sentence: str) -> Exceeded | None:
    if allowed is None or observed <= allowed:
        return None
    return Exceeded(limit, observed, allowed, f"{sentence}, and at most {_amount(limit, allowed)} may.")


def _unknown(limit: str, allowed: Decimal | None, what: str, published: Decimal | None) -> Exceeded | None:
    if allowed is None:
        return None
    where = "published" if published is None else "staged"
    sentence = (
        f"{what} cannot be compared: what is {where} is unknown, and at most {_amount(limit, allowed)} may differ."
    )
    return Exceeded(limit, None, allowed, sentence)


def _over_budget(limit: str, allowed: Decimal | None, observed: Decimal, sentence: str) -> Exceeded | None:
    if allowed is None or observed <= allowed * _WARN_AT:
        return None
    if observed > allowed:
        return Exceeded(limit, observed, allowed, f"{sentence}, and at most {_amount(limit, allowed)} was granted.")
    left = f"{sentence}: {_percent(observed / allowed)} of the {_amount(limit, allowed)} granted."
    return Exceeded(limit, observed, allowed, left, stops=False)


def _limit(name: str, text: str) -> Decimal | None:
    if text == "none":
        return None
    percent = text.endswith("%")
    try:
        value = Decimal(text.removesuffix("%"))
    except InvalidOperation:
        value = Decimal("NaN")
    if not (value.is_finite() and value >= 0 and _is_exact(value)) or percent == (name in _BUDGETS):
        written = "3600" if name in _BUDGETS else "5%"
        raise InvalidRequest(f"The limit {name} is {text!r}.", hint=f"Write it as {name}={written}, or {name}=none.")
    return value / 100 if percent else value


def _is_exact(value: Decimal) -> bool:
    """Whether it is written with few enough digits to be computed with, and read back as it was."""
    exponent = value.as_tuple().exponent
    return isinstance(exponent, int) and exponent >= -_MOST_PLACES and value < _TOO_MUCH


def _limit_text(limit: str, value: Decimal | None) -> str:
    """As :meth:`Limits.parse` reads it."""
    if value is None:
        return "none"
    return f"{value.normalize():f}" if limit in _BUDGETS else f"{(value * 100).normalize():f}%"


def _amount(limit: str, value: Decimal) -> str:
    if limit in _BUDGETS:
        return f"{value:f}{' s' if limit == 'seconds' else ''}"
    return _percent(value)


def _percent(share: Decimal) -> str:
    return f"{float(share * 100):.4g} %"


def input_of(
    done: Sequence[StepBuilt],
    staged: Mapping[str, Mapping[date, DayContent]],
    published: Mapping[str, Contents],
    seconds: Decimal,
    money: Decimal | None,
) -> BreakerInput:
    """All steps together."""
    held = [each for step in done for each in step.held_back]
    tables = ((table, published.get(table, {}), days) for table, days in staged.items())
    return BreakerInput(
        tried=len({(step.step, day) for step in done for day in _tried_days(step)}),
        failed=sum(bool(each.error) for each in held),
        held_back=len({(step.step, each.day) for step in done for each in step.held_back if each.rules}),
        tables=tuple(
            table_difference(table, before, {day: content for day, content in days.items() if day in before})
            for table, before, days in tables
        ),
        seconds=seconds,
        money=money,
    )


def staged_contents(done: Iterable[StepBuilt]) -> dict[str, dict[date, DayContent]]:
    """What each table's staged days hold."""
    found: dict[str, dict[date, DayContent]] = {}
    for step in done:
        for table in step.build.tables:
            held = found.setdefault(table, {})
            held |= {d.day: d.content for staged in step.build.staged.values() for d in staged if d.table == table}
    return found


def computed_seconds(done: Iterable[StepBuilt]) -> Decimal:
    """Seconds that computing the staged days took. The tables of a step share one time: it counts once."""
    days = (held[0].content for step in done for held in step.build.staged.values())
    return sum((Decimal(each.staged_ms or 0) / 1000 for each in days), Decimal(0))


def _tried_days(step: StepBuilt) -> set[date]:
    """A day that waits for another one was not tried."""
    return {*step.staged, *(each.day for each in step.held_back if not each.because_of)}


def held_back_lines(held: Iterable[HeldBack]) -> list[str]:
    return [f"{each.table} {each.day}: {each.why}" for each in held]
