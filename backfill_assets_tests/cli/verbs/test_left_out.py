"""One dataset that is declared wrong stops its own commands: those of all others go on, and say what is left out."""

from __future__ import annotations

import gzip
import importlib
import json
import logging
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from click.testing import CliRunner, Result

from backfill_assets.cli import main
from backfill_assets.cli.verbs.init import template_text
from backfill_assets.defs.location import backfill_definitions
from backfill_assets.defs.partitions import PartitionedTables
from backfill_assets.defs.resources import Backfill, SharedSpark
from backfill_assets.defs.start_here import lakehouse_state
from backfill_assets.model import catalog
from backfill_assets.settings import Settings

PACKAGE = "corner_kiosk"
FIELD = re.compile(r"^    entry_id: \S+ =", re.MULTILINE)
DECLARED = template_text("dataset.txt", package=PACKAGE, name="ferries")
LINE = DECLARED[: FIELD.search(DECLARED).start()].count("\n") + 1  # type: ignore[union-attr]
WRONG = f"corner_kiosk/datasets/ferries.py, line {LINE}: Entry.entry_id is annotated T.StrinType"
MEANT = "Did you mean T.StringType?"
pytestmark = pytest.mark.data
Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Commands of a new project with two datasets; one has a typing error. A file has landed for each."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("BACKFILL_HOME", str(tmp_path / ".data"))
    monkeypatch.setenv("BACKFILL_DATASETS", f"{PACKAGE}.datasets")

    def run(*words: str, exit_code: int = 0) -> Result:
        done = CliRunner().invoke(main, words)
        assert done.exit_code == exit_code, done.output
        return done

    run("init", ".", PACKAGE)
    catalog.load.cache_clear()
    run("dataset", "new", "ferries")
    catalog.load.cache_clear()
    for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
        del sys.modules[name]
    importlib.invalidate_caches()
    declared = tmp_path / PACKAGE / "datasets" / "ferries.py"
    assert declared.read_text() == DECLARED
    declared.write_text(FIELD.sub("    entry_id: T.StrinType =", DECLARED))
    for name in ("orders", "ferries"):
        landed = tmp_path / ".data" / "landing" / name / "2026-01-05"
        landed.mkdir(parents=True)
        (landed / "a.jsonl.gz").write_bytes(gzip.compress(b"{}\n"))
    yield run
    catalog.load.cache_clear()
    for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
        del sys.modules[name]


def test_status_goes_on_and_says_what_is_left_out_and_why(run: Run) -> None:
    shown = " ".join(run("status").output.split())
    assert "the dataset ferries" in shown and WRONG in shown and MEANT in shown
    assert "raw_orders" in shown and "raw_ferries" not in shown
    found = json.loads(run("status", "--json").stdout)
    (gone,) = found["left_out"]
    assert gone["left_out"] == "the dataset ferries" and gone["why"].startswith(WRONG)
    assert gone["what_to_do"] == MEANT


def test_a_run_of_another_dataset_goes_on(run: Run) -> None:
    done = run("run", "+report_orders", "--days", "2026-01-05", "--dry-run")
    assert "raw_orders" in done.stdout and "ferries" not in done.stdout
    assert f"The dataset ferries is left out: {WRONG}" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("dataset", "check", "ferries"),
        ("run", "+report_ferries", "--days", "2026-01-05"),
        ("status", "tag:ferries"),
        ("plan", "raw_ferries", "--days", "2026-01-05"),
        ("show", "bronze_ferries", "2026-01-05"),
    ],
)
def test_its_own_commands_fail_with_what_is_wrong(run: Run, words: tuple[str, ...]) -> None:
    refused = run(*words, exit_code=1)
    assert f"Error: {WRONG}" in refused.stderr and f"-> {MEANT}" in refused.stderr
    assert "Traceback" not in refused.output


def test_doctor_fails_for_it_and_looks_at_all_else(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    found: Any = json.loads(run("doctor", "--json", exit_code=1).stdout)
    assert found["datasets"]["verdict"] == "fail" and found["datasets"]["next_step"] == MEANT
    assert f"The dataset ferries is left out: {WRONG}" in found["datasets"]["found"]
    assert "1 day in" in found["landed_orders"]["found"] and found["lakehouse"]["verdict"] == "ok"


def test_the_code_location_has_the_others_and_says_it(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    """In its warnings when it is loaded, and on its first page as the first thing that needs a person."""
    settings = Settings.from_environment()
    datasets = importlib.import_module(f"{PACKAGE}.datasets")
    with caplog.at_level(logging.WARNING):
        defs = backfill_definitions(datasets, settings=settings)
    assert f"The dataset ferries is left out: {WRONG}" in caplog.text
    keys = {key.to_user_string() for key in defs.resolve_asset_graph().get_all_asset_keys()}
    assert {"raw_orders", "report_orders", "start_here"} <= keys and not [key for key in keys if "ferries" in key]
    found, spark = catalog.load(f"{PACKAGE}.datasets"), SharedSpark(settings=settings)
    resource = Backfill(settings=settings, catalog=found, spark=spark)
    with dg.instance_for_test() as instance:
        (first, *_) = lakehouse_state(instance, resource, PartitionedTables(found)).people
    assert first.title == "the dataset ferries is left out: it is declared wrong"
    assert first.why.startswith(WRONG) and first.do == "Did you mean T.StringType?"
