"""A campaign's circuit breaker: counts so far against limits. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

from backfill_assets.difference.difference import Contents, Sums, TableDifference, table_difference
from backfill_assets.lakehouse.records import DayContent
from backfill_assets.limits import Exceeded, Limits, limit_amount, over, over_budget, short_percent

if TYPE_CHECKING:
    from backfill_assets.rebuild.walk import HeldBack, StepBuilt


@dataclass(frozen=True)
class BreakerInput:
    tried: int
    failed: int = 0
    held_back: int = 0
    tables: tuple[TableDifference, ...] = ()
    """Days that were published before: a first build differs from nothing."""
    seconds: Decimal = Decimal(0)
    money: Decimal | None = None


def judge(limits: Limits, seen: BreakerInput) -> list[Exceeded]:
    """Exceeded limits, then warnings of budgets 80 % spent."""
    found = [each for each in _judge_limits(limits, seen) if each is not None]
    return sorted(found, key=lambda each: not each.stops)


def _judge_limits(limits: Limits, seen: BreakerInput) -> Iterable[Exceeded | None]:
    if seen.tried:
        tried = Decimal(seen.tried)
        yield over("errors", limits.errors, seen.failed / tried, f"{seen.failed} of {seen.tried} days failed")
        held = f"{seen.held_back} of {seen.tried} days are held back by their gates"
        yield over("gates", limits.gates, seen.held_back / tried, held)
    for name, nulls in _by_name((each.table, each.nulls) for each in seen.tables):
        if nulls.change is None:
            yield _unknown("nulls", limits.nulls, f"the nulls of {name}", nulls.before)
        else:
            yield over("nulls", limits.nulls, nulls.change, f"{short_percent(nulls.change)} more of {name} is null")
    for name, sums in _by_name((each.table, each.sums) for each in seen.tables):
        share = deviation(sums)
        if share is None:
            yield _unknown("deviation", limits.deviation, name, sums.before)
        else:
            sentence = f"{name} differs by {short_percent(share)} from what is published"
            yield over("deviation", limits.deviation, share, sentence)
    yield over_budget("seconds", limits.seconds, seen.seconds, f"it has taken {seen.seconds:.0f} s")
    if seen.money is not None:
        yield over_budget("money", limits.money, seen.money, f"it has cost {seen.money:.4f}")


def _by_name(found: Iterable[tuple[str, Mapping[str, Sums]]]) -> Iterable[tuple[str, Sums]]:
    return ((f"{table}.{column}", sums) for table, columns in found for column, sums in columns.items())


def deviation(sums: Sums) -> Decimal | None:
    """The change as a share of the published sum; 1 for any from 0, None if unknown."""
    if sums.change is None:
        return None
    return Decimal(bool(sums.change)) if sums.share is None else abs(sums.share)


def _unknown(limit: str, allowed: Decimal | None, what: str, published: Decimal | None) -> Exceeded | None:
    if allowed is None:
        return None
    where = "published" if published is None else "staged"
    sentence = (
        f"{what} cannot be compared: what is {where} is unknown, and at most {limit_amount(limit, allowed)} may differ."
    )
    return Exceeded(limit, None, allowed, sentence)


def input_of(
    done: Sequence[StepBuilt],
    staged: Mapping[str, Mapping[date, DayContent]],
    published: Mapping[str, Contents],
    seconds: Decimal,
    money: Decimal | None,
) -> BreakerInput:
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
    found: dict[str, dict[date, DayContent]] = {}
    for step in done:
        for table in step.build.tables:
            held = found.setdefault(table, {})
            held |= {d.day: d.content for staged in step.build.staged.values() for d in staged if d.table == table}
    return found


def computed_seconds(done: Iterable[StepBuilt]) -> Decimal:
    days = (held[0].content for step in done for held in step.build.staged.values())
    return sum((Decimal(each.staged_ms or 0) / 1000 for each in days), Decimal(0))


def _tried_days(step: StepBuilt) -> set[date]:
    """Leaves out days that only wait for another held-back day."""
    return {*step.staged, *(each.day for each in step.held_back if not each.because_of)}


def held_back_lines(held: Iterable[HeldBack]) -> list[str]:
    return [f"{each.table} {each.day}: {each.why}" for each in held]
