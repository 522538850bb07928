"""``backfill init``: writes a project of one's own, with one dataset to change."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from string import Template
from types import MappingProxyType

import click

from backfill_assets.cli.output import say
from backfill_assets.errors import InvalidRequest
from backfill_assets.settings import shipped

_TEMPLATES = Path(__file__).parents[2] / "init_project"
_OF_PACKAGE: Mapping[str, str] = MappingProxyType(
    {
        "package.txt": "__init__.py",
        "definitions.txt": "definitions.py",
        "datasets.txt": "datasets/__init__.py",
        "dataset.txt": "datasets/orders.py",
    }
)
_BESIDE: Mapping[str, str] = MappingProxyType(
    {
        "pyproject.toml.txt": "pyproject.toml",
        "test_datasets.txt": "tests/test_datasets.py",
        "ci.txt": ".github/workflows/ci.yml",
        "gitignore.txt": ".gitignore",
    }
)
_DAGSTER = "dagster.yaml"


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
def init(folder: Path) -> None:
    """Write a project: the package FOLDER with its datasets, and what belongs beside it.

    \b
    Examples:
      backfill init shop        a package shop/, and beside it what a project needs

    FOLDER has `datasets/`, with one dataset to change, and `definitions.py` for Dagster. Beside it are written
    `pyproject.toml`, which names the datasets for commands, `dagster.yaml`, a test and a file for CI. What is there
    already is left as it is.
    """
    folder = folder.absolute()
    _require_new_package(folder)
    texts = {folder / path: _text(template, folder.name) for template, path in _OF_PACKAGE.items()}
    beside = {folder.parent / path: _text(template, folder.name) for template, path in _BESIDE.items()}
    beside[folder.parent / _DAGSTER] = shipped(_DAGSTER).read_text(encoding="utf-8")
    there = [file for file in beside if file.exists()]
    for file, text in (texts | {file: text for file, text in beside.items() if file not in there}).items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        say(f"Written: {file.relative_to(folder.parent)}")
    _say_next(folder, there)


def _require_new_package(folder: Path) -> None:
    name = folder.name
    if not re.fullmatch("[a-z][a-z0-9_]*", name):
        raise InvalidRequest(f"{name!r} cannot be the name of a package.", hint="Write it like my_shop.")
    if folder.exists():
        raise InvalidRequest(f"{folder} is there already.", hint="Choose another name, or remove it.")
    if find_spec(name) is not None:
        raise InvalidRequest(f"Python has a package {name} already.", hint="Choose another name.")


def _text(template: str, package: str) -> str:
    return template_text(template, package=package, name="orders")


def template_text(template: str, **words: str) -> str:
    """A file of a new project, with ``words`` put in."""
    return Template((_TEMPLATES / template).read_text(encoding="utf-8")).substitute(words)


def _say_next(folder: Path, there: list[Path]) -> None:
    for file in there:
        say(f"Left as it is: {file.relative_to(folder.parent)}")
    if any(file.name == "pyproject.toml" for file in there):
        say("Add to pyproject.toml:", "  [tool.backfill]", f'  datasets = "{folder.name}.datasets"')
    say(
        "What comes next:",
        "  python -m backfill_assets.spark.jars     fetches Spark's JARs, once on a machine",
        "  backfill doctor                          says what this machine needs, and where to land files",
        f"  {f'{folder.name}/datasets/orders.py':40} is the dataset to change; backfill dataset check orders tries it",
        "  backfill dataset new NAME                writes another dataset beside it",
        "  backfill run +report_orders --days A..B",
        "  backfill dev                             opens Dagster's UI on this project",
    )
