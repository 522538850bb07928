"""``dg`` on a project of its own: the datasets as a component in one YAML file."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from backfill_assets.cli import main
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.log import PublicationLog
from backfill_assets_tests.conftest import CHILDREN_OF_TESTS

COMPONENT = """type: backfill_assets.BackfillAssets

attributes:
  datasets: shop.datasets
"""
FOLDER = """from pathlib import Path

import dagster as dg


@dg.definitions
def defs() -> dg.Definitions:
    return dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
"""
TABLES = ["bronze_orders", "quarantine_orders", "raw_orders", "report_orders"]
Dg = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    assert CliRunner().invoke(main, ["init", str(tmp_path / "shop")]).exit_code == 0
    package = tmp_path / "shop" / "shop"
    (package / "defs" / "backfill").mkdir(parents=True)
    (package / "definitions.py").write_text(FOLDER)
    (package / "defs" / "__init__.py").touch()
    (package / "defs" / "backfill" / "defs.yaml").write_text(COMPONENT)
    return package.parent


@pytest.fixture
def dg(project: Path) -> Dg:
    mine = {name: value for name, value in os.environ.items() if not name.startswith(("BACKFILL_", "SPARK_"))}
    home = {"DAGSTER_HOME": str(project), "PYTHONPATH": str(project)}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [str(Path(sys.executable).with_name("dg")), *words]
        environment = mine | CHILDREN_OF_TESTS | home
        return subprocess.run(
            command, cwd=project, env=environment, capture_output=True, text=True, timeout=300, check=False
        )

    return run


def test_the_component_is_checked_and_lists_what_the_datasets_declare(dg: Dg, project: Path) -> None:
    listed = dg("list", "defs", "--json")
    assert listed.returncode == 0, listed.stderr
    found = json.loads(listed.stdout)
    assert {asset["asset_key"] for asset in found["assets"]} >= set(TABLES)
    assert "report_orders:fresh" in {check["key"] for check in found["asset_checks"]}
    file = project / "shop" / "defs" / "backfill" / "defs.yaml"
    file.write_text(COMPONENT.replace("datasets:", "dataset:"))
    refused = dg("check", "yaml")
    assert refused.returncode == 1 and "dataset" in refused.stderr + refused.stdout


@pytest.mark.long
def test_a_range_of_days_is_launched_and_published(dg: Dg, project: Path) -> None:
    for number, day in enumerate(("2026-01-05", "2026-01-06")):
        landed = project / ".data" / "landing" / "orders" / day
        landed.mkdir(parents=True)
        moment = f"{day}T10:00:00Z"
        line = {"entry_id": str(number), "happened_at": moment, "amount": "12.50", "sent_at": moment}
        (landed / "a.jsonl.gz").write_bytes(gzip.compress(json.dumps(line).encode()))
    launched = dg("launch", "--assets", "raw_orders*", "--partition-range", "2026-01-05...2026-01-06")
    assert launched.returncode == 0, launched.stderr[-3000:]
    log = PublicationLog(Storage(str(project / ".data" / "lakehouse")))
    assert sorted(f"{each.table} {each.day.day}" for each in log.day_states(log.head())) == [
        f"{table} {day}" for table in TABLES for day in (5, 6)
    ]
