"""The demo's backfill: launched like one of the UI, failures with what to do next, and nothing left running."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import dagster as dg
import pytest

from backfill_assets.cli.dev.dagster_home import dagster_home
from backfill_assets.cli.dev.only_daemon import HasDaemon, only_daemon
from backfill_assets.cli.running_dev import noted_dev
from backfill_assets.days import DayRange
from backfill_assets.defs.specs import VERSION_TAG
from backfill_assets.examples.demo import backfill as backfill_module
from backfill_assets.examples.demo.backfill import (
    DemoBackfill,
    DemoFailed,
    has_succeeded,
    launch_demo,
    require_success,
    watch_and_report,
)
from backfill_assets.examples.demo.progress import BackfillProgress, Phases
from backfill_assets.settings import Settings, lakehouse_path
from backfill_assets.spark.service import command_line
from backfill_assets_tests.defs import fake_location
from backfill_assets_tests.defs.small_dataset import TABLES
from backfill_assets_tests.waiting import wait_until

DAYS = DayRange.parse("2017-03-01..2017-03-03")
STEPS = ["raw_sales", "bronze_sales"]
_ENDING = """
    import dagster as dg
    from backfill_assets.defs.dagster_internals import BulkActionStatus
    with dg.DagsterInstance.get() as instance:
        (backfill,) = instance.get_backfills()
        instance.update_backfill(backfill._replace(status=BulkActionStatus.{status}))
    time.sleep(60)
"""
"""A daemon that ends the backfill, in any state of it."""

Demo = Callable[..., DemoBackfill]


@pytest.fixture
def demo(tmp_path: Path) -> Demo:
    """The demo's backfill with a script for the daemon."""

    def scripted(daemon: str) -> DemoBackfill:
        launched = launch_demo(Settings.at(tmp_path), DAYS, TABLES, fake_location.__name__)
        return replace(launched, daemon=(sys.executable, "-c", "import time\n" + textwrap.dedent(daemon)))

    return scripted


def _status(backfill: DemoBackfill) -> str:
    found = backfill.instance.get_backfill(backfill.backfill_id)
    assert found
    return found.status.value


def _assert_gone(pid_file: Path) -> None:
    """A zombie counts as gone: orphans of a container stay zombies."""
    assert not command_line(int(pid_file.read_text()))


def _grandchild(pid_file: Path) -> str:
    """A daemon starts a process that would outlive it."""
    return f"""
    import subprocess, sys
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    open({str(pid_file)!r}, "w").write(str(child.pid))
    """


def test_the_target_is_what_the_ui_would_launch(tmp_path: Path) -> None:
    """Title and tags are what people see on the Backfills page; the daemon builds exactly the days asked for.

    A version that is asked for reaches every run: the bug is published by the same backfill, and its page says so.
    """
    launched = launch_demo(Settings.at(tmp_path), DAYS, TABLES, fake_location.__name__, "v1")
    backfill = launched.instance.get_backfill(launched.backfill_id)
    assert backfill and backfill.asset_backfill_data
    assert (backfill.title, backfill.tags["user"]) == (f"Demo: {DAYS}, v1 of the fact", "backfill demo")
    assert backfill.tags[VERSION_TAG] == "v1"
    assert backfill.asset_backfill_data.get_partition_names() == [day.isoformat() for day in DAYS]
    assert {key.to_user_string() for key in backfill.asset_selection or ()} == set(TABLES)


def test_a_failed_backfill_says_why_and_what_to_do(tmp_path: Path) -> None:
    """The reason of the failed step, not only that there was one."""
    reason = "bronze_sales: 1 day did not pass the gates"
    steps = {"raw_sales": "SUCCESS", "bronze_sales": "FAILURE"}
    failed = BackfillProgress("abcdefgh", "COMPLETED_FAILED", steps, {}, failure=reason)
    with pytest.raises(DemoFailed, match="abcdefgh ended as COMPLETED_FAILED: bronze_sales: 1 day") as error:
        require_success(failed, tmp_path)
    assert "make dev" in str(error.value.hint)
    with pytest.raises(DemoFailed, match="ended as COMPLETED_FAILED: failed: bronze_sales"):
        require_success(replace(failed, failure=""), tmp_path)


def test_a_daemon_that_dies_ends_the_demo(demo: Demo) -> None:
    """Without it nothing would ever happen again: the demo would wait for ever."""
    backfill = demo("raise SystemExit('no space left on device')")
    with pytest.raises(DemoFailed, match=r"(?s)daemon died .*no space left on device"):
        backfill.carry_out(STEPS, Phases())
    assert _status(backfill) == "CANCELED"


def test_what_the_daemon_started_ends_with_it_and_a_failed_backfill_ends_the_demo(demo: Demo, tmp_path: Path) -> None:
    """Code servers and runs with their JVMs are children of the daemon, and would go on without it."""
    backfill = demo(_grandchild(tmp_path / "pid") + _ENDING.format(status="COMPLETED_FAILED"))
    phases = Phases()
    with pytest.raises(DemoFailed, match="ended as COMPLETED_FAILED: no step failed"):
        backfill.carry_out(STEPS, phases)
    assert list(phases.seconds) == ["Backfilling"]
    _assert_gone(tmp_path / "pid")


UI = "http://127.0.0.1:3105"
_SECOND_DAEMON = "raise SystemExit('this instance has a daemon')"


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[ExitStack]:
    """This process is noted as the ``make dev`` of the home; closed, it has ended."""
    with ExitStack() as stack:
        stack.enter_context(noted_dev(Settings.at(tmp_path), UI, "sc://127.0.0.1:1"))
        yield stack


def test_the_daemon_of_make_dev_carries_it_out(
    demo: Demo, dev: ExitStack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two daemons on one instance complain about each other."""
    backfill = demo(_SECOND_DAEMON)
    program = "import time\n" + textwrap.dedent(_ENDING.format(status="COMPLETED_SUCCESS"))
    variables = os.environ | {"DAGSTER_HOME": str(tmp_path / "dagster")}
    with subprocess.Popen([sys.executable, "-c", program], env=variables) as its_daemon:
        last = backfill.carry_out(STEPS, Phases())
        its_daemon.kill()
    assert has_succeeded(last)
    assert not backfill.daemon_log.exists()
    assert f"{UI}/runs/b/{backfill.backfill_id}" in capsys.readouterr().out


def test_interrupted_it_lets_make_dev_stop_the_runs(
    demo: Demo, dev: ExitStack, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They live: Dagster may not be given to understand that they have ended."""
    backfill = demo(_SECOND_DAEMON)
    monkeypatch.setattr(backfill_module, "progress", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        backfill.carry_out(STEPS, Phases())
    assert _status(backfill) == "CANCELING"
    assert "`make dev` stops its runs." in capsys.readouterr().out


def test_make_dev_that_ends_ends_the_demo(demo: Demo, dev: ExitStack) -> None:
    """No other daemon takes up the backfill."""
    backfill = demo(_SECOND_DAEMON)
    dev.close()
    with pytest.raises(DemoFailed, match="`make dev` ended while its daemon carried out the backfill"):
        backfill.carry_out(STEPS, Phases())
    assert _status(backfill) == "CANCELED"


ELSEWHERE: Mapping[str, tuple[str, str, str]] = {
    "lakehouse": ("lakehouse", "elsewhere", "the demo is for {home}/elsewhere"),
    "landing zone": ("landing", "elsewhere", "the landing zone {home}/landing, .* is for {home}/elsewhere"),
    "token key": ("token_key_file", "other.key", "the token key {home}/token.key, .* is for {home}/other.key"),
}


@pytest.mark.parametrize("what", ELSEWHERE)
def test_make_dev_on_another_home_is_no_daemon_for_it(tmp_path: Path, dev: ExitStack, what: str) -> None:
    """It would build there what was landed here, not find it, or fail at a key that is not the lakehouse's."""
    setting, name, refused = ELSEWHERE[what]
    place: Any = lakehouse_path(str(tmp_path / name)) if what == "lakehouse" else tmp_path / name
    settings = replace(Settings.at(tmp_path), **{setting: place})
    with pytest.raises(DemoFailed, match=refused.format(home=tmp_path)) as error:
        launch_demo(settings, DAYS, TABLES, fake_location.__name__)
    assert f"kill {os.getpid()}" in str(error.value.hint)


@pytest.mark.parametrize("command", ["make dev", "backfill demo"])
def test_beside_a_command_that_starts_or_has_a_daemon_it_launches_nothing(tmp_path: Path, command: str) -> None:
    """`make dev` is noted when its Spark is there: before, the demo would start a second daemon."""
    settings = Settings.at(tmp_path)
    with only_daemon(settings, command), pytest.raises(HasDaemon, match=f"`{command}` of {tmp_path} is under way"):
        launch_demo(settings, DAYS, TABLES, fake_location.__name__)
    assert not (tmp_path / "dagster").exists()


def test_its_own_daemon_keeps_make_dev_away(demo: Demo, tmp_path: Path) -> None:
    backfill = demo("time.sleep(60)")
    seen: list[str] = []

    def refused() -> bool:
        with pytest.raises(HasDaemon) as error, only_daemon(Settings.at(tmp_path), "make dev"):
            pass
        seen.append(str(error.value))
        return True

    with backfill._running_daemon() as lives:
        assert lives() and refused()
    with only_daemon(Settings.at(tmp_path), "make dev"):
        assert "`backfill demo`" in seen[0]


_INTERRUPTED = """
import signal, sys
from dataclasses import replace
from pathlib import Path
from backfill_assets.cli.foreground import interrupt
from backfill_assets.days import DayRange
from backfill_assets.defs.specs import VERSION_TAG
from backfill_assets.examples.demo.backfill import launch_demo
from backfill_assets.examples.demo.progress import Phases
from backfill_assets.settings import Settings
home, location, daemon, *tables = sys.argv[1:]
signal.signal(signal.SIGTERM, interrupt)
backfill = launch_demo(Settings.at(Path(home)), DayRange.parse("2017-03-01..2017-03-03"), tables, location)
replace(backfill, daemon=(sys.executable, "-c", daemon)).carry_out(["raw_sales"], Phases())
"""


def test_an_interrupted_demo_leaves_nothing_running(tmp_path: Path) -> None:
    """The daemon and all it started are gone, and no later daemon takes up the backfill. Ctrl-C is raised alike."""
    pid_file = tmp_path / "pid"
    daemon = "import time\n" + textwrap.dedent(_grandchild(pid_file)) + "\ntime.sleep(60)"
    arguments = [str(tmp_path), fake_location.__name__, daemon, *TABLES]
    running = subprocess.Popen(
        [sys.executable, "-c", _INTERRUPTED, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    wait_until(lambda: (pid_file.exists() and pid_file.read_text()) or running.poll() is not None, 60)
    running.terminate()
    said, errors = running.communicate(timeout=30)
    assert running.returncode != 0
    assert "Nothing is left running." in said, errors
    with dg.DagsterInstance.from_config(str(dagster_home(Settings.at(tmp_path)))) as instance:
        assert [backfill.status.value for backfill in instance.get_backfills()] == ["CANCELED"]
    _assert_gone(pid_file)


def _check(table: str, day: str, *, passed: bool) -> SimpleNamespace:
    return SimpleNamespace(asset_key=dg.AssetKey(table), partition=day, passed=passed)


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        ([], "0 days of tables read again: each is as it was published"),
        ([_check("raw_sales", "2017-03-01", passed=True)], "1 day of tables read again: each is as it was published"),
        (
            [_check("raw_sales", "2017-03-01", passed=True), _check("bronze_sales", "2017-03-02", passed=False)],
            "2 days of tables read again: wrong are bronze_sales 2017-03-02",
        ),
    ],
)
def test_what_the_watchdogs_found_is_said_and_the_first_page_is_written_after_it(
    verdicts: list[SimpleNamespace], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []

    def executed(**_: object) -> SimpleNamespace:
        happened.append("watchdogs")
        return SimpleNamespace(get_asset_check_evaluations=lambda: verdicts)

    def state(*_: object) -> str:
        happened.append("state")
        return "the state"

    monkeypatch.setattr(backfill_module, "watchdog_job", lambda *_: SimpleNamespace(execute_in_process=executed))
    monkeypatch.setattr(backfill_module, "lakehouse_state", state)
    monkeypatch.setattr(backfill_module, "report_state", lambda _, found: happened.append(found))
    with dg.DagsterInstance.ephemeral() as instance:
        assert watch_and_report(instance, Settings.at(tmp_path)) == said
    assert happened == ["watchdogs", "state", "the state"]
