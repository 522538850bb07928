"""``backfill diff`` shows what approving a plan would change: as tables, JSON and a page, with an exit code."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from backfill_assets.difference import find
from backfill_assets.difference.verdict import Difference, difference_of
from backfill_assets.lakehouse.campaign_journal import JournalEntry, campaign_of, write
from backfill_assets.lakehouse.campaign_reports import BegunReport
from backfill_assets.lakehouse.plans import kept_plan, plan_ids
from backfill_assets.plan.expectations import Expectation
from backfill_assets.plan.records import Plan
from backfill_assets.rebuild.lake import Lake
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.difference.compared_month import MADE, a_day, a_sample, by, month

FIRST = date(2017, 3, 1)


def planned(backfill: Backfill, *expected: str) -> str:
    """The id of a plan of one day of bronze; it is stopped, because the tables of this lakehouse lack columns."""
    backfill.lakehouse.publish("raw", {"raw_sales": {FIRST: [1]}})
    backfill.lakehouse.publish("bronze", {name: {FIRST: [1]} for name in ("bronze_sales", "quarantine_sales")})
    words = [word for text in expected for word in ("--expect", text)]
    return str(backfill.json("plan", "bronze_sales", "--days", FIRST, *words, exit_code=1)["plan"])


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The difference that is kept is what is found again: no Spark is started."""
    monkeypatch.setattr(
        find, "find_difference", lambda lake, plan, *_, **known: find.last_difference(lake.storage, plan.id)
    )


def keep(backfill: Backfill, id: str, *after: str) -> Difference:
    """A difference of the plan, whose days begin in March, as another process has found it."""
    plan = Plan.from_json(kept_plan(backfill.lakehouse.storage, id), id=id)
    days = [a_day(date(2017, 3, n), text) for n, text in enumerate(after, start=1)]
    table = month(0, (by("department", ("MEAT", 3)),), table="bronze_sales", days=days, sample=a_sample(12))
    found = difference_of(plan, [table], log_entry=7, made_at=MADE)
    find.keep_difference(backfill.lakehouse.storage, found)
    return found


def test_a_broken_expectation_is_reported_and_fails(backfill: Backfill, kept: None) -> None:
    """With the day and by how much; scripts go by the exit code. The status of the plan has it too."""
    id = planned(backfill, "everything unchanged", "rows unchanged")
    found = keep(backfill, id, "100", "99")
    told = backfill("diff", id, "--json", exit_code=1)
    assert "1 of 2 expectations is not met." in backfill("diff", id, exit_code=1).output
    shown = json.loads(told.stdout)
    assert found.sentence in told.stdout
    assert [(row["expected"], row["outcome"]) for row in shown["expected"]] == [
        ("everything unchanged", "not met"),
        ("rows unchanged", "met"),
    ]
    assert "bronze_sales 2017-03-02: 3 rows would differ" in str(shown["expected"][0]["where_not"])
    assert shown["by_table"]["bronze_sales"]["title"].endswith(": revenue eur -0.50 % on 1 of 2 days.")
    assert backfill.json("status", id)["difference"]["expected"] == shown["expected"]
    assert plan_ids(backfill.lakehouse.storage) == [id], "what is kept beside plans is not one of them"


def test_a_kept_difference_that_cannot_be_read_is_found_again(
    backfill: Backfill, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another version of the code may have kept it: what it says is not needed, and is replaced."""
    id = planned(backfill)
    found, knew = keep(backfill, id, "100"), list[object]()
    backfill.lakehouse.storage.write_bytes(f"_plans/{id}.difference.json", b'{"of": "later"}')

    def find_again(lake: Lake, plan: Plan, *_: object, known: object) -> Difference:
        knew.append(known)
        find.keep_difference(lake.storage, found)
        return found

    monkeypatch.setattr(find, "find_difference", find_again)
    assert found.sentence in backfill("diff", id).output and knew == [()]
    assert found.sentence in backfill("diff", id).output and knew[1] == found.tables


def test_pages_are_written_where_they_are_wanted_and_link_to_the_ui_that_runs(
    backfill: Backfill, tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch, kept: None
) -> None:
    """Below the home without a name. To no UI once it is gone, or before Dagster carries the campaign out."""
    id, page = planned(backfill), tmp_path / "deep" / "own.html"
    sentence = keep(backfill, id, "100").sentence
    result = backfill("diff", id, "--html")
    default = backfill.home / "differences" / f"{id}.html"
    assert f"Written: {default}" in result.stderr and sentence in result.stdout
    address = f"http://127.0.0.1:{port}"
    monkeypatch.setenv("BACKFILL_UI", address)
    backfill("diff", id, "--html", page)
    assert page.read_text() == default.read_text() and "in the UI" not in page.read_text()
    started = JournalEntry(kind="started", report=BegunReport(daemon=True), at=MADE)
    write(backfill.lakehouse.storage, campaign_of(id), started)
    backfill("diff", id, "--html", page)
    assert f'href="{address}/assets/campaign?' in page.read_text()
    monkeypatch.setenv("BACKFILL_UI", "http://127.0.0.1:1")
    backfill("diff", id, "--html", page)
    assert "in the UI" not in page.read_text()


def test_what_cannot_be_shown(backfill: Backfill) -> None:
    """No plan, nothing staged: each with what to do. What is of two states is not asked of a plan."""
    id = planned(backfill)
    assert "There is no plan" in backfill("diff", "plan-0123456789abcdef", exit_code=1).stderr
    assert f"-> backfill run {id}" in backfill("diff", id, exit_code=1).stderr
    assert "are about two states" in backfill("diff", id, "--table", "bronze_sales", exit_code=2).stderr
    assert "about one publication" in backfill("diff", "bronze", "recomputed", "--html", exit_code=2).stderr


def test_expectations_are_read_when_the_plan_is_made(backfill: Backfill) -> None:
    """A typo is refused before anything is kept; the plan shows what it expects."""
    id = planned(backfill, "rows < 3% a day")
    assert backfill.json("plan", id, exit_code=1)["expected"] == ["rows < 3% a day"]
    kept = Plan.from_json(kept_plan(backfill.lakehouse.storage, id), id=id)
    assert kept.expectations == (Expectation.parse("rows < 3% a day"),)
    asked = ("plan", "bronze_sales", "--days", FIRST, "--expect")
    assert "is no expectation" in backfill(*asked, "rows should stay", exit_code=1).stderr
    assert "'revenue_eur' is no measure" in backfill(*asked, "revenue_eur < 2%", exit_code=1).stderr
    assert plan_ids(backfill.lakehouse.storage) == [id]
    assert "plan again" in backfill("plan", id, "--expect", "rows unchanged", exit_code=2).stderr
