"""A small lakehouse whose raw sales come from a topic, and days that are computed from it, with their lineage."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import date

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.records import DayLineage, DayRead, Position, Publication, TableChange
from backfill_assets.publish.publisher import Pin, Published
from backfill_assets.rebuild import decide
from backfill_assets.state.stream_positions import begun_id, boundary_id, offset_id
from backfill_assets_tests.small_lakehouse import Rows, SmallLakehouse

RAW, BRONZE, QUARANTINE, FACT = "raw_sales", "bronze_sales", "quarantine_sales", "fact_sales_transactions"
TOPIC = "orders"
Moves = Mapping[int, tuple[int, int]]
"""The first offset and the next one to read, by partition."""


class StreamedLakehouse(SmallLakehouse):
    """Micro-batches are appended with positions; bronze and fact are published with what they were computed from."""

    def begin(self, boundary: Mapping[int, int], day: date) -> None:
        """Begin a stream with its history, which ends at ``boundary``."""
        positions = [Position(id=begun_id("sales", TOPIC), before=None, after=1)]
        positions += [
            Position(id=boundary_id("sales", TOPIC, partition), before=None, after=offset)
            for partition, offset in boundary.items()
        ]
        self._append("begin", {day: [0]}, positions)

    def stream(self, id: str, rows: Mapping[date, Sequence[int]], moves: Moves) -> int:
        """Append one micro-batch; the version of raw that it made."""
        positions = [
            Position(id=offset_id("sales", TOPIC, partition), before=first or None, after=end)
            for partition, (first, end) in moves.items()
        ]
        return self._append(id, rows, positions)

    def land(self, id: str, rows: Mapping[date, Sequence[int]], path: str) -> int:
        """Append one landed file."""
        return self._append(id, rows, [Position(id=f"landed:sales:{path}", before=None, after=7)])

    def pin(self, days: Collection[date], table: str = RAW) -> Pin:
        """What a build of these days reads now."""
        self.publisher.recover()
        return self.publisher.pin({}, {table: list(days)})

    def bronze_of(self, id: str, rows: Mapping[date, Sequence[int]], pin: Pin) -> Publication:
        """Bronze and quarantine, computed from raw as it was pinned."""
        step = CATALOG.step(BRONZE)
        wanted = decide.wanted(step, step.version(), list(rows), {RAW: pin.inputs[RAW].days})
        inputs = {day: each.inputs for day, each in wanted.items()}
        empty: Rows = {BRONZE: rows, QUARANTINE: {day: [-1] for day in rows}}
        request = self.request(id, empty, code=step.version().name, inputs=inputs)
        return request.model_copy(
            update={
                "tables": tuple(_with_lineage(each, RAW, pin.inputs[RAW].version) for each in request.tables),
                "inputs": tuple(pin.inputs.values()),
            }
        )

    def build_bronze(self, id: str, rows: Mapping[date, Sequence[int]]) -> int:
        """The version of bronze that it made."""
        return self._version_of(self.publish_request(self.bronze_of(id, rows, self.pin(rows))), BRONZE)

    def build_fact(self, id: str, rows: Mapping[date, Sequence[int]]) -> int:
        """Fact, computed from bronze of main."""
        request, version = self.request(id, {FACT: rows}), self.pin(rows, BRONZE).inputs[BRONZE].version
        tables = tuple(_with_lineage(each, BRONZE, version) for each in request.tables)
        return self._version_of(self.publish_request(request.model_copy(update={"tables": tables})), FACT)

    def build_both(self, id: str, rows: Mapping[date, Sequence[int]]) -> None:
        """Bronze, and fact from the bronze of the same publication: as a campaign and the follower of a stream."""
        bronze = self.bronze_of(id, rows, self.pin(rows))
        (fact,) = self.request(f"{id}-fact", {FACT: rows}).tables
        tables = (*bronze.tables, _with_lineage(fact, BRONZE, None))
        self._version_of(self.publish_request(bronze.model_copy(update={"tables": tables})), FACT)

    def _append(self, id: str, rows: Mapping[date, Sequence[int]], positions: Sequence[Position]) -> int:
        request = self.request(id, {RAW: rows}, mode="append")
        (change,) = request.tables
        with_positions = change.model_copy(update={"positions": tuple(positions)})
        return self._version_of(self.publish_request(request.model_copy(update={"tables": (with_positions,)})), RAW)

    def _version_of(self, outcome: object, table: str) -> int:
        assert isinstance(outcome, Published), outcome
        return outcome.versions[table]


def _with_lineage(change: TableChange, read: str, version: int | None) -> TableChange:
    """Each day computed from the same day of ``read``; without a version, from what is staged with it."""
    days = tuple(
        each.model_copy(
            update={
                "lineage": DayLineage(
                    reads=(DayRead(table=read, version=version, first=each.day, last=each.day, staged=version is None),)
                )
            }
        )
        for each in change.days
    )
    return change.model_copy(update={"days": days})
