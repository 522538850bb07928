"""``backfill status`` over generated logs: ``python -m benchmarks.backfill.ten_years write|status FOLDER``."""

from __future__ import annotations

import sys

from backfill_assets.datasets import registry
from backfill_assets.lakehouse.storage import Storage
from benchmarks.generated_history import chain, write_metadata


def main() -> None:
    what, folder = sys.argv[1:]
    steps = chain()
    if what == "write":
        write_metadata(Storage(folder), steps)
        return
    tables = tuple(table for step in steps for table in step.tables)
    registry.steps = lambda: tuple(steps)
    registry.tables = lambda: tables
    from backfill_assets.cli import main as backfill

    backfill(["status"])


if __name__ == "__main__":
    main()
