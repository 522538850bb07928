"""What a campaign looks at besides building: rows of two sides, and what was published read again; without DuckDB."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal

import pytest

from backfill_assets.campaign import review
from backfill_assets.difference.compare import TableComparison
from backfill_assets.difference.difference import RowCounts, Sums, TableCompared
from backfill_assets.judge import by_pandera
from backfill_assets.judge.engine import DayFiles
from backfill_assets.lakehouse.records import DayRecord
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Table
from backfill_assets.upkeep import watch
from backfill_assets_tests.simulator.chain import measured_of

_Side = Mapping[date, DayRecord]


def compared_in_memory(patch: pytest.MonkeyPatch) -> None:
    """Campaigns compare rows that they read through their storage; what comes of it is decided as ever."""
    patch.setattr(TableComparison, "_with_rows", _with_rows)
    patch.setattr(watch, "measure_files", _measure_files)
    patch.setattr(by_pandera, "pandera_report", lambda *_: ())
    patch.setattr(review, "html", lambda _: "")


def _names_in(storage: Storage, paths: Sequence[str]) -> list[str]:
    return [name for path in paths for name in storage.read_parquet(path, ["name"]).column("name").to_pylist()]


def _with_rows(
    beside: TableComparison, found: TableCompared, days: Sequence[date], _only: Sequence[str]
) -> TableCompared:
    read = list(found.days)
    for day in days:
        before, after = (_rows_of(beside, side, day) for side in (beside.before, beside.after))
        same, keys = (before & after).total(), [{_key(name) for name in rows} for rows in (before, after)]
        kept = len(keys[0] & keys[1])
        counts = RowCounts(
            added=after.total() - kept, removed=before.total() - kept, changed=kept - same, unchanged=same
        )
        amounts = [sum(int(name.rpartition("=")[2]) for name in rows.elements()) for rows in (before, after)]
        sums = {name: Sums(before=Decimal(amounts[0]), after=Decimal(amounts[1])) for name in beside.table.totals}
        read.append(beside._day(day, "compared", counts, sums))
    return found.model_copy(update={"days": tuple(sorted(read, key=lambda each: each.day))})


def _rows_of(beside: TableComparison, side: _Side, day: date) -> Counter[str]:
    files = [file.below(beside.table.name).path for file in side[day].files] if day in side else []
    return Counter(_names_in(beside.lake.storage, files))


def _key(name: str) -> str:
    return name.partition("=")[0]


def _measure_files(
    storage: Storage, table: Table, files: DayFiles, *_: object, **__: object
) -> dict[date, dict[str, int]]:
    return {day: measured_of(table, _names_in(storage, [file.path for file in some])) for day, some in files.items()}
