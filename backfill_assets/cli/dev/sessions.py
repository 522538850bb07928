"""Processes in sessions of their own, ended with all they started. A shell ends them if this process dies."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from backfill_assets import clock

_GRACE_SECONDS = 10.0
_EXISTS = 0
# A process killed with -9 cannot end what it has started. But its pipe closes, and the shell that reads from the pipe
# then ends the process groups of the last line: each gets ten seconds between the first signal and the last.
_END_GROUPS = """
while read -r line; do groups=$line; done
for signal in TERM 0 0 0 0 0 0 0 0 0 0 KILL; do
    left=
    for group in $groups; do kill -$signal -$group && left="$left $group"; done
    groups=$left
    [ -n "$groups" ] || exit 0
    sleep 1
done
"""


@dataclass
class _Watch:
    groups: set[int] = field(default_factory=set)
    shell: subprocess.Popen[bytes] | None = None

    def add(self, group: int) -> None:
        self.groups.add(group)
        self._report()

    def remove(self, groups: Iterable[int]) -> None:
        if known := self.groups.intersection(groups):
            self.groups -= known
            self._report()

    def _report(self) -> None:
        shell = self.shell if self.shell is not None and self.shell.poll() is None else _start_watching()
        self.shell = shell if self.groups else None
        line = " ".join(map(str, sorted(self.groups))) + "\n"
        with suppress(BrokenPipeError):
            if shell.stdin is not None:
                shell.stdin.write(line.encode())
                shell.stdin.flush()
        if self.shell is None:
            shell.communicate()


def _start_watching() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ("/bin/sh", "-c", _END_GROUPS),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # What ends this process, a closed terminal or kill -9 of its group, must not end the shell.
        start_new_session=True,
    )


_watch = _Watch()


def start_process(
    command: Sequence[str],
    folder: Path,
    variables: Mapping[str, str],
    is_ready: Callable[[], bool] = lambda: True,
    output: IO[str] | None = None,
) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=os.environ | variables,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )
    try:
        _watch.add(process.pid)
        while process.poll() is None and not is_ready():
            clock.sleep(0.1)
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        _watch.remove([process.pid])
        raise
    return process


def stop_sessions(leaders: Iterable[subprocess.Popen[bytes]], grace_seconds: float = _GRACE_SECONDS) -> None:
    left = every = list(leaders)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for each in left:
            with suppress(ProcessLookupError):
                os.killpg(each.pid, number)
        until = clock.seconds() + grace_seconds
        while (left := [each for each in left if session_exists(each)]) and clock.seconds() < until:
            clock.sleep(0.05)
    _watch.remove(each.pid for each in every)


def living_sessions(leaders: Iterable[subprocess.Popen[bytes]]) -> list[subprocess.Popen[bytes]]:
    known = list(leaders)
    living = [each for each in known if session_exists(each)]
    _watch.remove({each.pid for each in known} - {each.pid for each in living})
    return living


def session_exists(leader: subprocess.Popen[bytes]) -> bool:
    if leader.poll() is None:
        return True
    try:
        os.killpg(leader.pid, _EXISTS)
    except ProcessLookupError:
        return False
    return True
