"""The Tab key, as bash asks for it: tables, days, versions and ids, and never an error."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from backfill_assets.cli.group import command_names
from backfill_assets.lakehouse.plans import keep_plan
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.cli.golden import PLAN

DAY, NEXT = date(2017, 3, 1), date(2017, 3, 2)
TABLE = "fact_sales_transactions"
FIRST = "20170601t120100-fact-sales-transactions-1a2b3c4d"


@pytest.fixture
def known(backfill: Backfill) -> Backfill:
    backfill.lakehouse.publish(FIRST, {TABLE: {DAY: [1], NEXT: [2]}})
    keep_plan(backfill.lakehouse.storage, PLAN.id, PLAN.to_json())
    backfill("timeline", "create", "trial")
    return backfill


def _tab(backfill: Backfill, line: str) -> list[str]:
    """What click answers bash, when Tab is typed at the end of ``line``."""
    words = line.split(" ")
    asked = {"_BACKFILL_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    script = "from backfill_assets.cli import main; main(prog_name='backfill')"
    environment = {**os.environ, "BACKFILL_HOME": str(backfill.home), **asked}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return [item.partition(",")[2] for item in done.stdout.splitlines() if item]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("backfill sta", ["status"]),
        ("backfill timeline re", ["rewind"]),
        (f"backfill timeline create x --version {TABLE}", [f"{TABLE}=v1", f"{TABLE}=v2"]),
        ("backfill timeline delete tri", ["trial"]),
        ("backfill status fact_d", ["fact_daily_revenue"]),
        (f"backfill show {TABLE} ", [str(DAY), str(NEXT)]),
        (f"backfill run {TABLE} --days {DAY}..", [f"{DAY}..{NEXT}"]),
        (f"backfill run {TABLE} --version ", ["v1", "v2"]),
        ("backfill approve ", [PLAN.id[:12]]),
        (f"backfill approve {PLAN.id[:14]}", [PLAN.id]),
        ("backfill run plan", [PLAN.id[:12]]),
        ("backfill rollback 1a", ["1a2b3c4"]),
        ("backfill rollback 2017", [FIRST]),
        ("backfill diff m", ["main"]),
        (f"backfill status {TABLE} --on t", ["trial"]),
        ("backfill dataset check sea", ["sea_temperatures"]),
    ],
)
def test_what_is_offered(known: Backfill, line: str, offered: list[str]) -> None:
    assert _tab(known, line) == offered


def test_an_empty_or_unreadable_lakehouse_offers_nothing_and_is_no_error(
    backfill: Backfill, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _tab(backfill, "backfill rollback ") == _tab(backfill, f"backfill show {TABLE} ") == []
    monkeypatch.setenv("BACKFILL_LAKEHOUSE", "gs://bucket")
    assert _tab(backfill, "backfill rollback ") == []


def test_bash_completes_by_the_line_of_the_docs(known: Backfill) -> None:
    """The script that click prints is evaluated by a real bash."""
    script = (
        'eval "$(_BACKFILL_COMPLETE=bash_source backfill)"; COMP_WORDS=(backfill status fact_d); COMP_CWORD=2; '
        '_backfill_completion backfill fact_d status; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "BACKFILL_HOME": str(known.home)}
    bash = shutil.which("bash") or "/bin/bash"
    done = subprocess.run([bash, "--norc", "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["fact_daily_revenue"], done.stderr


def test_the_first_word_imports_no_command(known: Backfill) -> None:
    assert _tab(known, "backfill ") == command_names()
