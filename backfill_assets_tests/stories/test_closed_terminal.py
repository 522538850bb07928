"""``make dev`` in a terminal that is closed, or with one of its starters killed: nothing that it started goes on."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
_PARTS = 4
"""Code server, daemon, UI and letters."""
_PART = """
import os, pathlib, signal, socket, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path(os.environ["BACKFILL_HOME"], f"{os.getpid()}.part").touch()
if "-p" in sys.argv:
    time.sleep(float(os.environ["STARTS_FOR"]))
    listening = socket.create_server(("127.0.0.1", int(sys.argv[sys.argv.index("-p") + 1])))
time.sleep(600)
"""
"""Like a part of Dagster that hangs: it does not end before it has to."""
_DEV = """
import os, signal, sys
from backfill_assets.cli.dev import dev, sessions
from backfill_assets.cli.dev.dev import DagsterCommands, Location, serve
from backfill_assets.cli.dev.sessions import stop_sessions
from backfill_assets.settings import Settings

def stop_after_another_signal(leaders):
    os.kill(os.getpid(), signal.SIGHUP)
    stop_sessions(leaders, 0.5)

dev.stop_sessions = stop_after_another_signal
sessions._END_GROUPS = sessions._END_GROUPS.replace("sleep 1", "sleep 0.05")
part = (sys.executable, "-S", "-E", "-c", {part!r})
sys.exit(serve(Settings.from_environment(), 3459, Location("any", "any"), DagsterCommands(part, part, part)))
"""
"""The second signal comes after the first one is dealt with; in a real terminal, at any moment within a millisecond.

A part that hangs gets half a second between the first signal and the last, in place of ten.
"""
_SHELL = """
import os, signal
os.close(os.open(os.ttyname(0), os.O_RDWR))
for number in (signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_DFL)
os.execvp("bash", ["bash", "--norc", "-i"])
"""
"""The terminal that a leader of a session opens controls it."""


@dataclass
class Terminal:
    """A shell on a terminal, in which ``make dev`` was typed."""

    home: Path
    shell: int
    screen: int

    def close(self) -> None:
        if self.screen >= 0:
            os.close(self.screen)
            self.screen = -1

    def processes(self) -> dict[int, str]:
        """What lives and has this home, by its number."""
        found = {}
        for each in psutil.process_iter():
            try:
                if each.environ().get("BACKFILL_HOME") == str(self.home) and each.status() != psutil.STATUS_ZOMBIE:
                    found[each.pid] = " ".join(each.cmdline())
            except (psutil.Error, OSError):
                continue
        return found

    def kill(self, command: str) -> None:
        """With -9, the process whose command line begins so."""
        (pid,) = [pid for pid, line in self.processes().items() if line.startswith(command)]
        os.kill(pid, signal.SIGKILL)

    def wait_for(self, what: Callable[[], object], seconds: float) -> bool:
        """While what is said is read, as a terminal does."""
        until = time.monotonic() + seconds
        while not (is_so := bool(what())) and time.monotonic() < until:
            if self.screen >= 0 and select.select([self.screen], [], [], 0)[0]:
                os.read(self.screen, 65536)
            time.sleep(0.1)
        return is_so


@pytest.fixture
def terminal(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Terminal]:
    """With what is typed, the seconds that the code server takes to answer, and the parts that are there then."""
    program = tmp_path / "dev.py"
    program.write_text(_DEV.format(part=_PART))
    (tmp_path / "Makefile").write_text(f"dev:\n\t@exec {sys.executable} {program}\n")
    typed, seconds, parts = getattr(request, "param", ("make dev", 0, _PARTS))
    variables = {"BACKFILL_HOME": str(tmp_path), "SPARK_REMOTE": "sc://127.0.0.1:1", "PYTHONPATH": str(ROOT)}
    screen, line = pty.openpty()
    shell = subprocess.Popen(
        [sys.executable, "-c", _SHELL],
        cwd=tmp_path,
        env=os.environ | variables | {"STARTS_FOR": str(seconds)},
        stdin=line,
        stdout=line,
        stderr=line,
        start_new_session=True,
    )
    os.close(line)
    found = Terminal(tmp_path, shell.pid, screen)
    try:
        os.write(screen, f"{typed}\n".encode())
        own = parts - 1
        assert found.wait_for(lambda: len(list(tmp_path.glob("*.part"))) == own, 60), found.processes()
        yield found
    finally:
        for pid in found.processes():
            os.kill(pid, signal.SIGKILL)
        found.close()
        shell.kill()
        shell.wait()


def _close(terminal: Terminal) -> None:
    terminal.close()


def _kill_shell(terminal: Terminal) -> None:
    os.kill(terminal.shell, signal.SIGKILL)


def _kill_make(terminal: Terminal) -> None:
    terminal.kill("make dev")


def _kill_dev(terminal: Terminal) -> None:
    terminal.kill(f"{sys.executable} {terminal.home}/dev.py")


@pytest.mark.parametrize("end", [_close, _kill_shell, _kill_make, _kill_dev])
def test_nothing_is_left_of_make_dev(terminal: Terminal, end: Callable[[Terminal], None]) -> None:
    """Parts that do not end by themselves, a second signal while they are stopped, and kill -9 of the command."""
    assert len(terminal.processes()) >= 2 + _PARTS
    end(terminal)
    assert terminal.wait_for(lambda: set(terminal.processes()) <= {terminal.shell}, 30), terminal.processes()


@pytest.mark.parametrize("terminal", [("make dev", 600, 2)], indirect=True)
def test_nothing_is_left_of_one_that_starts(terminal: Terminal) -> None:
    """The code server does not answer yet."""
    terminal.close()
    assert terminal.wait_for(lambda: set(terminal.processes()) <= {terminal.shell}, 30), terminal.processes()


@pytest.mark.parametrize("terminal", [("nohup make dev &", 0, _PARTS)], indirect=True)
def test_nohup_keeps_it(terminal: Terminal) -> None:
    """Who types that wants it to go on."""
    terminal.close()
    terminal.wait_for(lambda: terminal.shell not in terminal.processes(), 10)
    time.sleep(1)
    assert len(terminal.processes()) >= 1 + _PARTS
