"""How the code is kept: names that mean one thing, and decisions without an engine."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "backfill_assets"
ENGINES = ("pyspark", "delta", "dagster", "pandas", "pandera", "ibis", "duckdb")


def _modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def _dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def test_no_two_public_classes_have_one_name() -> None:
    """Who reads a name in one place knows what it means in all others."""
    found: dict[str, list[str]] = defaultdict(list)
    for module in _modules():
        for node in ast.parse(module.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(_dotted(module))
    assert {name: modules for name, modules in found.items() if len(modules) > 1} == {}


def _contract() -> set[str]:
    """The modules that the import contract keeps away from every engine."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (found,) = [each for each in contracts if each["name"] == "What is decided is decided without an engine"]
    return set(found["source_modules"])


def test_what_calls_itself_pure_is_in_the_import_contract() -> None:
    """In ``defs`` it means without effects: Dagster's types are what is computed there."""
    claims = {
        _dotted(module)
        for module in _modules()
        if "defs" not in module.parts and re.search(r"\bPure\b", ast.get_docstring(ast.parse(module.read_text())) or "")
    }
    assert claims <= _contract()


def test_every_module_with_decisions_has_a_test_file_of_its_name() -> None:
    """A change of a decision is seen to fail where one looks first."""
    paths = {name: Path(*name.split(".")[1:]) for name in _contract()}
    tests = {name: Path(__file__).parent / path.with_name(f"test_{path.name}.py") for name, path in paths.items()}
    assert sorted(name for name, test in tests.items() if not test.exists()) == []


def test_what_is_decided_is_decided_without_an_engine() -> None:
    """Imported in a new process, all of it loads no engine: not directly, and not through something else."""
    script = f"import importlib, sys; [importlib.import_module(name) for name in {sorted(_contract())!r}]"
    script += f"; print(*[name for name in {ENGINES!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == []


def test_dagsters_private_modules_are_imported_in_one_place() -> None:
    """They change without notice; so one module of ours knows them."""
    users = [
        _dotted(each)
        for each in _modules()
        if re.search(r"^\s*(?:from|import) dagster\._", each.read_text(), re.MULTILINE)
    ]
    assert len(users) <= 1, users
