"""Lets a process end at once: a command that is done, and what Dagster runs when it is asked to."""

from __future__ import annotations

import atexit
import gc


def end_at_once() -> None:
    """Leave what the process holds to the operating system when it ends.

    Python would look for garbage among everything that was ever imported: a fifth of a second of a command, and two
    seconds and more of a code server or daemon, which were killed on a busy machine before they came to their end.
    """
    # Handlers run in the reverse order: this one comes after those of what is imported later.
    atexit.register(gc.freeze)
