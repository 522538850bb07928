"""What a campaign's staged days look like to its circuit breaker: their metadata beside what is published. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal

from backfill_assets.backfill.breaker import Nulls, Seen, Sums
from backfill_assets.build.shadow import HeldBack, ShadowedStep
from backfill_assets.lakehouse.publication import DayContent

_TOTAL, _NULLS = "total_", "nulls_"
Contents = Mapping[date, DayContent | None]


def seen(
    done: Sequence[ShadowedStep], published: Mapping[str, Contents], seconds: Decimal, money: Decimal | None
) -> Seen:
    """All steps together. Only days that were published before are compared: a first build differs from nothing."""
    held = [each for step in done for each in step.held_back]
    sums: list[Sums] = []
    nulls: list[Nulls] = []
    for table, staged in staged_contents(done).items():
        before = {day: was for day in staged if (was := published.get(table, {}).get(day)) is not None}
        after = [staged[day] for day in before]
        sums += _sums(table, list(before.values()), after)
        nulls += _nulls(table, list(before.values()), after)
    return Seen(
        tried=len({(step.build.step.name, day) for step in done for day in _tried(step)}),
        failed=sum(bool(each.error) for each in held),
        held_back=len({(each.table, each.day) for each in held if each.rules}),
        sums=tuple(sums),
        nulls=tuple(nulls),
        seconds=seconds,
        money=money,
    )


def staged_contents(done: Iterable[ShadowedStep]) -> dict[str, dict[date, DayContent]]:
    """What each table's staged days hold."""
    found: dict[str, dict[date, DayContent]] = {}
    for step in done:
        for table in step.build.tables:
            held = found.setdefault(table, {})
            held |= {d.day: d.content for staged in step.build.staged.values() for d in staged if d.table == table}
    return found


def _tried(step: ShadowedStep) -> set[date]:
    """A day that waits for another one was not tried."""
    return {*step.staged, *(each.day for each in step.held_back if not each.because_of)}


def _sums(table: str, before: Sequence[DayContent], after: Sequence[DayContent]) -> list[Sums]:
    names = sorted({name for content in after for name in content.metrics if name.startswith(_TOTAL)})
    rows = Sums(table, "rows", Decimal(sum(each.rows for each in before)), Decimal(sum(each.rows for each in after)))
    return [rows, *(Sums(table, name.removeprefix(_TOTAL), _sum(before, name), _sum(after, name)) for name in names)]


def _nulls(table: str, before: Sequence[DayContent], after: Sequence[DayContent]) -> list[Nulls]:
    names = sorted({name for content in after for name in content.metrics if name.startswith(_NULLS)})
    return [Nulls(table, name.removeprefix(_NULLS), _share(before, name), _share(after, name)) for name in names]


def _share(contents: Sequence[DayContent], name: str) -> Decimal:
    rows = sum(content.rows for content in contents)
    return _sum(contents, name) / rows if rows else Decimal(0)


def _sum(contents: Iterable[DayContent], name: str) -> Decimal:
    return sum((Decimal(str(content.metrics.get(name) or 0)) for content in contents), Decimal(0))


def held_back_lines(held: Iterable[HeldBack]) -> list[str]:
    return [f"{each.table} {each.day}: {each.why}" for each in held]
