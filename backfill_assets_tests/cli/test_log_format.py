"""With ``--log-format json`` standard error is lines of JSON alone, and standard output is as it was."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from datetime import date
from typing import Any

import pytest

from backfill_assets.publish import finish
from backfill_assets_tests.cli.command import Backfill

pytestmark = pytest.mark.data
"""They start processes."""
DAY = date(2017, 3, 1)


def _typed(*words: str, exit_code: int = 0, **more: str) -> tuple[str, list[dict[str, Any]]]:
    program = "from backfill_assets.cli import main; main()"
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **more})
    assert done.returncode == exit_code, done.stderr
    return done.stdout, [json.loads(line) for line in done.stderr.splitlines()]


def test_a_command_says_when_it_begins_what_it_does_and_how_it_ends(backfill: Backfill) -> None:
    backfill.lakehouse.publish("one", {"bronze_sales": {DAY: [1]}})
    backfill.lakehouse.publish("two", {"bronze_sales": {DAY: [1, 2]}})
    _, lines = _typed("--log-format", "json", "rollback", "two", "--yes", BACKFILL_ROLLBACK_WINDOW_DAYS="100000")
    begins, *between, ends = lines
    assert begins["message"] == "backfill rollback begins" and ends["message"] == "backfill rollback ended"
    assert ends["exit_code"] == 0 and ends["seconds"] > 0
    assert {each["command"] for each in lines} == {"backfill rollback"}
    [closed] = [each for each in between if each["logger"] == "backfill_assets.publish"]
    assert (closed["kind"], closed["outcome"], closed["table"], closed["day"]) == (
        "rollback",
        "done",
        "bronze_sales",
        str(DAY),
    )
    assert (
        closed["versions"] == {"bronze_sales": backfill.lakehouse.newest("bronze_sales").version()}
        and closed["publication"]
        and closed["run"]
    )


def test_an_error_is_a_line_with_its_next_step_and_the_exit_code(backfill: Backfill) -> None:
    turned = ("status", "--days", "2017-03-02..2017-03-01")
    out, (_, error, ends) = _typed(*turned, exit_code=1, BACKFILL_LOG_FORMAT="json")
    assert out == "" and error["level"] == "ERROR" and "ends before it starts" in error["message"]
    assert error["hint"] == "Did you mean 2017-03-01..2017-03-02?" and ends["exit_code"] == 1
    _, (_, error, ends) = _typed("--log-format", "json", "status", "--nonsense", exit_code=2)
    assert "No such option" in error["message"] and ends["exit_code"] == 2


def test_what_is_typed_counts_more_than_the_setting(backfill: Backfill) -> None:
    assert _typed("--log-format", "text", "status", BACKFILL_LOG_FORMAT="json")[1] == []


def test_what_was_typed_is_not_logged(backfill: Backfill) -> None:
    """A key that is looked for may be a person's."""
    _, lines = _typed("--log-format", "json", "status", "bronze_sales")
    assert "bronze_sales" not in json.dumps(lines)


def test_without_it_a_publication_says_nothing(backfill: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object, **__: object) -> None:
        raise AssertionError("it costs nothing")

    monkeypatch.setattr(finish, "format_ranges", asked)
    assert not logging.getLogger("backfill_assets.publish").isEnabledFor(logging.INFO)
    backfill.lakehouse.publish("one", {"bronze_sales": {DAY: [1]}})
