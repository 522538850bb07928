"""A lakehouse with a source of many columns. Run as a module, the command line that knows this source."""

from __future__ import annotations

import shutil
import sys
from datetime import timedelta

from backfill_assets.cli import main
from backfill_assets.days import DayRange
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.model.catalog import Catalog
from backfill_assets_tests.declared import declare_only
from benchmarks.backfill.contenders import wide
from benchmarks.backfill.data import KEY, Data
from benchmarks.wide_dataset import DAY, land_wide, wide_dataset


def generated(days: int, rows_per_day: int) -> Data:
    """The data of that size, landed and in raw; made at the first call, and kept."""
    span = DayRange(DAY, DAY + timedelta(days=days - 1))
    data = Data(span, rows_per_day, "wide", (sys.executable, "-m", "benchmarks.backfill.wide_data"))
    done = data.home / "complete"
    if not done.exists():
        shutil.rmtree(data.home, ignore_errors=True)
        print(f"Generating {data.home.name} ...", file=sys.stderr, flush=True)
        source = wide_dataset(wide.COLUMNS).steps[0].source
        assert source
        for day in span:
            land_wide(data.landing, source, rows_per_day, day)
        (data.home / KEY).write_text("no field of these is personal; a key there must be")
        data.run(wide.RAW, "--days", data.range, name="take-in-wide")
        done.touch()
    return data


if __name__ == "__main__":
    declare_only(Catalog.of([*CATALOG.datasets, wide_dataset(wide.COLUMNS)]))
    main()
