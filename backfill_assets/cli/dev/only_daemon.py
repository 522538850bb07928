"""One Dagster daemon for a home: two would each launch the same runs.

A file lock, which no death leaves behind: heartbeats come too late for daemons started seconds apart.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from backfill_assets.cli.running_dev import running_dev
from backfill_assets.errors import BackfillError
from backfill_assets.settings import Settings
from backfill_assets.spark.connect_server import answers, free_port
from backfill_assets.ui_addresses import FIRST_PAGE


class HasDaemon(BackfillError):
    """Another process has this home's daemon, or the port of the UI."""


def daemon_file(settings: Settings) -> Path:
    return settings.home / "daemon.lock"


@contextmanager
def only_daemon(settings: Settings, command: str) -> Iterator[None]:
    """Raises :class:`HasDaemon` if another process has the lock."""
    file = daemon_file(settings)
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _has_daemon(settings, file) from None
        except OSError:
            # A file system without locks: two daemons at once remain possible there.
            yield
            return
        lock.truncate(0)
        lock.write(json.dumps({"command": command, "pid": os.getpid()}))  # noqa: TID251 - a person may end it
        lock.flush()
        yield


def _has_daemon(settings: Settings, file: Path) -> HasDaemon:
    command, end = "Another command", ""
    with suppress(OSError, ValueError, KeyError, TypeError):
        noted = json.loads(file.read_text())
        command, end = f"`{noted['command']}`", f" Or end it first: Ctrl-C where it runs, or kill {noted['pid']}."
    return HasDaemon(
        f"{command} of {settings.home} is under way, and has its daemon.",
        hint=f"Wait until it has ended, or use its UI: `backfill ui` opens it.{end}",
    )


def require_place(settings: Settings, port: int) -> None:
    """Raise :class:`HasDaemon` if ``backfill dev`` of this home runs, or ``port`` is taken."""
    if dev := running_dev(settings):
        raise HasDaemon(
            f"`backfill dev` of {settings.home} runs already: {dev.ui}{FIRST_PAGE}",
            hint=f"Use that one, or end it first: Ctrl-C where it runs, or kill {dev.pid}. "
            "Another port is no way out: a lakehouse has one daemon.",
        )
    require_free_port(port)


def require_free_port(port: int) -> None:
    if answers(port):
        raise HasDaemon(
            f"Port {port} is taken by another program.",
            hint=f"End it, or take another port: backfill dev {free_port()}",
        )
