"""Whether a difference is what was expected: each expectation met or not, on which days and by how much. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date

from backfill_assets.difference.records import ROWS, DayCompared, GroupsCompared, Sums, TableCompared
from backfill_assets.lakehouse.records import Record
from backfill_assets.plan.expectations import EVERYTHING, Expectation
from backfill_assets.text import UNKNOWN, amount, format_count, percent


class Deviation(Record):
    """One place where a difference is not as expected. ``day`` is None for all days together."""

    table: str
    day: date | None
    observed: str


class ExpectationVerdict(Record):
    """One expectation, as it was written. One deviation is enough for it not to be met, and so is nothing to judge."""

    expectation: str
    tables: tuple[str, ...]
    deviations: tuple[Deviation, ...] = ()

    @property
    def met(self) -> bool:
        return bool(self.tables) and not self.deviations


def judge(expectations: Iterable[Expectation], tables: Sequence[TableCompared]) -> tuple[ExpectationVerdict, ...]:
    return tuple(_judge(each, tables) for each in expectations)


def _judge(expectation: Expectation, tables: Sequence[TableCompared]) -> ExpectationVerdict:
    about = [table for table in tables if _is_about(expectation, table)]
    return ExpectationVerdict(
        expectation=str(expectation),
        tables=tuple(table.table for table in about),
        deviations=tuple(found for table in about for found in _deviations(expectation, table)),
    )


def _is_about(expectation: Expectation, table: TableCompared) -> bool:
    if expectation.table not in ("", table.table):
        return False
    if expectation.value is not None:
        return any(found.column == expectation.subject for found in table.groups) or not table.differing
    if expectation.only:
        known = any(expectation.subject in day.beside for day in table.days) or not table.differing
    else:
        known = expectation.subject in (EVERYTHING, ROWS, *table.measures)
    return known and any(expectation.is_about(day.day, table.cadence) for day in table.days)


def _deviations(expectation: Expectation, table: TableCompared) -> Iterator[Deviation]:
    days = [day for day in table.known if expectation.is_about(day.day, table.cadence)]
    if expectation.only:
        yield from (
            Deviation(table=table.table, day=day.day, observed=observed)
            for day in days
            if day.differs and (observed := _beside(expectation.subject, day, table))
        )
    elif expectation.value is not None:
        yield from _of_group(expectation, table)
    elif expectation.subject == EVERYTHING:
        yield from (
            Deviation(table=table.table, day=day.day, observed=_rows(day.rows.differing)) for day in days if day.differs
        )
    elif expectation.limit is None or expectation.each_day:
        yield from _of_days(expectation, table, days)
    else:
        together = sum((day.of(expectation.subject) for day in days), Sums())
        if not _within(expectation, together):
            yield Deviation(table=table.table, day=None, observed=_observed_text(together))


def _beside(column: str, day: DayCompared, table: TableCompared) -> str:
    """What differs on a day beside ``column``; empty if nothing does. Without a key no row can be called changed."""
    if (day.rows.added or day.rows.removed) and not table.whole_rows:
        return f"{format_count(day.rows.added, 'row')} would be added, {day.rows.removed:,} removed"
    others = day.beside.get(column)
    if others is None:
        return f"which columns differ is {UNKNOWN}"
    return f"{', '.join(others)} would change too" if others else ""


def _of_days(expectation: Expectation, table: TableCompared, days: Sequence[DayCompared]) -> Iterator[Deviation]:
    for day in days:
        found = day.of(expectation.subject)
        if not _within(expectation, found):
            yield Deviation(table=table.table, day=day.day, observed=_observed_text(found))


def _of_group(expectation: Expectation, table: TableCompared) -> Iterator[Deviation]:
    for groups in table.groups:
        if groups.column == expectation.subject and (differing := _differing(groups, expectation.value)) != "":
            yield Deviation(table=table.table, day=None, observed=differing)


def _differing(groups: GroupsCompared, value: str | None) -> str:
    """How a group differs; empty if it does not. A group that is not listed may still differ, less than the others."""
    found = next((each for each in groups.most if each.value == value), None)
    if found is not None:
        return _rows(found.rows.differing) if found.rows.differing else ""
    return "" if groups.complete else f"not among the {len(groups.most)} groups that differ most"


def _within(expectation: Expectation, found: Sums) -> bool:
    """An expectation of what is unknown is not met."""
    change = found.change if expectation.unit == "" else found.share
    if expectation.limit is None or change is None:
        return not found.differs
    return abs(change) * (1 if expectation.unit == "" else 100) < expectation.limit


def _observed_text(found: Sums) -> str:
    if found.change is None:
        return UNKNOWN
    share = "" if found.share is None else f" ({percent(found.share)})"
    return f"{amount(found.before)} -> {amount(found.after)}{share}"


def _rows(count: int) -> str:
    return f"{format_count(count, 'row')} would differ"
