"""Six real days, corrected in each of the three scopes: planned, run, published and undone, with what each protects."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from backfill_assets.cli import main
from backfill_assets.days import DayRange
from backfill_assets.examples.sample.real import sales_lines
from backfill_assets_tests.cli.command import work_with
from backfill_assets_tests.stories.corrected_source import (
    LINES_A_DAY,
    TABLES,
    assert_same_rows,
    build_everything,
    built_from_scratch,
    correct,
    folder,
    land_slice,
    read_lines,
    write_lines,
)
from backfill_assets_tests.workshop import Workshop

pytestmark = pytest.mark.timeout(900)
DAYS = DayRange.parse("2017-03-01..2017-03-06")
FIRST, SECOND, THIRD, *_ = DAYS
FACT = "fact_sales_transactions"
UPSTREAM = (
    "raw_sales",
    "raw_fx_rates",
    "raw_products",
    "bronze_sales",
    "quarantine_sales",
    "bronze_fx_rates",
    "bronze_products",
)
REPORTS = ("fact_daily_revenue", "report_department_revenue", "report_store_ranking", "report_monthly_close")
LATE = 20
LATER = "2017-03-20T00:00:00Z"
Say = Callable[..., dict[str, Any]]
Held = Mapping[str, Mapping[date, tuple[str, str]]]


@pytest.fixture(scope="module")
def built_home(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> Path:
    """Six real days by the right logic, with all reports."""
    home = tmp_path_factory.mktemp("scopes") / "home"
    workshop = Workshop(home, lambda: spark)
    land_slice(workshop, DAYS)
    build_everything(workshop, DAYS)
    return home


@pytest.fixture
def sales(built_home: Path, tmp_path: Path, spark: Any) -> Workshop:
    home = tmp_path / "home"
    shutil.copytree(built_home, home)
    return Workshop(home, lambda: spark)


@pytest.fixture
def say(sales: Workshop, monkeypatch: pytest.MonkeyPatch) -> Say:
    """Runs a command on the lakehouse and gives back what it says as JSON."""
    monkeypatch.setenv("BACKFILL_HOME", str(sales.settings.home))
    work_with(monkeypatch, sales)

    def run(*words: str) -> dict[str, Any]:
        result = CliRunner().invoke(main, [*words, "--json"])
        assert result.exit_code == 0, result.output + result.stderr
        found: dict[str, Any] = json.loads(result.stdout)
        return found

    return run


def held(workshop: Workshop, *tables: str) -> Held:
    """The content and the publication of each day: equal only if nothing at all was published to it."""
    return {
        table: {day: (str(each.content), each.publication) for day, each in workshop.states(table).items()}
        for table in tables
    }


def checksums(workshop: Workshop) -> dict[str, dict[date, str]]:
    return {
        table: {day: each.content.checksum for day, each in workshop.states(table).items() if each.content}
        for table in TABLES
    }


def files(workshop: Workshop, table: str) -> dict[str, bytes]:
    root = workshop.settings.lakehouse / table
    return {str(path): path.read_bytes() for path in root.rglob("*.parquet")}


def rebuilt(plan: Mapping[str, Any]) -> dict[str, dict[str, list[str]]]:
    return {step["table"][0]: step["why"] for step in plan["steps"] if step["why"]}


def correct_source(workshop: Workshop) -> None:
    """A price is corrected and a line taken back; on another day a file is withdrawn."""

    def change(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**lines[0], "sales_value": "77.77", "updated_at": LATER}, *lines[2:]]

    correct(folder(workshop, SECOND) / "morning.jsonl.gz", change)
    (folder(workshop, THIRD) / "evening.jsonl.gz").unlink()


def test_source_side_refresh(sales: Workshop, say: Say, tmp_path: Path) -> None:
    """Raw is only appended to; what is built from it is staged, and published together; both can be undone."""
    before, raw_files = checksums(sales), files(sales, "raw_sales")
    others = held(sales, "raw_fx_rates", "raw_products", "bronze_fx_rates", "bronze_products")
    withdrawn = len(read_lines(folder(sales, THIRD) / "evening.jsonl.gz"))
    correct_source(sales)

    plan = say("plan", FACT, "--days", str(DAYS), "--scope", "source")

    assert plan["scope"] == "source" and "This scope fits" in plan["scope_that_fits"]
    assert rebuilt(plan)["raw_sales"] == {"changed at the source": [f"{SECOND}..{THIRD}"]}
    assert rebuilt(plan)["bronze_sales"] == rebuilt(plan)[FACT] == {"an input is rebuilt": [f"{SECOND}..{THIRD}"]}
    assert plan["source_files"] == [
        {"table": "raw_sales", "arrival_day": str(SECOND), "changed": 1, "gone": 0, "new": 0},
        {"table": "raw_sales", "arrival_day": str(THIRD), "changed": 0, "gone": 1, "new": 0},
    ]

    say("run", plan["plan"], "--limits", "deviation=90%")

    after = files(sales, "raw_sales")
    assert {path: after[path] for path in raw_files} == raw_files and len(after) > len(raw_files)
    metrics = {day: each.content.metrics for day, each in sales.states("raw_sales").items() if each.content}
    assert {day: of["deleted"] for day, of in metrics.items() if "deleted" in of} == {SECOND: 2, THIRD: withdrawn}
    assert checksums(sales) == before, "what is built from raw is as it was until it is approved"

    approved = say("approve", plan["plan"], "--yes")

    assert_same_rows(sales, built_from_scratch(sales, tmp_path / "fresh", DAYS))
    assert held(sales, *others) == others
    publications = {sales.states(table)[SECOND].publication for table in ("bronze_sales", FACT, "fact_daily_revenue")}
    assert publications == {approved["publication"]}

    refuses_to_undo(sales, plan["plan"])

    assert files(sales, "raw_sales") == after, "the undo of a campaign leaves raw as it is: only appended to"
    (refresh,) = {sales.states("raw_sales")[day].publication for day in (SECOND, THIRD)}
    say("rollback", refresh, "--yes")
    sales.build("bronze_sales", DAYS)
    sales.build(FACT, DAYS, "v2")
    sales.build("fact_daily_revenue", DAYS)
    sales.build_reports(DAYS)
    assert checksums(sales) == before, "as if the source had never been read again"


@pytest.mark.long
def test_whole_pipeline_from_raw_on(sales: Workshop, say: Say, tmp_path: Path) -> None:
    """Raw takes in what landed late, and keeps every file that it had; all that is made of it is built again."""
    before, raw_files = checksums(sales), files(sales, "raw_sales")
    others = held(sales, "raw_fx_rates", "raw_products", "bronze_fx_rates", "bronze_products")
    late = [json.loads(line) for line in sales_lines(DayRange.of(SECOND))[SECOND][LINES_A_DAY : LINES_A_DAY + LATE]]
    write_lines(folder(sales, SECOND) / "late.jsonl.gz", late)

    plan = say("plan", FACT, "--days", str(DAYS), "--scope", "whole")

    assert plan["scope"] == "whole" and "This scope fits" in plan["scope_that_fits"]
    assert rebuilt(plan)["raw_sales"] == {"landed and not taken in": [str(SECOND)]}
    assert rebuilt(plan)["bronze_sales"] == rebuilt(plan)[FACT] == {"an input is rebuilt": [str(SECOND)]}

    say("run", plan["plan"], "--limits", "deviation=90%")

    after = files(sales, "raw_sales")
    assert {path: after[path] for path in raw_files} == raw_files
    assert len(sales.read("raw_sales", DayRange.of(SECOND))) == LINES_A_DAY + LATE
    assert checksums(sales) == before

    approved = say("approve", plan["plan"], "--yes")

    assert_same_rows(sales, built_from_scratch(sales, tmp_path / "fresh", DAYS))
    assert held(sales, *others) == others
    publications = {sales.states(table)[SECOND].publication for table in ("bronze_sales", FACT, "fact_daily_revenue")}
    assert publications == {approved["publication"]}

    rows = checksums(sales)
    refuses_to_undo(sales, plan["plan"])

    assert files(sales, "raw_sales") == after, "what was taken in stays"
    assert checksums(sales) == rows


def refuses_to_undo(sales: Workshop, plan: str) -> None:
    """By the same version, rows that arrived stay: no table is put back beside one that it contradicts."""
    now = checksums(sales)
    refused = CliRunner().invoke(main, ["rollback", plan, "--yes"])
    assert refused.exit_code == 1 and "the logic from before it gives the same rows" in refused.stderr
    assert checksums(sales) == now


@pytest.mark.long
def test_downstream_only(sales: Workshop, say: Say) -> None:
    """The target and all that it is computed from stay as they are, to the byte; only the reports are built."""
    sales.build(FACT, [SECOND], "v1")
    untouched, upstream_files = (
        held(sales, *UPSTREAM, FACT),
        {table: files(sales, table) for table in (*UPSTREAM, FACT)},
    )
    before = checksums(sales)

    plan = say("plan", FACT, "--days", str(SECOND), "--scope", "downstream")

    assert rebuilt(plan).keys() == set(REPORTS)
    say("run", plan["plan"], "--limits", "deviation=90%")
    assert checksums(sales) == before

    approved = say("approve", plan["plan"], "--yes")

    assert held(sales, *UPSTREAM, FACT) == untouched
    assert {table: files(sales, table) for table in (*UPSTREAM, FACT)} == upstream_files
    changed = {table for table, days in checksums(sales).items() if days != before[table]}
    assert changed == set(REPORTS)
    assert sales.states("fact_daily_revenue")[SECOND].publication == approved["publication"]

    refuses_to_undo(sales, plan["plan"])

    assert held(sales, *UPSTREAM, FACT) == untouched
