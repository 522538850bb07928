"""Whether the tables of a difference agree: what one adds up to is what the table it is made of adds up to. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Literal

from backfill_assets.days import Cadence
from backfill_assets.difference.records import DayCompared, Sums, TableCompared
from backfill_assets.text import amount, column_label, format_count, period


@dataclass(frozen=True)
class SameTotal:
    """A declared rule: in each period ``measure`` of ``table`` adds up to ``of_measure`` of ``of_table``."""

    table: str
    measure: str
    of_table: str
    of_measure: str


PeriodAgrees = Literal["agrees", "apart", "by its gate"]
"""``by its gate``: the period has days that are not in the difference; its gate compared all of them."""


@dataclass(frozen=True)
class Agreement:
    """What ``rule`` finds in the periods of a difference, ascending; ``apart`` has by how much, where it is known."""

    rule: SameTotal
    cadence: Cadence
    agreeing: tuple[date, ...] = ()
    apart: tuple[tuple[date, Decimal | None], ...] = ()
    gated: tuple[date, ...] = ()


def find_agreements(rules: Iterable[SameTotal], tables: Sequence[TableCompared]) -> tuple[Agreement, ...]:
    """Of each rule whose two tables are in the difference, by the days whose change is known."""
    by_name = {table.table: table for table in tables}
    pairs = [(rule, by_name.get(rule.table), by_name.get(rule.of_table)) for rule in rules]
    return tuple(
        _find(rule, own, other)
        for rule, own, other in pairs
        if own is not None and other is not None and other.cadence in (Cadence.DAILY, own.cadence)
    )


def agreement_sentence(found: Sequence[Agreement]) -> str:
    """Whether all tables agree, in words; the first deviation if they do not, and empty where no rule compares them."""
    broken = [each for each in found if each.apart]
    if broken:
        rule, (day, by) = broken[0].rule, broken[0].apart[0]
        more = sum(len(each.apart) for each in broken) - 1
        gap = "an unknown amount" if by is None else amount(abs(by))
        others = f" {format_count(more, 'other total')} {'differs' if more == 1 else 'differ'} as well." if more else ""
        return (
            f"No. For {period([day], broken[0].cadence)}, {column_label(rule.measure)} of {rule.table} is {gap} apart"
            f" from {column_label(rule.of_measure)} of {rule.of_table}.{others}"
        )
    agreeing, gated = (sum(len(getattr(each, name)) for each in found) for name in ("agreeing", "gated"))
    parts = []
    if agreeing:
        names = list(dict.fromkeys(each.rule.of_table for each in found if each.agreeing))
        parts.append(
            f"Yes. {format_count(agreeing, 'total')} of {format_count(len(_tables(found)), 'table')}"
            f" {'is' if agreeing == 1 else 'are'} what {' and '.join(names)} adds up to, to the last digit."
        )
    if gated:
        reach = "reaches" if gated == 1 else "reach"
        parts.append(
            f"{format_count(gated, 'total')} {reach} beyond the days shown here, and {'was' if gated == 1 else 'were'}"
            " compared by the gates."
        )
    return " ".join(parts)


def _tables(found: Iterable[Agreement]) -> set[str]:
    return {each.rule.table for each in found if each.agreeing}


def _find(rule: SameTotal, own: TableCompared, other: TableCompared) -> Agreement:
    beside = {day.day: day for day in other.days}
    agreeing, gated = [], []
    apart: list[tuple[date, Decimal | None]] = []
    for day in own.known:
        outcome, by = _judge(rule, day, own.cadence, other.cadence, beside)
        if outcome == "agrees":
            agreeing.append(day.day)
        elif outcome == "apart":
            apart.append((day.day, by))
        else:
            gated.append(day.day)
    return Agreement(rule, own.cadence, tuple(agreeing), tuple(apart), tuple(gated))


def _judge(
    rule: SameTotal, day: DayCompared, cadence: Cadence, of_cadence: Cadence, beside: Mapping[date, DayCompared]
) -> tuple[PeriodAgrees, Decimal | None]:
    """Totals where the whole period is there. Else the changes, as far as they are equal: other days may change too."""
    days = [day.day] if of_cadence is cadence else list(cadence.period(day.day))
    parts = [beside[each] for each in days if each in beside]
    own, other = day.of(rule.measure), sum((part.of(rule.of_measure) for part in parts), Sums())
    if len(parts) == len(days) and all(part.known for part in parts):
        by = None if own.after is None or other.after is None else own.after - other.after
        return ("agrees" if by == 0 else "apart"), by
    same_change = own.change is not None and own.change == other.change and all(part.known for part in parts)
    return ("agrees" if same_change and parts else "by its gate"), None
