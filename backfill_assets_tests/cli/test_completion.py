"""The Tab key, as bash asks for it: tables, days, versions and ids, and never an error."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from backfill_assets.cli import main
from backfill_assets.cli.group import command_names
from backfill_assets.lakehouse.plans import keep_plan
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.cli.golden import PLAN

DAY, NEXT = date(2017, 3, 1), date(2017, 3, 2)
TABLE = "fact_sales_transactions"
SUNDAY = [f"2017-03-0{day}" for day in (3, 4, 5)]
FIRST = "20170601t120100-fact-sales-transactions-1a2b3c4d"


@pytest.fixture
def known(backfill: Backfill) -> Backfill:
    backfill.lakehouse.publish(FIRST, {TABLE: {DAY: [1], NEXT: [2]}})
    keep_plan(backfill.lakehouse.storage, PLAN.id, PLAN.to_json())
    backfill("timeline", "create", "trial")
    return backfill


def _tab(line: str) -> list[str]:
    """What is offered when Tab is typed at the end of ``line``."""
    *words, incomplete = line.split(" ")[1:]
    completed = ShellComplete(main, {}, "backfill", "_BACKFILL_COMPLETE").get_completions(words, incomplete)
    return [item.value for item in completed]


OFFERED: Sequence[tuple[str, list[str]]] = [
    ("backfill ", command_names()),
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
    ("backfill status +fact_d", ["+fact_daily_revenue"]),
    ("backfill run plan --limits dev", ["deviation=10%"]),
    ("backfill run plan --limits deviation=2%,n", ["deviation=2%,nulls=1%"]),
    (
        f"backfill plan {TABLE} --expect amount_eur",
        [f"amount_eur {how}" for how in ("< 1%", "< 2% a day", "unchanged")],
    ),
    (f"backfill plan {TABLE} --expect curr", ["currency=VALUE unchanged"]),
]


def test_tables_days_versions_and_ids_are_offered(known: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no error where nothing can be read."""
    assert [(line, _tab(line)) for line, _ in OFFERED] == OFFERED
    for name, place in (("HOME", str(known.home / "empty")), ("LAKEHOUSE", "gs://bucket")):
        monkeypatch.setenv(f"BACKFILL_{name}", place)
        assert _tab("backfill rollback ") == _tab(f"backfill show {TABLE} ") == []


def test_days_that_have_landed_are_offered_before_they_are_published(known: Backfill) -> None:
    """Of the sources that the table is made of."""
    known.land_a_sunday()
    assert _tab(f"backfill run +{TABLE} --days ") == [str(DAY), str(NEXT), *SUNDAY]
    assert _tab("backfill run report_sea_temperature --days ") == []


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
    assert (done.stdout.split(), done.stderr) == (["fact_daily_revenue"], "")
