"""What the publication log costs after years: a lakehouse of 20 tables and 33,000 publications, made without a JVM.

Run with ``python -m benchmarks.three_years [--days 1095] [--chains 5] [--root FOLDER] [--maintained-every N]``. Daily
it publishes 20 tables, late rows publish half of them again for one of the last five days, and every week a campaign
publishes 90 days of four tables. The data files are empty; the logs are real, and what is measured is the project's own
code. The log is maintained every simulated night, or every N. Prints seconds of the clock and of the processor, files
opened for each question, and what the lakehouse takes on disk.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from rich.console import Console
from rich.table import Table as Rows

from backfill_assets import clock
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.days import DayRange, TableDay
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.main_table import PUBLICATION_KEY, MainTable
from backfill_assets.lakehouse.records import (
    Before,
    DayChange,
    DayContent,
    Expected,
    Prepared,
    Provenance,
    Publication,
    TableChange,
)
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish import log as publication_log
from backfill_assets.publish.files import statistics
from backfill_assets.publish.fold import fold
from backfill_assets.publish.log import LOG_TABLE, HeadState
from backfill_assets.publish.publisher import Published, Publisher
from backfill_assets.publish.rows import ARROW_SCHEMA, DAY_COLUMNS, DAY_SCHEMA, Row, closed_rows, prepared_rows
from backfill_assets.state.history import history
from backfill_assets.state.observed import observe
from backfill_assets.state.rolled_back import rollbacks
from backfill_assets.upkeep.reclaim import reclaim, reclaimable
from backfill_assets_tests.clock import FakeClock

LAYERS = ("raw", "bronze", "fact", "report")
FIRST = date(2017, 1, 1)
CAMPAIGN_DAYS = 90
_SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": "name", "type": "string", "nullable": True, "metadata": {}},
            {"name": "day", "type": "date", "nullable": True, "metadata": {}},
        ],
    }
)
_SINCE = 32


@dataclass
class Day:
    """What main has of one day of one table."""

    file: AddedFile
    publication: str
    content: DayContent


@dataclass
class Years:
    """Writes the history of a lakehouse entry by entry, as the protocol would."""

    root: Path
    chains: int
    time: FakeClock = field(default_factory=lambda: FakeClock(datetime(FIRST.year, FIRST.month, FIRST.day, tzinfo=UTC)))
    """In use while anything of it is played or asked."""
    version: int = 0
    state: HeadState = field(default_factory=HeadState)
    days: dict[TableDay, Day] = field(default_factory=dict)
    newest: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    index_rows: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    commits: dict[str, int] = field(default_factory=dict)
    random: random.Random = field(default_factory=lambda: random.Random(7))
    entries: int = 0

    @property
    def clock(self) -> datetime:
        return self.time.moment

    @clock.setter
    def clock(self, moment: datetime) -> None:
        self.time.moment = moment

    @property
    def storage(self) -> Storage:
        return Storage(str(self.root))

    @property
    def tables(self) -> list[str]:
        return [f"{layer}_{chain}" for chain in range(1, self.chains + 1) for layer in LAYERS]

    def publisher(self) -> Publisher:
        return Publisher(self.storage, retention_days=30)

    def begin(self) -> None:
        self.publisher().log.begin()
        for table in self.tables:
            MainTable.create(self.storage, table, _SCHEMA, 30)
            self.commits[table] = 0

    def live(self, days: int, *, maintained_every: int, told: Callable[[str], None] = lambda text: None) -> str:
        """All days, and one more campaign at the end: its publication, of which everything can be put back."""
        started = time.perf_counter()
        self.begin()
        for number in range(days):
            self.pass_day(number)
            if maintained_every and (number + 1) % maintained_every == 0:
                self.maintain()
            if number % 200 == 199:
                told(f"{number + 1} days, {self.entries:,} publications, {time.perf_counter() - started:.0f} s")
        return self.end(days)

    def copy(self, root: Path) -> Years:
        """Another lakehouse with the same past."""
        shutil.copytree(self.root, root)
        return replace(deepcopy(self), root=root)

    def end(self, days: int) -> str:
        """After so many days: see :meth:`live`."""
        self.clock += timedelta(hours=1)
        self.put_files()  # what the undoing of the campaign puts back
        self.campaign(FIRST + timedelta(days=days - 1))
        self.put_files()
        self.write_index()
        self.checkpoint(self.tables)
        DeltaTable(self.storage.uri(LOG_TABLE)).create_checkpoint()
        return list(self.state.outcomes)[-1]

    def pass_day(self, number: int) -> None:
        """One night: every table's day, late rows of half of the tables, and on Sundays a campaign."""
        today = FIRST + timedelta(days=number)
        self.clock = datetime(today.year, today.month, today.day, 2, tzinfo=UTC) + timedelta(days=1)
        for table in self.tables:
            self.publish({table: [today]}, "replace", "")
        for table in self.tables[::2]:
            self.publish({table: [today - timedelta(days=self.random.randint(1, 5))]}, "replace", "")
        if today.isoweekday() == 7:
            self.campaign(today)

    def campaign(self, today: date) -> None:
        chain = 1 + today.toordinal() // 7 % self.chains
        days = [today - timedelta(days=back) for back in range(CAMPAIGN_DAYS) if today - timedelta(days=back) >= FIRST]
        self.publish({f"{layer}_{chain}": days for layer in LAYERS}, "replace", f"campaign-{today:%Y%m%d}")

    def publish(self, days: Mapping[str, Iterable[date]], kind: str, campaign: str) -> str:
        self.entries += 1
        self.clock += timedelta(seconds=20)
        name = campaign or next(iter(days)).replace("_", "-")
        id = f"{self.clock:%Y%m%dt%H%M%S}-{name}-{self.random.getrandbits(32):08x}"
        changes, before = [], {}
        for table, listed in days.items():
            touched = sorted(listed)
            before[table] = {day: self._before(table, day) for day in touched}
            changes.append(
                TableChange(
                    table=table,
                    table_schema=_SCHEMA,
                    days=tuple(self._change(table, day, id) for day in touched),
                )
            )
        publication = Publication(
            id=id,
            kind="replace",
            tables=tuple(changes),
            provenance=Provenance(run=id[-8:], launched_by="schedule", campaign=campaign),
        )
        prepared = Prepared(publication=publication, before=before, window_days=30)
        self._prepare(prepared)
        self._commit(prepared)
        self._close(prepared)
        return id

    def _before(self, table: str, day: date) -> Before:
        held = self.days.get(TableDay(table, day))
        return Before(files=(held.file,), content=held.content, publication=held.publication) if held else Before()

    def _change(self, table: str, day: date, id: str) -> DayChange:
        held = self.days.get(TableDay(table, day))
        path = f"_timelines/{id}/day={day}/part-0.parquet"
        stats = json.dumps({"numRecords": 100, "minValues": {}, "maxValues": {}, "nullCount": {}})
        file = AddedFile(path, str(day), 1000, int(self.clock.timestamp() * 1000), stats)
        # Of nothing that is published: no step is declared for these tables.
        content = DayContent(100, str(self.random.getrandbits(60)), "v1", "", "", {"revenue": 1, "made_by": "i" * 32})
        expected = Expected(files=(held.file.path,), publication=held.publication) if held else Expected()
        return DayChange(day=day, adds=(file,), content=content, expected=expected)

    def _prepare(self, prepared: Prepared) -> None:
        self._append(prepared_rows(prepared), partial(self.state.opening, prepared.publication, 30, self.clock))

    def _close(self, prepared: Prepared) -> None:
        id = prepared.publication.id
        own = {table: self.commits[table] for table in prepared.publication.writes}
        versions = {**self.state.versions, **own}
        index, since = self.state.index, self.state.since
        if len(since) >= _SINCE:
            index, since = f"{LOG_TABLE}/_index/{self.version + 1:020d}-{id[-8:]}.parquet", ()
        rows = closed_rows(prepared, "done", versions, own)

        if not since:
            self.index_rows = dict(self.newest)
        self._append(rows, partial(self.state.closing, id, "done", versions, index, since))
        for row in rows[1:]:
            full = {name: row.get(name) for name in DAY_COLUMNS} | {"sequence": self.version}
            self.newest[row["table"], row["day"]] = full

    def write_index(self) -> None:
        """The index files in between are never read again, so only the one that the head names is written."""
        if self.state.index:
            table = pa.Table.from_pylist(list(self.index_rows.values()), schema=DAY_SCHEMA)
            self.storage.write_parquet(self.state.index, table)

    def _append(self, rows: list[Row], change: Callable[[str], HeadState]) -> None:
        self.version += 1
        self.clock += timedelta(seconds=1)
        file = publication_log.entry_file(self.version)
        common = {"sequence": self.version, "at": self.clock}
        table = pa.Table.from_pylist([{**row, **common} for row in rows], schema=ARROW_SCHEMA)
        size = self.storage.write_parquet(file, table)
        self.state = change(file)
        add = {
            "path": file.removeprefix(f"{LOG_TABLE}/"),
            "partitionValues": {},
            "size": size,
            "modificationTime": self._ms(),
            "dataChange": True,
            "stats": statistics(table),
        }
        info = {"timestamp": self._ms(), "operation": "WRITE", "backfill.head": self.state.model_dump_json()}
        self._write(LOG_TABLE, self.version, [{"add": add}, {"commitInfo": info}])
        self._date(file)

    def _commit(self, prepared: Prepared) -> None:
        id = prepared.publication.id
        for change in prepared.publication.tables:
            actions: list[dict[str, Any]] = [{"txn": {"appId": id, "version": 1}}]
            for day in change.days:
                (add,) = day.adds
                held = self.days.get(TableDay(change.table, day.day))
                if held:
                    remove = {"path": held.file.path, "deletionTimestamp": self._ms(), "dataChange": True}
                    actions.append({"remove": {**remove, "extendedFileMetadata": False}})
                values = {"path": add.path, "partitionValues": {"day": add.day}, "size": add.size}
                actions.append(
                    {"add": {**values, "modificationTime": self._ms(), "dataChange": True, "stats": add.stats}}
                )
                assert day.content is not None
                self.days[TableDay(change.table, day.day)] = Day(add, id, day.content)
            self.commits[change.table] += 1
            info = {"timestamp": self._ms(), "operation": "WRITE", PUBLICATION_KEY: id}
            self._write(change.table, self.commits[change.table], [*actions, {"commitInfo": info}])

    def _write(self, table: str, version: int, actions: list[dict[str, Any]]) -> None:
        name = f"{table}/_delta_log/{version:020d}.json"
        text = "\n".join(json.dumps(action) for action in actions)
        self.root.joinpath(name).write_text(text)
        self._date(name)

    def _ms(self) -> int:
        return int(self.clock.timestamp() * 1000)

    def _date(self, path: str) -> None:
        os.utime(self.root / path, (self.clock.timestamp(), self.clock.timestamp()))

    def checkpoint(self, tables: Iterable[str]) -> None:
        """Main's own logs as delta-rs keeps them: a checkpoint, and no commits from before the window."""
        for table in tables:
            DeltaTable(self.storage.uri(table)).create_checkpoint()
            for version in range(max(0, self.commits[table] - 60)):
                self.root.joinpath(table, "_delta_log", f"{version:020d}.json").unlink(missing_ok=True)

    def maintain(self) -> None:
        """What nightly maintenance does with the log. Its commits are found as they are, and dated by the clock."""
        self.write_index()
        before = {path for path in self.root.joinpath(LOG_TABLE).rglob("*") if path.is_file()}
        publisher = self.publisher()
        fold(publisher.log, self.clock)
        reclaim(publisher, LOG_TABLE)
        for path in self.root.joinpath(LOG_TABLE).rglob("*"):
            if path.is_file() and path not in before:
                os.utime(path, (self.clock.timestamp(), self.clock.timestamp()))
        head = publisher.log.head()
        self.version, self.state = head.version, head.state

    def put_files(self) -> None:
        """An empty file for each one that is active now."""
        for (table, _), held in self.days.items():
            self._touch(table, held.file.path)

    def _touch(self, table: str, path: str) -> None:
        target = self.root / table / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(b"")
        self._date(f"{table}/{path}")


class Opened:
    """Counts the files that a question opens, through the one class that opens them."""

    def __init__(self) -> None:
        self.files: list[str] = []

    @contextmanager
    def counting(self) -> Iterator[None]:
        originals = {name: getattr(Storage, name) for name in ("read_bytes", "read_parquet")}

        def counted(name: str) -> Callable[..., Any]:
            def reading(storage: Storage, path: str, *rest: Any, **named: Any) -> Any:
                self.files.append(path)
                return originals[name](storage, path, *rest, **named)

            return reading

        for name in originals:
            setattr(Storage, name, counted(name))
        try:
            yield
        finally:
            for name, original in originals.items():
                setattr(Storage, name, original)


def questions(years: Years, campaign: str) -> dict[str, Callable[[], object]]:
    """What is measured, each with a publisher of its own, as in a new process."""
    middle = FIRST + timedelta(days=(years.clock.date() - FIRST).days // 2)
    state = years.days[TableDay("fact_1", middle)].publication
    table = "fact_1"

    def publish() -> object:
        publisher = years.publisher()
        day = max(day for name, day in years.days if name == table)
        pin = publisher.pin({table: [day]}, {})
        change = years._change(table, day, f"measured-{time.monotonic_ns()}")
        (add,) = change.adds
        years._touch(table, add.path)
        change = change.model_copy(update={"expected": pin.expected[TableDay(table, day)]})
        tables = (TableChange(table=table, table_schema=_SCHEMA, days=(change,)),)
        found = publisher.publish(Publication(id=f"measured-{time.monotonic_ns()}", kind="replace", tables=tables))
        assert isinstance(found, Published), found
        return found

    return {
        "head": years.publisher().log.head,
        "find a publication of the middle": lambda: years.publisher().log.find_prepared(state),
        "its outcome": lambda: (log := years.publisher().log).outcome(log.head(), state),
        "history of one day": lambda: history(years.storage, table, DayRange(middle, middle)),
        "newest 20 of the history": lambda: history(years.storage, most=20),
        "a sensor's tick": lambda: (observe(years.storage, years.tables), rollbacks(years.storage)),
        "reclaimable of one table": lambda: reclaimable(years.publisher(), table),
        "roll back 90 days of 4 tables": lambda: roll_back(years.publisher(), campaign, id="measured-back", steps=()),
        "publish a day": publish,
    }


def measure(years: Years, campaign: str) -> list[tuple[str, float, float, int]]:
    """Each question with its seconds of the clock and of the processor, and the files that it opened."""
    found = []
    for name, question in questions(years, campaign).items():
        opened, started, worked = Opened(), time.perf_counter(), time.process_time()
        with opened.counting():
            question()
        found.append((name, time.perf_counter() - started, time.process_time() - worked, len(opened.files)))
    return found


def disk(folder: Path) -> tuple[int, int]:
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return len(sizes), sum(sizes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=1095)
    parser.add_argument("--chains", type=int, default=5, help="of four tables each")
    parser.add_argument("--root", type=Path, help="an empty folder that is kept; a temporary one otherwise")
    parser.add_argument("--maintained-every", type=int, default=1, help="simulated days; 0 for never")
    asked = parser.parse_args()
    root = asked.root or Path(tempfile.mkdtemp(prefix="three-years-"))
    try:
        years = Years(root, asked.chains)
        with clock.use(years.time):
            _run(years, asked.days, asked.maintained_every)
    finally:
        if asked.root is None:
            shutil.rmtree(root)


def _run(years: Years, days: int, maintained_every: int) -> None:
    console, started = Console(), time.perf_counter()
    campaign = years.live(days, maintained_every=maintained_every, told=console.print)
    console.print(f"{years.entries:,} publications in {time.perf_counter() - started:.0f} s")
    files, size = disk(years.root / LOG_TABLE)
    console.print(f"{LOG_TABLE}: {files:,} files, {size / 1e6:.0f} MB")
    rows = Rows("question", "seconds", "CPU seconds", "files opened")
    for name, seconds, worked, opened in measure(years, campaign):
        rows.add_row(name, f"{seconds:.3f}", f"{worked:.3f}", f"{opened:,}")
    console.print(rows)


if __name__ == "__main__":
    main()
