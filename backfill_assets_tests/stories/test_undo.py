"""A campaign is undone: in a second where nothing moved, by the old logic where rows came since; and brought back."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from click.testing import CliRunner, Result

from backfill_assets.cli import main
from backfill_assets.days import Cadence
from backfill_assets_tests.stories.landed_lines import land_lines
from backfill_assets_tests.stories.staged_campaign import DAYS, FACT, TABLES
from backfill_assets_tests.stories.test_shadow import LATE_DAY, checksums, cut, staged
from backfill_assets_tests.workshop import Workshop

CAMPAIGN = "campaign-0123456789abcdef"
PLAN = "plan-0123456789abcdef"


def test_undone_brought_back_and_undone_with_the_rows_that_came_since(
    wrong: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No day moved: no Spark, and readers see the old tables. Then a late row comes and is built by the new logic."""
    monkeypatch.setenv("BACKFILL_HOME", str(wrong.settings.home))
    old = checksums(wrong)
    staged(wrong, CAMPAIGN)
    cut(wrong, CAMPAIGN)
    new = checksums(wrong)

    plan = told("rollback", PLAN, "--dry-run")
    assert {day["what"] for day in plan["days"]} == {"put back"} and plan["seconds"] == 0
    assert checksums(wrong) == new
    started = time.monotonic()
    undone = told("rollback", CAMPAIGN, "--yes")
    print(f"put {len(plan['days'])} days and periods back in {time.monotonic() - started:.2f} s")
    assert checksums(wrong) == old
    refused = backfill("rollback", CAMPAIGN, "--yes")
    assert refused.exit_code == 1 and f"{undone['publication']} did it" in refused.stderr
    told("rollback", undone["publication"], "--yes")
    assert checksums(wrong) == new

    land_lines(wrong.settings.landing, DAYS.last, "late", 1, {"transaction_timestamp": f"{LATE_DAY}T10:00:00Z"})
    wrong.build_all(DAYS, "v2")

    plan = told("rollback", CAMPAIGN, "--dry-run")
    staged_again = [row for row in plan["days"] if row["what"] == "stage again"]
    again = {(row["table"], day): row["by"] for row in staged_again for day in row["which_days"]}
    week, month = Cadence.WEEKLY.period(LATE_DAY).first, Cadence.MONTHLY.period(LATE_DAY).first
    assert again.keys() == {
        (FACT, str(LATE_DAY)),
        ("fact_daily_revenue", str(LATE_DAY)),
        ("report_department_revenue", str(LATE_DAY)),
        ("report_store_ranking", str(week)),
        ("report_monthly_close", str(month)),
    }
    assert again[FACT, str(LATE_DAY)] == "v1" and plan["seconds"] > 0
    undone = told("rollback", PLAN, "--yes")
    assert len(wrong.read(FACT)) == len(wrong.read("bronze_sales"))
    states = {table: wrong.states(table) for table in TABLES}
    now = checksums(wrong)
    moved = {(table, str(day)) for table in TABLES for day in now[table] if old[table][day] != now[table][day]}
    assert moved == again.keys()
    assert {state.publication for state in states["report_store_ranking"].values()} == {undone["publication"]}
    sessions = wrong.sessions
    wrong.build_all(DAYS, "v1")
    wrong.build_reports(DAYS)
    assert wrong.sessions == sessions, "everything is just what the old logic gives of the rows that there are"


def told(*words: str) -> dict[str, Any]:
    result = backfill(*words, "--json")
    assert result.exit_code == 0, result.output + result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def backfill(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))
