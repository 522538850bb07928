"""``backfill plan`` says what a rebuild would do, keeps it under its id, and reports when it has moved."""

from __future__ import annotations

import json
from datetime import date

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.plans import close_plan, kept_plan, open_plan, plan_ids
from backfill_assets.plan.records import Plan
from backfill_assets.rebuild import decide
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.strategies.landed_sales import land

FIRST, SECOND = date(2017, 3, 1), date(2017, 3, 2)


def _publish(backfill: Backfill) -> None:
    """Two days of raw, and bronze of them: the first as it should be, the second by older code."""
    backfill.lakehouse.publish("raw", {"raw_sales": {FIRST: [1], SECOND: [2]}})
    step = CATALOG.step("bronze_sales")
    for day, id, code in ((FIRST, 1, "v1"), (SECOND, 2, "v0")):
        inputs = decide.wanted(step, step.version(), [day], {"raw_sales": {day: f"1:{id}"}})[day].inputs
        rows = {"bronze_sales": {day: [id]}, "quarantine_sales": {day: [id]}}
        backfill.lakehouse.publish(f"bronze-{day}", rows, code=code, inputs={day: inputs})


def test_a_plan_is_reported_and_kept(backfill: Backfill) -> None:
    """As a table, as Markdown, as JSON: the same plan, with the same id. These tables lack their columns: it stops."""
    _publish(backfill)
    asked = ("plan", "bronze_sales", "--days", f"{FIRST}..{SECOND}")
    told = backfill.json(*asked, exit_code=1)
    assert told["stopped"] and any(each["text"].startswith("stops: ") for each in told["notes"])
    bronze = told["steps"][0]
    assert bronze["table"] == ["bronze_sales", "quarantine_sales"]
    assert (bronze["why"], bronze["skipped"]) == ({"code changed": [str(SECOND)]}, [str(FIRST)])
    output = backfill(*asked, exit_code=1).output
    assert told["plan"] in output and "code changed 2017-03-02" in output and "no earlier publication" in output
    assert "shadow backfilled\tunknown" in output
    steps = [each["step"] for each in told["times"]]
    assert steps[0] == "spark started" and steps[-1] == "together"
    page = backfill(*asked, "--markdown", exit_code=1).output
    assert page.startswith(f"## {told['title']}") and "| bronze_sales; quarantine_sales | 1 |" in page
    assert plan_ids(backfill.lakehouse.storage) == [told["plan"]]
    kept = Plan.from_json(kept_plan(backfill.lakehouse.storage, told["plan"]), id=told["plan"])
    assert kept.rebuilds["bronze_sales"] == (date(2017, 3, 2),)


def test_a_kept_plan_says_what_has_moved(backfill: Backfill) -> None:
    """The days that did, and nothing else; the exit code is for scripts."""
    _publish(backfill)
    id = backfill.json("plan", "bronze_sales", "--days", f"{FIRST}..{SECOND}", exit_code=1)["plan"]
    assert backfill.json("plan", id, exit_code=1)["moved"] == []
    backfill.lakehouse.publish("late", {"raw_sales": {SECOND: [9]}}, mode="append")
    (moved,) = backfill.json("plan", id, exit_code=1)["moved"]
    assert moved == "raw_sales: 1 day that the plan reads moved: 2017-03-02 (version 1 -> 2)"
    assert "moved\traw_sales" in backfill("plan", id, exit_code=1).output


def test_open_plans_are_reported_to_the_next(backfill: Backfill) -> None:
    """Two people at the same days learn of each other before anything is done."""
    _publish(backfill)
    asked = ("plan", "bronze_sales", "--days", SECOND)
    id = backfill.json(*asked, exit_code=1)["plan"]
    open_plan(backfill.lakehouse.storage, id)
    assert f"{id} is being carried out and rebuilds bronze_sales on {SECOND}" in backfill(*asked, exit_code=1).output


def test_readers_see_that_a_campaign_is_under_way_on_their_tables_until_it_is_over(backfill: Backfill) -> None:
    """A person who wonders about a number looks at the status; other tables' readers are not bothered."""
    _publish(backfill)
    id = backfill.json("plan", "bronze_sales", "--days", SECOND, exit_code=1)["plan"]
    section = id.replace("-", "_")
    assert section not in backfill.json("status")
    open_plan(backfill.lakehouse.storage, id)
    found = backfill.json("status", "bronze_sales")[section]
    assert found["plan"] == id and "bronze_sales" in found["tables"]
    assert "A campaign is under way" in backfill("status").output
    assert "A campaign is under way" not in backfill("status", "raw_fx_rates").output
    close_plan(backfill.lakehouse.storage, id)
    assert "A campaign is under way" not in backfill("status").output


def test_a_campaign_whose_plan_was_removed_does_not_hide_the_status(backfill: Backfill) -> None:
    """Its days are not known any more; what is published is."""
    _publish(backfill)
    id = backfill.json("plan", "bronze_sales", "--days", SECOND, exit_code=1)["plan"]
    open_plan(backfill.lakehouse.storage, id)
    backfill.lakehouse.storage.delete(f"_plans/{id}.json")
    assert backfill.json("status")[id.replace("-", "_")]["plan"] == id
    assert "fresh" in backfill.statuses()["raw_sales"]


def test_a_plan_that_was_removed_while_it_is_open_stops_no_other(backfill: Backfill) -> None:
    """Nor one that other code has kept."""
    _publish(backfill)
    storage = backfill.lakehouse.storage
    removed = backfill.json("plan", "bronze_sales", "--days", SECOND, exit_code=1)["plan"]
    storage.delete(f"_plans/{removed}.json")
    storage.write_bytes("_plans/plan-0123456789abcdef.json", b'{"of other code": 1}')
    for id in (removed, "plan-0123456789abcdef"):
        open_plan(storage, id)
    assert backfill.json("plan", "bronze_sales", "--days", SECOND, exit_code=1)["plan"] == removed


def test_nothing_to_do_is_no_failure(backfill: Backfill) -> None:
    """Nothing that stops, nothing to rebuild: exit code 0."""
    _publish(backfill)
    assert "nothing to rebuild" in backfill("plan", "bronze_sales", "--days", FIRST, "--scope", "downstream").output


def test_what_was_typed_wrong(backfill: Backfill) -> None:
    """Before anything is looked at."""
    backfill("plan", "bronze_sales", exit_code=2)
    backfill("plan", "bronze_sales", "--days", FIRST, "--scope", "all", exit_code=2)
    assert "Did you mean bronze_sales?" in backfill("plan", "bronze_sale", "--days", FIRST, exit_code=1).stderr
    assert "There is no plan" in backfill("plan", "plan-0123456789abcdef", exit_code=1).stderr


def test_a_plan_from_the_sources_on_has_the_days_that_are_looked_back_to(backfill: Backfill) -> None:
    """Sunday's facts need the rates of Friday, which were never built."""
    friday = "2017-03-03"
    rate = {"currency": "USD", "rate_day": friday, "rate": "1.05", "updated_at": f"{friday}T15:00:00Z"}
    sale = {"store_id": "1", "transaction_timestamp": "2017-03-05T10:00:00Z"}
    for day, rates in ((friday, [rate]), ("2017-03-04", []), ("2017-03-05", [])):
        land(backfill.home / "landing", "fx_rates", day, "rates", rates)
    land(backfill.home / "landing", "sales", "2017-03-05", "sales", [sale])
    told = backfill("plan", "fact_sales_transactions", "--scope", "whole", "--days", "2017-03-05", "--json").stdout
    rebuilt = {step["table"][0]: step["why"] for step in json.loads(told)["steps"]}
    assert rebuilt["bronze_fx_rates"] == {"missing": ["2017-03-03..2017-03-05"]}
