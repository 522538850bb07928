"""What a stream's batch costs as the log grows: batches of ten simulated seconds, published by the real protocol.

Run with ``python -m benchmarks.stream.flat_cost [--batches 10000] [--naive] [--profile N] [--root FOLDER]``. No JVM. A
batch appends a small file to one to three event days of raw, with the positions of two partitions; a second
publication extends bronze, quarantine, fact and revenue of the same days: each gets a file, and that of revenue
replaces the one before. Small files are compacted and the log is gathered beside it, unless it is ``--naive``. Batches
far from those that are measured are lapsed: their logs are written as the protocol would, which takes a tenth. Prints
the medians of twenty batches: seconds of the clock and of the processor, files that the project itself opened and their
bytes, the active files of the newest day, and the size of the newest checkpoint.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import secrets
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import Schema
from rich.console import Console
from rich.table import Table as Rows

from backfill_assets import clock
from backfill_assets.days import DayRange, TableDay
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.main_table import PUBLICATION_KEY, MainTable
from backfill_assets.lakehouse.records import (
    Before,
    DayChange,
    DayContent,
    DayState,
    Position,
    Prepared,
    Provenance,
    Publication,
    TableChange,
)
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import GateVerdict, StagedAs, Timeline
from backfill_assets.lakehouse.written_files import write_folder, written_files
from backfill_assets.publish.compact import compact_small_files
from backfill_assets.publish.files import statistics as log_statistics
from backfill_assets.publish.fold import gather, trim
from backfill_assets.publish.log import LOG_TABLE, HeadState, entry_file
from backfill_assets.publish.publisher import Pin, Published, Publisher
from backfill_assets.publish.rows import (
    ARROW_SCHEMA,
    DAY_COLUMNS,
    DAY_SCHEMA,
    Row,
    closed_rows,
    day_state,
    newest_days,
    prepared_rows,
)
from backfill_assets.publish.small_files import files_to_compact
from backfill_assets_tests.clock import FakeClock

RAW = "raw_sales"
EXTENDED = ("bronze_sales", "quarantine_sales", "fact_sales", "fact_daily_revenue")
REPLACED = "fact_daily_revenue"
"""Its file of a day is small, and written anew by each batch."""
BATCH = timedelta(seconds=10)
BEGIN = datetime(2017, 6, 1, tzinfo=UTC)
SHARED = f"stream {RAW}"
"""The transaction that all of its publications share."""
PARTITIONS = 2
ROWS = 20
MEASURED = 20
_COLUMNS = pa.schema(
    [
        ("transaction_id", pa.string()),
        ("store", pa.int64()),
        ("amount", pa.decimal128(18, 4)),
        ("happened_at", pa.timestamp("us", tz="UTC")),
        ("source_file", pa.string()),
        ("source_line", pa.int64()),
        ("content_hash", pa.int64()),
    ]
)
SCHEMA = str(Schema.from_arrow(_COLUMNS.append(pa.field("day", pa.date32()))).to_json())
_MADE = Provenance(launched_by=f"stream {RAW}", git_commit="c0ffee0123456789")
_SINCE = 32
MARKS = (100, 300, 1_000, 3_000, 10_000, 30_000, 60_000)
LAPSED = 500
"""More batches than this in between are not carried out: their logs are written as the protocol would."""
_METRICS = {f"metric_{number}": number for number in range(12)}


@dataclass
class Cost:
    """What one batch took: seconds of the clock and of the processor, files opened and their bytes."""

    seconds: float
    cpu: float
    opened: int
    bytes: int


@dataclass
class Stream:
    """Plays the publications of a stream, and what is done beside it."""

    root: Path
    beside: Callable[[Stream, Sequence[date]], None] | None = None
    time: FakeClock = field(default_factory=lambda: FakeClock(BEGIN))
    """In use while anything of it is played."""
    number: int = 0
    offsets: list[int] = field(default_factory=lambda: [0] * PARTITIONS)
    timed: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.storage = Storage(str(self.root))
        self.publisher = Publisher(self.storage)

    @property
    def clock(self) -> datetime:
        return self.time.moment

    @clock.setter
    def clock(self, moment: datetime) -> None:
        self.time.moment = moment

    def days(self) -> list[date]:
        """Today; now and then a late row of yesterday, and of three days ago."""
        back = [0, *([1] if self.number % 5 == 0 else []), *([3] if self.number % 50 == 0 else [])]
        return [self.clock.date() - timedelta(days=each) for each in back]

    def batch(self) -> None:
        """One batch: rows and positions into raw, then what follows from them, then what is done beside it."""
        self.number += 1
        self.clock += BATCH
        days = self.days()
        with self._timing("raw"):
            self._append(days)
        with self._timing("follow"):
            self._extend(days)
        if self.beside is not None:
            with self._timing("beside"):
                self.beside(self, days)

    @contextmanager
    def _timing(self, part: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.timed[part] = self.timed.get(part, 0.0) + time.perf_counter() - started

    def _id(self, what: str) -> str:
        return f"{self.clock:%Y%m%dt%H%M%S}-stream-{what.replace('_', '-')}-{self.number:08x}"

    def _append(self, days: Sequence[date]) -> None:
        staged = self._stage(RAW, days)
        changes = tuple(DayChange(day=day, adds=staged[day], content=_content()) for day in days)
        moved = tuple(
            Position(id=f"kafka:sales:orders:{partition}", before=offset or None, after=offset + ROWS)
            for partition, offset in enumerate(self.offsets)
        )
        change = TableChange(table=RAW, mode="append", table_schema=SCHEMA, days=changes, positions=moved)
        self._publish(RAW, "append", (change,))
        self.offsets = [offset + ROWS for offset in self.offsets]

    def _extend(self, days: Sequence[date]) -> None:
        pin = self.publisher.pin(dict.fromkeys(EXTENDED, days), {RAW: days})
        changes = tuple(self._extended(table, days, pin) for table in EXTENDED)
        self._publish("follow", "replace", changes, pin)

    def _extended(self, table: str, days: Sequence[date], pin: Pin) -> TableChange:
        main = MainTable.open(self.storage, table)
        kept = main.state().of_days(days) if main and table != REPLACED else {}
        staged = self._stage(table, days)
        changes = tuple(
            DayChange(
                day=day,
                adds=(*kept.get(day, ()), *staged[day]),
                content=_content(fingerprints.inputs({RAW: {day: pin.inputs[RAW].days[day]}})),
                expected=pin.expected[TableDay(table, day)],
                made_of={RAW: DayRange.of(day)},
            )
            for day in days
        )
        return TableChange(table=table, table_schema=SCHEMA, days=changes)

    def _stage(self, table: str, days: Sequence[date]) -> Mapping[date, tuple[AddedFile, ...]]:
        timeline, folder = Timeline(self.storage, table, self._id(table)), write_folder()
        for day in days:
            path = f"{timeline.path}/{folder}/day={day}/part-0.snappy.parquet"
            with self.storage.parquet_writer(path, _COLUMNS) as writer:
                writer.write_table(_rows(self.number, day))
        timeline.open()
        timeline.add(
            written_files(self.storage, timeline.path, folder),
            SCHEMA,
            dict.fromkeys(days, StagedAs(input_fingerprint="x" * 32)),
        )
        timeline.judge({day: GateVerdict(input_fingerprint="x" * 32, passed=True, content=_content()) for day in days})
        staged = timeline.days()
        timeline.close()
        return {day: staged[day].files for day in days}

    def _publish(self, name: str, kind: Any, changes: tuple[TableChange, ...], pin: Pin | None = None) -> None:
        made = _MADE.model_copy(update={"run": self._id(name)[-8:]})
        request = Publication(
            id=self._id(name),
            kind=kind,
            tables=changes,
            inputs=tuple(pin.inputs.values()) if pin else (),
            provenance=made,
            transaction="" if self.beside is None else SHARED,
        )
        found = self.publisher.publish(request)
        if not isinstance(found, Published):
            raise RuntimeError(f"{request.id}: {found.reasons}")


@dataclass
class Lapse:
    """Writes the logs of many batches as the protocol would, without carrying each of them out.

    Compactions are made by the same decision, entries are gathered by the project's own code. The files of data that
    are active at the end are written then.
    """

    stream: Stream
    files: dict[TableDay, list[AddedFile]] = field(default_factory=dict)
    states: dict[TableDay, DayState] = field(default_factory=dict)
    rows_of: dict[TableDay, Mapping[str, Any]] = field(default_factory=dict)
    indexed: pa.Table | None = None

    def __post_init__(self) -> None:
        log = self.stream.publisher.log
        log.begin()
        self.head = log.head()
        self.state, self.version = self.head.state, self.head.version
        self.states = dict(log.day_states(self.head))
        self.commits = {table: self._main(table).version for table in (RAW, *EXTENDED)}
        for table in self.commits:
            for file in self._main(table).state().active.values():
                self.files.setdefault(TableDay(table, date.fromisoformat(file.day)), []).append(file)
        self.stats = next(iter(self.files.values()))[0].stats
        known = newest_days([log._day_rows([file for file in (self.state.index, *self.state.since) if file])])
        self.rows_of = {TableDay(row["table"], date.fromisoformat(row["day"])): row for row in known.to_pylist()}

    def _main(self, table: str) -> MainTable:
        main = MainTable.open(self.stream.storage, table)
        assert main is not None
        return main

    def play(self, until: int) -> None:
        """All batches up to number ``until``, which has to be carried out before the next one."""
        stream = self.stream
        while stream.number < until:
            stream.number += 1
            stream.clock += BATCH
            days = stream.days()
            self._publish("append", RAW, {RAW: days})
            self._publish("replace", "follow", dict.fromkeys(EXTENDED, days))
            if stream.number % 4 == 0:
                for table in (RAW, *EXTENDED):
                    self._compact(table, days)
            if stream.number % 64 == 0:
                self._gather()
        stream.offsets = [ROWS * stream.number] * PARTITIONS
        self._write_files()
        self._write_index()
        for table in (RAW, *EXTENDED):
            self._main(table).handle.create_checkpoint()
        stream.publisher.log.head().handle.create_checkpoint()

    def _compact(self, table: str, days: Sequence[date]) -> None:
        for day in days:
            files = self.files.get(TableDay(table, day), [])
            if group := files_to_compact(files):
                rows = sum(file.rows for file in files if file.path in group)
                kept = [file for file in files if file.path not in group]
                self._publish("compact", table, {table: [day]}, [*kept, self._file(table, day, rows, "compact")])

    def _file(self, table: str, day: date, rows: int, name: str) -> AddedFile:
        stats = json.dumps({**json.loads(self.stats), "numRecords": rows})
        random = secrets.token_hex(6)
        path = f"_timelines/{self.stream._id(table)}-{name}/write-id=w{random}/day={day}/part-0.snappy.parquet"
        return AddedFile(path, str(day), 2000, int(self.stream.clock.timestamp() * 1000), stats)

    def _publish(
        self, kind: Any, name: str, days: Mapping[str, Sequence[date]], target: list[AddedFile] | None = None
    ) -> None:
        changes, before, targets = [], {}, {}
        for table, touched in days.items():
            listed = []
            before[table] = {day: self._before(TableDay(table, day)) for day in touched}
            for day in touched:
                old = self.files.get(TableDay(table, day), [])
                new = self._file(table, day, ROWS, "run")
                targets[table, day] = target or [*([] if table == REPLACED else old), new]
                adds = (new,) if kind == "append" else tuple(targets[table, day])
                listed.append(DayChange(day=day, adds=adds, content=_content()))
            moved = self._moved() if kind == "append" else ()
            mode: Any = "append" if kind == "append" else "replace"
            changes.append(
                TableChange(table=table, mode=mode, table_schema=SCHEMA, days=tuple(listed), positions=moved)
            )
        id = f"{self.stream._id(name)}-{kind}"
        made = _MADE.model_copy(update={"run": id[-8:]})
        request = Publication(id=id, kind=kind, tables=tuple(changes), provenance=made, transaction=SHARED)
        prepared = Prepared(publication=request, before=before, window_days=30)
        self._prepare(prepared)
        for change in changes:
            self._commit(id, change, {day.day: targets[change.table, day.day] for day in change.days})
        self._close(prepared)

    def _moved(self) -> tuple[Position, ...]:
        after = self.stream.number * ROWS
        return tuple(
            Position(id=f"kafka:sales:orders:{number}", before=after - ROWS or None, after=after)
            for number in range(PARTITIONS)
        )

    def _before(self, key: TableDay) -> Before:
        state = self.states.get(key)
        files = tuple(self.files.get(key, ()))
        return Before(files=files, content=state.content, publication=state.publication) if state else Before()

    def _prepare(self, prepared: Prepared) -> None:
        opened = partial(self.state.opening, prepared.publication, 30, self.stream.clock)
        self._append(prepared_rows(prepared), opened)

    def _commit(self, id: str, change: TableChange, target: Mapping[date, list[AddedFile]]) -> None:
        moment = int(self.stream.clock.timestamp() * 1000)
        actions: list[dict[str, Any]] = [{"txn": {"appId": SHARED, "version": 4 * self.version + 1}}]
        actions += [{"txn": {"appId": each.id, "version": each.after}} for each in change.positions]
        for day, files in target.items():
            old, new = self.files.get(TableDay(change.table, day), []), {file.path for file in files}
            actions += [
                {
                    "remove": {
                        "path": file.path,
                        "deletionTimestamp": moment,
                        "dataChange": True,
                        "size": file.size,
                        "extendedFileMetadata": True,
                        "partitionValues": {"day": file.day},
                    }
                }
                for file in old
                if file.path not in new
            ]
            had = {file.path for file in old}
            actions += [
                {
                    "add": {
                        "path": file.path,
                        "partitionValues": {"day": file.day},
                        "size": file.size,
                        "modificationTime": file.modified_ms,
                        "dataChange": True,
                        "stats": file.stats,
                    }
                }
                for file in files
                if file.path not in had
            ]
            self.files[TableDay(change.table, day)] = list(files)
        self.commits[change.table] += 1
        info = {"timestamp": moment, "operation": "WRITE", PUBLICATION_KEY: id}
        self._write(change.table, self.commits[change.table], [*actions, {"commitInfo": info}])

    def _close(self, prepared: Prepared) -> None:
        id = prepared.publication.id
        own = {table: self.commits[table] for table in prepared.publication.writes}
        versions = {**self.state.versions, **own}
        since = self.state.since
        index = self.state.index
        if len(since) >= _SINCE:
            index, since = f"{LOG_TABLE}/_index/{self.version + 1:020d}-{secrets.token_hex(6)}.parquet", ()
            self.indexed = self._day_rows()

        rows = closed_rows(prepared, "done", versions, own)
        self._append(rows, partial(self.state.closing, id, "done", versions, index, since))
        for row in rows[1:]:
            key = TableDay(row["table"], date.fromisoformat(row["day"]))
            self.rows_of[key] = {name: row.get(name) for name in DAY_COLUMNS} | {"sequence": self.version}
            self.states[key] = day_state(self.rows_of[key])

    def _append(self, rows: Sequence[Row], change: Callable[[str], HeadState]) -> None:
        self.version += 1
        file = entry_file(self.version)
        common = {"sequence": self.version, "at": self.stream.clock}
        table = pa.Table.from_pylist([{**row, **common} for row in rows], schema=ARROW_SCHEMA)
        size = self.stream.storage.write_parquet(file, table)
        self.state = change(file)
        moment = int(self.stream.clock.timestamp() * 1000)
        add = {
            "path": file.removeprefix(f"{LOG_TABLE}/"),
            "partitionValues": {},
            "size": size,
            "modificationTime": moment,
            "dataChange": True,
            "stats": log_statistics(table),
        }
        info = {"timestamp": moment, "operation": "WRITE", "backfill.head": self.state.model_dump_json()}
        self._write(LOG_TABLE, self.version, [{"add": add}, {"commitInfo": info}])

    def _write(self, table: str, version: int, actions: list[dict[str, Any]]) -> None:
        text, moment = "\n".join(json.dumps(action) for action in actions), self.stream.clock.timestamp()
        path = self.stream.root.joinpath(table, "_delta_log", f"{version:020d}.json")
        path.write_text(text)
        os.utime(path, (moment, moment))

    def _gather(self) -> None:
        self._write_index()
        log = self.stream.publisher.log
        log.head().handle.create_checkpoint()
        while gather(log):
            pass
        _put_back(self.stream)
        trim(log, self.stream.clock)
        head = log.head()
        self.state, self.version = head.state, head.version

    def _write_index(self) -> None:
        if self.indexed is not None:
            self.stream.storage.write_parquet(self.state.index, self.indexed)

    def _day_rows(self) -> pa.Table:
        return pa.Table.from_pylist(list(self.rows_of.values()), schema=DAY_SCHEMA)

    def _write_files(self) -> None:
        for key, files in self.files.items():
            for file in files:
                path = f"{key.table}/{file.path}"
                if self.stream.storage.missing([path]):
                    with self.stream.storage.parquet_writer(path, _COLUMNS) as writer:
                        for number in range(0, file.rows, ROWS):
                            writer.write_table(_rows(number, key.day))


def _content(inputs: str = "i" * 32) -> DayContent:
    return DayContent(ROWS, str(1 << 63), "v1", "", inputs, _METRICS, 5)


def _rows(number: int, day: date) -> pa.Table:
    at = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    columns = [
        [f"t{number:08d}-{row:03d}" for row in range(ROWS)],
        list(range(ROWS)),
        [Decimal("12.3400")] * ROWS,
        [at] * ROWS,
        ["kafka:orders/0"] * ROWS,
        [number * ROWS + row for row in range(ROWS)],
        [hash((number, row)) % (1 << 62) for row in range(ROWS)],
    ]
    return pa.table(dict(zip(_COLUMNS.names, columns, strict=True)), schema=_COLUMNS)


class Opened:
    """Counts the files that the project opens, and their bytes, through the one class that opens them."""

    def __init__(self) -> None:
        self.files = 0
        self.bytes = 0

    @contextmanager
    def counting(self) -> Iterator[Opened]:
        originals = {name: getattr(Storage, name) for name in ("read_bytes", "read_parquet", "parquet_footer")}

        def counted(name: str) -> Callable[..., Any]:
            def reading(storage: Storage, path: str, *rest: Any, **named: Any) -> Any:
                self.files += 1
                found = originals[name](storage, path, *rest, **named)
                self.bytes += Path(storage.uri(path)).stat().st_size
                return found

            return reading

        for name in originals:
            setattr(Storage, name, counted(name))
        try:
            yield self
        finally:
            for name, original in originals.items():
                setattr(Storage, name, original)


def measure(stream: Stream) -> Cost:
    """Play one batch."""
    with Opened().counting() as opened:
        started, worked = time.perf_counter(), time.process_time()
        stream.batch()
        return Cost(time.perf_counter() - started, time.process_time() - worked, opened.files, opened.bytes)


def median_cost(costs: Sequence[Cost]) -> Cost:
    return Cost(
        statistics.median(cost.seconds for cost in costs),
        statistics.median(cost.cpu for cost in costs),
        int(statistics.median(cost.opened for cost in costs)),
        int(statistics.median(cost.bytes for cost in costs)),
    )


def checkpoint_bytes(root: Path, table: str) -> int:
    """The size of the newest checkpoint of a table."""
    hint = root / table / "_delta_log" / "_last_checkpoint"
    if not hint.exists():
        return 0
    version = json.loads(hint.read_text())["version"]
    return sum(path.stat().st_size for path in hint.parent.glob(f"{version:020d}.checkpoint*.parquet"))


def files_of_today(stream: Stream, table: str) -> int:
    main = MainTable.open(stream.storage, table)
    return len(main.state().of_days([stream.clock.date()])[stream.clock.date()]) if main else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=10_000)
    parser.add_argument("--naive", action="store_true", help="nothing is compacted or folded")
    parser.add_argument("--profile", type=int, default=0, help="profile so many batches at the end")
    parser.add_argument("--root", type=Path, help="an empty folder that is kept; a temporary one otherwise")
    asked = parser.parse_args()
    root = asked.root or Path(tempfile.mkdtemp(prefix="flat-cost-"))
    try:
        stream = Stream(root, None if asked.naive else keep_small)
        with clock.use(stream.time):
            _run(stream, asked.batches, asked.profile)
    finally:
        if asked.root is None:
            shutil.rmtree(root)


def keep_small(stream: Stream, days: Sequence[date]) -> None:
    """What a stream does beside its batches: every fourth compacts small files, every thirty-second trims the log."""
    if stream.number % 4 == 0:
        for table in (RAW, *EXTENDED):
            compact_small_files(stream.publisher, table, days, provenance=_MADE, transaction=SHARED)
    if stream.number % 32 == 0:
        gather(stream.publisher.log)
        _put_back(stream)
        trim(stream.publisher.log, stream.clock)


def _put_back(stream: Stream) -> None:
    """The files of the log get the time of the simulated clock: they are trimmed by it."""
    now = stream.clock.timestamp()
    for path in stream.root.joinpath(LOG_TABLE, "_delta_log").iterdir():
        if path.stat().st_mtime > now:
            os.utime(path, (now, now))


def _run(stream: Stream, batches: int, profiled: int) -> None:
    console = Console(width=120)
    rows = Rows("batch", "s", "worst s", "CPU s", "opened", "kB", "files of today", "raw kB", "log kB")
    for mark in sorted({1, *(each for each in MARKS if each < batches), batches}):
        if mark > stream.number + LAPSED and stream.beside is not None:
            started = time.perf_counter()
            Lapse(stream).play(mark - MEASURED // 2 - 1)
            console.print(f"lapsed to batch {stream.number:,} in {time.perf_counter() - started:.0f} s")
        while stream.number < mark - MEASURED // 2 - 1:
            stream.batch()
        stream.timed = {}
        costs = [measure(stream) for _ in range(MEASURED)]
        found = median_cost(costs)
        row = [f"{mark:,}", f"{found.seconds:.3f}", f"{max(cost.seconds for cost in costs):.3f}", f"{found.cpu:.3f}"]
        row += [f"{found.opened:,}", f"{found.bytes / 1000:,.0f}", f"{files_of_today(stream, RAW):,}"]
        row += [f"{checkpoint_bytes(stream.root, table) / 1000:,.0f}" for table in (RAW, "_publications")]
        console.print(row, {part: round(seconds / MEASURED, 3) for part, seconds in stream.timed.items()})
        rows.add_row(*row)
    console.print(rows)
    if profiled:
        profiler = cProfile.Profile()
        profiler.enable()
        for _ in range(profiled):
            stream.batch()
        profiler.disable()
        pstats.Stats(profiler).sort_stats("cumulative").print_stats(60)


if __name__ == "__main__":
    main()
