"""Which commit of the code is running: recorded with each publication."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

UNKNOWN_COMMIT = "unknown"
_ASK_GIT = ("git", "rev-parse", "HEAD")


@cache
def git_commit() -> str:
    """The commit of the running code: ``BACKFILL_GIT_COMMIT`` where there is no repository, as in an image."""
    given = os.environ.get("BACKFILL_GIT_COMMIT", "").strip()
    if given:
        return given
    here = Path(__file__).resolve().parent
    try:
        asked = subprocess.run(_ASK_GIT, cwd=here, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return UNKNOWN_COMMIT
    return asked.stdout.strip()
