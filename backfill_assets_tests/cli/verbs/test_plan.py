"""``backfill plan`` says what a rebuild would do, keeps it under its id, and reports when it has moved."""

from __future__ import annotations

import json
from datetime import date

from backfill_assets.lakehouse.plans import kept_plan, plan_ids
from backfill_assets.plan.records import Plan
from backfill_assets_tests.begun_campaign import begin, give_up
from backfill_assets_tests.cli.command import Backfill, built_once

FIRST, SECOND = date(2017, 3, 1), date(2017, 3, 2)


@built_once
def published(backfill: Backfill) -> None:
    """Two days of raw, and bronze of them: the first as it should be, the second by older code."""
    backfill.lakehouse.publish("raw", {"raw_sales": {FIRST: [1], SECOND: [2]}})
    for day, row, code in ((FIRST, 1, "v1"), (SECOND, 2, "v0")):
        backfill.publish_bronze(f"bronze-{day}", day, row, code)


def test_a_plan_is_reported_and_kept_and_says_what_has_moved(published: Backfill) -> None:
    """As Markdown and as JSON: the same plan, with the same id. These tables lack their columns: it stops."""
    asked = ("plan", "bronze_sales", "--days", f"{FIRST}..{SECOND}")
    told = published.json(*asked, exit_code=1)
    assert told["stopped"] and any(each["text"].startswith("stops: ") for each in told["notes"])
    bronze = told["steps"][0]
    assert bronze["table"] == ["bronze_sales", "quarantine_sales"]
    assert (bronze["why"], bronze["skipped"]) == ({"version not declared": [str(SECOND)]}, [str(FIRST)])
    steps = [each["step"] for each in told["times"]]
    assert steps[0] == "spark started" and steps[-1] == "together"
    page = published(*asked, "--markdown", exit_code=1).output
    assert page.startswith(f"## {told['title']}") and "| bronze_sales; quarantine_sales | 1 |" in page
    storage, id = published.lakehouse.storage, told["plan"]
    assert plan_ids(storage) == [id]
    assert Plan.from_json(kept_plan(storage, id), id=id).rebuilds["bronze_sales"] == (SECOND,)
    assert published.json("plan", id, exit_code=1)["moved"] == []
    published.lakehouse.publish("late", {"raw_sales": {SECOND: [9]}}, mode="append")
    (moved,) = published.json("plan", id, exit_code=1)["moved"]
    assert moved == "raw_sales: 1 day that the plan reads moved: 2017-03-02 (version 1 -> 2)"


def test_an_open_plan_is_reported_to_the_next_and_to_readers_until_it_is_over(published: Backfill) -> None:
    """Two people at the same days learn of each other. A person who wonders about a number looks at the status."""
    asked = ("plan", "bronze_sales", "--days", SECOND)
    storage, id = published.lakehouse.storage, published.json(*asked, exit_code=1)["plan"]
    section = id.replace("-", "_")
    assert section not in published.json("status")
    begin(storage, id)
    notes = published.json(*asked, exit_code=1)["notes"]
    assert any(f"{id} is being carried out and rebuilds bronze_sales on {SECOND}" in each["text"] for each in notes)
    found = published.json("status", "bronze_sales")[section]
    assert found["plan"] == id and "bronze_sales" in found["tables"]
    assert section not in published.json("status", "raw_fx_rates"), "readers of other tables are not bothered"
    give_up(storage, id)
    assert section not in published.json("status")


def test_a_plan_that_was_removed_while_it_is_open_hides_nothing_and_stops_no_other(published: Backfill) -> None:
    """Nor does one that other code has kept. Its days are not known any more; what is published is."""
    asked, storage = ("plan", "bronze_sales", "--days", SECOND), published.lakehouse.storage
    removed = published.json(*asked, exit_code=1)["plan"]
    begin(storage, removed)
    storage.delete(f"_plans/{removed}.json")
    assert published.json("status")[removed.replace("-", "_")]["plan"] == removed
    assert "fresh" in published.statuses()["raw_sales"]
    storage.write_bytes("_plans/plan-0123456789abcdef.json", b'{"of other code": 1}')
    begin(storage, "plan-0123456789abcdef")
    assert published.json(*asked, exit_code=1)["plan"] == removed


def test_nothing_to_do_is_no_failure_and_what_was_typed_wrong_is_one(published: Backfill) -> None:
    asked = ("plan", "bronze_sales", "--days", FIRST)
    assert "nothing to rebuild" in published(*asked, "--scope", "downstream").output
    published("plan", "bronze_sales", exit_code=2)
    published(*asked, "--scope", "all", exit_code=2)
    assert "Did you mean bronze_sales?" in published("plan", "bronze_sale", "--days", FIRST, exit_code=1).stderr
    unknown = published(*asked, "--version", "v9", "--json", exit_code=2)
    found = json.loads(unknown.stderr)
    assert (found["error"], found["exit_code"]) == ("bronze_sales has no version 'v9'.", 2) and "v1" in found["hint"]
    assert len(plan_ids(published.lakehouse.storage)) == 1, "a plan that was refused is not kept"
    assert "There is no plan" in published("plan", "plan-0123456789abcdef", exit_code=1).stderr


def test_a_plan_from_the_sources_on_has_the_days_that_are_looked_back_to(backfill: Backfill) -> None:
    """Sunday's facts need the rates of Friday, which were never built."""
    backfill.land_a_sunday()
    told = backfill.json("plan", "fact_sales_transactions", "--scope", "whole", "--days", "2017-03-05")
    rebuilt = {step["table"][0]: step["why"] for step in told["steps"]}
    assert rebuilt["bronze_fx_rates"] == {"missing": ["2017-03-03..2017-03-05"]}
