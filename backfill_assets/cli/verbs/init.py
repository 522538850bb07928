"""``backfill init``: writes a project of one's own, with one dataset to change."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
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
_DAY = "2026-01-05"
_ORDER = f'{{"entry_id": "1", "happened_at": "{_DAY}T10:00:00Z", "amount": "12.50", "sent_at": "{_DAY}T10:00:00Z"}}'
_BUILD = (
    "backfill doctor --fix",
    "python -m pytest tests/test_datasets.py",
    f"mkdir -p .data/landing/orders/{_DAY}",
    f"echo '{_ORDER}' | gzip > .data/landing/orders/{_DAY}/a.jsonl.gz",
    "backfill dataset check orders",
    f"backfill run +report_orders --days {_DAY}",
    f"backfill show report_orders {_DAY}",
)
"""From a new project to a published day, as it is typed."""


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("package", required=False)
def init(folder: Path, package: str | None) -> None:
    """Write a project into the new folder FOLDER: a package with a dataset, and what belongs beside it.

    \b
    Examples:
      backfill init shop        a folder shop/ with a project in it
      backfill init . shop      a package shop/ in this folder, such as a Dagster project that is there

    The package is called as the folder is, or PACKAGE. It has `datasets/`, with one dataset to change, and
    `definitions.py` for Dagster. Beside it are written `pyproject.toml`, which names the datasets for commands,
    `dagster.yaml`, a test and a file for CI. What is there already is left as it is.
    """
    name = package or folder.absolute().name.replace("-", "_")
    _require_new(folder, name)
    texts = {Path(name, path): _text(template, name) for template, path in _OF_PACKAGE.items()}
    texts |= {Path(path): _text(template, name) for template, path in _BESIDE.items()}
    texts[Path(_DAGSTER)] = shipped(_DAGSTER).read_text(encoding="utf-8")
    there = [path for path in texts if (folder / path).exists()]
    for path in (path for path in texts if path not in there):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(texts[path], encoding="utf-8")
        say(f"Written: {folder / path}")
    say(*(f"Left as it is: {folder / path}" for path in there), *_what_is_next(folder, name, there))


def _require_new(folder: Path, package: str) -> None:
    if not re.fullmatch("[a-z][a-z0-9_]*", package):
        raise InvalidRequest(f"{package!r} cannot be the name of a package.", hint="Write it like my_shop.")
    if folder.resolve() != Path.cwd() and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        adds = f"cd {folder}, then backfill init . PACKAGE adds a package to it." if folder.is_dir() else ""
        raise InvalidRequest(f"{folder} is there already.", hint=f"Choose another name. {adds}".rstrip())
    if (folder / package).exists():
        hint = f"Name another package: backfill init {folder} PACKAGE."
        raise InvalidRequest(f"{folder / package} is there already.", hint=hint)
    found = find_spec(package)
    if found is not None and found.origin is not None:  # A folder alone has none, and is no package.
        raise InvalidRequest(f"Python has a package {package} already.", hint="Choose another name.")


def _text(template: str, package: str) -> str:
    return template_text(template, package=package, name="orders")


def template_text(template: str, **words: str) -> str:
    """A file of a new project, with ``words`` put in."""
    return Template((_TEMPLATES / template).read_text(encoding="utf-8")).substitute(words)


def _what_is_next(folder: Path, package: str, there: Collection[Path]) -> Iterator[str]:
    """Commands as they are typed, one after the other, and what to change then."""
    own = Path("pyproject.toml") not in there
    if not own:
        yield from ("Add to pyproject.toml first:", "  [tool.backfill]", f'  datasets = "{package}.datasets"')
        yield f"Merge {package}.definitions with your definitions: its first lines say how."
    yield f"{'Then' if there else 'Next'}, one after the other (pip is uv pip with uv):"
    enter = () if folder.resolve() == Path.cwd() else (f"cd {folder}",)
    install = "pip install --editable . pytest" if own else "pip install pytest"
    for command in (*enter, install, *_BUILD):
        yield f"  {command}"
    yield f"Then change {package}/datasets/orders.py. backfill dataset new NAME writes another dataset beside it,"
    yield "and backfill dev opens Dagster's UI on this project."
