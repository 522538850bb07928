"""What a campaign's staged days look like to its circuit breaker: their metadata beside what is published. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

from backfill_assets.campaign.breaker import BreakerInput
from backfill_assets.difference.metadata import Contents, table_difference
from backfill_assets.lakehouse.records import DayContent

if TYPE_CHECKING:
    from backfill_assets.rebuild.shadow import HeldBack, ShadowedStep


def input_of(
    done: Sequence[ShadowedStep],
    staged: Mapping[str, Mapping[date, DayContent]],
    published: Mapping[str, Contents],
    seconds: Decimal,
    money: Decimal | None,
) -> BreakerInput:
    """All steps together."""
    held = [each for step in done for each in step.held_back]
    tables = ((table, published.get(table, {}), days) for table, days in staged.items())
    return BreakerInput(
        tried=len({(step.build.step.name, day) for step in done for day in _tried_days(step)}),
        failed=sum(bool(each.error) for each in held),
        held_back=len({(step.build.step.name, each.day) for step in done for each in step.held_back if each.rules}),
        tables=tuple(
            table_difference(table, before, {day: content for day, content in days.items() if day in before})
            for table, before, days in tables
        ),
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


def _tried_days(step: ShadowedStep) -> set[date]:
    """A day that waits for another one was not tried."""
    return {*step.staged, *(each.day for each in step.held_back if not each.because_of)}


def held_back_lines(held: Iterable[HeldBack]) -> list[str]:
    return [f"{each.table} {each.day}: {each.why}" for each in held]
