"""90 real days against totals that were computed without Spark, straight from the packages' own files."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from click.testing import CliRunner

from backfill_assets.cli import main
from backfill_assets_tests import oracle
from backfill_assets_tests.conftest import INTERPRETED
from backfill_assets_tests.stories.conftest import NINETY_DAYS
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

FACT = "fact_sales_transactions"
_GENERATED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}


def revenue(workshop: Workshop) -> dict[tuple[date, int], oracle.StoreDay]:
    rows = workshop.read("fact_daily_revenue", NINETY_DAYS)
    columns = ("day", "store_id", "revenue_eur", "lines", "baskets", "quantity")
    return {
        (day, int(store)): oracle.StoreDay(euros, lines, baskets, quantity)
        for day, store, euros, lines, baskets, quantity in zip(*(rows[c].tolist() for c in columns), strict=True)
    }


def totals(workshop: Workshop) -> dict[date, oracle.DayTotal]:
    columns = ["day", "amount_eur", "sales_value"]
    rows = workshop.read("fact_sales_transactions", NINETY_DAYS, columns)
    lines: dict[date, list[tuple[Decimal, Decimal]]] = defaultdict(list)
    for day, euros, dollars in zip(*(rows[name].tolist() for name in columns), strict=True):
        lines[day].append((euros, dollars))
    return {day: _total(found) for day, found in lines.items()}


def _total(lines: list[tuple[Decimal, Decimal]]) -> oracle.DayTotal:
    euros, dollars = zip(*lines, strict=True)
    return oracle.DayTotal(sum(euros, Decimal(0)), sum(dollars, Decimal(0)), len(lines))


def sums(rows: pd.DataFrame) -> list[oracle.Sums]:
    columns = (rows[name].tolist() for name in ("revenue_eur", "lines", "baskets", "quantity"))
    return [oracle.Sums(*found) for found in zip(*columns, strict=True)]


def departments(workshop: Workshop) -> dict[tuple[date, str], oracle.Sums]:
    rows = workshop.read("report_department_revenue")
    return dict(zip(zip(rows["day"].tolist(), rows["department"].tolist(), strict=True), sums(rows), strict=True))


def ranking(workshop: Workshop) -> dict[tuple[date, int], tuple[int, oracle.Sums]]:
    rows = workshop.read("report_store_ranking")
    keys = zip(rows["day"].tolist(), map(int, rows["store_id"].tolist()), strict=True)
    return dict(zip(keys, zip(rows["rank"].tolist(), sums(rows), strict=True), strict=True))


def close(workshop: Workshop) -> dict[date, tuple[Decimal, int, oracle.Sums]]:
    rows = workshop.read("report_monthly_close")
    columns = zip(rows["revenue"].tolist(), rows["stores"].tolist(), sums(rows), strict=True)
    return dict(zip(rows["day"].tolist(), columns, strict=True))


def assert_reports_equal_the_packages(workshop: Workshop, version: oracle.Version) -> None:
    first, last = NINETY_DAYS.first, NINETY_DAYS.last
    assert departments(workshop) == oracle.department_revenue(first, last, version)
    assert ranking(workshop) == oracle.store_ranking(first, last, version)
    assert close(workshop) == oracle.monthly_close(first, last, version)


def completeness(workshop: Workshop, table: str) -> dict[str, set[tuple[int, bool]]]:
    """Days published and whether that is all of them, by period; each row of a period must say the same."""
    rows = workshop.read(table)
    columns = (rows[name].tolist() for name in ("day", "days_published", "complete"))
    found: dict[str, set[tuple[int, bool]]] = defaultdict(set)
    for day, published, complete in zip(*columns, strict=True):
        found[str(day)].add((published, complete))
    return found


def assert_published(workshop: Workshop, version: oracle.Version) -> None:
    """Facts and reports are what pandas makes of the packages' files, to the cent."""
    first, last = NINETY_DAYS.first, NINETY_DAYS.last
    assert totals(workshop) == oracle.day_totals(first, last, version)
    assert revenue(workshop) == oracle.daily_revenue(first, last, version)
    assert_reports_equal_the_packages(workshop, version)


class Story:
    """What a person types, in this process: each command's words go to the terminal that `make story-fx` shows."""

    def __init__(self, workshop: Workshop) -> None:
        self.workshop = workshop
        self.notices = workshop.settings.home / "notices.jsonl"

    def types(self, *words: str) -> Any:
        print(f"\n$ backfill {' '.join(words)}")
        result = CliRunner().invoke(main, [*words, "--json"])
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout)
        print(_short(found))
        return found

    def told(self) -> list[str]:
        """The deduplication keys of the notices that arrived."""
        lines = self.notices.read_text().splitlines() if self.notices.exists() else []
        return [json.loads(line)["key"] for line in lines]


def _short(told: Any) -> str:
    text = json.dumps(told, indent=1)
    return text if len(text) < 1500 else f"{text[:1500]} ..."


@pytest.fixture
def compiled(spark: SparkSession) -> Iterator[None]:
    """Hundreds of thousands of rows are worth the code that tens of rows are not."""
    for name, value in _GENERATED.items():
        spark.conf.set(name, value)
    yield
    for name in _GENERATED:
        spark.conf.set(name, INTERPRETED[name])


@pytest.fixture
def story(workshop: Workshop, compiled: None, monkeypatch: pytest.MonkeyPatch) -> Story:
    """The commands work on the workshop's home, with the Spark session of the tests."""
    found = Story(workshop)
    monkeypatch.setenv("BACKFILL_HOME", str(workshop.settings.home))
    monkeypatch.setenv("BACKFILL_NOTICES", f"file:{found.notices}")
    for module in ("campaign", "difference", "rollback"):
        monkeypatch.setattr(f"backfill_assets.cli.{module}.foreground_builder", lambda *_: workshop.builder)
    return found


@pytest.mark.timeout(1500)
def test_ninety_days_are_planned_shadowed_compared_approved_undone_and_cut_over_again(story: Story) -> None:
    """The mission's case: history built with the previous day's rate. Reports too, also of the weeks that are cut."""
    workshop = story.workshop
    workshop.land_real(NINETY_DAYS)
    workshop.build_all(NINETY_DAYS, "v1")
    workshop.build_reports(NINETY_DAYS)
    assert_published(workshop, "v1")
    bronze = {day: state.publication for day, state in workshop.states("bronze_sales").items()}

    expected = ("--expect", "rows unchanged", "--expect", "weekends unchanged")
    plan = story.types("plan", FACT, "--days", str(NINETY_DAYS), "--version", "v2", *expected)["id"]
    waits = story.types("run", plan)["waits"]

    assert waits == "it waits for approval"
    waves = [each["told"]["days"][FACT]["staged"] for each in _journal(story, plan) if each["kind"] == "wave"]
    assert len(waves) == 4 and waves == sorted(waves), "a canary, a pilot, half, all"
    assert_published(workshop, "v1")

    difference = story.types("diff", plan, "--kept")
    print(difference["sentence"])
    fact = next(table for table in difference["tables"] if table["table"] == FACT)
    assert difference["broken"] == 0
    assert not [day for day in _changed(fact) if day.weekday() >= 5], "no rates are published at weekends"

    first = story.types("approve", plan)["publication"]
    assert_published(workshop, "v2")
    assert {day: state.publication for day, state in workshop.states("bronze_sales").items()} == bronze
    assert story.told().count(first) == 1

    back = story.types("rollback", plan, "--yes")["publication"]
    assert_published(workshop, "v1")

    story.types("run", plan)
    second = story.types("approve", plan)["publication"]
    assert_published(workshop, "v2")
    assert sorted(story.told()) == sorted({*story.told()}), "each notice once"
    assert {first, back, second} <= {*story.told()}
    assert_cut_periods_say_so(workshop)


def _journal(story: Story, plan: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = story.types("campaign", plan)["entries"]
    return entries


def _changed(table: dict[str, Any]) -> list[date]:
    return [
        date.fromisoformat(day["day"])
        for day in table["days"]
        if day["rows"]["added"] or day["rows"]["removed"] or day["rows"]["changed"]
    ]


def assert_cut_periods_say_so(workshop: Workshop) -> None:
    assert completeness(workshop, "report_monthly_close") == {
        "2017-03-01": {(31, True)},
        "2017-04-01": {(30, True)},
        "2017-05-01": {(29, False)},
    }
    weeks = completeness(workshop, "report_store_ranking")
    assert (weeks.pop("2017-02-27"), weeks.pop("2017-05-29")) == ({(5, False)}, {(1, False)})
    assert set().union(*weeks.values()) == {(7, True)}
    assert any("report_monthly_close 2017-05-01..2017-05-31 is cut: 29 of 31 days" in m for m in workshop.messages)
