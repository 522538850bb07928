from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from string import Template
from types import MappingProxyType

import click

from backfill_assets.cli.output import say
from backfill_assets.errors import InvalidRequest
from backfill_assets.settings import of_project, shipped, tools_of_project

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
_DAGSTER, _PYPROJECT, _IGNORE = "dagster.yaml", "pyproject.toml", ".gitignore"
_OF_NEW_PROJECTS = (_DAGSTER, ".github/workflows/ci.yml")
"""They would change how an existing project's Dagster and CI run."""
_OF_PROJECTS = (_PYPROJECT, "setup.py", "setup.cfg", "workspace.yaml", _DAGSTER)
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
    `dagster.yaml`, a test and a file for CI.

    In a project that is there, no file of it is changed but two, at their end: `pyproject.toml` gets what names the
    datasets, and `.gitignore` the folder `.data`. It keeps its own `dagster.yaml` and CI. All that is done is said. A
    second time changes nothing.
    """
    name = package or folder.absolute().name.replace("-", "_")
    if _is_written(folder, name):
        say(f"{folder / name} is a package of datasets already: nothing was changed.")
        return
    _require_new(folder, name)
    there = any((folder / each).exists() for each in _OF_PROJECTS)
    texts = {Path(name, path): _text(template, name) for template, path in _OF_PACKAGE.items()}
    texts |= {Path(path): _text(template, name) for template, path in _BESIDE.items()}
    texts[Path(_DAGSTER)] = shipped(_DAGSTER).read_text(encoding="utf-8")
    added = {_PYPROJECT: _named_datasets(folder, name), _IGNORE: _ignored(folder)} if there else {}
    for path, text in texts.items():
        file = folder / path
        if there and str(path) in _OF_NEW_PROJECTS:
            say(f"{'Left as it is' if file.exists() else 'Not written'}: {file}, since this is a project already")
        elif file.exists() or str(path) in added:
            _extend(file, added.get(str(path), ""))
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            say(f"Written: {file}")
    say(*_what_is_next(folder, name, there=there))


def _is_written(folder: Path, package: str) -> bool:
    definitions = folder / package / "definitions.py"
    return (folder / package / "datasets").is_dir() and (
        definitions.is_file() and "backfill_definitions" in definitions.read_text(encoding="utf-8")
    )


def _named_datasets(folder: Path, package: str) -> str:
    tools = tools_of_project(folder.resolve())
    found = [] if "backfill" in tools else [f'[tool.backfill]\ndatasets = "{package}.datasets"\n']
    if not tools.keys() & {"dagster", "dg"} and not (folder / "workspace.yaml").exists():
        found.append(f'[tool.dagster]\nmodule_name = "{package}.definitions"\n')
    return "\n".join(found)


def _ignored(folder: Path) -> str:
    file = folder / _IGNORE
    known = file.read_text(encoding="utf-8").split() if file.exists() else []
    return "" if {".data", ".data/", "/.data", "/.data/"} & {*known} else "/.data/\n"


def _extend(file: Path, added: str) -> None:
    before = file.read_bytes().decode() if file.exists() else ""
    gap = "" if not before or before.endswith("\n\n") else "\n" if before.endswith("\n") else "\n\n"
    after = f"{before}{gap}{added}"
    if not added:
        say(f"Left as it is: {file}")
    elif file.name == _PYPROJECT and not _keeps(before, after):
        say(f"Left as it is: {file}. Add to it:", *(f"  {line}" for line in added.splitlines()))
    else:
        file.write_bytes(after.encode())
        tools_of_project.cache_clear()
        say(f"Extended: {file}, at its end by", *(f"  {line}" for line in added.splitlines() if line))


def _keeps(before: str, after: str) -> bool:
    try:
        old, new = tomllib.loads(before), tomllib.loads(after)
    except ValueError:
        return False
    old_tools, new_tools = old.pop("tool", {}), new.pop("tool", {})
    return old == new and old_tools.items() <= new_tools.items()


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
    if found is not None and found.origin is not None:  # A folder without __init__.py has no origin.
        raise InvalidRequest(f"Python has a package {package} already.", hint="Choose another name.")


def _text(template: str, package: str) -> str:
    return template_text(template, package=package, name="orders")


def template_text(template: str, **words: str) -> str:
    return Template((_TEMPLATES / template).read_text(encoding="utf-8")).substitute(words)


def _what_is_next(folder: Path, package: str, *, there: bool) -> Iterator[str]:
    if there:
        named, own = of_project(folder.resolve(), "backfill", "datasets"), f"{package}.datasets"
        if named != own:
            instead = f"{named}: BACKFILL_DATASETS={own} counts instead" if named else "none"
            yield f"{folder / _PYPROJECT} names the datasets {instead}."
        yield f"For one code location, merge {package}.definitions with yours: its first lines say how."
    yield f"{'Then' if there else 'Next'}, one after the other (pip is uv pip with uv):"
    enter = () if folder.resolve() == Path.cwd() else (f"cd {folder}",)
    install = "pip install pytest" if there else "pip install --editable . pytest"
    for command in (*enter, install, *_BUILD):
        yield f"  {command}"
    yield f"Then change {package}/datasets/orders.py. backfill dataset new NAME writes another dataset beside it,"
    yield "and backfill dev opens Dagster's UI on this project."
