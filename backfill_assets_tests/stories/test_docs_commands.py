"""The commands of the README and the docs, typed one after the other on a small copy of what `make demo` builds."""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from backfill_assets.cli import main
from backfill_assets.days import DayRange
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.examples.sample import real, references
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.log import PublicationLog
from backfill_assets.publish.outbox import due_notices
from backfill_assets.publish.publisher import Publisher
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.settings import Settings
from backfill_assets_tests import docs_commands as docs
from backfill_assets_tests.strategies.landed_sales import land, sale

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = DayRange.parse("2017-03-03..2017-03-04")
"""A Friday, on which the versions of the fact differ, and a Saturday, on which they do not."""
NARROWED = {
    docs.DAYS: str(DAYS),
    "2017-03-01..2017-03-07": str(DAYS),
    "2016-02-15..2016-02-28": "2016-02-15..2016-02-16",
    "2017-03-01": "2017-03-03",
}
"""The days that a command names, and those that it is typed with here."""
ONE_LINE_OF = 60


class Terminal:
    """Types commands as the pages show them, with days, plans and publications that are there."""

    def __init__(self, home: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
        self.settings = Settings.at(home)
        self.spark = spark
        self.environment = monkeypatch
        self.plan = ""

    def words(self, line: str) -> list[str]:
        shown = re.compile("|".join(map(re.escape, sorted(NARROWED, key=len, reverse=True))))
        typed = shown.sub(lambda found: NARROWED[found[0]], line)
        for shown_id, id in {docs.PLAN: self.plan, docs.PUBLICATION: self.publication}.items():
            typed = typed.replace(shown_id, id)
        words = shlex.split(typed)[1:]
        command = main.get_command(click.Context(main), words[0])
        asks = command is not None and any(option.name == "yes" for option in command.params)
        return [*words, "--yes"] if asks and "--dry-run" not in words else words

    def __call__(self, line: str, *more: str, exit_code: int = 0) -> Result:
        """The command in this process; there is no terminal, so what asks gets its yes as an option."""
        result = CliRunner().invoke(main, [*self.words(line), *more])
        assert result.exit_code == exit_code, (line, result.output, result.exception)
        return result

    def json(self, line: str) -> Any:
        return json.loads(self(line, "--json").stdout)

    def process(self, line: str) -> str:
        """The command as a process with a Spark of its own and the settings that it has by default."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("BACKFILL_", "SPARK_REMOTE"))}
        done = subprocess.run(
            [sys.executable, "-c", "from backfill_assets.cli import main; main()", *self.words(line)],
            env=kept | {"BACKFILL_HOME": str(self.settings.home)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def log(self) -> PublicationLog:
        return PublicationLog(Storage(str(self.settings.lakehouse)))

    @property
    def publication(self) -> str:
        """The newest of daily revenue."""
        return self.newest(docs.REVENUE)

    def newest(self, table: str) -> str:
        found = self.log.day_states(self.log.head(), {table}).values()
        return max(((state.sequence, state.publication) for state in found), default=(0, ""))[1]

    def versions(self, table: str = docs.FACT) -> set[str]:
        """The versions of the logic that the days of ``table`` were built by."""
        states = self.log.day_states(self.log.head(), {table})
        return {state.content.code_version for (_, day), state in states.items() if day in DAYS and state.content}


@pytest.fixture
def terminal(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """The commands start no Spark: they have that of the tests. One real line of sixty is landed."""
    for name in [name for name in os.environ if name.startswith("BACKFILL_")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.setenv("BACKFILL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("BACKFILL_CORE_HOUR_PRICE", "0.05")
    monkeypatch.setattr("backfill_assets.spark.session.spark_session", lambda *_: nullcontext(spark.newSession()))
    transactions, products = real._transactions, references.real_catalogue

    def few_transactions(days: DayRange) -> pd.DataFrame:
        return transactions(days).iloc[::ONE_LINE_OF]

    def their_products(day: date) -> list[str]:
        sold = set(few_transactions(DAYS)["product_id"].astype(str))
        return [line for line in products(day) if json.loads(line)["product_id"] in sold]

    monkeypatch.setattr(real, "_transactions", few_transactions)
    monkeypatch.setattr(real, "real_catalogue", their_products)
    interrupt, filters = signal.getsignal(signal.SIGINT), list(logging.getLogger().filters)
    yield Terminal(tmp_path / "home", spark, monkeypatch)
    signal.signal(signal.SIGINT, interrupt)
    logging.getLogger().filters = filters
    logging.getLogger("py4j").propagate = True


def demo(terminal: Terminal) -> None:
    """What the demo does, and a line that is rejected."""
    terminal(f"backfill sample real --days {DAYS}")
    folders = terminal.settings.landing / "sales"
    assert [folder.name for folder in sorted(folders.iterdir())] == list(map(str, DAYS))
    broken = sale(basket_id="1", quantity="many", transaction_timestamp=f"{DAYS.first}T10:00:00Z")
    land(terminal.settings.landing, "sales", str(DAYS.first), "broken", [broken])
    terminal(f"backfill run {' '.join(f'+{table}' for table in (docs.REVENUE, *docs.REPORTS))} --days {DAYS}")


def is_stale_with_the_bug(terminal: Terminal, line: str) -> None:
    """After what the demo with the bug does: the old version, which needs the rates of the week before."""
    terminal("backfill run +bronze_fx_rates --days 2017-02-21..2017-03-02")
    terminal(f"backfill run {docs.FACT}+ --version v1 --days {DAYS}")
    assert terminal.versions() == {"v1"}
    assert "stale: code changed" in terminal(line).stdout


def builds_v2(terminal: Terminal, line: str) -> None:
    terminal(line)
    assert terminal.versions() == {"v2"}


def is_planned(terminal: Terminal, line: str) -> None:
    """The id that the next commands name."""
    said = terminal(line).stdout
    terminal.plan = said.split("\nplan\t")[1].split()[0]
    assert re.fullmatch(r"plan-[0-9a-f]{16}", terminal.plan), said
    assert "weekends unchanged" in said and docs.REVENUE in said


def waits_for_approval(terminal: Terminal, line: str) -> None:
    said = terminal(line)
    assert "waits\tit waits for approval" in said.stdout
    assert re.search(r"^\d\d:\d\d:\d\dZ plan-", said.stderr, re.MULTILINE), "without a terminal too it says where it is"
    assert terminal.versions() == {"v1"}


def writes_a_page(terminal: Terminal, line: str) -> None:
    page = terminal.settings.home / "difference.html"
    said = terminal(line.replace(page.name, str(page))).output
    assert page.exists() and page.name in said


def publishes_and_tells(terminal: Terminal, line: str) -> None:
    """As a process by itself: Spark has started in it when the notice is delivered, and nothing says where to."""
    said = terminal.process(line)
    assert "publication\t" in said
    assert f"[{terminal.publication}] {docs.FACT} of {DAYS} was rebuilt ({terminal.plan})" in said
    assert f"To undo: backfill rollback {terminal.plan}" in said
    assert terminal.versions() == {"v2"}
    assert notices_due(terminal) == 0


def is_undone_untold(terminal: Terminal, line: str) -> None:
    """Where notices go does not answer."""
    terminal.environment.setenv("BACKFILL_NOTICES", "webhook:http://127.0.0.1:9/notices")
    assert "Not sent yet" in terminal(line).output
    assert notices_due(terminal) == 1
    terminal.environment.delenv("BACKFILL_NOTICES")
    terminal("backfill maintain --send-notices")
    assert notices_due(terminal) == 0
    assert terminal.versions() == {"v1"}


def notices_due(terminal: Terminal) -> int:
    return len(due_notices(Publisher(terminal.log.storage)))


def is_rolled_back(terminal: Terminal, line: str) -> None:
    """After the fact that it was made of; and a run that builds the day again says so, before and after."""
    assert f"leaves stale\t{docs.REVENUE}" in terminal(f"backfill rollback {terminal.newest(docs.FACT)}").output
    terminal(line)
    back = terminal.publication
    terminal(f"backfill run {docs.FACT} --days {DAYS}")
    said = terminal(f"backfill run {docs.REVENUE} --days {DAYS} --dry-run").stdout
    assert f"by {back}, would be built again: {DAYS.first}" in said
    spark = terminal.spark
    built = Builder.from_settings(terminal.settings, CATALOG, lambda: spark).build(
        CATALOG.step(docs.REVENUE), list(DAYS), run=RunInfo("by the test")
    )
    assert {day.day: day.rolled_back_by for day in built.days} == {DAYS.first: back, DAYS.last: ""}


def is_maintained(terminal: Terminal, line: str) -> None:
    before = terminal.versions(docs.REVENUE)
    assert re.search(r"There is nothing to do|Done|--dry-run", terminal(line).stdout)
    assert terminal.versions(docs.REVENUE) == before


EFFECTS: Mapping[str, Callable[[Terminal, str], None]] = {
    effect.__name__: effect
    for effect in (
        builds_v2,
        is_stale_with_the_bug,
        is_planned,
        waits_for_approval,
        writes_a_page,
        publishes_and_tells,
        is_undone_untold,
        is_rolled_back,
        is_maintained,
    )
}


@pytest.mark.long
@pytest.mark.timeout(900)
def test_every_command_does_what_its_page_promises(terminal: Terminal) -> None:
    """On one lakehouse, in order: some undo what others did."""
    demo(terminal)
    for line, promised in docs.EXECUTED.items():
        started = time.monotonic()
        if isinstance(promised, str):
            EFFECTS[promised](terminal, line)
        else:
            said = terminal(line).output
            assert [words for words in promised if words not in said] == [], (line, said)
        print(f"{time.monotonic() - started:6.1f} s  {line}")
