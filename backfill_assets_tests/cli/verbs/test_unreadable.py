"""A table whose Delta log has lost a commit: all others are answered for, it is named, and one command mends it."""

from __future__ import annotations

from pathlib import Path

import pytest

from backfill_assets_tests.cli.command import Backfill, built_once
from backfill_assets_tests.cli.verbs.test_status import FIRST, SECOND

MEND = "backfill maintain --mend quarantine_sales"


@built_once
def broken(backfill: Backfill) -> None:
    """The newest commit but one of a table is gone."""
    backfill.lakehouse.publish("raw", {"raw_sales": {FIRST: [1], SECOND: [2]}})
    for day, row in ((FIRST, 1), (SECOND, 2)):
        backfill.publish_bronze(f"bronze-{day}", day, row, "v1")
    _commits(backfill)[-2].unlink()


def _commits(backfill: Backfill) -> list[Path]:
    return sorted(Path(backfill.lakehouse.storage.root, "quarantine_sales", "_delta_log").glob("*.json"))


def test_others_are_answered_for_and_it_is_named(broken: Backfill) -> None:
    """What is built with it, or of it, is not decided about."""
    tables = broken.statuses()
    assert tables["raw_sales"] == {"fresh": [f"{FIRST}..{SECOND}"]}
    assert tables["quarantine_sales"] == {"cannot be read": [f"{FIRST}..{SECOND}"]}
    assert tables["bronze_sales"] == {"not known: quarantine_sales cannot be read": [f"{FIRST}..{SECOND}"]}
    assert MEND in broken("status").output
    assert broken("status", "raw_sales").output.count(MEND) == 0
    assert MEND in broken("status", "quarantine_sales", exit_code=1).output
    assert "00000000000000000001.json is gone or damaged" in broken("doctor", exit_code=1).output
    assert MEND in broken("doctor", exit_code=1).output


def test_each_command_about_others_answers(broken: Backfill) -> None:
    assert "bronze-2017-03-01" in broken("history").output
    assert "fresh" in broken("show", "raw_sales", FIRST).output
    assert "not known: quarantine_sales cannot be read" in broken("show", "bronze_sales", FIRST).output
    assert "none has a stale day" in broken("status", "stale:", exit_code=1).stderr
    assert "raw_fx_rates" in broken("run", "raw_fx_rates", "--days", FIRST, "--dry-run").output
    planned = broken("plan", "raw_fx_rates", "--days", FIRST, exit_code=1).output
    assert "Nothing has landed for fx_rates" in planned


@pytest.mark.parametrize("verb", ["show", "run", "plan"])
def test_a_command_about_it_names_what_mends_it(broken: Backfill, verb: str) -> None:
    """Also about what is made of it."""
    asked = {"show": ["quarantine_sales", FIRST], "run": ["fact_sales_transactions", "--days", FIRST]}
    asked["plan"] = ["fact_sales_transactions", "--days", FIRST]
    assert MEND in broken(verb, *asked[verb], exit_code=1).stderr


def test_it_is_mended_once_it_was_shown(broken: Backfill) -> None:
    commits = _commits(broken)
    shown = broken("maintain", "--mend", "quarantine_sales", "--dry-run").output
    assert "bronze-2017-03-01" in shown and _commits(broken) == commits
    assert "can be read again" in broken("maintain", "--mend", "quarantine_sales", "--yes").output
    assert broken.statuses()["bronze_sales"] == {"fresh": [f"{FIRST}..{SECOND}"]}
    assert "nothing to mend" in broken("maintain", "--mend", "quarantine_sales", "--yes").output
    assert "each Delta log can be read" in broken("doctor", exit_code=1).output, "there is no token key here"


def test_a_log_that_is_gone_is_no_table_that_was_never_built(broken: Backfill) -> None:
    """A run would begin it anew, and call all that was published a foreign write."""
    for file in (*_commits(broken),):
        file.unlink()
    assert MEND in broken("status", "quarantine_sales", exit_code=1).output
    broken("maintain", "--mend", "quarantine_sales", "--yes")
    assert broken.statuses()["quarantine_sales"] == {"fresh": [f"{FIRST}..{SECOND}"]}
