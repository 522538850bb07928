"""When a demo has something to build, its Spark, and its last lines."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner

from backfill_assets.cli import main
from backfill_assets.days import DayRange
from backfill_assets.errors import LakehouseUnusable
from backfill_assets.examples.commands import demo as module
from backfill_assets.examples.commands.demo import BUG, background_spark, is_to_build, what_next
from backfill_assets.examples.demo.progress import Phases
from backfill_assets.settings import Settings
from backfill_assets.state.diagnosis import Cause

STARTER = "backfill_assets.spark.connect_server.start_connect_server"
DAYS = DayRange(date(2017, 3, 1), date(2017, 3, 2))
FRESH, STALE = None, Cause.INPUT


@pytest.fixture
def lakehouse(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimpleNamespace:
    """What its logs say: every day fresh, the fact published by v2, and all of it shown by Dagster."""
    found = SimpleNamespace(statuses={}, built_by=dict.fromkeys(DAYS, "v2"), is_shown=True)

    def observed(*_: object) -> object:
        contents = {day: SimpleNamespace(code_version=version) for day, version in found.built_by.items()}
        return SimpleNamespace(contents=lambda _: contents)

    def statuses(steps: object, *_: object) -> dict[str, dict[date, Cause | None]]:
        return {step.name: {day: found.statuses.get((step.name, day), FRESH) for day in DAYS} for step in steps}  # type: ignore[attr-defined]

    monkeypatch.setattr("backfill_assets.state.observed.observe", observed)
    monkeypatch.setattr("backfill_assets.state.status.day_statuses", statuses)
    monkeypatch.setattr(module, "_shown_by_dagster", lambda *_: found.is_shown)
    found.settings = Settings.at(tmp_path)
    return found


def test_what_is_stale_or_not_shown_by_dagster_is_built_and_nothing_else(lakehouse: SimpleNamespace) -> None:
    """One stale day of any table is enough. Commands alone published what Dagster does not show."""
    assert not is_to_build(lakehouse.settings, DAYS, "")
    for table in ("raw_sales", "fact_daily_revenue"):
        lakehouse.statuses = {(table, DAYS.last): STALE}
        assert is_to_build(lakehouse.settings, DAYS, "")
    lakehouse.statuses, lakehouse.is_shown = {}, False
    assert is_to_build(lakehouse.settings, DAYS, "")


def test_days_of_a_version_that_is_not_asked_for_are_built(lakehouse: SimpleNamespace) -> None:
    """With the bug asked for, the fact is stale by what is current, and yet as it is wanted."""
    assert is_to_build(lakehouse.settings, DAYS, BUG)
    lakehouse.built_by = dict.fromkeys(DAYS, BUG)
    lakehouse.statuses = {("fact_sales_transactions", day): STALE for day in DAYS}
    assert not is_to_build(lakehouse.settings, DAYS, BUG)
    del lakehouse.built_by[DAYS.last]
    assert is_to_build(lakehouse.settings, DAYS, BUG)


# ------------------------------------------------------------------------ its Spark


@dataclass
class FakeServer:
    """Answers at once."""

    url: str = "sc://127.0.0.1:4711"
    stopped: int = 0

    def stop(self) -> None:
        self.stopped += 1


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    found = FakeServer()
    monkeypatch.setattr(STARTER, lambda settings: found)
    return found


def test_it_is_started_once_and_stopped(server: FakeServer, tmp_path: Path) -> None:
    """Begun while data lands, and used by every run. An error stops it too, also while it is starting."""
    with background_spark(Settings.at(tmp_path), phases := Phases()) as ready:
        assert ready().spark_remote == server.url
        assert server.stopped == 0
    assert server.stopped == 1
    assert list(phases.seconds) == ["Starting Spark"]
    with pytest.raises(KeyboardInterrupt), background_spark(Settings.at(tmp_path), Phases()):
        raise KeyboardInterrupt
    assert server.stopped == 2


def test_a_server_that_runs_already_is_used_and_left(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the name in the settings."""
    settings = Settings.from_environment({"SPARK_REMOTE": "sc://127.0.0.1:15002", "BACKFILL_HOME": str(tmp_path)})
    with background_spark(settings, Phases()) as ready:
        assert ready() is settings
    assert server.stopped == 0


@pytest.mark.parametrize(("new_files", "stale", "builds"), [(0, False, False), (1, False, True), (0, True, True)])
def test_a_second_demo_starts_a_spark_only_if_something_is_to_be_built(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_files: int, stale: bool, builds: bool
) -> None:
    """Without new files and stale days nothing is started, and nothing is launched."""
    ready: list[str | None] = []

    def build(settings: Settings, *_: object) -> tuple[str, dict[str, float]]:
        ready.append(settings.spark_remote)
        return "a-backfill", {}

    monkeypatch.setenv("BACKFILL_HOME", str(tmp_path))
    monkeypatch.setattr(module, "_newest_entry", lambda settings: 3)
    monkeypatch.setattr(module, "_land", lambda days, settings: new_files)
    monkeypatch.setattr(module, "is_to_build", lambda settings, days, version: stale)
    monkeypatch.setattr(module, "_build", build)
    monkeypatch.setattr(module, "_say_accounts", lambda *_: None)
    demo = main.get_command(click.Context(main), "demo")
    assert isinstance(demo, click.Command)
    assert CliRunner().invoke(demo, []).exit_code == 0
    assert (ready, server.stopped) == (([server.url], 1) if builds else ([], 0))


def test_one_that_does_not_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it is needed; ending the demo must not hide it."""

    def refused(settings: Settings) -> FakeServer:
        raise LakehouseUnusable("No Java.")

    monkeypatch.setattr(STARTER, refused)
    with pytest.raises(LakehouseUnusable, match="No Java"), background_spark(Settings.at(tmp_path), Phases()) as ready:
        ready()


# ------------------------------------------------------------------- its last lines


def _links(lines: list[str]) -> list[str]:
    return [line.split()[0] for line in lines if "http" in line]


def test_it_names_the_command_and_the_pages_that_it_opens() -> None:
    """The first page is where to begin; the filter of the first lesson is in the address."""
    lines = what_next(DAYS, "abcdefgh")
    assert lines[0] == "Next: make dev"
    assert _links(lines) == [
        "http://127.0.0.1:3000/assets/start_here",
        "http://127.0.0.1:3000/runs/b/abcdefgh",
        "http://127.0.0.1:3000/asset-groups~key%3A%22fact_sales_transactions%22%2B/",
    ]


def test_where_a_ui_runs_its_pages_are_what_is_next() -> None:
    """No second `make dev`."""
    lines = what_next(DAYS, "abcdefgh", "http://127.0.0.1:3105")
    assert lines[0] == "Next, in the UI that runs:"
    assert not [line for line in lines if "make dev" in line]
    assert {link.split("/")[2] for link in _links(lines)} == {"127.0.0.1:3105"}
    assert not [link for link in _links(what_next(DAYS, "")) if "/runs/b/" in link], "nothing was launched"


def test_with_the_bug_it_leads_to_the_plan_that_repairs_it() -> None:
    """What it prints are commands, of the days that were built."""
    lines = what_next(DAYS, "abcdefgh", with_the_bug=True)
    typed = [shlex.split(line) for line in lines if line.strip().startswith("backfill ")]
    assert [words[1] for words in typed] == ["status", "plan"]
    assert all(str(DAYS) in words for words in typed)
    for words in typed:
        command = main.get_command(click.Context(main), words[1])
        assert command is not None
        command.make_context(words[1], words[2:])
