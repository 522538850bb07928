"""Small tables of named rows, staged as a build stages them: files of a timeline, and a commit that lists its days."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from functools import cache

import pyarrow as pa

from backfill_assets.days import TableDay
from backfill_assets.errors import PublicationRefused
from backfill_assets.lakehouse.delta_log import AddedFile, read_log
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.records import DayChange, DayContent, Expected, Mode, Position, TableChange
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import StagedAs, Timeline
from backfill_assets.publish.pinned import Pin

DAYS = (date(2017, 3, 1), date(2017, 3, 2), date(2017, 3, 3))
Names = tuple[str, ...]


def schema(extra: int = 0) -> str:
    """Delta's JSON: a name, its day, and ``extra`` more nullable columns."""
    columns = {"name": "string", "day": "date"} | {f"extra_{number}": "string" for number in range(extra)}
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns.items()]
    return json.dumps({"type": "struct", "fields": fields})


def stage(storage: Storage, table: str, name: str, rows: Mapping[date, Names], extra: int = 0) -> Timeline:
    """Stage the days of ``rows`` into the timeline ``name``; a day may have no rows, and then it has no file."""
    timeline, files = Timeline(storage, table, name), list[AddedFile]()
    for day, names in rows.items():
        if names:
            more = {f"extra_{number}": [f"e{number}"] * len(names) for number in range(extra)}
            whole = pa.table({"name": list(names), **more})
            files.append(named_file(timeline, f"day={day}/part-0.parquet", day, whole))
    timeline.add(files, schema(extra), {day: StagedAs(input_fingerprint=f"of {day}") for day in rows})
    return timeline


def named_file(timeline: Timeline, path: str, day: date, rows: pa.Table) -> AddedFile:
    """A file of ``timeline`` that no commit names yet."""
    size = timeline.storage.write_parquet(f"{timeline.path}/{path}", rows)
    return AddedFile(path, str(day), size, 0, json.dumps({"numRecords": len(rows)}))


def rewritten(main: MainTable, timeline: Timeline, chosen: Mapping[date, Sequence[AddedFile]]) -> None:
    """What a compaction writes: the files of each day as one. That the rows stay the same is judged at each commit."""
    files = []
    for day, old in chosen.items():
        rows = [main.storage.read_parquet(f"{main.name}/{file.path}") for file in old]
        whole = pa.concat_tables(rows, promote_options="default")
        files.append(named_file(timeline, f"day={day}/part-0.parquet", day, whole))
    timeline.add(files, str(main.handle.schema().to_json()), dict.fromkeys(chosen, StagedAs(input_fingerprint="")))


def change(
    timeline: Timeline,
    rows: Mapping[date, Iterable[str]],
    pin: Pin | None = None,
    mode: Mode = "replace",
    positions: tuple[Position, ...] = (),
) -> TableChange:
    """The staged days of ``rows`` as a change to their table, against what ``pin`` found (or against nothing).

    Raises :class:`PublicationRefused` where the clean-up of old timelines has taken them since.
    """
    staged, expected = timeline.days(), pin.expected if pin else {}
    if gone := sorted(rows.keys() - staged.keys()):
        raise PublicationRefused(f"{timeline.path} has no {gone[0]} any more.")
    days = tuple(
        DayChange(
            day=day,
            adds=staged[day].files,
            content=content(rows[day]),
            expected=expected.get(TableDay(timeline.table, day), Expected()),
        )
        for day in sorted(rows)
    )
    return TableChange(table=timeline.table, mode=mode, table_schema=timeline.schema(), days=days, positions=positions)


def content(names: Iterable[str]) -> DayContent:
    """Count and checksum of rows, as a build would have measured them."""
    listed = list(names)
    return DayContent(rows=len(listed), checksum=str(sum(map(_number, listed))), code_version="v1")


@cache
def _number(name: str) -> int:
    return int(hashlib.sha256(name.encode()).hexdigest()[:16], 16)


def rows_at(storage: Storage, table: str, version: int) -> dict[date, Counter[str]]:
    """The rows of a table by day at a version, by the files that it has then."""
    found: dict[date, Counter[str]] = {}
    for day, paths in read_log(storage, table, version).by_day().items():
        found[day] = Counter()
        for path in sorted(paths):
            found[day].update(storage.read_parquet(f"{table}/{path}", ["name"]).column("name").to_pylist())
    return found
