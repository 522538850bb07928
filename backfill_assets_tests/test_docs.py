"""What the README and the docs show must be there: commands, targets, assets, trees and links."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from backfill_assets.cli import main
from backfill_assets.datasets import registry

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


def blocks(language: str) -> list[str]:
    return [body for page in PAGES for kind, body in _BLOCK.findall(page.read_text()) if kind == language]


def commands(program: str) -> list[list[str]]:
    lines = [line for block in blocks("console") for line in block.splitlines()]
    words = [[word for word in shlex.split(line) if not re.match(r"[A-Z_]+=", word)] for line in lines]
    return [found[1:] for found in words if found and found[0] == program]


def test_the_readme_is_short() -> None:
    """A newcomer reads it to the end."""
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


@pytest.mark.parametrize("words", commands("backfill"), ids=" ".join)
def test_every_backfill_command_parses(words: list[str]) -> None:
    """A renamed option or command breaks the page that shows it."""
    command = main.get_command(click.Context(main), words[0])
    assert command is not None, f"there is no command {words[0]}"
    command.make_context(words[0], list(words[1:]))


def test_every_make_target_is_in_the_makefile() -> None:
    """Also those that the text names in passing."""
    shown = {words[0] for words in commands("make")} | set(
        re.findall(r"`make ([a-z-]+)`", "".join(page.read_text() for page in PAGES))
    )
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"demo", "test", "dev", "check", "test-fast", "mutants"} <= shown
    assert shown <= targets


def test_dagster_commands_name_assets_that_exist() -> None:
    """`dagster asset materialize` is what people copy into CI."""
    selections = [words[words.index("--select") + 1] for words in commands("dagster")]
    known = {table.name for table in registry.tables()}
    assert selections
    assert {name for selection in selections for name in selection.split(",")} <= known


def test_the_tree_in_the_readme_is_the_tree() -> None:
    """Every line of it exists, and no folder of the package is left out."""
    tree = next(block for block in blocks("text") if block.startswith("backfill_assets/"))
    paths = [line.split()[0] for line in tree.splitlines()]
    inside = [line.split()[0] for line in tree.splitlines() if line.startswith("  ")]
    top = [path for path in paths if path not in inside]
    assert all((ROOT / path).exists() for path in top)
    assert all((ROOT / "backfill_assets" / path).exists() for path in inside)
    package = ROOT / "backfill_assets"
    assert {f"{folder.parent.name}/" for folder in package.glob("*/__init__.py")} <= set(inside)


def test_links_lead_somewhere() -> None:
    """Relative links of all pages."""
    for page in PAGES:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_files_that_the_docs_name_exist() -> None:
    """Paths below the project in backticks, such as ``build/stage.py``."""
    for page in PAGES:
        for path in re.findall(r"`([a-z_/]+/[a-z_]+\.py)`", page.read_text()):
            assert any((base / path).exists() for base in (ROOT, ROOT / "backfill_assets")), f"{page.name}: {path}"
