"""``backfill dataset new`` writes a declaration that is sound, and overwrites nothing."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from backfill_assets.cli import main
from backfill_assets.model.catalog import discover

PACKAGE = "harbour_project"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project that ``backfill init`` has written, and this process works in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("BACKFILL_HOME", str(tmp_path / ".data"))
    monkeypatch.setenv("BACKFILL_DATASETS", f"{PACKAGE}.datasets")
    assert CliRunner().invoke(main, ["init", PACKAGE]).exit_code == 0
    importlib.invalidate_caches()
    yield tmp_path / PACKAGE / "datasets"
    for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
        del sys.modules[name]


def new(name: str, exit_code: int = 0) -> Result:
    done = CliRunner().invoke(main, ["dataset", "new", name])
    assert done.exit_code == exit_code, done.output
    return done


def test_a_new_dataset_is_declared_beside_the_others(folder: Path) -> None:
    """It has tables of its own, and what comes next is said."""
    told = new("ferries").output
    assert f"Written: {folder / 'ferries.py'}" in told
    assert "backfill dataset check ferries" in told and str(Path("landing", "ferries")) in told
    importlib.invalidate_caches()
    found = discover(importlib.import_module(f"{PACKAGE}.datasets"))
    assert {"raw_ferries", "bronze_ferries", "report_ferries", "report_orders"} <= {*found.table_names}


@pytest.mark.parametrize(
    ("name", "words"),
    [("Sea-Level", "cannot be the name"), ("orders", "is there already"), ("raw_orders", "is there already")],
)
def test_a_name_that_would_not_do_is_refused(folder: Path, name: str, words: str) -> None:
    """Nothing is written: what is there stays as it is."""
    before = {file.name: file.read_text() for file in folder.glob("*.py")}
    refused = new(name, exit_code=1).stderr
    assert words in refused and "->" in refused
    assert {file.name: file.read_text() for file in folder.glob("*.py")} == before
