"""The beginning of an id is enough wherever one is typed; several that begin so are named."""

from __future__ import annotations

from datetime import date

import pytest

from backfill_assets.cli.ids import ShortIds, distinguishing_part, is_whole, matching
from backfill_assets.lakehouse.named_timelines import create_timeline
from backfill_assets.lakehouse.plans import keep_plan
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.cli.golden import PLAN, TIMELINE

DAY = date(2017, 3, 1)
TABLE = "fact_daily_revenue"
FIRST, SECOND = "20170601t120100-fact-daily-revenue-1a2b3c4d", "20170601t120200-fact-daily-revenue-1a2b3fff"
HASH = PLAN.id.removeprefix("plan-")
UNDO = "rollback-20170301t112000-1a2b3c"


def test_the_hash_distinguishes_an_id() -> None:
    parts = {
        "plan-0123456789abcdef": "0123456789abcdef",
        "campaign-0123456789abcdef": "0123456789abcdef",
        FIRST: "1a2b3c4d",
        UNDO: "1a2b3c",
        "timeline-20170601t121000-0a1b2c3d": "0a1b2c3d",
        "20170601t120100-campaign-0123456789abcdef-1a2b3c4d": "1a2b3c4d",
        "before-v1": "",
        "bronze-2017-03-01": "",
    }
    assert {id: distinguishing_part(id) for id in parts} == parts
    assert {id for id in parts if is_whole(id)} == {id for id, part in parts.items() if part}


def test_an_id_is_shown_with_seven_characters_or_as_many_as_it_takes() -> None:
    show = ShortIds([FIRST, SECOND, "20170601t120300-raw-sales-1a2b3c4e", UNDO, "plan-0123456789abcdef"])
    assert show(SECOND) == "1a2b3ff"
    assert show(FIRST) == "1a2b3c4d", "seven are those of another one, too"
    assert show("plan-0123456789abcdef") == "plan-0123456"
    assert show("first") == "first", "what has no hash is whole"
    assert ShortIds([UNDO])(UNDO) == "1a2b3c"
    assert ShortIds([UNDO, FIRST])(UNDO) == UNDO, "its six are the beginning of another one"


def test_a_shown_id_means_itself() -> None:
    known = [FIRST, SECOND, UNDO, "20170601t120300-raw-sales-20170601", "plan-2017060189abcdef"]
    show = ShortIds(known)
    assert [matching(show(id), known) for id in known] == [[id] for id in known]


@pytest.fixture
def two(backfill: Backfill) -> Backfill:
    backfill.lakehouse.publish(FIRST, {TABLE: {DAY: [1]}})
    backfill.lakehouse.publish(SECOND, {TABLE: {DAY: [2, 3]}})
    return backfill


def test_publications_are_found_by_their_beginning(two: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
    """To look back, to read positions, to undo, to rewind and to compare. Several that begin so are named."""
    monkeypatch.setenv("BACKFILL_ROLLBACK_WINDOW_DAYS", "100000")
    for typed in ("1a2b3c", "20170601t1201", FIRST):
        assert two.json("show", TABLE, DAY, "--at", typed)["publication"] == FIRST
    assert two.json("raw", "positions", TABLE, "1a2b3c")["version"] == 1
    assert two.json("timeline", "rewind", TABLE, "--to", "1a2b3c", "--as", "back")["moment"] == f"publication {FIRST}"
    two("timeline", "create", "based", "--at", "1a2b3c")
    assert two.json("rollback", "1a2b3f", "--dry-run")["rolls_back"] == SECOND
    refused = two("show", TABLE, DAY, "--at", "1a2b", exit_code=1).stderr
    assert FIRST in refused and SECOND in refused and "Type more characters" in refused
    assert "no publication '1a2'" in two("show", TABLE, DAY, "--at", "1a2", exit_code=1).stderr


def test_plans_are_found_by_their_beginning_and_by_their_campaign(backfill: Backfill) -> None:
    keep_plan(backfill.lakehouse.storage, PLAN.id, PLAN.to_json())
    for typed in (HASH[:8], f"plan-{HASH[:4]}", f"campaign-{HASH[:6]}", PLAN.id):
        assert backfill.json("status", typed)["plan"] == PLAN.id
    assert f"Nothing of {PLAN.id} is staged" in backfill("approve", HASH[:8], exit_code=1).stderr
    assert f"Nothing of {PLAN.id} is staged" in backfill("diff", HASH[:8], exit_code=1).stderr
    assert PLAN.id in backfill("plan", HASH[:8], exit_code=1).stdout
    for typed in (f"plan-{HASH[:4]}", f"campaign-{HASH[:6]}", PLAN.id):
        refused = backfill("timeline", "show", typed, exit_code=1).stderr
        assert f"no open campaign '{PLAN.id}'" in refused and "campaign-" not in refused
        refused = backfill("timeline", "keep", typed, "--fresh", exit_code=1).stderr
        assert f"{PLAN.id} is a campaign: only the campaign changes it" in refused


def test_a_plan_that_is_not_there_is_said_to_be_missing_with_those_near_it(backfill: Backfill) -> None:
    """Not taken for a table that lacks its days."""
    refused = backfill("run", "plan-nosuch", exit_code=1).stderr
    assert "There is no plan 'plan-nosuch'" in refused and "No plan was made yet" in refused
    keep_plan(backfill.lakehouse.storage, PLAN.id, PLAN.to_json())
    assert f"Plans: plan-{HASH[:7]}." in backfill("run", "plan-nosuch", exit_code=1).stderr
    mistyped = f"plan-{HASH[:5]}{'0' if HASH[5] != '0' else '1'}{HASH[6:8]}"
    assert f"Did you mean plan-{HASH[:7]}?" in backfill("run", mistyped, exit_code=1).stderr
    assert "a plan: a kept plan" in backfill("run", HASH[:7], "--days", DAY, exit_code=2).stderr
    assert "carried out alone" in backfill("run", f"plan-{HASH[:7]}", TABLE, exit_code=2).stderr


def test_a_timeline_is_read_by_the_beginning_of_its_name_and_changed_only_by_all_of_it(two: Backfill) -> None:
    """When it is gone, its name must not mean the next one. The hash of its id means it alone."""
    create_timeline(two.lakehouse.storage, TIMELINE.model_copy(update={"name": "before-v2"}))
    for typed in ("befo", "0a1b2c3"):
        assert two.json("timeline", "show", typed)["timeline"] == "before-v2"
    assert "Did you mean before-v2?" in two("timeline", "delete", "before", "--yes", exit_code=1).stderr
    two("timeline", "keep", "0a1b2c3", "after")
    two("timeline", "delete", "0a1b2c3", "--yes")
    assert two.json("timeline", "list")["timelines"] == []
