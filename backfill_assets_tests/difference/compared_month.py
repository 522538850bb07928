"""A month of a table as it is compared: 100 euros a day in main, and a few rows."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

from backfill_assets.days import DayRange
from backfill_assets.difference.difference import (
    Cell,
    ChangedRow,
    DayCompared,
    DayIs,
    GroupCompared,
    GroupsCompared,
    RowCounts,
    Sums,
    TableCompared,
)
from backfill_assets.difference.letter import LetterTerms
from backfill_assets.difference.verdict import Difference, difference_of
from backfill_assets.plan.expectations import Expectation
from backfill_assets.plan.records import Plan, PlanRequest

MARCH = DayRange.parse("2017-03-01..2017-03-31")
NASTY = "</script><script>alert('x')</script>|`*"
MADE = datetime(2017, 6, 1, 12, tzinfo=UTC)


def a_day(day: date, after: str, how: DayIs = "compared") -> DayCompared:
    """100 in main."""
    rows = RowCounts(changed=3, unchanged=2) if after != "100" else RowCounts(unchanged=5)
    return DayCompared(
        day=day, how=how, rows=rows, sums={"revenue_eur": Sums(before=Decimal(100), after=Decimal(after))}
    )


def unmeasured(day: date) -> DayCompared:
    """A day that stays as it is, published before its total was declared."""
    return a_day(day, "100", "held back").model_copy(update={"sums": {"revenue_eur": None}})


def month(changed: int, groups: tuple[GroupsCompared, ...] = (), **more: object) -> TableCompared:
    """March with ``changed`` days that lose 0.57."""
    days = [a_day(day, "99.43" if n < changed else "100") for n, day in enumerate(MARCH)]
    known = {"table": "report", "measures": ("revenue_eur",), "days": days, "groups": groups, **more}
    return TableCompared.model_validate(known)


def canary() -> TableCompared:
    """Two days are staged, of which one changes."""
    waiting = tuple(a_day(day, "100", "not staged") for day in MARCH if day.day > 2)
    return month(0, days=(a_day(MARCH.first, "99.43"), a_day(date(2017, 3, 2), "100"), *waiting))


def by(column: str, *values: tuple[str | None, int]) -> GroupsCompared:
    sums = {"revenue_eur": Sums(before=Decimal(100), after=Decimal("99.43"))}
    most = tuple(GroupCompared(value=value, rows=RowCounts(changed=n, unchanged=1), sums=sums) for value, n in values)
    return GroupsCompared(column=column, groups=len(most), differing=sum(n > 0 for _, n in values), most=most)


def a_sample(rows: int, value: str = "1.25") -> tuple[ChangedRow, ...]:
    cells = (Cell(column="rate", before="1.20", after=value), Cell(column="rate_day", before=None, after="2017-03-01"))
    return tuple(
        ChangedRow(day=MARCH.first, key={"id": f"row-{n}"}, cells=cells, withheld=("household_token",))
        for n in range(rows)
    )


def difference(*tables: TableCompared, expected: tuple[str, ...] = ()) -> Difference:
    expectations = tuple(map(Expectation.parse, expected))
    asked = PlanRequest(target="report", days=str(MARCH), expectations=expectations)
    plan = Plan(asked=asked, steps=(), made_at=MADE)
    return difference_of(plan, tables, log_entry=7, made_at=MADE)


def sums(before: str | None, after: str | None) -> Sums:
    return Sums(before=number(before), after=number(after))


def number(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)


def terms_of(found: Difference, **more: object) -> LetterTerms:
    known = {"plan": found.plan, "campaign": found.plan.replace("plan-", "campaign-"), "window_days": 30}
    return LetterTerms(**{**known, "who": "Anyone but ana.", **more})  # type: ignore[arg-type]
