"""Processes that lead a session of their own, and are ended with everything that they started."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

_GRACE_SECONDS = 10.0
_EXISTS = 0
"""Signal 0 is never delivered: it only checks that the process group exists."""


def start_process(
    command: Sequence[str],
    folder: Path,
    variables: Mapping[str, str],
    is_ready: Callable[[], bool] = lambda: True,
    output: IO[str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start ``command`` in a session of its own, and wait until it is ready or has ended.

    Ctrl-C comes to the starter alone, who ends everything once, in order. What it says goes to ``output``, if given.
    """
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
        while process.poll() is None and not is_ready():
            time.sleep(0.1)
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    return process


def stop_sessions(leaders: Iterable[subprocess.Popen[bytes]], grace_seconds: float = _GRACE_SECONDS) -> None:
    """End every process with all that it started: a run that has to stop gets ``grace_seconds`` to say so."""
    left = list(leaders)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for each in left:
            with suppress(ProcessLookupError):
                os.killpg(each.pid, number)
        until = time.monotonic() + grace_seconds
        while (left := [each for each in left if session_exists(each)]) and time.monotonic() < until:
            time.sleep(0.05)


def session_exists(leader: subprocess.Popen[bytes]) -> bool:
    """Whether anything is left of it: a run outlives the code server that started it."""
    if leader.poll() is None:
        return True
    try:
        os.killpg(leader.pid, _EXISTS)
    except ProcessLookupError:
        return False
    return True
