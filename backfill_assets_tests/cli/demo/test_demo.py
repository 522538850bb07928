"""The demo as a person sees it: progress, failures with what to do next, and nothing left running however it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from backfill_assets.cli.demo import dagster_home as homes
from backfill_assets.cli.demo.demo import Phases, backfilled
from backfill_assets.cli.demo.processes import DemoFailed, DemoProcesses, LauncherReport
from backfill_assets.cli.demo.progress import BackfillProgressView
from backfill_assets.days import DayRange
from backfill_assets.settings import Settings

DAYS = DayRange.parse("2017-03-01..2017-03-03")
STEPS = ["raw_sales", "bronze_sales"]
_DAEMON = "import time\nprint('the daemon works', flush=True)\ntime.sleep(60)"
_LAUNCHER = """
    import sys, time
    if "--cancel" in sys.argv:
        open({cancelled!r}, "w").write(sys.argv[-1])
        sys.exit()
    for line in {lines!r}:
        print(line, flush=True)
        time.sleep({pause})
    {end}
"""


def told(status: str = "REQUESTED", **more: object) -> LauncherReport:
    """One line of the launcher."""
    empty: LauncherReport = {"runs": {}, "steps": {}, "step_seconds": {}, "message": "", "error": "", "failure": ""}
    return empty | {"backfill_id": "abcdefgh", "status": status} | more


RUNNING = told(steps={"raw_sales": "STARTED"}, message="raw_sales: 1/3 days staged, ETA 4 s")
HALF = told(steps={"raw_sales": "SUCCESS", "bronze_sales": "STARTED"}, step_seconds={"raw_sales": 7.4})
DONE = told(
    "COMPLETED_SUCCESS",
    steps={"raw_sales": "SUCCESS", "bronze_sales": "SUCCESS"},
    step_seconds={"raw_sales": 7.4, "bronze_sales": 2.0},
)

Demo = Callable[..., DemoProcesses]


@pytest.fixture
def demo(tmp_path: Path) -> Demo:
    """The demo's processes with scripts for Dagster: what the launcher says, and what the daemon does."""

    def scripted(*lines: LauncherReport, end: str = "", daemon: str = _DAEMON, pause: float = 0.0) -> DemoProcesses:
        script = textwrap.dedent(_LAUNCHER).format(
            lines=[json.dumps(line) for line in lines], end=end, pause=pause, cancelled=str(tmp_path / "cancelled")
        )
        return DemoProcesses(
            Settings.at(tmp_path), (sys.executable, "-c", script), (sys.executable, "-c", textwrap.dedent(daemon))
        )

    return scripted


def _assert_gone(pid_file: Path) -> None:
    """A container reaps no orphans, so a zombie counts as gone."""
    stat = Path("/proc") / pid_file.read_text() / "stat"
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


def _grandchild(pid_file: Path) -> str:
    """A daemon that starts a process which outlives it unless it is ended as well."""
    return f"""
        import subprocess, sys, time
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        open({str(pid_file)!r}, "w").write(str(child.pid))
        time.sleep(60)
    """


def test_each_thing_is_said_once_and_in_order(demo: Demo, capsys: pytest.CaptureFixture[str]) -> None:
    """In a log or a pipe there is no place to overwrite: a line when a step begins, stages days, and is done."""
    last = backfilled(DAYS, demo(told(), RUNNING, RUNNING, HALF, DONE), STEPS, Phases())
    assert last == DONE
    said = [line.partition("  ")[2] for line in capsys.readouterr().out.splitlines() if line[:2].isdigit()]
    assert said == [
        "raw_sales                  running  1/3 days staged, ETA 4 s",
        "raw_sales                  done     7 s",
        "bronze_sales               running",
        "bronze_sales               done     2 s",
    ]


def test_the_headline_says_what_the_demo_waits_for() -> None:
    """Half a minute without a word looks like a hang."""
    progress = BackfillProgressView(STEPS, told())
    for now, expected in (
        (told(), "waiting for Dagster's daemon to start the run"),
        (RUNNING, "0 of 2 steps done"),
        (HALF, "1 of 2 steps done"),
        (DONE | {"status": "REQUESTED"}, "every step is done, Dagster is closing the backfill"),
        (told(steps={"raw_sales": "FAILURE"}), "a step failed, Dagster is closing the backfill"),
    ):
        progress.hear(now)
        assert progress.headline == f"backfill abcdefgh, 00:00: {expected}"


def test_a_failed_backfill_says_why_and_what_to_do(demo: Demo) -> None:
    """The reason of the failed step, not only that there was one."""
    reason = "bronze_sales: 1 day(s) did not pass their gates"
    failed = told("COMPLETED_FAILED", steps={"raw_sales": "SUCCESS", "bronze_sales": "FAILURE"}, failure=reason)
    with pytest.raises(DemoFailed, match="abcdefgh ended as COMPLETED_FAILED: bronze_sales: 1 day") as error:
        backfilled(DAYS, demo(told(), failed, end="sys.exit(1)"), STEPS, Phases())
    assert "make dev" in str(error.value.hint)


def test_a_backfill_that_cannot_be_launched_says_why(demo: Demo) -> None:
    """Everything the launcher wrote before it gave up."""
    with pytest.raises(DemoFailed, match="could not be launched: raw_sales has no partition"):
        backfilled(DAYS, demo(end="sys.exit('raw_sales has no partition 2030-01-01')"), STEPS, Phases())


def test_a_daemon_that_dies_ends_the_demo(demo: Demo, tmp_path: Path) -> None:
    """Without it nothing would ever happen again: the demo would wait for ever."""
    processes = demo(told(), end="time.sleep(60)", daemon="raise SystemExit('no space left on device')")
    with pytest.raises(DemoFailed, match=r"(?s)daemon died .*no space left on device"):
        backfilled(DAYS, processes, STEPS, Phases())
    assert (tmp_path / "cancelled").read_text() == "abcdefgh"


@pytest.mark.story
def test_what_the_daemon_started_ends_with_it(demo: Demo, tmp_path: Path) -> None:
    """Code servers and runs with their JVMs are children of the daemon, and would go on without it."""
    processes = demo(told(), DONE, daemon=_grandchild(tmp_path / "pid"), pause=1.0)
    backfilled(DAYS, processes, STEPS, Phases())
    _assert_gone(tmp_path / "pid")


_INTERRUPTED = """
import json, sys
from pathlib import Path
from backfill_assets.cli.demo import demo
from backfill_assets.cli.demo.processes import DemoProcesses
from backfill_assets.days import DayRange
from backfill_assets.settings import Settings
launcher, daemon, home = json.loads(sys.argv[1])
processes = DemoProcesses(Settings.at(Path(home)), tuple(launcher), tuple(daemon))
with demo._stopped_by_signals():
    demo.backfilled(DayRange.parse("2017-03-01..2017-03-03"), processes, ["raw_sales"], demo.Phases())
"""


@pytest.mark.story
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "terminated"])
def test_an_interrupted_demo_leaves_nothing_running(demo: Demo, tmp_path: Path, ending: signal.Signals) -> None:
    """The daemon and all it started are gone, and no later daemon takes up what is not waited for."""
    pid_file = tmp_path / "pid"
    processes = demo(told(), end="time.sleep(60)", daemon=_grandchild(pid_file))
    arguments = json.dumps([processes.launcher, processes.daemon, str(tmp_path)])
    running = subprocess.Popen(
        [sys.executable, "-c", _INTERRUPTED, arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    until = time.monotonic() + 15
    while not (pid_file.exists() and pid_file.read_text()) and time.monotonic() < until:
        time.sleep(0.05)
    os.kill(running.pid, ending)
    said, errors = running.communicate(timeout=15)
    assert running.returncode != 0
    assert "Nothing is left running." in said, errors
    assert (tmp_path / "cancelled").read_text() == "abcdefgh"
    _assert_gone(pid_file)


def test_each_home_has_a_dagster_of_its_own(tmp_path: Path) -> None:
    """Two lakehouses that share a history would each show what only the other has."""
    for name in ("one", "two"):
        folder = homes.dagster_home(Settings.at(tmp_path / name))
        assert folder == tmp_path / name / "dagster"
        text = (folder / "dagster.yaml").read_text()
        assert f"base_dir: {folder}\n" in text
        assert ".data/dagster" not in text


def test_the_repositorys_own_file_is_never_written_through_a_link(tmp_path: Path) -> None:
    """A link to it, as ``ln -s`` makes one, is replaced by a file."""
    original = (homes.REPOSITORY / "dagster.yaml").read_text()
    (tmp_path / "dagster").mkdir()
    (tmp_path / "dagster" / "dagster.yaml").symlink_to(homes.REPOSITORY / "dagster.yaml")
    homes.dagster_home(Settings.at(tmp_path))
    assert (homes.REPOSITORY / "dagster.yaml").read_text() == original
    assert not (tmp_path / "dagster" / "dagster.yaml").is_symlink()
