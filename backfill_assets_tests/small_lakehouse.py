"""A lakehouse of a few rows, staged with delta-rs and published by the real protocol: no JVM, milliseconds each."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, write_deltalake

from backfill_assets import clock
from backfill_assets.days import DayRange, TableDay
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.records import (
    DayChange,
    DayContent,
    InputRead,
    Mode,
    Provenance,
    Publication,
    TableChange,
)
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import StagedAs, Timeline, TimelineEntry
from backfill_assets.lakehouse.written_files import write_folder, written_files
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import made_of, step_by_table
from backfill_assets.publish.publisher import Conflict, CrashPoint, Pin, Published, Publisher
from backfill_assets_tests.clock import FakeClock
from backfill_assets_tests.death import Died

Rows = Mapping[str, Mapping[date, Sequence[int]]]
"""Ids by table and day."""
PROVENANCE = Provenance(run="0123456789ab", launched_by="ana", git_commit="c0ffee0123456789")


_BEGAN = datetime(2017, 6, 1, 12, tzinfo=UTC)


class SmallLakehouse:
    """Publishes ids; the checksum of a day is their sum. It publishes by its own ``time``, of which ``minutes`` passed.

    What is tried goes by that as well where a test uses it.
    """

    def __init__(self, root: Path, steps: Sequence[Step] | None = None) -> None:
        self.storage = Storage(str(root))
        self.steps = CATALOG.steps if steps is None else steps
        self.time = FakeClock(_BEGAN)
        self.publisher = Publisher(self.storage, reached=self._reached)
        self.crash_at: CrashPoint | None = None
        self.metrics: dict[str, Mapping[str, int | str]] = {}
        """What was measured of each day that is published, beside its rows, by table."""
        self.logic: dict[str, str] = {}
        """By table, what its days say of the logic that made them."""

    @property
    def minutes(self) -> float:
        return (self.time.moment - _BEGAN) / timedelta(minutes=1)

    @minutes.setter
    def minutes(self, minutes: float) -> None:
        self.time.moment = _BEGAN + timedelta(minutes=minutes)

    def now(self) -> datetime:
        return self.time.moment

    def copy(self, root: Path) -> SmallLakehouse:
        """Another one with the same past."""
        shutil.copytree(self.storage.root, root, dirs_exist_ok=True)
        found = SmallLakehouse(root, self.steps)
        found.minutes, found.metrics, found.logic = self.minutes, dict(self.metrics), dict(self.logic)
        return found

    def publish(
        self,
        id: str,
        rows: Rows,
        *,
        code: str = "v1",
        inputs: Mapping[date, str] | None = None,
        mode: Mode = "replace",
    ) -> Published | Conflict:
        """``inputs`` has the inputs' fingerprint by day; it has to be that of what is published now."""
        return self.publish_request(self.request(id, rows, code=code, inputs=inputs, mode=mode))

    def publish_request(self, request: Publication) -> Published | Conflict:
        """Publish it, by the time of this lakehouse."""
        with clock.use(self.time):
            return self.publisher.publish(request)

    def request(
        self,
        id: str,
        rows: Rows,
        *,
        code: str = "v1",
        inputs: Mapping[date, str] | None = None,
        mode: Mode = "replace",
    ) -> Publication:
        """Stage ``rows``, and ask for their publication."""
        self.time.pass_seconds(60)
        pin = self.publisher.pin({table: list(days) for table, days in rows.items()}, {})
        changes = tuple(self._change(id, table, days, pin, mode, code, inputs or {}) for table, days in rows.items())
        return Publication(id=id, kind=mode, tables=changes, inputs=self._reads(changes), provenance=PROVENANCE)

    def _reads(self, changes: Iterable[TableChange]) -> tuple[InputRead, ...]:
        """What main has of the days that days were made of."""
        reads: dict[str, set[date]] = {}
        for made in (day.made_of for change in changes for day in change.days if day.made_of):
            for table, days in made.items():
                reads.setdefault(table, set()).update(days)
        return tuple(self.publisher.pin({}, reads).inputs.values()) if reads else ()

    def _made_of(self, table: str, day: date, code: str) -> Mapping[str, DayRange] | None:
        """By the first version, if there is none that is called ``code``."""
        step = step_by_table(self.steps).get(table)
        if step is None or not step.versions:
            return None
        return made_of(step, next((each for each in step.versions if each.name == code), step.versions[0]), day)

    def crash(self, id: str, rows: Rows, at: CrashPoint) -> None:
        """Publish, and die at the first ``at``."""
        self.crash_at = at
        try:
            self.publish(id, rows)
        except Died:
            self.crash_at = None

    def write_past_the_protocol(self, table: str, day: date, ids: Sequence[int]) -> None:
        """What a notebook does to a table that it should not touch."""
        write_deltalake(self.storage.uri(table), table_of(day, ids), mode="append")

    def newest(self, table: str) -> DeltaTable:
        return DeltaTable(self.storage.uri(table))

    def _change(
        self,
        id: str,
        table: str,
        days: Mapping[date, Sequence[int]],
        pin: Pin,
        mode: Mode,
        code: str,
        inputs: Mapping[date, str],
    ) -> TableChange:
        timeline = self.stage(f"run-{id}", table, days)
        staged = timeline.days()
        changes = tuple(
            DayChange(
                day=day,
                adds=staged[day].files,
                content=DayContent(
                    rows=len(ids),
                    checksum=str(sum(ids)),
                    code_version=code,
                    inputs=inputs.get(day, ""),
                    metrics={"rows": len(ids), **self.metrics.get(table, {})},
                    logic=self.logic.get(table, ""),
                ),
                expected=pin.expected[TableDay(table, day)],
                made_of=self._made_of(table, day, code) if inputs.get(day) else None,
            )
            for day, ids in days.items()
        )
        return TableChange(table=table, mode=mode, table_schema=timeline.schema(), days=changes)

    def stage(
        self, name: str, table: str, days: Mapping[date, Sequence[int]], inputs: Mapping[date, str] | None = None
    ) -> Timeline:
        """Write ids into the timeline ``name``, and publish nothing; ``inputs`` has their fingerprint by day."""
        timeline = Timeline(self.storage, table, name)
        entry = TimelineEntry(staged={day: StagedAs(input_fingerprint=(inputs or {}).get(day, "x")) for day in days})
        properties = CommitProperties(custom_metadata={"userMetadata": entry.model_dump_json()})
        rows = pa.concat_tables([self.rows_of(table, day, ids) for day, ids in days.items()])
        write_deltalake(timeline.uri, rows, mode="append", partition_by=["day"], commit_properties=properties)
        return timeline

    def rows_of(self, table: str, day: date, ids: Sequence[int]) -> pa.Table:
        """What is staged of a day; the same columns for every table."""
        return table_of(day, ids)

    def _reached(self, step: CrashPoint, about: str) -> None:
        if step is self.crash_at:
            raise Died(about)


def published_twice(root: Path, table: str, first: date, second: date) -> SmallLakehouse:
    """Publication ``one`` has both days by v1, and ``two`` the second one by v2."""
    found = SmallLakehouse(root)
    found.publish("one", {table: {first: [1, 2], second: [3]}})
    found.publish("two", {table: {second: [4, 5]}}, code="v2")
    return found


class LakehouseOfReasons(SmallLakehouse):
    """In quarantine, the price of every third row is wrong, and the quantity of all others."""

    def rows_of(self, table: str, day: date, ids: Sequence[int]) -> pa.Table:
        price, quantity = "sales_value: 'x' is not a decimal(18,2)", "quantity: '{}' is not a bigint"
        reasons = [[price] if id % 3 == 1 else [quantity.format(id)] for id in ids]
        return table_of(day, ids).append_column("reasons", pa.array(reasons, pa.list_(pa.string())))


def staged_rows(timeline: Timeline, days: Mapping[date, Sequence[int]]) -> tuple[list[AddedFile], str]:
    """Write ids into files of ``timeline`` that no commit names yet, and the schema of their rows."""
    folder = write_folder()
    for day, ids in days.items():
        rows = table_of(day, ids).drop_columns(["day"])
        timeline.storage.write_parquet(f"{timeline.path}/{folder}/day={day}/part.parquet", rows)
    schema = Schema.from_arrow(table_of(next(iter(days)), []).schema).to_json()
    return list(written_files(timeline.storage, timeline.path, folder)), str(schema)


def table_of(day: date, ids: Sequence[int]) -> pa.Table:
    days = pa.array([day] * len(ids), pa.date32())
    return pa.table({"id": pa.array(ids, pa.int64()), "day": days})
