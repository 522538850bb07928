"""What a campaign's staged days look like to its circuit breaker: their metadata beside what is published. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

from backfill_assets.campaign.breaker import BreakerInput, Nulls, StagedSums
from backfill_assets.campaign.metadata_difference import Contents, figures_together, rows_together
from backfill_assets.lakehouse.records import TOTAL, DayContent

if TYPE_CHECKING:
    from backfill_assets.rebuild.shadow import HeldBack, ShadowedStep

_NULLS = "nulls_"


def seen(
    done: Sequence[ShadowedStep],
    staged: Mapping[str, Mapping[date, DayContent]],
    published: Mapping[str, Contents],
    seconds: Decimal,
    money: Decimal | None,
) -> BreakerInput:
    """All steps together. Only days that were published before are compared: a first build differs from nothing."""
    held = [each for step in done for each in step.held_back]
    sums: list[StagedSums] = []
    nulls: list[Nulls] = []
    for table, days in staged.items():
        before = {day: published[table][day] for day in days if day in published.get(table, {})}
        after = [days[day] for day in before]
        sums += sums_of(table, list(before.values()), after)
        nulls += nulls_of(table, list(before.values()), after)
    return BreakerInput(
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


def computed_seconds(done: Iterable[ShadowedStep]) -> Decimal:
    """Seconds that computing the staged days took. The tables of a step share one time: it counts once."""
    days = (held[0].content for step in done for held in step.build.staged.values())
    return sum((Decimal(each.staged_ms or 0) / 1000 for each in days), Decimal(0))


def _tried(step: ShadowedStep) -> set[date]:
    """A day that waits for another one was not tried."""
    return {*step.staged, *(each.day for each in step.held_back if not each.because_of)}


def sums_of(table: str, before: Sequence[DayContent | None], after: Sequence[DayContent]) -> list[StagedSums]:
    names = sorted({name for content in after for name in content.metrics if name.startswith(TOTAL)})
    sums = [(name.removeprefix(TOTAL), figures_together(before, name), figures_together(after, name)) for name in names]
    rows = StagedSums(table, "rows", rows_together(before), rows_together(after))
    return [rows, *(StagedSums(table, measure, was, now) for measure, was, now in sums)]


def nulls_of(table: str, before: Sequence[DayContent | None], after: Sequence[DayContent]) -> list[Nulls]:
    names = sorted({name for content in after for name in content.metrics if name.startswith(_NULLS)})
    return [Nulls(table, name.removeprefix(_NULLS), _share(before, name), _share(after, name)) for name in names]


def _share(contents: Sequence[DayContent | None], name: str) -> Decimal | None:
    rows, nulls = rows_together(contents), figures_together(contents, name)
    if rows is None or nulls is None:
        return None
    return nulls / rows if rows else Decimal(0)


def held_back_lines(held: Iterable[HeldBack]) -> list[str]:
    return [f"{each.table} {each.day}: {each.why}" for each in held]
