"""One Dagster daemon for a home: ``make dev`` and the demo's own wait for each other, from their first second on.

Two daemons of one instance would each launch the same runs. What they note when they are ready comes too late for one
that is started seconds after another: so the first one locks a file, and the system unlocks it however that one ends.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from backfill_assets.errors import BackfillError
from backfill_assets.settings import Settings

_BESIDE = {
    "make dev": "When its UI answers, use that one: `backfill ui` opens it. Or end it first",
    "backfill demo": "Wait until it has ended. Or end it first",
}


class HasDaemon(BackfillError):
    """Another process has the daemon of this home."""


def daemon_file(settings: Settings) -> Path:
    """The file that is locked as long as a daemon of a home runs; it names the command that runs it."""
    return settings.home / "daemon.lock"


@contextmanager
def only_daemon(settings: Settings, command: str) -> Iterator[None]:
    """Keep other daemons of this home away; raises :class:`HasDaemon` if one is there. ``command`` runs this one."""
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
        lock.write(json.dumps({"command": command, "pid": os.getpid()}))
        lock.flush()
        yield


def _has_daemon(settings: Settings, file: Path) -> HasDaemon:
    """Names the other one, unless it has not written its name yet."""
    command, pid = "", 0
    with suppress(OSError, ValueError, KeyError, TypeError):
        noted = json.loads(file.read_text())
        command, pid = str(noted["command"]), int(noted["pid"])
    if command not in _BESIDE:
        return HasDaemon(
            f"Another command has the daemon of {settings.home}.", hint="Wait until it has ended, then try again."
        )
    return HasDaemon(
        f"`{command}` of {settings.home} is under way, and has its daemon.",
        hint=f"{_BESIDE[command]}: Ctrl-C where it runs, or kill {pid}.",
    )
