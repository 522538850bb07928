"""Which days of a publication are computed again, by what and from what; and why others are not. No JVM."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from backfill_assets import clock
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.records import DayContent, DayLineage, Environment, InputRead, Position, Publication
from backfill_assets.model.deletion import REFRESH
from backfill_assets.model.landed import raw_schema
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.publish.log import lineages
from backfill_assets.publish.publisher import Published
from backfill_assets.rebuild import reproduce as reproduce_module
from backfill_assets.rebuild.lake import Lake
from backfill_assets.rebuild.reproduce import Reproduction, reproduce
from backfill_assets.rebuild.stage import Chunk, StagedTableDay
from backfill_assets.settings import Settings
from backfill_assets_tests.played_lake import lake_of, no_spark
from backfill_assets_tests.small_lakehouse import Rows, SmallLakehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.protocol
DAY, NEXT = date(2017, 3, 1), date(2017, 3, 2)
THEN, HERE = Environment(java="17.0.15"), Environment(java="21.0.2")


@dataclass
class Again:
    """Publications of raw and bronze. Staging again gives the ids of ``gives`` instead of starting Spark."""

    small: SmallLakehouse
    lake: Lake
    gives: dict[date, int] = field(default_factory=dict)
    """The sum of the ids of ``bronze_sales``, by day; quarantine is empty."""
    chunks: list[Chunk] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def bronze(self, id: str, ids: Mapping[date, int], *, code: str = "v1", reads: tuple[InputRead, ...] = ()) -> None:
        """Bronze of days, built from ``reads`` of raw."""
        request = self.request(id, ids, code, reads)
        assert isinstance(self.small.publish_request(request), Published)

    def request(self, id: str, ids: Mapping[date, int], code: str, reads: tuple[InputRead, ...]) -> Publication:
        inputs = {day: fingerprints.inputs({"raw_sales": {day: read.days[day]}}) for read in reads for day in read.days}
        rows: Rows = {
            "bronze_sales": {day: [total] for day, total in ids.items()},
            "quarantine_sales": {day: [] for day in ids},
        }
        request = self.small.request(id, rows, code=code, inputs=inputs)
        return request.model_copy(update={"inputs": reads})

    def run(self, publication: str) -> Reproduction:
        return reproduce(self.lake, publication, self.said.append)

    def verdicts(self, publication: str) -> dict[TableDay, tuple[str, str]]:
        """The verdict and the reason by table and day."""
        return {TableDay(day.table, day.day): (day.verdict.value, day.reason) for day in self.run(publication).days}

    def stage(self, spark: object, storage: object, chunk: Chunk, timelines: object) -> list[StagedTableDay]:
        self.chunks.append(chunk)
        totals = {"bronze_sales": self.gives, "quarantine_sales": dict.fromkeys(self.gives, 0)}
        return [
            StagedTableDay(table.name, day, (), content_of(totals[table.name][day]), (), chunk.pin, "")
            for table in chunk.step.tables
            for day in chunk.days
        ]


def content_of(total: int) -> DayContent:
    return DayContent(rows=1 if total else 0, checksum=str(total))


def read_of(version: int | None, totals: Mapping[date, int]) -> InputRead:
    days = {day: fingerprints.logical(1, total) for day, total in totals.items()}
    return InputRead(table="raw_sales", version=version, days=days)


def _session() -> SparkSession:
    return cast("SparkSession", object())


@pytest.fixture
def again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Again]:
    small = SmallLakehouse(tmp_path / "lakehouse")
    with clock.use(small.time):
        found = Again(small, lake_of(small, spark=_session))
        monkeypatch.setattr(reproduce_module, "stage_chunk", found.stage)
        monkeypatch.setattr(reproduce_module, "environment_of", lambda *_: HERE)
        yield found


def test_every_table_and_day_is_compared(again: Again) -> None:
    """One that comes out different is distinguished from those that are equal."""
    again.small.publish("raw", {"raw_sales": {DAY: [1], NEXT: [2]}})
    again.bronze("built", {DAY: 10, NEXT: 20}, reads=(read_of(1, {DAY: 1, NEXT: 2}),))
    again.gives = {DAY: 10, NEXT: 21}
    assert again.verdicts("built") == {
        TableDay("bronze_sales", DAY): ("equal", ""),
        TableDay("bronze_sales", NEXT): ("different", ""),
        TableDay("quarantine_sales", DAY): ("equal", ""),
        TableDay("quarantine_sales", NEXT): ("equal", ""),
    }
    assert again.said == ["bronze_sales: staged again, 4/4 days, ETA 0 s"]
    (chunk,) = again.chunks
    assert (chunk.version.name, list(chunk.days)) == ("v1", [DAY, NEXT])
    assert chunk.pin.inputs["raw_sales"].version == 1


def test_a_day_is_computed_from_the_version_that_it_was_computed_from(again: Again) -> None:
    """A day that moved while others were staged was read later: its fingerprint shows which of two versions it was."""
    again.small.publish("raw", {"raw_sales": {DAY: [1], NEXT: [2]}})
    again.small.publish("late", {"raw_sales": {NEXT: [3]}}, mode="append")
    first, later = read_of(1, {DAY: 1, NEXT: 2}), InputRead(table="raw_sales", version=2, days={NEXT: "2:5"})
    again.bronze("built", {DAY: 10, NEXT: 20}, reads=(first, later))
    again.gives = {DAY: 10, NEXT: 20}
    assert {verdict for verdict, _ in again.verdicts("built").values()} == {"equal"}
    read = {day: chunk.pin.inputs["raw_sales"].version for chunk in again.chunks for day in chunk.days}
    assert read == {DAY: 1, NEXT: 2}


def test_what_a_campaign_staged_itself_is_read_as_it_brought_it(again: Again) -> None:
    """The second table was made from days of the same publication, which main had at no version when they were read."""
    again.small.publish("raw", {"raw_sales": {DAY: [1]}})
    brought = read_of(None, {DAY: 7})
    request = again.request("campaign", {DAY: 10}, "v1", (brought,))
    raw = again.small.request("campaign-raw", {"raw_sales": {DAY: [7]}})
    both = request.model_copy(update={"tables": (*raw.tables, *request.tables), "inputs": ()})
    assert isinstance(again.small.publish_request(both), Published)
    again.gives = {DAY: 10}
    verdicts = again.verdicts("campaign")
    assert verdicts[TableDay("bronze_sales", DAY)] == ("equal", "")
    (chunk,) = again.chunks
    (of_raw,) = (change for change in both.tables if change.table == "raw_sales")
    assert chunk.overlay.days["raw_sales"][DAY].files == of_raw.days[0].adds, "the files that the campaign brought"
    assert chunk.pin.inputs["raw_sales"].days == brought.days


def test_a_day_that_was_only_put_back_names_the_publication_that_brought_it(again: Again) -> None:
    """An undo and a compaction compute nothing. A day that an undo withdrew holds nothing, which is soon proven."""
    again.lake = replace(again.lake, spark=no_spark)
    again.small.publish("raw", {"raw_sales": {DAY: [1], NEXT: [2]}})
    again.bronze("old", {DAY: 10}, reads=(read_of(1, {DAY: 1}),))
    compaction = again.small.request("compaction", {"bronze_sales": {DAY: [10]}})
    (change,) = compaction.tables
    held = again.small.publisher.log.find_prepared("old")
    assert held is not None
    day = change.days[0].model_copy(update={"content": held[0].change("bronze_sales").days[0].content})
    moved = change.model_copy(update={"days": (day,)})
    again.small.publish_request(compaction.model_copy(update={"kind": "compact", "tables": (moved,)}))
    again.bronze("new", {DAY: 11, NEXT: 12}, reads=(read_of(1, {DAY: 1, NEXT: 2}),))
    roll_back(again.small.publisher, "new", id="undo", steps=CATALOG.steps)
    why = "it was only put back or compacted, and holds what {} brought: reproduce that one"
    assert again.verdicts("compaction") == {
        TableDay("bronze_sales", DAY): ("cannot be reproduced", why.format("old")),
    }
    assert again.verdicts("undo") == {
        TableDay("bronze_sales", DAY): ("cannot be reproduced", why.format("compaction")),
        TableDay("bronze_sales", NEXT): ("equal", ""),
        TableDay("quarantine_sales", DAY): ("cannot be reproduced", why.format("old")),
        TableDay("quarantine_sales", NEXT): ("equal", ""),
    }
    again.lake = replace(again.lake, spark=_session)
    again.gives = {DAY: 11, NEXT: 12}
    assert {verdict for verdict, _ in again.verdicts("new").values()} == {"equal"}, "it was undone, and can be proven"


def test_what_cannot_be_computed_again_is_named(again: Again) -> None:
    """With the reason, and without a JVM: days of one publication, each with another fate."""
    again.lake = replace(again.lake, spark=no_spark)
    again.small.publish("raw", {"raw_sales": {DAY: [1]}, "gone_table": {DAY: [1]}})
    assert again.verdicts("raw")[TableDay("gone_table", DAY)][1] == "the table gone_table is not declared any more"
    again.bronze("v0", {DAY: 10}, code="v0", reads=(read_of(1, {DAY: 1}),))
    assert again.verdicts("v0")[TableDay("bronze_sales", DAY)] == (
        "cannot be reproduced",
        "the version v0 of bronze_sales is not declared any more",
    )
    again.bronze("silent", {DAY: 10})
    assert (
        again.verdicts("silent")[TableDay("bronze_sales", DAY)][1] == "silent did not record what it was computed from"
    )
    again.bronze("reclaimed", {DAY: 10}, reads=(read_of(1, {DAY: 1}),))
    for file in (Path(again.small.storage.root) / "raw_sales").rglob("*.parquet"):
        if "_delta_log" not in str(file):
            file.unlink()
    assert again.verdicts("reclaimed")[TableDay("bronze_sales", DAY)][1] == (
        f"files of raw_sales {DAY} at version 1 are gone"
    )


def test_a_day_that_another_writer_wrote_is_named(again: Again) -> None:
    """An undo puts it back all the same."""
    again.small.publish("first", {"bronze_sales": {DAY: [1]}})
    again.small.write_past_the_protocol("bronze_sales", DAY, [9])
    again.small.publish("over", {"bronze_sales": {DAY: [2]}})
    roll_back(again.small.publisher, "over", id="undo", steps=CATALOG.steps)
    assert again.verdicts("undo") == {
        TableDay("bronze_sales", DAY): ("cannot be reproduced", "a writer that bypassed the log wrote it")
    }


def test_landed_files_that_are_gone_or_changed_are_named(again: Again, tmp_path: Path) -> None:
    """Nothing else has the rows that were landed. What a rollback leaves of several ingestions is not its own."""
    path = f"sales/{DAY}/a.jsonl.gz"
    position = Position(id=f"landed:sales:{path}", before=None, after=7)
    request = again.small.request("ingest", {"raw_sales": {DAY: [1]}}, mode="append")
    change = request.tables[0].model_copy(update={"positions": (position,)})
    again.small.publish_request(request.model_copy(update={"tables": (change,)}))
    assert again.verdicts("ingest") == {
        TableDay("raw_sales", DAY): ("cannot be reproduced", f"the landed file {path} is gone")
    }
    file = Settings.at(tmp_path).landing / path
    file.parent.mkdir(parents=True)
    file.write_bytes(b"")
    assert again.verdicts("ingest")[TableDay("raw_sales", DAY)][1] == f"the landed file {path} is not what it was"
    again.small.publish("more", {"raw_sales": {DAY: [2]}}, mode="append")
    roll_back(again.small.publisher, "more", id="less", steps=CATALOG.steps)
    assert "holds what ingest brought" in again.verdicts("less")[TableDay("raw_sales", DAY)][1]


def test_what_never_can_be_ingested_again_is_named_before_what_is_lost(again: Again) -> None:
    """To put the lost file back would not help."""
    again.small.publish("first", {"raw_sales": {DAY: [1]}})
    request = again.small.request("again", {"raw_sales": {NEXT: [2]}}, mode="append")
    made = request.provenance.model_copy(update={"reason": f"{REFRESH} of sales"})
    refresh = request.model_copy(update={"provenance": made, "inputs": (read_of(1, {DAY: 1}),)})
    assert isinstance(again.small.publish_request(refresh), Published)
    for file in (Path(again.small.storage.root) / "raw_sales").rglob("*.parquet"):
        if "_delta_log" not in str(file):
            file.unlink()
    ((_, why),) = again.verdicts("again").values()
    assert why.startswith("it read its source again")


@pytest.mark.parametrize("anew", [True, False])
def test_a_field_that_was_declared_since_is_no_other_result(
    again: Again, monkeypatch: pytest.MonkeyPatch, anew: bool
) -> None:
    """Raw had its value among those that are not declared: a day that differs by that accuses no logic."""
    request = again.small.request("ingest", {"raw_sales": {DAY: [1], NEXT: [2]}}, mode="append")
    fields = json.loads(request.tables[0].table_schema)["fields"]
    (source,) = (step.source for step in CATALOG.steps if step.name == "raw_sales")
    assert source is not None
    missing = [{"name": name, "type": "string", "nullable": True, "metadata": {}} for name in raw_schema(source).names]
    then = [each for each in missing if each["name"] not in ("day", "currency" if anew else "")]
    schema = json.dumps({"type": "struct", "fields": [*then, next(each for each in fields if each["name"] == "day")]})
    now = {TableDay("raw_sales", DAY): content_of(1), TableDay("raw_sales", NEXT): content_of(9)}
    (change,) = request.tables
    made_by = request.model_copy(update={"tables": (change.model_copy(update={"table_schema": schema}),)})
    assert isinstance(again.small.publish_request(made_by), Published)
    monkeypatch.setattr(reproduce_module, "ingest_again", lambda *about: now)
    verdicts = again.verdicts("ingest")
    assert verdicts[TableDay("raw_sales", DAY)] == ("equal", "")
    why = "its source has other fields now than it had then: currency"
    assert verdicts[TableDay("raw_sales", NEXT)] == (("cannot be reproduced", why) if anew else ("different", ""))


def test_events_of_a_stream_are_not_read_again(again: Again) -> None:
    """A topic keeps them for a while only, and raw for good: one sentence says so."""
    position = Position(id="kafka:sales:orders:0", before=None, after=7)
    request = again.small.request("batch", {"raw_sales": {DAY: [1]}}, mode="append")
    change = request.tables[0].model_copy(update={"positions": (position,)})
    again.small.publish_request(request.model_copy(update={"tables": (change,)}))
    why = "its rows are events of the topic orders, which is not read again: raw has them"
    assert again.verdicts("batch") == {TableDay("raw_sales", DAY): ("cannot be reproduced", why)}


def test_what_was_aborted_or_is_unknown_is_refused(again: Again) -> None:
    again.small.publish("first", {"bronze_sales": {DAY: [1]}})
    again.small.crash("dead", {"bronze_sales": {DAY: [2]}}, at=CrashPoint.PREPARED)
    again.small.write_past_the_protocol("bronze_sales", DAY, [9])
    again.small.publisher.recover()
    with pytest.raises(InvalidRequest, match="dead brought nothing"):
        again.run("dead")
    with pytest.raises(InvalidRequest, match="no publication 'none'"):
        again.run("none")


def test_it_compares_what_computed_the_days_with_what_is_here(again: Again) -> None:
    """By the publication that computed them; one that did not record it has none."""
    again.small.publish("raw", {"raw_sales": {DAY: [1]}})
    request = again.request("built", {DAY: 10}, "v1", (read_of(1, {DAY: 1}),))
    tables = tuple(
        change.model_copy(
            update={"days": tuple(d.model_copy(update={"lineage": DayLineage(environment=THEN)}) for d in change.days)}
        )
        for change in request.tables
    )
    again.small.publish_request(request.model_copy(update={"tables": tables}))
    assert len(lineages(again.small.storage, ["built"])) == 1
    again.gives = {DAY: 10}
    found = again.run("built")
    assert (found.made_with, found.here) == ((THEN,), HERE)
    again.bronze("silent", {DAY: 10}, reads=(read_of(1, {DAY: 1}),))
    assert again.run("silent").made_with == ()
