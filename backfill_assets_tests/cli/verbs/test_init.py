"""``backfill init`` writes a project that is sound, and changes nothing that is there."""

from __future__ import annotations

import importlib
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from backfill_assets.cli import main
from backfill_assets.model.catalog import discover

PACKAGE = "corner_shop"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
        del sys.modules[name]


def init(name: str = PACKAGE, exit_code: int = 0) -> Result:
    done = CliRunner().invoke(main, ["init", name])
    assert done.exit_code == exit_code, done.output
    return done


def test_the_project_names_its_datasets_and_they_are_sound(folder: Path) -> None:
    init()
    project = tomllib.loads((folder / "pyproject.toml").read_text())
    assert project["tool"]["backfill"]["datasets"] == f"{PACKAGE}.datasets"
    assert project["tool"]["dagster"]["module_name"] == f"{PACKAGE}.definitions"
    importlib.invalidate_caches()
    found = discover(importlib.import_module(f"{PACKAGE}.datasets"))
    assert found.table_names == ("raw_orders", "bronze_orders", "quarantine_orders", "report_orders")
    assert len((folder / PACKAGE / "definitions.py").read_text().splitlines()) <= 10
    written = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    assert {"dagster.yaml", "tests/test_datasets.py", ".github/workflows/ci.yml", ".gitignore"} <= written


def test_what_is_there_is_left_as_it_is(folder: Path) -> None:
    """A project of a company has a pyproject.toml: what to add to it is said."""
    (folder / "pyproject.toml").write_text("[project]\n")
    told = init().output
    assert (folder / "pyproject.toml").read_text() == "[project]\n"
    assert "Left as it is: pyproject.toml" in told and f'datasets = "{PACKAGE}.datasets"' in told
    assert "is there already" in init(exit_code=1).stderr


@pytest.mark.parametrize(("name", "words"), [("Corner-Shop", "cannot be the name"), ("json", "has a package json")])
def test_a_name_that_would_not_do_is_refused(folder: Path, name: str, words: str) -> None:
    """Datasets in a package with the name of another would not be found, or hide it."""
    assert words in init(name, exit_code=1).stderr
    assert not list(folder.iterdir())
