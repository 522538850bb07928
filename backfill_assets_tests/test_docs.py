"""Commands that the README and the docs show parse, and a test executes them; what they say of the data is so."""

from __future__ import annotations

import re
from datetime import timedelta

import click

from backfill_assets.cli import main
from backfill_assets.days import DayRange
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.examples.sample.references import published_rates
from backfill_assets_tests.docs_commands import BY_ANOTHER_TEST, EXECUTED, NOT_EXECUTED, ROOT, TRACED, commands, lines


def test_every_backfill_command_parses() -> None:
    """A renamed option or command breaks the page that shows it."""
    shown = commands("backfill")
    assert len(shown) > 50
    for words in shown:
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


def test_the_readme_has_no_time_that_the_page_about_performance_has_not() -> None:
    """One truth: what is measured again is written in one place, and fails here until it is in both."""
    text, measured = (ROOT / "README.md").read_text(), (ROOT / "docs" / "performance.md").read_text()
    times = re.findall(r"(\d+(?:\.\d+)?) s\b", text)
    assert {"0.13", "0.27", "1.5", "140", "4.5"} == set(times)
    assert [time for time in times if not re.search(rf"(?<![\d.]){re.escape(time)}(?![\d.])", measured)] == []


def test_the_function_of_the_readme_is_the_one_that_init_writes() -> None:
    written = (ROOT / "backfill_assets" / "init_project" / "dataset.txt").read_text()
    (excerpt,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert excerpt in written


def test_traces_in_pages_and_help_are_of_rows_that_the_demo_has() -> None:
    """Of sales; the keys of other datasets are traced by their own stories."""
    shown = [words[1] for words in commands("backfill") if words[0] == "trace"]
    (help_page,) = (ROOT / "backfill_assets" / "cli").rglob("trace.py")
    shown += re.findall(r"backfill trace (\d+-\d+)", help_page.read_text())
    assert len(shown) >= 2 and set(shown) == {TRACED}


def test_dagster_commands_name_assets_that_exist() -> None:
    """`dagster asset materialize` is what people copy into CI."""
    selections = [words[words.index("--select") + 1] for words in commands("dagster")]
    tables = set(CATALOG.table_names)
    assert selections
    assert {name for selection in selections for name in selection.split(",")} <= tables


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
