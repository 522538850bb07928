"""What a campaign would change is shown before it is approved, and it is what is there afterwards."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date
from decimal import Decimal

import pandas as pd
import pytest

from backfill_assets.difference.difference import DayCompared, TableCompared
from backfill_assets.difference.find import last_difference
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.model.declaration import Step, Table
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.declared import declare
from backfill_assets_tests.stories.staged_campaign import DAYS, FACT, TABLES, WEEKEND
from backfill_assets_tests.workshop import Workshop

REVENUE = "fact_daily_revenue"


def by_pandas(before: pd.DataFrame, after: pd.DataFrame) -> dict[date, tuple[int, int]]:
    """Rows of the facts changed and unchanged, by day, from all columns, computed apart from the code."""
    both = before.merge(after, on=["day", "transaction_id"], suffixes=("_old", "_new"), validate="1:1")
    assert len(both) == len(before) == len(after)
    rest = [name for name in before.columns if name not in ("day", "transaction_id")]
    old, new = (both[[f"{name}_{side}" for name in rest]].astype(str).to_numpy() for side in ("old", "new"))
    changed = pd.Series((old != new).any(axis=1))
    of_day = {day: changed[(both["day"] == day).to_numpy()] for day in DAYS}
    return {day: (int(found.sum()), int((~found).sum())) for day, found in of_day.items()}


def test_a_person_sees_what_approving_would_change(
    wrong: Workshop, backfill: Backfill, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old logic took the previous day's rate: weekends and sales in euros do not change, all else may."""
    declare_total(monkeypatch, FACT, "sales_value")
    old, old_revenue = wrong.read(FACT), wrong.read(REVENUE)
    expected = ("weekends unchanged", "rows unchanged", "currency=EUR unchanged", "amount_eur < 5% a day")
    asked = ["plan", FACT, "--days", str(DAYS), "--version", "v2"]
    plan = backfill.json(*asked, *(word for text in expected for word in ("--expect", text)))["plan"]
    assert plan != backfill.json(*asked)["plan"], "what is expected is part of the plan"
    assert "is staged" in backfill("diff", plan, exit_code=1).output
    staged = backfill.json("run", plan)
    waiting = {each["step"].replace(" ", "_") for each in staged["times"] if each["spent"] is None}
    assert waiting == {"cut_over", "downstream_rebuilt", "completion_told"}

    asked_for = wrong.sessions
    with monkeypatch.context() as patch:
        patch.setattr("backfill_assets.difference.compare.compare_rows", refuse)
        shown = backfill.json("diff", plan, "--html")
    assert wrong.sessions == asked_for, "nothing has moved since it was staged"

    found = last_difference(wrong.builder.lake.storage, plan)
    assert found is not None
    tables = {table.table: table for table in found.tables}
    assert set(tables) == set(TABLES)
    assert {day.day: day.how for day in tables[FACT].days if day.day in WEEKEND} == dict.fromkeys(WEEKEND, "equal")
    assert {day.day: day.how for day in tables[REVENUE].days if day.day in WEEKEND} == dict.fromkeys(
        WEEKEND, "unchanged"
    )
    (currencies,) = [each for each in tables[FACT].groups if each.column == "currency"]
    assert {each.value for each in currencies.most if not each.rows.differing} == {"EUR"}
    assert [each.expectation for each in found.verdicts] == list(expected)
    assert not found.unmet
    sums = {row["measure"]: row for row in shown["by_table"][FACT]["sums"]}
    assert Decimal(sums["sales_value"]["before"]) == sum(old["sales_value"]), "it is read from the rows"
    assert sums["sales_value"]["after"] == sums["sales_value"]["before"]
    assert shown["sentence"].startswith(f"{FACT}, {DAYS}: amount eur ") and "7 of 9 days" in shown["sentence"]
    for row in tables[FACT].sample:
        assert {cell.column for cell in row.cells} <= {"rate", "rate_day", "amount_eur"}
    assert len(tables[FACT].sample) == 10
    letter = a_letter(wrong, plan)
    first = {each["step"]: each for each in backfill.json("approve", plan, "--yes")["times"]}

    again = backfill.json("plan", FACT, "--days", str(DAYS), "--version", "v2", "--force")["times"]
    for row in again:
        time, before = row["estimated"], first[row["step"]]
        assert before["estimated"] is None, "the first plan had nothing to go by"
        assert time["samples"] == 1 and time["low"] - 0.06 <= before["spent"] <= time["high"] + 0.06
    new, new_revenue = wrong.read(FACT), wrong.read(REVENUE)
    assert {each.day: (each.rows.changed, each.rows.unchanged) for each in tables[FACT].days} == by_pandas(old, new)
    for measure in ("amount_eur", "sales_value"):
        assert sums_of(tables[FACT], measure) == pandas_sums(old, new, measure)
    assert sums_of(tables[REVENUE], "revenue_eur") == pandas_sums(old_revenue, new_revenue, "revenue_eur")
    has_the_money_of_all_planned_days(letter, old, new)
    sessions = wrong.sessions
    kept = backfill.json("status", plan)["difference"]
    assert (kept["tables"], kept["rows"]) == (shown["tables"], shown["rows"])
    assert last_difference(wrong.builder.lake.storage, plan) == found
    assert wrong.sessions == sessions


def refuse(*_: object) -> None:
    raise AssertionError("rows are compared again")


def a_letter(workshop: Workshop, plan: str) -> str:
    """It says who decides, and that tables agree."""
    letter = (workshop.settings.home / "differences" / f"{plan}.html").read_text()
    agree = f"what {FACT} adds up to, to the last digit."
    for words in ("Anyone.", f"<code>backfill approve {plan}</code>", agree):
        assert words in letter
    return letter


def has_the_money_of_all_planned_days(letter: str, old: pd.DataFrame, new: pd.DataFrame) -> None:
    """The headline, and each table whose periods are those of the plan, also days that were not staged."""
    sums = [sum((Decimal(value) for value in rows["amount_eur"]), Decimal(0)) for rows in (old, new)]
    headline = re.search(r"from ([\d,.]+) to ([\d,.]+) EUR\.</h1>", letter)
    assert headline and [number(text) for text in headline.groups()] == sums
    names, cell = f"{FACT}|{REVENUE}|report_department_revenue", '<td class="number">(.*?)</td>'
    before = r"(?:<td[^>]*>[^<]*</td>){4}"
    money = letter.split("Rows by table", maxsplit=1)[0]
    found = re.findall(rf'<td class="name">(?:{names})</td>{before}{cell}{cell}', money)
    assert [list(map(number, each)) for each in found] == [sums] * 3


def number(text: str) -> Decimal:
    return Decimal(text.replace(",", ""))


def declare_total(monkeypatch: pytest.MonkeyPatch, table: str, column: str) -> None:
    """As of now the sum of ``column`` is measured of every day that is staged."""
    declared = replace(CATALOG.table(table), totals=(*CATALOG.table(table).totals, column))
    dataset = CATALOG.dataset_of(table)
    declare(monkeypatch, replace(dataset, steps=tuple(_with_table(step, declared) for step in dataset.steps)))


def _with_table(step: Step, declared: Table) -> Step:
    return replace(step, tables=tuple(declared if each.name == declared.name else each for each in step.tables))


def sums_of(table: TableCompared, measure: str) -> dict[date, tuple[Decimal, Decimal]]:
    def both(day: DayCompared) -> tuple[Decimal, Decimal]:
        found = day.of(measure)
        assert found.before is not None and found.after is not None
        return found.before, found.after

    return {day.day: both(day) for day in table.days}


def pandas_sums(old: pd.DataFrame, new: pd.DataFrame, measure: str) -> dict[date, tuple[Decimal, Decimal]]:
    def total(rows: pd.DataFrame, day: date) -> Decimal:
        return sum((Decimal(value) for value in rows[rows["day"] == day][measure]), Decimal(0))

    return {day: (total(old, day), total(new, day)) for day in DAYS}
