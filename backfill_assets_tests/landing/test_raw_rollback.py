"""Rolling back what brought a newer version of a transaction: the older one must neither vanish nor count twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from backfill_assets.campaign.rollback import roll_back, undoable
from backfill_assets.errors import PublicationRefused
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.timelines import StagedAs, Timeline, TimelineEntry
from backfill_assets.landing.raw_rollback import require_sound_rollback
from backfill_assets.publish.compact import compact
from backfill_assets.publish.publisher import Conflict, Publisher
from backfill_assets_tests.small_lakehouse import SmallLakehouse

pytestmark = pytest.mark.protocol

RAW, OLD, NEW, FAR = "raw_sales", date(2017, 3, 1), date(2017, 3, 4), date(2017, 4, 4)
ARRIVED = date(2017, 3, 6)
MARKER = -7
"""On OLD: the row 7 on NEW has superseded a row of this day."""


class RawLakehouse(SmallLakehouse):
    """A row is its content hash; a negative one is a marker that points to NEW."""

    def stage(self, name: str, table: str, days: Mapping[date, Sequence[int]]) -> Timeline:
        timeline = Timeline(self.storage, table, name)
        entry = TimelineEntry(staged={day: StagedAs(input_fingerprint="x") for day in days})
        rows = pa.Table.from_pylist(
            [
                {
                    "record_kind": "received" if each > 0 else "supersession",
                    "superseded_by_day": None if each > 0 else NEW,
                    "content_hash": abs(each),
                    "day": day,
                }
                for day, hashes in days.items()
                for each in hashes
            ],
            schema=pa.schema(
                {
                    "record_kind": pa.string(),
                    "superseded_by_day": pa.date32(),
                    "content_hash": pa.int64(),
                    "day": pa.date32(),
                }
            ),
        )
        properties = CommitProperties(custom_metadata={"userMetadata": entry.model_dump_json()})
        write_deltalake(timeline.uri, rows, mode="append", partition_by=["day"], commit_properties=properties)
        return timeline

    def arrive(self, id: str, rows: Mapping[date, Sequence[int]]) -> None:
        assert not isinstance(self.publish(id, {RAW: rows}, mode="append"), Conflict)


@pytest.fixture
def lakehouse(tmp_path: Path) -> RawLakehouse:
    return RawLakehouse(tmp_path)


def _check(publisher: Publisher, publication: str) -> object:
    return require_sound_rollback(publisher, CATALOG, undoable(publisher, publication))


def test_a_row_that_arrived_late_keeps_the_newer_version_there(lakehouse: RawLakehouse) -> None:
    """The marker came with the older row: it would stay, and point to nothing."""
    lakehouse.arrive("newer", {NEW: [7]})
    lakehouse.arrive("older", {OLD: [5, MARKER]})
    with pytest.raises(PublicationRefused, match=rf"newer cannot be rolled back: on {OLD} of {RAW} rows that arrived"):
        _check(lakehouse.publisher, "newer")
    roll_back(lakehouse.publisher, "older", id="undo-older", steps=CATALOG.steps)
    assert _check(lakehouse.publisher, "newer")


def test_markers_that_go_with_it_are_no_reason(lakehouse: RawLakehouse) -> None:
    """The usual order: older first, then newer with its marker, which is taken away with it."""
    lakehouse.arrive("older", {OLD: [5]})
    lakehouse.arrive("newer", {NEW: [7], OLD: [MARKER]})
    assert _check(lakehouse.publisher, "newer")


def test_another_copy_of_the_newer_version_is_enough(lakehouse: RawLakehouse) -> None:
    """The same line was landed twice."""
    lakehouse.arrive("newer", {NEW: [7]})
    lakehouse.arrive("older", {OLD: [5, MARKER]})
    lakehouse.arrive("copy", {NEW: [7]})
    assert _check(lakehouse.publisher, "copy")


def test_rows_that_come_back_are_compared_with_what_arrived_meanwhile(lakehouse: RawLakehouse) -> None:
    """The older version came without a marker while the newer one was away: both would count."""
    lakehouse.arrive("newer", {NEW: [7]})
    roll_back(lakehouse.publisher, "newer", id="undo", steps=CATALOG.steps)
    assert _check(lakehouse.publisher, "undo")
    lakehouse.arrive("elsewhere", {FAR: [1]})
    assert _check(lakehouse.publisher, "undo")
    lakehouse.arrive("older", {OLD: [5]})
    with pytest.raises(PublicationRefused, match=f"undo cannot be rolled back: rows arrived on {OLD}"):
        _check(lakehouse.publisher, "undo")


def test_what_maintenance_has_put_together_is_looked_at_too(lakehouse: RawLakehouse) -> None:
    """A compaction leaves every rollback possible, so the rows that would go are in a file that it did not bring."""
    lakehouse.arrive("before", {NEW: [3]})
    lakehouse.arrive("newer", {NEW: [7]})
    compact(lakehouse.publisher, RAW, [NEW], id="compacted")
    lakehouse.arrive("older", {OLD: [5, MARKER]})
    with pytest.raises(PublicationRefused, match=f"newer cannot be rolled back: on {OLD}"):
        _check(lakehouse.publisher, "newer")


def test_a_copy_from_before_is_enough_after_a_compaction(lakehouse: RawLakehouse) -> None:
    """It is in the same file now, and stays."""
    lakehouse.arrive("newer", {NEW: [7]})
    lakehouse.arrive("older", {OLD: [5, MARKER]})
    lakehouse.arrive("copy", {NEW: [7]})
    compact(lakehouse.publisher, RAW, [NEW], id="compacted")
    assert _check(lakehouse.publisher, "copy")


def test_rows_from_before_a_compaction_arrived_since_as_well(lakehouse: RawLakehouse) -> None:
    """The older version came while the newer one was away, and then maintenance put files of that day together."""
    lakehouse.arrive("some", {NEW: [3]})
    lakehouse.arrive("more", {NEW: [4]})
    lakehouse.arrive("newer", {NEW: [7]})
    roll_back(lakehouse.publisher, "newer", id="undo", steps=CATALOG.steps)
    lakehouse.arrive("older", {OLD: [5]})
    compact(lakehouse.publisher, RAW, [NEW], id="compacted")
    with pytest.raises(PublicationRefused, match=f"undo cannot be rolled back: rows arrived on {OLD}"):
        _check(lakehouse.publisher, "undo")


def test_a_compaction_elsewhere_brings_no_rows(lakehouse: RawLakehouse) -> None:
    """It is the newest publication of its day, and holds what was there before."""
    for id, content in (("some", 1), ("more", 2)):
        lakehouse.arrive(id, {OLD: [content]})
    lakehouse.arrive("newer", {NEW: [7]})
    roll_back(lakehouse.publisher, "newer", id="undo", steps=CATALOG.steps)
    compact(lakehouse.publisher, RAW, [OLD], id="compacted")
    assert _check(lakehouse.publisher, "undo")


def test_rows_that_were_put_on_other_days_go_back_only_if_none_arrived_since(lakehouse: RawLakehouse) -> None:
    """What arrived beside them meanwhile was compared with them where they are now."""
    lakehouse.arrive("newer", {ARRIVED: [7]})
    lakehouse.publish("moved", {RAW: {NEW: [7], ARRIVED: []}})
    assert _check(lakehouse.publisher, "moved")
    lakehouse.arrive("older", {OLD: [5, MARKER]})
    with pytest.raises(PublicationRefused, match=f"moved cannot be rolled back: rows arrived on {OLD}"):
        _check(lakehouse.publisher, "moved")


def test_rows_that_arrive_after_the_look_refuse_the_rollback(lakehouse: RawLakehouse) -> None:
    """What was looked at is an input of the rollback."""
    lakehouse.arrive("newer", {NEW: [7]})
    prepared = undoable(lakehouse.publisher, "newer")
    looked_at = require_sound_rollback(lakehouse.publisher, CATALOG, prepared)
    lakehouse.arrive("older", {OLD: [5, MARKER]})
    with pytest.raises(PublicationRefused, match=RAW):
        roll_back(lakehouse.publisher, "newer", id="undo", steps=CATALOG.steps, inputs=looked_at)


def test_tables_without_a_window_are_rolled_back_as_they_are(lakehouse: RawLakehouse) -> None:
    """Nothing is read for them."""
    lakehouse.publish("p", {"bronze_sales": {NEW: [7]}})
    assert _check(lakehouse.publisher, "p") == ()
