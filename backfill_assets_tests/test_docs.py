"""What the README and the docs show must be there: commands, targets, assets, trees and links."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import click
import pytest

from backfill_assets.cli import main
from backfill_assets.days import DayRange
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.examples.sample.references import published_rates
from backfill_assets_tests import import_picture
from backfill_assets_tests.docs_commands import (
    BY_ANOTHER_TEST,
    EXECUTED,
    NOT_EXECUTED,
    PAGES,
    ROOT,
    TRACED,
    blocks,
    commands,
    lines,
)

READERS_PATH = (
    "start",
    "campaign",
    "timelines",
    "stream",
    "your-own-data",
    "operations",
    "architecture",
    "performance",
)
_MOST_WORDS = 15_000


def test_the_readme_is_short_and_complete_on_a_package_index() -> None:
    """A newcomer reads it to the end; a package index has no files beside it."""
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 110
    assert re.findall(r"\]\((?!https?://)", text) == []
    assert set(re.findall(r"`docs/([a-z-]+)\.md`", text)) == set(READERS_PATH)


def test_the_readers_path_is_eight_pages_that_can_be_read() -> None:
    """The rest is help, docstrings and reference; a page more is a page fewer read."""
    pages = [page for page in PAGES if page.parent == ROOT / "docs"]
    assert {page.stem for page in pages} == set(READERS_PATH)
    assert sum(len(page.read_text().split()) for page in pages) <= _MOST_WORDS
    assert len((ROOT / "CONTRIBUTING.md").read_text().split()) <= 600
    assert len((ROOT / "CHANGELOG.md").read_text().splitlines()) <= 40


@pytest.mark.parametrize("words", commands("backfill"), ids=" ".join)
def test_every_backfill_command_parses(words: list[str]) -> None:
    """A renamed option or command breaks the page that shows it."""
    command: click.Command | None = main
    name, left = "backfill", list(words)
    while isinstance(command, click.Group):
        name, left = left[0], left[1:]
        command = command.get_command(click.Context(command), name)
    assert command is not None, f"there is no command {name}"
    command.make_context(name, left)


def test_every_command_is_executed_by_a_test_or_says_why_not() -> None:
    """One that is not run rots; a command that a page no longer shows leaves the lists."""
    known = [*EXECUTED, *BY_ANOTHER_TEST, *NOT_EXECUTED]
    assert len(known) == len(set(known))
    assert [line for line in lines() if line not in known] == []
    assert [line for line in known if line not in lines()] == []


def test_the_tests_that_execute_commands_are_there() -> None:
    """By file and name."""
    for test in set(BY_ANOTHER_TEST.values()):
        file, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / file).read_text(), test


def test_traces_in_pages_and_help_are_of_rows_that_the_demo_has() -> None:
    """Of sales; the keys of other datasets are traced by their own stories."""
    shown = [words[1] for words in commands("backfill") if words[0] == "trace"]
    (help_page,) = (ROOT / "backfill_assets" / "cli").rglob("trace.py")
    shown += re.findall(r"backfill trace (\d+-\d+)", help_page.read_text())
    assert len(shown) >= 2 and set(shown) == {TRACED}


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
    tables = set(CATALOG.table_names)
    assert selections
    assert {name for selection in selections for name in selection.split(",")} <= tables


def test_tests_that_the_pages_name_exist() -> None:
    """As ``protocol/test_kill.py::test_killed_at_a_step``: without its test, a promise is none."""
    named = re.findall(r"`([a-z_/]+\.py)::(test_[a-z_0-9]+)`", "".join(page.read_text() for page in PAGES))
    assert len(named) > 20
    for file, name in named:
        assert f"def {name}(" in (ROOT / "backfill_assets_tests" / file).read_text(), f"{file}::{name}"


def test_the_tree_in_contributing_is_the_tree() -> None:
    """Every line of it exists, and no folder of the package is left out."""
    assert (ROOT / "CONTRIBUTING.md").read_text().count("\nbackfill_assets/\n") == 1
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
    """Paths below the project in backticks, such as ``rebuild/stage.py``."""
    for page in PAGES:
        for path in re.findall(r"`([a-z_/]+\.py)`", page.read_text()):
            places = (ROOT, ROOT / "backfill_assets", ROOT / "backfill_assets_tests")
            assert any((base / path).exists() for base in places), f"{page.name}: {path}"


_PROSE_COLUMNS = 120
_EXEMPT = re.compile(r"\s*(?:\||<|!?\[[^\]]*\]\([^)]*\)$)")
"""Tables, HTML, and a line that is one link or picture."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_prose_is_wrapped(page: Path) -> None:
    """A change of one sentence is a change of few lines. Code is shown as it is typed."""
    prose = re.sub(
        r"^```.*?^```", lambda block: "\n" * block[0].count("\n"), page.read_text(), flags=re.DOTALL | re.MULTILINE
    )
    long = {number: line for number, line in enumerate(prose.splitlines(), 1) if len(line) > _PROSE_COLUMNS}
    assert [number for number, line in long.items() if not _EXEMPT.match(line)] == []


def test_the_picture_of_the_layers_is_that_of_the_imports() -> None:
    """``make picture`` draws it again."""
    page = import_picture.PAGE.read_text()
    assert page.count(import_picture.BEGIN) == page.count(import_picture.END) == 1
    assert import_picture.drawn(page) == page


def test_hooks_before_a_commit_run_what_make_check_runs() -> None:
    """One list of checks, for a person and for a hook."""
    hooks = re.findall(r"^\s+entry: (.+)$", (ROOT / ".pre-commit-config.yaml").read_text(), re.MULTILINE)
    recipe = re.search(r"^check:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    assert hooks == [line.strip().removeprefix("@").replace("$(BIN)", ".venv/bin") for line in recipe[1].splitlines()]


def test_the_wrong_days_are_those_on_which_the_rate_of_the_day_before_is_another() -> None:
    """Of the 90 days of the first lesson: no rate is published on weekends and holidays, and the one before holds."""
    rates = {day: found["USD"] for day, found in published_rates().items() if "USD" in found}
    days = list(DayRange.parse("2017-03-01..2017-05-29"))
    as_of = {
        day: rates[max(each for each in rates if each <= day)]
        for day in DayRange(days[0] - timedelta(days=1), days[-1])
    }
    wrong = [day for day in days if as_of[day] != as_of[day - timedelta(days=1)]]
    text = (ROOT / "README.md").read_text()
    assert f"## {len(wrong)} wrong days of {len(days)}" in text
    assert f"On {len(wrong)} of them" in text and f"on the other {len(days) - len(wrong)}" in text
    assert f"{len(wrong)} days of {len(days)}" in (ROOT / "backfills" / "2017-fx.yaml").read_text()


def test_every_target_that_people_type_has_help() -> None:
    """``make help`` lists the targets with a description; ``.PHONY`` names all of them."""
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)
    assert phony is not None
    assert set(phony[1].split()) == set(re.findall(r"^([a-z-]+):[^#\n]*## .", makefile, re.MULTILINE))
