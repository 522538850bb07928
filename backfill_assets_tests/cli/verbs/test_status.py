"""``backfill status`` shows the truth about every table and day, for people and for scripts."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import date
from decimal import Decimal

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.plans import keep_plan
from backfill_assets.model.drift import FIELDS, DriftKind, FieldRows, as_text
from backfill_assets.publish.publisher import CrashPoint
from backfill_assets_tests.begun_campaign import begin
from backfill_assets_tests.cli.command import Backfill, built_once
from backfill_assets_tests.cli.terminal import terminal
from backfill_assets_tests.small_lakehouse import LakehouseOfReasons

FIRST, SECOND, THIRD = date(2017, 3, 1), date(2017, 3, 2), date(2017, 3, 3)


@built_once
def three_days(backfill: Backfill) -> None:
    """Raw for three days; bronze built from two of them, the second by older code."""
    backfill.lakehouse.publish("raw", {"raw_sales": {FIRST: [1], SECOND: [2], THIRD: [3]}})
    for day, row, code in ((FIRST, 1, "v1"), (SECOND, 2, "v0")):
        backfill.publish_bronze(f"bronze-{day}", day, row, code)


def test_every_status_is_counted_and_located(three_days: Backfill) -> None:
    """Counts and ranges by status, per table, in build order."""
    tables = three_days.statuses()
    assert list(tables) == list(CATALOG.table_names)
    assert tables["raw_sales"] == {"fresh": [f"{FIRST}..{THIRD}"]}
    assert (
        tables["bronze_sales"]
        == tables["quarantine_sales"]
        == {"fresh": [str(FIRST)], "stale: version not declared": [str(SECOND)], "missing": [str(THIRD)]}
    )
    assert tables["fact_daily_revenue"] == {"missing": [f"{FIRST}..{THIRD}"]}
    assert tables["raw_fx_rates"] == {"nothing published": []}


def test_pandas_is_not_imported_for_it(three_days: Backfill) -> None:
    """PyArrow imports pandas as soon as it makes a value or an expression: a fifth of what the command takes."""
    check = (
        "import sys\nfrom backfill_assets.cli import main\n"
        "main(['status'], standalone_mode=False)\n"
        "assert 'pyarrow' in sys.modules and not {'pandas', 'ibis', 'duckdb'} & sys.modules.keys()"
    )
    environment = {**os.environ, "BACKFILL_LAKEHOUSE": three_days.lakehouse.storage.root}
    done = subprocess.run([sys.executable, "-c", check], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "bronze_sales" in done.stdout and str(FIRST) in done.stdout


def test_people_see_a_table_once_and_a_pipe_in_every_line_about_it(three_days: Backfill) -> None:
    output = three_days("status").output
    assert output.count("\nbronze_sales\t") == 4, "one of them is what it lacks"
    with terminal(100):
        assert three_days("status").output.count("│ bronze_sales ") == 2


def test_named_tables_are_reported_day_by_day(three_days: Backfill) -> None:
    """With what the log knows of each day; each table once, and no other. A typo gets the nearest: names are long."""
    bronze = three_days.json("status", "bronze_sales", "--days", f"{SECOND}..{THIRD}")["bronze_sales"]
    second, third = bronze["days"]
    assert second == {
        "day": str(SECOND),
        "status": "stale: version not declared",
        "rows": 1,
        "code": "v0",
        "publication": f"bronze-{SECOND}",
        "checksum": "2",
    }
    assert (third["status"], third["publication"]) == ("missing", "")
    found = three_days.json("status", "bronze_sales", "raw_sales", "bronze_sales")
    assert set(found) - {"rejected", "notes"} == {"bronze_sales", "raw_sales", "tables"}
    assert {row["table"] for row in found["tables"]} == {"bronze_sales", "raw_sales"}
    assert "Did you mean raw_sales?" in three_days("status", "bronze_sales", "raw_sale", exit_code=1).stderr


def test_late_rows_and_foreign_writes_show_at_once(three_days: Backfill) -> None:
    """Without a build, and without reading data."""
    three_days.lakehouse.publish("late", {"raw_sales": {FIRST: [9]}}, mode="append")
    three_days.lakehouse.write_past_the_protocol("quarantine_sales", FIRST, [4])
    tables = three_days.statuses("--days", FIRST)
    assert set(tables["bronze_sales"]) == {"stale: late rows"}
    assert set(tables["quarantine_sales"]) == {"foreign write"}
    assert set(tables["raw_sales"]) == {"fresh"}


def test_what_is_under_way_and_what_is_damaged_is_named_and_changes_no_status(three_days: Backfill) -> None:
    """Days are what the last closed entry says; status only looks, it finishes nothing."""
    before = three_days.statuses()
    rows = {"bronze_sales": {FIRST: [5]}, "quarantine_sales": {FIRST: [6]}}
    three_days.lakehouse.crash("dead", rows, at=CrashPoint.TABLE_COMMITTED)
    storage, plan = three_days.lakehouse.storage, "plan-0123456789abcdef"
    keep_plan(storage, plan, '{"steps": [{"reb')
    begin(storage, plan)
    assert three_days.json("status")["under_way"] == ["dead"] and three_days.statuses() == before
    of_any_table = three_days.json("status", "raw_sales")[plan.replace("-", "_")]
    assert f"_plans/{plan}.json is damaged" in of_any_table["damage"]


def test_a_field_that_is_not_declared_is_named(three_days: Backfill) -> None:
    """With since when, in which share of rows, and an example; of the days that are asked about."""
    fields = as_text([FieldRows(DriftKind.UNDECLARED, "loyalty_tier", 1, "gold")])
    lake = three_days.lakehouse
    lake.metrics = {"raw_sales": {"received": 2, FIELDS: fields}}
    lake.publish("drifted", {"raw_sales": {SECOND: [2, 5], THIRD: [3, 6]}})
    lake.metrics = {}
    (found,) = three_days.json("status", "bronze_sales")["drift"]
    assert (found["table"], found["field"], found["how"]) == ("raw_sales", "loyalty_tier", "is not declared")
    assert (found["since"], found["days"], found["share"], found["example"]) == (str(SECOND), 2, "0.5", "gold")
    assert "drift" not in three_days.json("status", "--days", FIRST)
    assert "loyalty_tier" in three_days("status").output


def test_days_that_are_asked_for_are_missing_where_nothing_was_published(backfill: Backfill) -> None:
    assert backfill.statuses("--days", FIRST)["raw_sales"] == {"missing": [str(FIRST)]}


def test_what_published_days_lack_is_said_with_its_share_and_commonest_reason(backfill: Backfill) -> None:
    """Their gates passed: a few rejected rows are tolerated, and what was sold on these lines is in no report."""
    lakehouse = LakehouseOfReasons(backfill.home / "lakehouse")
    lakehouse.metrics = {"quarantine_sales": {"from.raw_sales.received": 3_286}}
    for day, rejected in ((FIRST, 30), (SECOND, 0), (THIRD, 2)):
        lakehouse.publish(f"bronze-{day}", {"bronze_sales": {day: [1]}, "quarantine_sales": {day: range(rejected)}})
    (row,) = backfill.json("status")["rejected"]
    assert row == {
        "table": "bronze_sales",
        "received": 9_858,
        "rejected": 32,
        "share": str(Decimal(32) / 9_858),
        "days": [str(FIRST), str(THIRD)],
        "worst_day": str(FIRST),
        "commonest_reason": "quantity: is not a bigint",
    }
    assert "backfill raw quarantine quarantine_sales 2017-03-01" in backfill("status").output
    assert backfill.json("status", "fact_daily_revenue")["rejected"] == [row], "it is made of what lacks them"
    assert "rejected" not in backfill.json("status", "bronze_fx_rates")
    (row,) = backfill.json("status", "--days", f"{SECOND}..{THIRD}")["rejected"]
    assert (row["rejected"], row["received"], row["worst_day"]) == (2, 6_572, str(THIRD))
    assert "rejected" not in backfill.json("status", "--days", SECOND)


def test_lacking_rows_are_said_of_files_that_cannot_be_read_too(backfill: Backfill) -> None:
    """Without the reason: what is in the log is known."""
    lakehouse = LakehouseOfReasons(backfill.home / "lakehouse")
    lakehouse.publish("bronze", {"bronze_sales": {FIRST: [1]}, "quarantine_sales": {FIRST: [1, 2]}})
    for file in (backfill.home / "lakehouse" / "quarantine_sales").rglob("*.parquet"):
        file.unlink()
    (row,) = backfill.json("status")["rejected"]
    assert (row["table"], row["rejected"], row["share"], row["commonest_reason"]) == ("bronze_sales", 2, None, "")
