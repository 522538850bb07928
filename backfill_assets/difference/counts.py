"""What days hold: from what was measured when they were staged, and from their rows where that does not say it.

A total that was declared after a day was published was not measured for it, and what a foreign write brought is
unknown. Such figures are read from files, and Spark is not started but for hashes that it has not written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from functools import partial
from typing import TYPE_CHECKING

from backfill_assets.judge.measure import measure_files
from backfill_assets.lakehouse.records import DayContent, InputRead
from backfill_assets.model.checks import struct_type
from backfill_assets.model.declaration import Metric, Metrics, Table
from backfill_assets.quality import measures
from backfill_assets.rebuild.lake import Lake
from backfill_assets.rebuild.place import NOTHING_LAID, Overlay

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Contents = Mapping[date, DayContent | None]
"""What days hold; None is unknown."""
FiguresRead = dict[tuple[str, date, str], DayContent]
"""What was read, by table, day and content; a foreign write is known by the version of main."""


def complete(
    lake: Lake,
    table: Table,
    contents: Contents,
    version: int | None,
    overlay: Overlay = NOTHING_LAID,
    read: FiguresRead | None = None,
) -> dict[date, DayContent]:
    """``contents`` with every figure that is compared: what was not measured is read.

    Rows are those of ``version`` of main, and of ``overlay`` for the days that it has. ``read`` keeps what is read.
    """
    names, read = measures.compared_metrics(table), {} if read is None else read
    known = {day: content for day, content in contents.items() if content is not None and _is_measured(content, names)}
    keys = {
        day: (table.name, day, content.logical if content else f"version {version}")
        for day, content in contents.items()
        if day not in known
    }
    lacking = {day: contents[day] for day, key in keys.items() if key not in read}
    if lacking:
        found = _read(lake, table, lacking, version, overlay)
        read |= {keys[day]: content for day, content in found.items()}
    return {**known, **{day: read[key] for day, key in keys.items()}}


def _read(lake: Lake, table: Table, lacking: Contents, version: int | None, overlay: Overlay) -> dict[date, DayContent]:
    names = {*measures.compared_metrics(table), *({"rows", "checksum"} if None in lacking.values() else ())}
    read = InputRead(table=table.name, version=version, days=dict.fromkeys(lacking, ""))
    files = overlay.files(lake.storage, read)
    rows = partial(_rows, lake, table, read, overlay)
    found = measure_files(lake.storage, table, files, rows, only=names)
    nothing = dict.fromkeys(names, 0)
    return {day: _complete_content(content, found.get(day, nothing)) for day, content in lacking.items()}


def _rows(lake: Lake, table: Table, read: InputRead, overlay: Overlay) -> DataFrame:
    return overlay.rows(lake.spark(), lake.storage, read, struct_type(table.contract))


def _complete_content(content: DayContent | None, read: Metrics) -> DayContent:
    metrics = {name: _as_stored(value) for name, value in read.items() if name not in ("rows", "checksum")}
    if content is None:
        return DayContent(rows=int(str(read["rows"])), checksum=str(read["checksum"]), metrics=metrics)
    measured = {name: value for name, value in content.metrics.items() if value is not None}
    return replace(content, metrics={**metrics, **measured})


def _is_measured(content: DayContent, names: tuple[str, ...]) -> bool:
    return all(content.figure(name) is not None for name in names)


def _as_stored(value: Metric) -> int | str | None:
    return value if value is None or isinstance(value, int) else str(value)
