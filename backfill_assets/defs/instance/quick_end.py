"""Lets a process of Dagster end at once when it is asked to."""

from __future__ import annotations

import atexit
import gc


def end_at_once() -> None:
    """Leave what the process holds to the operating system when it ends.

    Python would look for garbage among everything that was ever imported, for two seconds and more of computing. On a
    busy machine code server and daemon were killed before they came to their end.
    """
    # Handlers run in the reverse order: this one comes after those of what is imported later.
    atexit.register(gc.freeze)
