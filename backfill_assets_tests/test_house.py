"""How the code is kept: small folders, names that mean one thing, plain words, decisions without an engine."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "backfill_assets"
MOST_MODULES = 18
ENGINES = ("pyspark", "delta", "dagster", "pandas", "pandera")
WORDS = re.compile(
    r"\b(nobody|somebody|whoever|whatever|anybody|mend(?:s|ed|ing)?|tell(?:s|ing)?|told|stands? in|speaks? against"
    r"|cannot be meant|brought away)\b",
    re.IGNORECASE,
)
"""Docs and prose in code say it plainly: no one or a name, fix, report, is in, blocks, is invalid."""
_CODE = re.compile(r"``[^`]*``|`[^`]*`|:\w+:`[^`]*`|\{[^}]*\}")
"""Names in prose are those of the code."""
_KEY = re.compile(r"\"[a-z_/]+\"")
"""A string of one lower-case word is a key or a path, often a stored one, and no prose."""

_TELLING = {"tell", "tells", "telling", "told", "untold"}


def _modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def _dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def test_no_folder_has_more_modules_than_one_can_look_over() -> None:
    """A folder is a concept; with more than eighteen modules it has become several."""
    count: dict[Path, int] = defaultdict(int)
    for module in _modules():
        count[module.parent] += module.name != "__init__.py"
    assert {folder.name: number for folder, number in count.items() if number > MOST_MODULES} == {}


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


def _prose(module: Path) -> Iterator[tuple[int, str]]:
    """Comments, docstrings and messages with their lines."""
    for token in tokenize.generate_tokens(io.StringIO(module.read_text()).readline):
        is_prose = token.type in (tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1))
        if is_prose and not _KEY.fullmatch(token.string):
            yield from enumerate(token.string.splitlines(), token.start[0])


def _pages() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def _tests_and_benchmarks() -> list[Path]:
    modules = [*(ROOT / "backfill_assets_tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    return sorted(module for module in modules if module != Path(__file__))


def _unplain(path: Path) -> list[str]:
    lines = _prose(path) if path.suffix == ".py" else enumerate(path.read_text().splitlines(), 1)
    found = [(number, WORDS.findall(_CODE.sub("", line))) for number, line in lines]
    return [f"{path.relative_to(ROOT)}:{number}: {', '.join(words)}" for number, words in found if words]


@pytest.mark.parametrize("folder", sorted(each.name for each in PACKAGE.iterdir() if (each / "__init__.py").exists()))
def test_the_prose_of_a_folder_is_plain(folder: str) -> None:
    """Technical English: the thing that does it, in the positive form."""
    assert [found for module in sorted((PACKAGE / folder).rglob("*.py")) for found in _unplain(module)] == []


def test_the_prose_beside_the_folders_is_plain() -> None:
    assert [found for module in sorted(PACKAGE.glob("*.py")) for found in _unplain(module)] == []


@pytest.mark.parametrize("module", _tests_and_benchmarks(), ids=lambda module: str(module.relative_to(ROOT)))
def test_the_prose_of_tests_and_benchmarks_is_plain(module: Path) -> None:
    """Names of tests too: they are read as sentences."""
    tests = re.findall(r"^ *def (test_\w+)", module.read_text(), re.MULTILINE)
    assert (_unplain(module), [name for name in tests if WORDS.search(name.replace("_", " "))]) == ([], [])


def _names(tree: ast.AST) -> Iterator[str]:
    """What a module defines: functions, classes, parameters and variables."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name


def test_no_name_says_that_something_is_told() -> None:
    """A function reports or returns; a variable has the name of what it holds."""
    found = {
        f"{_dotted(module)}.{name}"
        for module in _modules()
        for name in _names(ast.parse(module.read_text()))
        if _TELLING & set(name.lower().split("_"))
    }
    assert found == set()


@pytest.mark.parametrize("page", _pages(), ids=lambda page: str(page.name))
def test_the_pages_are_plain(page: Path) -> None:
    assert _unplain(page) == []


@pytest.mark.parametrize("page", _pages(), ids=lambda page: str(page.name))
def test_no_phrase_of_a_page_hides_in_a_line_break(page: Path) -> None:
    """Prose is wrapped: two words of a phrase may be on two lines."""
    assert WORDS.findall(" ".join(_CODE.sub("", page.read_text()).split())) == []
