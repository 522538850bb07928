"""``backfill init`` and ``backfill dataset new`` write what is sound, and change nothing that is there."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from click.testing import CliRunner, Result
from deltalake import write_deltalake

from backfill_assets.cli import main
from backfill_assets.model.catalog import discover, load

PACKAGE = "corner_shop"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
        del sys.modules[name]


def run(*words: str, exit_code: int = 0) -> Result:
    done = CliRunner().invoke(main, words)
    assert done.exit_code == exit_code, done.output
    return done


def init(*words: str) -> str:
    return run("init", *words).output


def written(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in _written(folder)}


PROJECT = {
    *("pyproject.toml", "dagster.yaml", "tests/test_datasets.py", ".github/workflows/ci.yml", ".gitignore"),
    *(f"{PACKAGE}/{file}" for file in ("__init__.py", "definitions.py", "datasets/__init__.py", "datasets/orders.py")),
}


def test_a_folder_with_a_project_is_made_that_names_its_datasets(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it is in the new folder, and they are sound."""
    init(PACKAGE)
    assert written(folder) == {f"{PACKAGE}/{file}" for file in PROJECT}
    here = folder / PACKAGE
    project = tomllib.loads((here / "pyproject.toml").read_text())
    assert project["tool"]["backfill"]["datasets"] == f"{PACKAGE}.datasets"
    assert project["tool"]["dagster"]["module_name"] == f"{PACKAGE}.definitions"
    monkeypatch.syspath_prepend(here)
    assert project["tool"]["dg"]["project"]["code_location_target_module"] == f"{PACKAGE}.definitions"
    importlib.invalidate_caches()
    found = discover(importlib.import_module(f"{PACKAGE}.datasets"))
    assert found.table_names == ("raw_orders", "bronze_orders", "quarantine_orders", "report_orders")
    assert len((here / PACKAGE / "definitions.py").read_text().splitlines()) <= 10


def test_the_current_folder_and_a_folder_with_a_dash_name_their_package(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = init("corner-shop")
    assert "  cd corner-shop\n  pip install --editable . pytest\n" in told
    (folder / PACKAGE).mkdir()
    monkeypatch.chdir(folder / PACKAGE)
    assert "  cd " not in init(".")
    assert written(folder / PACKAGE) == written(folder / "corner-shop") == PROJECT


def test_what_plan_files_would_do_is_the_comment_of_a_pull_request(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step of its workflow, with commands that write down how they were called."""
    init(PACKAGE)
    workflow = yaml.safe_load((folder / PACKAGE / ".github/workflows/ci.yml").read_text())
    step = workflow["jobs"]["plans"]["steps"][-1]
    assert step["env"]["PULL_REQUEST"] == "${{ github.event.number }}"
    for name, script in (
        ("backfill", 'echo "| plan | $* |"; echo "1 finding stops it" >&2; exit 1'),
        ("gh", 'cat "$5" > comment.md; echo "$*" > called'),
    ):
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "PULL_REQUEST": "7"}
    done = subprocess.run(["/bin/bash", "-e", "-c", step["run"]], cwd=folder, env=environment, check=False)
    assert done.returncode == 1
    assert (folder / "comment.md").read_text() == (
        "| plan | plan -f backfills --check --markdown |\n1 finding stops it\n"
    )
    assert (folder / "called").read_text() == "pr comment 7 --body-file plans.txt --edit-last --create-if-none\n"


THEIRS = {
    "pyproject.toml": '[project]\nname = "company"\n\n[tool.dagster]\nmodule_name = "company.definitions"',
    "workspace.yaml": "load_from: []\n",
    "dagster.yaml": "telemetry: {enabled: false}\n",
    ".gitignore": "*.pyc\n",
    ".github/workflows/ours.yml": "name: ours\n",
    "company/definitions.py": "import dagster as dg\n\ndefs = dg.Definitions()\n",
    "tests/test_datasets.py": "def test_theirs() -> None: ...\n",
}
"""A Dagster project of a company, with a test of the same name."""
NAMED = f'\n\n[tool.backfill]\ndatasets = "{PACKAGE}.datasets"\n'


def _company(folder: Path, **files: str) -> None:
    for path, text in {**THEIRS, **files}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def test_a_project_that_is_there_keeps_its_files_and_is_asked_nothing(folder: Path) -> None:
    """Two get what they lack at their end, which is said; its Dagster and its CI run as they did."""
    _company(folder)
    told = init(".", PACKAGE)
    ours = {path for path in PROJECT if path.startswith(PACKAGE)}
    assert written(folder) == THEIRS.keys() | ours
    extended = {"pyproject.toml": THEIRS["pyproject.toml"] + NAMED, ".gitignore": "*.pyc\n\n/.data/\n"}
    assert {path: (folder / path).read_text() for path in THEIRS} == THEIRS | extended
    assert f'Extended: pyproject.toml, at its end by\n  [tool.backfill]\n  datasets = "{PACKAGE}.datasets"\n' in told
    assert "Extended: .gitignore, at its end by\n  /.data/\n" in told
    for path in ("dagster.yaml", "tests/test_datasets.py"):
        assert f"Left as it is: {path}" in told
    assert "Not written: .github/workflows/ci.yml" in told and "workspace.yaml" not in told
    assert "--editable" not in told and f"merge {PACKAGE}.definitions with yours" in told


@pytest.mark.parametrize("theirs", [True, False])
def test_a_second_time_changes_nothing(folder: Path, theirs: bool) -> None:
    """Whether the project was there before, or is all of init's own; also where the example was taken out."""
    if theirs:
        _company(folder)
    init(".", PACKAGE)
    (folder / PACKAGE / "datasets" / "orders.py").unlink()
    before = _written(folder)
    assert "nothing was changed" in init(".", PACKAGE)
    assert _written(folder) == before


def test_a_project_without_a_pyproject_gets_one_that_only_names_the_datasets(folder: Path) -> None:
    """Its own way to be installed stays: that of a setup.py."""
    (folder / "setup.py").write_text("from setuptools import setup\n")
    init(".", PACKAGE)
    named = tomllib.loads((folder / "pyproject.toml").read_text())
    dagster = {"module_name": f"{PACKAGE}.definitions"}
    assert named == {"tool": {"backfill": {"datasets": f"{PACKAGE}.datasets"}, "dagster": dagster}}


def test_a_pyproject_that_cannot_be_extended_is_left_and_what_to_add_is_said(folder: Path) -> None:
    """Tools on one line take no table at the end of the file."""
    on_one_line = 'tool = {dagster = {module_name = "company.definitions"}}\n'
    _company(folder, **{"pyproject.toml": on_one_line})
    assert "Left as it is: pyproject.toml. Add to it:\n  [tool.backfill]\n" in init(".", PACKAGE)
    assert (folder / "pyproject.toml").read_text() == on_one_line


def test_a_project_with_datasets_keeps_them(folder: Path) -> None:
    """How commands find the others is said."""
    theirs = '[tool.backfill]\ndatasets = "company.datasets"\n\n[tool.dg]\n'
    _company(folder, **{"pyproject.toml": theirs})
    told = init(".", PACKAGE)
    assert f"names the datasets company.datasets: BACKFILL_DATASETS={PACKAGE}.datasets counts instead" in told
    assert (folder / "pyproject.toml").read_text() == theirs


@pytest.fixture
def datasets(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that ``backfill init`` has written, and this process works in."""
    monkeypatch.setenv("BACKFILL_HOME", str(folder / ".data"))
    monkeypatch.setenv("BACKFILL_DATASETS", f"{PACKAGE}.datasets")
    init(".", PACKAGE)
    importlib.invalidate_caches()
    return folder / PACKAGE / "datasets"


def test_a_new_dataset_is_declared_beside_the_others(datasets: Path) -> None:
    """It has tables of its own, and what comes next is said."""
    told = run("dataset", "new", "ferries").output
    assert f"Written: {datasets / 'ferries.py'}" in told
    assert "backfill dataset check ferries" in told and str(Path("landing", "ferries")) in told
    importlib.invalidate_caches()
    found = discover(importlib.import_module(f"{PACKAGE}.datasets"))
    assert {"raw_ferries", "bronze_ferries", "report_ferries", "report_orders"} <= {*found.table_names}


@pytest.mark.data
def test_a_file_proposes_what_it_can_and_the_rest_is_asked(folder: Path, datasets: Path) -> None:
    """Without a day it is no dataset yet: the check says what is missing, and what was asked, by line."""
    (folder / "ferries.csv").write_text("ferry_id;pier\n1;north\n2;south\n")
    told = run("dataset", "new", "ferries", "ferries.csv").output
    declared = datasets / "ferries.py"
    assert f"Written: {declared}" in told and "It asks 5 questions" in told and "backfill run" not in told
    importlib.invalidate_caches()
    load.cache_clear()
    for module in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
        del sys.modules[module]
    refused = run("dataset", "check", "ferries", exit_code=1).stderr
    load.cache_clear()
    assert "0 fields of FerriesRow are its event_day" in refused and "Field(event_day=True, ...)" in refused
    asked = [line for line in refused.splitlines() if f"  {PACKAGE}/datasets/ferries.py, line " in line]
    assert len(asked) == 5 and any("which field says the day a row belongs to?" in line for line in asked)


@pytest.mark.data
def test_a_table_of_others_is_proposed_as_such(folder: Path, datasets: Path) -> None:
    """It is read in place, by the path that holds in any folder; orders, as its folder is called, is taken."""
    rows = pa.table({"order_id": list(range(30)), "order_date": [date(2026, 1, 5), date(2026, 1, 6)] * 15})
    write_deltalake(folder / "lake" / "orders", rows)
    told = run("dataset", "new", "shop", "lake/orders").output
    text = (datasets / "shop.py").read_text()
    assert f"location={str(folder / 'lake' / 'orders')!r}".replace("'", '"') in text and ast.parse(text).body
    assert "  backfill run report_shop --days 2026-01-05..2026-01-06\n" in told and "mkdir" not in told
    importlib.invalidate_caches()
    found = discover(importlib.import_module(f"{PACKAGE}.datasets"))
    assert not found.left_out and {"shop", "report_shop", "report_orders"} <= {*found.table_names}


def test_names_that_would_not_do_are_refused_and_nothing_is_written(datasets: Path) -> None:
    """Datasets in a package with the name of another would not be found, or hide it."""
    before = _written(datasets.parent.parent)
    for typed, words in (
        ("init Corner-Shop", "cannot be the name"),
        ("init json", "has a package json"),
        ("init . tests", "tests is there already"),
        (f"init {PACKAGE}", f"cd {PACKAGE}, then backfill init . PACKAGE adds"),
        ("dataset new Sea-Level", "cannot be the name"),
        ("dataset new orders", "is there already"),
        ("dataset new raw_orders", "is there already"),
        ("dataset new ferries no_such.csv", "no_such.csv is not there"),
    ):
        refused = run(*typed.split(), exit_code=1).stderr
        assert words in refused and "->" in refused
    assert _written(datasets.parent.parent) == before


def _written(folder: Path) -> dict[Path, bytes]:
    """Bytecode that an import leaves is nothing that a command wrote."""
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file() and file.suffix != ".pyc"}
