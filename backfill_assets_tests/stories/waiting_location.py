"""A code location without Spark: its asset works until a file says that it may end."""

import os
import time
from pathlib import Path

import dagster as dg

MAY_END = "may-end"
"""A file in the home."""


@dg.asset
def waiting() -> None:
    """As a long build does; it says nothing meanwhile."""
    may_end = Path(os.environ["BACKFILL_HOME"]) / MAY_END
    while not may_end.exists():
        time.sleep(0.1)


defs = dg.Definitions([waiting])
