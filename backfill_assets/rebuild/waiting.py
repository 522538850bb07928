"""Reports what a build waits for, because a run that is silent for minutes looks like one that hangs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

SILENT_SECONDS = 60.0
WAITING = "Waiting: "
"""How such a report begins; commands print it in logs too."""


@contextmanager
def waiting(progress: Callable[[str], None], what: str) -> Iterator[None]:
    """While the block runs, report ``what`` it waits for and for how long, every :data:`SILENT_SECONDS`.

    The block itself reports nothing: ``progress`` is called from another thread. An error of ``progress`` is raised
    when the block ends.
    """
    ended = threading.Event()
    with ThreadPoolExecutor(1, thread_name_prefix="waiting") as pool:
        watcher = pool.submit(_report, progress, what, ended)
        try:
            yield
        finally:
            ended.set()
    watcher.result()


def _report(progress: Callable[[str], None], what: str, ended: threading.Event) -> None:
    started = time.monotonic()
    while not ended.wait(SILENT_SECONDS):
        progress(f"{WAITING}{what}, {time.monotonic() - started:.0f} s so far")
