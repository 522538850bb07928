"""Whether a difference is as expected, and its tables agree, in sentences. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from operator import not_

from pydantic import Field

from backfill_assets.days import Cadence
from backfill_assets.difference.difference import (
    ROWS,
    DayCompared,
    GroupsCompared,
    Sides,
    Sums,
    TableCompared,
    TableDifference,
    fingerprint_of,
    sides_compared,
)
from backfill_assets.lakehouse.records import Record
from backfill_assets.plan.code_change import CodeChange
from backfill_assets.plan.expectations import EVERYTHING, Expectation
from backfill_assets.plan.records import Plan
from backfill_assets.text import (
    UNKNOWN,
    amount,
    column_label,
    format_changing,
    format_count,
    percent,
    period,
    pluralize,
)


class Deviation(Record):
    table: str
    day: date | None
    observed: str


class ExpectationVerdict(Record):
    """With nothing to judge, it is not met."""

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
    """An unlisted group may differ less than others."""
    found = next((each for each in groups.most if each.value == value), None)
    if found is not None:
        return _rows(found.rows.differing) if found.rows.differing else ""
    return "" if groups.complete else f"not among the {len(groups.most)} groups that differ most"


def _within(expectation: Expectation, found: Sums) -> bool:
    """Unknown is not met."""
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


# ------------------------------------------------------------------ in sentences

_MOST_NAMED = 3


def table_sentence(table: TableCompared) -> str:
    """``March 2017: revenue eur -0.41 % on 22 of 31 days, all departments.``"""
    days = [day.day for day in table.days]
    if not days:
        return "No days."
    absent = {"held back": table.count("held back", "left out"), "not staged": table.count("not staged")}
    back = "".join(f", {format_count(count, unit(table))} {how}" for how, count in absent.items() if count)
    known = format_count(len(table.known), unit(table))
    if not table.known:
        return f"{period(days, table.cadence)}: nothing is staged yet."
    if not table.differing:
        return f"{period(days, table.cadence)}: nothing changes on {known}{back}."
    what, aside = _main_change(table)
    parts = [f"{what} on {len(table.differing):,} of {known}", *aside]
    parts += [text for found in table.groups if (text := _groups(found))]
    return f"{period(days, table.cadence)}: {', '.join(parts)}{back}."


def change_sentence(table: TableDifference, cadence: Cadence = Cadence.DAILY) -> str:
    """``report: 22 of 31 published days change; on these 31 days rows +0.20 %, revenue_eur -0.41 %.``"""
    noun, count = cadence.noun, len(table.changed) + len(table.unchanged)
    moved = [_move_text(measure, sums) for measure, sums in table.sums.items() if sums.share or sums.change is None]
    over = f"this {noun}" if count == 1 else f"these {format_count(count, noun)}"
    suffix = f"; on {over} {', '.join(moved)}" if moved else ""
    return f"{table.table}: {format_changing(len(table.changed), count, f'published {noun}')}{suffix}."


def _move_text(measure: str, sums: Sums) -> str:
    if sums.share is None:
        return f"{measure} by an unknown amount: it was not measured before"
    return f"{measure} {percent(sums.share)}"


def unit(table: TableCompared) -> str:
    return table.cadence.noun


def change(found: Sums) -> str:
    if found.change is None or found.after is None:
        return UNKNOWN
    if not found.change:
        return "unchanged"
    return f"{amount(found.after)} where there was nothing" if found.share is None else percent(found.share)


def _main_change(table: TableCompared) -> tuple[str, list[str]]:
    differing = [measure for measure in (*table.measures, ROWS) if table.total(measure).differs]
    if first := [*table.changing(), *differing][:1]:
        return f"{column_label(first[0])} {change(table.total(first[0]))}", []
    rows = table.rows.differing
    aside = ["although no sum does"] if table.measures else []
    return f"{format_count(rows, 'row')} {'changes' if rows == 1 else 'change'}", aside


def _groups(found: GroupsCompared) -> str:
    noun = column_label(found.column)
    if not found.differing or found.groups == 1:
        return ""
    if found.differing == found.groups:
        return f"all {pluralize(noun)}"
    if found.differing <= _MOST_NAMED and found.complete:
        values = [each.value or "(none)" for each in found.most if each.rows.differing]
        return f"{noun if len(values) == 1 else pluralize(noun)} {' and '.join(sorted(values))}"
    return f"{found.differing:,} of {found.groups:,} {pluralize(noun)}"


# ------------------------------------------------------------------ the difference of a plan, as it is kept with it


class Difference(Record):
    plan: str = Field(default="", exclude_if=not_)
    """Empty for two states: main, timeline, or moment."""
    left: str = Field(default="", exclude_if=not_)
    right: str = Field(default="", exclude_if=not_)
    target: str
    days: str
    log_entry: int
    made_at: datetime
    tables: tuple[TableCompared, ...]
    verdicts: tuple[ExpectationVerdict, ...] = ()
    stale: tuple[str, ...] = Field(default=(), exclude_if=not_)
    """Days computed from others than the timeline shows."""
    code: tuple[CodeChange, ...] = Field(default=(), exclude_if=not_)

    @property
    def name(self) -> str:
        return self.plan or f"{self.left} and {self.right}"

    @property
    def unmet(self) -> tuple[ExpectationVerdict, ...]:
        return tuple(each for each in self.verdicts if not each.met)

    @property
    def sides(self) -> Sides:
        return sides_compared(self.tables)

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.sides)

    @property
    def headline(self) -> TableCompared | None:
        asked = next((table for table in self.tables if table.table == self.target), None)
        changed = next((table for table in self.tables if table.differing), None)
        if asked is None or (changed and not asked.differing):
            return changed or next(iter(self.tables), None)
        return asked

    @property
    def sentence(self) -> str:
        headline, changed = self.headline, [table for table in self.tables if table.differing]
        if headline is None:
            return "Nothing is rebuilt." if self.plan else "Nothing differs."
        parts = [f"{headline.table}, {table_sentence(headline)}"]
        if len(self.tables) > 1:
            parts.append(f"{format_changing(len(changed), len(self.tables), 'table')}.")
        if self.verdicts:
            parts.append(_expectations(len(self.unmet), len(self.verdicts)))
        return " ".join(parts)


def difference_of(plan: Plan, tables: Sequence[TableCompared], *, log_entry: int, made_at: datetime) -> Difference:
    return Difference(
        plan=plan.id,
        target=plan.asked.target,
        days=plan.asked.days,
        log_entry=log_entry,
        made_at=made_at,
        tables=tuple(tables),
        verdicts=judge(plan.expectations, tables),
        code=plan.code,
    )


def _expectations(unmet: int, all_of_them: int) -> str:
    if not unmet:
        return "It is as expected."
    return f"{unmet} of {format_count(all_of_them, 'expectation')} {'is' if unmet == 1 else 'are'} not met."


# ------------------------------------------------------------------ totals of several tables


@dataclass(frozen=True)
class SameTotal:
    """In each period, ``measure`` of ``table`` adds up to ``of_measure`` of ``of_table``."""

    table: str
    measure: str
    of_table: str
    of_measure: str


@dataclass(frozen=True)
class Agreement:
    """``apart``: the gap, if known. ``gated`` periods have other days; gates compared them."""

    rule: SameTotal
    cadence: Cadence
    agreeing: tuple[date, ...] = ()
    apart: tuple[tuple[date, Decimal | None], ...] = ()
    gated: tuple[date, ...] = ()


def find_agreements(rules: Iterable[SameTotal], tables: Sequence[TableCompared]) -> tuple[Agreement, ...]:
    """Rules with both tables, by days whose change is known."""
    by_name = {table.table: table for table in tables}
    pairs = [(rule, by_name.get(rule.table), by_name.get(rule.of_table)) for rule in rules]
    return tuple(
        _agreement(rule, own, other)
        for rule, own, other in pairs
        if own is not None and other is not None and other.cadence in (Cadence.DAILY, own.cadence)
    )


def agreement_sentence(found: Sequence[Agreement]) -> str:
    """The first deviation; empty without a rule."""
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
        tables = {each.rule.table for each in found if each.agreeing}
        parts.append(
            f"Yes. {format_count(agreeing, 'total')} of {format_count(len(tables), 'table')}"
            f" {'is' if agreeing == 1 else 'are'} what {' and '.join(names)} adds up to, to the last digit."
        )
    if gated:
        reach = "reaches" if gated == 1 else "reach"
        parts.append(
            f"{format_count(gated, 'total')} {reach} beyond the days shown here, and {'was' if gated == 1 else 'were'}"
            " compared by the gates."
        )
    return " ".join(parts)


def _agreement(rule: SameTotal, own: TableCompared, other: TableCompared) -> Agreement:
    """Whole periods by totals, others by changes."""
    beside = {day.day: day for day in other.days}
    agreeing: list[date] = []
    gated: list[date] = []
    apart: list[tuple[date, Decimal | None]] = []
    for day in own.known:
        days = [day.day] if other.cadence is own.cadence else list(own.cadence.period(day.day))
        parts = [beside[each] for each in days if each in beside]
        known = all(part.known for part in parts)
        total, of_parts = day.of(rule.measure), sum((part.of(rule.of_measure) for part in parts), Sums())
        if known and len(parts) == len(days):
            by = None if total.after is None or of_parts.after is None else total.after - of_parts.after
            if by == 0:
                agreeing.append(day.day)
            else:
                apart.append((day.day, by))
        elif known and parts and total.change is not None and total.change == of_parts.change:
            agreeing.append(day.day)
        else:
            gated.append(day.day)
    return Agreement(rule, own.cadence, tuple(agreeing), tuple(apart), tuple(gated))
