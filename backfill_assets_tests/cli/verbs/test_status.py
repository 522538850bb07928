"""``backfill status`` shows the truth about every table and day, for people and for scripts."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import date
from decimal import Decimal

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.plans import keep_plan, open_plan
from backfill_assets.publish.publisher import CrashPoint
from backfill_assets.rebuild import decide
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.cli.terminal import terminal
from backfill_assets_tests.small_lakehouse import LakehouseOfReasons

FIRST, SECOND, THIRD = date(2017, 3, 1), date(2017, 3, 2), date(2017, 3, 3)


def _publish_three_days(backfill: Backfill) -> None:
    """Raw for three days; bronze built from two of them, the second by older code."""
    backfill.lakehouse.publish("raw", {"raw_sales": {FIRST: [1], SECOND: [2], THIRD: [3]}})
    step = CATALOG.step("bronze_sales")
    version = step.version()
    for day, id, code in ((FIRST, 1, version.name), (SECOND, 2, "v0")):
        logicals = {"raw_sales": {day: f"1:{id}"}}
        inputs = decide.wanted(step, version, [day], logicals)[day].inputs
        rows = {"bronze_sales": {day: [id]}, "quarantine_sales": {day: [id]}}
        backfill.lakehouse.publish(f"bronze-{day}", rows, code=code, inputs={day: inputs})


def test_every_status_is_counted_and_located(backfill: Backfill) -> None:
    """Counts and ranges by status, per table, in build order."""
    _publish_three_days(backfill)
    tables = backfill.statuses()
    assert list(tables) == list(CATALOG.table_names)
    assert tables["raw_sales"] == {"fresh": [f"{FIRST}..{THIRD}"]}
    assert (
        tables["bronze_sales"]
        == tables["quarantine_sales"]
        == {"fresh": [str(FIRST)], "stale: code changed": [str(SECOND)], "missing": [str(THIRD)]}
    )
    assert tables["fact_daily_revenue"] == {"missing": [f"{FIRST}..{THIRD}"]}
    assert tables["raw_fx_rates"] == {"nothing published": []}


def test_pandas_is_not_imported_for_it(backfill: Backfill) -> None:
    """PyArrow imports pandas as soon as it makes a value or an expression: a fifth of what the command takes."""
    _publish_three_days(backfill)
    check = (
        "import sys\nfrom backfill_assets.cli import main\n"
        "main(['status'], standalone_mode=False)\n"
        "assert 'pyarrow' in sys.modules and not {'pandas', 'ibis', 'duckdb'} & sys.modules.keys()"
    )
    environment = {**os.environ, "BACKFILL_LAKEHOUSE": backfill.lakehouse.storage.root}
    done = subprocess.run([sys.executable, "-c", check], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "bronze_sales" in done.stdout and str(FIRST) in done.stdout


def test_people_see_ranges(backfill: Backfill) -> None:
    """The overview names each table once; on a pipe, in every line about it."""
    _publish_three_days(backfill)
    output = backfill("status").output
    assert output.count("\nbronze_sales\t") == 4, "one of them is what it lacks"
    with terminal(100):
        output = backfill("status").output
    assert output.count("│ bronze_sales ") == 2 and f"{FIRST}..{THIRD}" in output
    assert "stale: code changed" in output and "nothing published" in output


def test_one_table_is_reported_day_by_day(backfill: Backfill) -> None:
    """With what the log knows of each day."""
    _publish_three_days(backfill)
    output = backfill("status", "bronze_sales").output
    assert f"bronze-{FIRST}" in output and "raw_sales" not in output
    second, third = backfill.json("status", "bronze_sales", "--days", f"{SECOND}..{THIRD}")["bronze_sales"]["days"]
    assert second == {
        "day": str(SECOND),
        "status": "stale: code changed",
        "rows": 1,
        "code": "v0",
        "publication": f"bronze-{SECOND}",
        "checksum": "2",
    }
    assert (third["status"], third["publication"]) == ("missing", "")


def test_several_tables_are_reported_day_by_day(backfill: Backfill) -> None:
    """Each once, in the order of the command; the summary has them and no other."""
    _publish_three_days(backfill)
    found = backfill.json("status", "bronze_sales", "raw_sales", "bronze_sales")
    assert set(found) - {"rejected", "notes"} == {"bronze_sales", "raw_sales", "tables"}
    output = backfill("status", "bronze_sales", "raw_sales").output
    assert f"bronze-{FIRST}" in output and "raw_sales\n" in output and "quarantine_sales\t" not in output
    assert "Did you mean raw_sales?" in backfill("status", "bronze_sales", "raw_sale", exit_code=1).stderr


def test_late_rows_and_foreign_writes_show_at_once(backfill: Backfill) -> None:
    """Without a build, and without reading data."""
    _publish_three_days(backfill)
    backfill.lakehouse.publish("late", {"raw_sales": {FIRST: [9]}}, mode="append")
    backfill.lakehouse.write_past_the_protocol("quarantine_sales", FIRST, [4])
    tables = backfill.statuses("--days", FIRST)
    assert set(tables["bronze_sales"]) == {"stale: input changed"}
    assert set(tables["quarantine_sales"]) == {"foreign write"}
    assert set(tables["raw_sales"]) == {"fresh"}


def test_a_publication_under_way_is_reported_and_changes_no_status(backfill: Backfill) -> None:
    """Days are what the last closed entry says; status only looks, it finishes nothing."""
    _publish_three_days(backfill)
    before = backfill.statuses()
    rows = {"bronze_sales": {FIRST: [5]}, "quarantine_sales": {FIRST: [6]}}
    backfill.lakehouse.crash("dead", rows, at=CrashPoint.TABLE_COMMITTED)
    assert backfill.json("status")["under_way"] == ["dead"] and backfill.statuses() == before
    assert "finishes what a dead process left" in backfill("status").output


def test_a_damaged_plan_that_is_open_hides_nothing_else(backfill: Backfill) -> None:
    """It is named, and what is published is shown."""
    _publish_three_days(backfill)
    storage, plan = backfill.lakehouse.storage, "plan-0123456789abcdef"
    keep_plan(storage, plan, '{"steps": [{"reb')
    open_plan(storage, plan)
    assert set(backfill.statuses("raw_sales")["raw_sales"]) == {"fresh"}
    assert f"_plans/{plan}.json is damaged" in backfill.json("status", "raw_sales")[plan.replace("-", "_")]["damage"]
    assert "is damaged" in backfill("status").stdout


def test_a_typo_gets_the_nearest_table(backfill: Backfill) -> None:
    """Names are long."""
    assert "Did you mean fact_daily_revenue?" in backfill("status", "fact_daily_revenu", exit_code=1).stderr


def test_an_empty_lakehouse_is_no_error(backfill: Backfill) -> None:
    """The first thing a newcomer types."""
    assert "Nothing was published" in backfill("status").output
    assert backfill.statuses("--days", FIRST)["raw_sales"] == {"missing": [str(FIRST)]}
    assert not (backfill.home / "lakehouse").exists()


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
