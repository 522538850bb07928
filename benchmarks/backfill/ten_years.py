"""``backfill status`` over generated logs: ``python -m benchmarks.backfill.ten_years write|status FOLDER``."""

from __future__ import annotations

import sys

from backfill_assets.lakehouse.storage import Storage
from backfill_assets_tests.declared import catalog_of, declare_only
from benchmarks.generated_history import chain, write_metadata


def main() -> None:
    what, folder = sys.argv[1:]
    steps = chain()
    if what == "write":
        write_metadata(Storage(folder), steps)
        return
    declare_only(catalog_of(steps))
    from backfill_assets.cli import main as backfill

    backfill(["status"])


if __name__ == "__main__":
    main()
