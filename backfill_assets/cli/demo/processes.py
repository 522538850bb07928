"""The processes behind ``backfill demo``: one that launches and follows the backfill, and Dagster's daemon.

When the demo ends, in success or failure, both are stopped with everything they started.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backfill_assets.cli.demo.dagster_home import REPOSITORY, dagster_home
from backfill_assets.days import DayRange
from backfill_assets.errors import BackfillError
from backfill_assets.settings import Settings

_PATIENCE = 30
_GRACE = 8
_EXISTS = 0
"""Signal 0 is never delivered: it only checks that the process group exists."""
_LAST_LINES = 15
LauncherReport = dict[str, Any]
"""What the launcher says in one line: see :class:`backfill_assets.defs.instance.launch.BackfillProgress`."""


class DemoFailed(BackfillError):
    """The backfill ended without publishing everything it was launched for."""


@dataclass(frozen=True)
class DemoProcesses:
    """Starts them for one lakehouse; ``launcher`` and ``daemon`` are commands that take more arguments."""

    settings: Settings
    launcher: tuple[str, ...] = (sys.executable, "-m", "backfill_assets.defs.instance.launcher")
    daemon: tuple[str, ...] = (sys.executable, "-m", "backfill_assets.defs.instance.fast_daemon")
    tables: tuple[str, ...] = ()
    """What is launched; every table, unless named."""

    @property
    def daemon_log(self) -> Path:
        return self.settings.home / "dagster" / "demo-daemon.log"

    @property
    def launcher_log(self) -> Path:
        return self.settings.home / "dagster" / "demo-launcher.log"

    @contextmanager
    def launch(self, days: DayRange) -> Iterator[subprocess.Popen[str]]:
        """Launched before the daemon starts, because its first check for backfills comes soonest."""
        command = [*self.launcher, "--days", str(days), "--title", f"Demo: {days}", "--tag", "user=backfill demo"]
        command += self.tables
        environment = self._environment()
        with (
            self.launcher_log.open("w") as log,
            subprocess.Popen(
                command,
                cwd=REPOSITORY,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            ) as process,
        ):
            try:
                yield process
            finally:
                stop_with_all_it_started(process)

    @contextmanager
    def run_daemon(self, until: subprocess.Popen[str]) -> Iterator[None]:
        """In a session of its own, so that nothing it starts outlives it. If it dies, so does ``until``."""
        with self.daemon_log.open("w") as log:
            process = subprocess.Popen(
                [*self.daemon, "run", "-w", "workspace.yaml"],
                cwd=REPOSITORY,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        threading.Thread(target=_end_with, args=(process, until), daemon=True).start()
        try:
            yield
        finally:
            stop_with_all_it_started(process)

    def cancel(self, backfill_id: str) -> None:
        """Cancel the backfill once the daemon has ended, so that no later daemon resumes it."""
        command = [*self.launcher, "--cancel", backfill_id]
        subprocess.run(command, cwd=REPOSITORY, env=self._environment(), capture_output=True, check=False)

    def _environment(self) -> dict[str, str]:
        """Absolute, because the processes work in the repository, wherever the demo was started."""
        here: dict[str, Path | str] = {
            "BACKFILL_HOME": self.settings.home,
            "BACKFILL_LAKEHOUSE": self.settings.lakehouse,
            "BACKFILL_LANDING": self.settings.landing,
            "BACKFILL_TOKEN_KEY_FILE": self.settings.token_key_file,
            "DAGSTER_HOME": dagster_home(self.settings),
        }
        if self.settings.spark_remote:
            here["SPARK_REMOTE"] = self.settings.spark_remote
        return {**os.environ, **{name: str(path) for name, path in here.items()}, "PYTHONUNBUFFERED": "1"}


def told_by(launcher: subprocess.Popen[str]) -> Iterator[LauncherReport]:
    """Each change of the backfill, until it ends."""
    for line in launcher.stdout or ():
        if line.startswith("{"):
            told: LauncherReport = json.loads(line)
            yield told


def said_last(log: Path) -> str:
    """The end of what a process wrote, for when it died."""
    return "\n".join(log.read_text(errors="replace").strip().splitlines()[-_LAST_LINES:])


def _end_with(daemon: subprocess.Popen[bytes], launcher: subprocess.Popen[str]) -> None:
    daemon.wait()
    launcher.terminate()


def stop_with_all_it_started(process: subprocess.Popen[Any]) -> None:
    """End the process, then the rest of its session."""
    process.terminate()
    try:
        process.wait(timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for ending in (signal.SIGTERM, signal.SIGKILL):
        if _session_ended(process.pid, ending):
            return


def _session_ended(group: int, ending: int) -> bool:
    """Send ``ending`` to the rest of a session, and wait some seconds: a run that stops records it in Dagster."""
    number, until = ending, time.monotonic() + _GRACE
    while time.monotonic() < until:
        try:
            os.killpg(group, number)
        except ProcessLookupError:
            return True
        number = _EXISTS
        time.sleep(0.1)
    return False
