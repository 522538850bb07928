from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any, cast

import pytest

from backfill_assets.campaign.breaker import (
    BreakerInput,
    computed_seconds,
    held_back_lines,
    input_of,
    judge,
    staged_contents,
)
from backfill_assets.difference.difference import Contents, Sums, TableDifference
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.records import DayContent
from backfill_assets.limits import Limits
from backfill_assets.model.declaration import RuleOutcome
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.stage import StagedTableDay
from backfill_assets.rebuild.step_build import StepBuild
from backfill_assets.rebuild.step_look import StepRequest
from backfill_assets.rebuild.walk import HeldBack, StepBuilt


def revenue(before: int, after: int) -> tuple[TableDifference, ...]:
    return (TableDifference("revenue", sums={"eur": Sums(before=Decimal(before), after=Decimal(after))}),)


def rate(before: str, after: str | None) -> tuple[TableDifference, ...]:
    """Shares of nulls."""
    shares = Sums(before=Decimal(before), after=None if after is None else Decimal(after))
    return (TableDifference("fact", nulls={"rate": shares}),)


WELL = BreakerInput(tried=100, tables=revenue(1000, 1050), seconds=Decimal(10))


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (
            replace(WELL, tables=(TableDifference("fact", sums={"eur": Sums(before=None, after=Decimal(1050))}),)),
            "fact.eur cannot be compared: what is published is unknown, and at most 10 % may differ.",
        ),
        (
            replace(WELL, tables=rate("0", None)),
            "the nulls of fact.rate cannot be compared: what is staged is unknown, and at most 1 % may differ.",
        ),
    ],
    ids=["sums", "nulls"],
)
def test_a_limit_that_cannot_be_computed_stops_it(seen: BreakerInput, told: str) -> None:
    """An unknown sum is not 0, and does not pass by being unknown; without a limit there is nothing to check."""
    (found,) = judge(Limits(), seen)
    assert (found.sentence, found.observed, found.stops) == (told, None, True)
    assert judge(Limits(deviation=None, nulls=None), seen) == []


def test_a_budget_warns_at_eighty_percent_and_stops_when_it_is_spent() -> None:
    limits = Limits.parse("seconds=100,money=2")
    assert judge(limits, replace(WELL, seconds=Decimal(80), money=Decimal("1.6"))) == []
    near = judge(limits, replace(WELL, seconds=Decimal(81), money=Decimal("1.7")))
    assert [(each.limit, each.stops) for each in near] == [("seconds", False), ("money", False)]
    assert near[0].sentence == "it has taken 81 s: 81 % of the 100 s granted."
    over = judge(limits, replace(WELL, seconds=Decimal(101), money=Decimal("1.7")))
    assert [(each.limit, each.stops) for each in over] == [("seconds", True), ("money", False)]


FIRST, SECOND, THIRD, FOURTH = (date(2017, 3, n) for n in range(1, 5))
BEFORE = DayContent(rows=2, checksum="1")
"""Published before its total and its nulls were measured."""
AFTER = DayContent(rows=2, checksum="2", metrics={"total_eur": "68980.78", "nulls_rate": 0})
BRONZE, QUARANTINE, REPORT = "bronze_sales", "quarantine_sales", "fact_daily_revenue"
"""The first two are tables of one step."""
GATE = RuleOutcome("rows", "completeness", passed=False, observed="1", expected="2 or more")


def a_step(
    name: str, staged: Mapping[date, Mapping[str, DayContent]], *held_back: HeldBack, unchanged: Iterable[date] = ()
) -> StepBuilt:
    """One that has staged the contents of days by table."""
    step = CATALOG.step(name)
    nothing = cast("Any", None)
    build = StepBuild(nothing, StepRequest(step, ()), RunInfo("r"), nothing)
    for day, contents in staged.items():
        build.staged[day] = [
            StagedTableDay(table, day, (), content, (), nothing, "") for table, content in contents.items()
        ]
    return StepBuilt(build, tuple(unchanged), (), tuple(staged), held_back)


def to_the_breaker(published: Contents, staged: dict[date, DayContent]) -> TableDifference:
    (found,) = input_of([], {"fact": staged}, {"fact": published}, Decimal(0), None).tables
    return found


def test_the_breaker_gets_an_unknown_as_unknown() -> None:
    """On either side: a day that was staged before the total was declared, and is adopted, lacks it as well."""
    unmeasured = to_the_breaker({FIRST: BEFORE}, {FIRST: AFTER})
    assert unmeasured.sums["eur"] == Sums(before=None, after=Decimal("68980.78"))
    assert unmeasured.nulls == {"rate": Sums(before=None, after=Decimal(0))}
    adopted = to_the_breaker({FIRST: AFTER, SECOND: AFTER}, {FIRST: AFTER, SECOND: BEFORE})
    assert adopted.sums["eur"].after is None
    assert to_the_breaker({FIRST: None}, {FIRST: AFTER}).sums["rows"].before is None
    first_build = to_the_breaker({FIRST: AFTER}, {FIRST: AFTER, SECOND: AFTER})
    assert first_build.sums["rows"] == Sums(before=Decimal(2), after=Decimal(2)), "a first build differs from nothing"


def test_each_staged_table_is_compared_with_what_is_published_of_it() -> None:
    """A table that was never published is compared with nothing; one that is not staged is not compared."""
    staged = {REPORT: {FIRST: AFTER}, BRONZE: {FIRST: AFTER}}
    published: dict[str, Contents] = {BRONZE: {FIRST: AFTER, SECOND: BEFORE}, QUARANTINE: {FIRST: BEFORE}}
    found = input_of([], staged, published, Decimal("1.5"), Decimal("0.02"))
    assert [(each.table, each.changed, each.unchanged) for each in found.tables] == [
        (REPORT, (), ()),
        (BRONZE, (), (FIRST,)),
    ]
    assert (found.seconds, found.money) == (Decimal("1.5"), Decimal("0.02"))


def test_what_is_staged_is_held_by_table_and_day() -> None:
    """Pieces of a step are put together, the later one counts; a table of which no day is staged has none."""
    done = [
        a_step(BRONZE, {FIRST: {BRONZE: BEFORE, QUARANTINE: AFTER}, SECOND: {BRONZE: AFTER}}),
        a_step(BRONZE, {FIRST: {BRONZE: AFTER}, THIRD: {BRONZE: BEFORE}}),
        a_step(REPORT, {}, unchanged=[FIRST]),
    ]
    assert staged_contents(done) == {
        BRONZE: {FIRST: AFTER, SECOND: AFTER, THIRD: BEFORE},
        QUARANTINE: {FIRST: AFTER},
        REPORT: {},
    }
    assert staged_contents([]) == {}


def test_the_time_of_a_step_counts_once_for_all_of_its_tables() -> None:
    """In seconds, exactly; a day whose time was not measured adds none."""
    timed, longer = replace(AFTER, staged_ms=1250), replace(AFTER, staged_ms=1)
    done = [
        a_step(BRONZE, {FIRST: {BRONZE: timed, QUARANTINE: timed}, SECOND: {BRONZE: longer, QUARANTINE: longer}}),
        a_step(REPORT, {FIRST: {REPORT: timed}, SECOND: {REPORT: BEFORE}}),
    ]
    assert computed_seconds(done) == Decimal("2.501")
    assert computed_seconds([]) == Decimal(0)


def test_a_line_says_why_a_day_is_held_back() -> None:
    held = [
        HeldBack(BRONZE, FIRST, rules=(GATE, replace(GATE, rule="nulls", observed="3 %", expected="none"))),
        HeldBack(REPORT, FIRST, because_of=f"{BRONZE} {FIRST}"),
        HeldBack(REPORT, SECOND, error="no column"),
    ]
    assert held_back_lines(held) == [
        "bronze_sales 2017-03-01: rows: 1, expected 2 or more; nulls: 3 %, expected none",
        "fact_daily_revenue 2017-03-01: bronze_sales 2017-03-01",
        "fact_daily_revenue 2017-03-02: no column",
    ]
    assert held_back_lines([]) == []


@pytest.mark.parametrize(
    ("limits", "seen", "limit", "sentence"),
    [
        (Limits(), WELL, "", ""),
        (Limits.parse("errors=none"), replace(WELL, failed=100), "", ""),
        (Limits(), replace(WELL, failed=6), "errors", ""),
        (Limits(), replace(WELL, held_back=11), "gates", ""),
        (Limits(), replace(WELL, tables=rate("0.01", "0.03")), "nulls", ""),
        (
            Limits(),
            replace(WELL, tables=revenue(1000, 880)),
            "deviation",
            "revenue.eur differs by 12 % from what is published, and at most 10 % may.",
        ),
        (Limits(), replace(WELL, tables=revenue(0, 1)), "deviation", ""),
    ],
    ids=["within all", "none", "errors", "gates", "nulls", "deviation", "of nothing"],
)
def test_each_limit_stops_it_and_is_named(limits: Limits, seen: BreakerInput, limit: str, sentence: str) -> None:
    found = judge(limits, seen)
    assert [(each.limit, each.stops) for each in found] == [(limit, True)] * bool(limit)
    assert all(each.observed is not None and each.observed > each.allowed for each in found)
    assert all(sentence in each.sentence for each in found)


FAILING = HeldBack(BRONZE, FIRST, rules=(GATE,))
ONE = a_step(BRONZE, {FIRST: {BRONZE: AFTER}})


@pytest.mark.parametrize(
    ("done", "tried", "failed", "held_back"),
    [
        ([], 0, 0, 0),
        (
            [
                a_step(
                    BRONZE,
                    {FIRST: {BRONZE: AFTER, QUARANTINE: AFTER}},
                    HeldBack(QUARANTINE, SECOND, rules=(GATE,)),
                    HeldBack(BRONZE, THIRD, error="no column"),
                    HeldBack(BRONZE, FOURTH, because_of=f"raw_sales {FOURTH}"),
                    unchanged=[date(2017, 3, 5)],
                )
            ],
            3,
            1,
            1,
        ),
        ([a_step(BRONZE, {}, FAILING, replace(FAILING, table=QUARANTINE))], 1, 0, 1),
        ([ONE, a_step(REPORT, {FIRST: {REPORT: AFTER}})], 2, 0, 0),
        ([ONE, a_step(BRONZE, {}, FAILING), a_step(BRONZE, {SECOND: {BRONZE: AFTER}}, FAILING)], 2, 0, 1),
    ],
    ids=[
        "nothing",
        "staged, failed by its gates or by an error; unchanged and waiting days are not tried",
        "both tables of a step hold it back",
        "the same day of two steps",
        "a step that was staged in pieces is one step",
    ],
)
def test_a_day_of_a_step_is_tried_once(done: list[StepBuilt], tried: int, failed: int, held_back: int) -> None:
    """A share of held back days is never above 100 %."""
    found = input_of(done, {}, {}, Decimal(0), None)
    assert (found.tried, found.failed, found.held_back) == (tried, failed, held_back)
