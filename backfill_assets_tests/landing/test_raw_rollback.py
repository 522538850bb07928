"""Rolling back what brought a newer version of a transaction: the older one must neither vanish nor count twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

from backfill_assets import clock
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.campaign.undoable import undoable
from backfill_assets.errors import PublicationRefused
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.landing.raw_rollback import require_sound_rollback
from backfill_assets.publish.compact import compact
from backfill_assets.publish.publisher import Conflict, Publisher
from backfill_assets_tests.small_lakehouse import SmallLakehouse

pytestmark = pytest.mark.protocol

RAW, OLD, NEW, FAR = "raw_sales", date(2017, 3, 1), date(2017, 3, 4), date(2017, 4, 4)
ARRIVED = date(2017, 3, 6)
MARKER = -7
"""On OLD: the row 7 on NEW has superseded a row of this day."""


SCHEMA = pa.schema(
    [
        ("record_kind", pa.string()),
        ("superseded_by_day", pa.date32()),
        ("content_hash", pa.int64()),
        ("day", pa.date32()),
    ]
)


class RawLakehouse(SmallLakehouse):
    """A row is its content hash; a negative one is a marker that points to NEW."""

    def rows_of(self, table: str, day: date, ids: Sequence[int]) -> pa.Table:
        rows = [
            {
                "record_kind": "received" if each > 0 else "supersession",
                "superseded_by_day": None if each > 0 else NEW,
                "content_hash": abs(each),
                "day": day,
            }
            for each in ids
        ]
        return pa.Table.from_pylist(rows, schema=SCHEMA)

    def arrive(self, id: str, rows: Mapping[date, Sequence[int]]) -> None:
        assert not isinstance(self.publish(id, {RAW: rows}, mode="append"), Conflict)


Happens = Callable[[RawLakehouse], object]


@pytest.fixture
def lakehouse(tmp_path: Path) -> Iterator[RawLakehouse]:
    found = RawLakehouse(tmp_path)
    with clock.use(found.time):
        yield found


def _check(publisher: Publisher, publication: str) -> object:
    return require_sound_rollback(publisher, CATALOG, undoable(publisher, publication))


def back(publication: str) -> Happens:
    return lambda lakehouse: roll_back(lakehouse.publisher, publication, id="undo", steps=CATALOG.steps)


def compacted(day: date) -> Happens:
    return lambda lakehouse: compact(lakehouse.publisher, RAW, [day], id="compacted")


def moved(lakehouse: RawLakehouse) -> None:
    lakehouse.publish("moved", {RAW: {NEW: [7], ARRIVED: []}})


def came(id: str, rows: Mapping[date, Sequence[int]]) -> Happens:
    return lambda lakehouse: lakehouse.arrive(id, rows)


NEWER, OLDER, COPY = came("newer", {NEW: [7]}), came("older", {OLD: [5, MARKER]}), came("copy", {NEW: [7]})
UNMARKED = came("older", {OLD: [5]})
POINTS_TO_NOTHING = f"on {OLD} of {RAW} rows that arrived"
ARRIVED_SINCE = f"rows arrived on {OLD}"


@pytest.mark.parametrize(
    ("happened", "publication", "why"),
    [
        ([came("older", {OLD: [5]}), came("newer", {NEW: [7], OLD: [MARKER]})], "newer", ""),
        ([NEWER, OLDER, COPY], "copy", ""),
        ([NEWER, back("newer"), came("elsewhere", {FAR: [1]})], "undo", ""),
        ([NEWER, back("newer"), UNMARKED], "undo", ARRIVED_SINCE),
        ([came("before", {NEW: [3]}), NEWER, compacted(NEW), OLDER], "newer", POINTS_TO_NOTHING),
        ([NEWER, OLDER, COPY, compacted(NEW)], "copy", ""),
        (
            [came("a", {NEW: [3]}), came("b", {NEW: [4]}), NEWER, back("newer"), UNMARKED, compacted(NEW)],
            "undo",
            ARRIVED_SINCE,
        ),
        ([came("a", {OLD: [1]}), came("b", {OLD: [2]}), NEWER, back("newer"), compacted(OLD)], "undo", ""),
        ([came("newer", {ARRIVED: [7]}), moved], "moved", ""),
        ([came("newer", {ARRIVED: [7]}), moved, OLDER], "moved", ARRIVED_SINCE),
    ],
    ids=[
        "markers that go with it are no reason",
        "another copy of the newer version is enough",
        "what arrived out of the window is no reason",
        "rows that come back are compared with what arrived meanwhile",
        "what maintenance has put together is looked at too",
        "a copy from before is enough after a compaction",
        "rows from before a compaction arrived since as well",
        "a compaction elsewhere brings no rows",
        "rows that were put on other days go back if none arrived since",
        "rows that were put on other days stay where others arrived beside them",
    ],
)
def test_a_rollback_is_sound_if_no_version_vanishes_or_counts_twice(
    lakehouse: RawLakehouse, happened: Sequence[Happens], publication: str, why: str
) -> None:
    for each in happened:
        each(lakehouse)
    if not why:
        assert _check(lakehouse.publisher, publication)
        return
    with pytest.raises(PublicationRefused, match=f"{publication} cannot be rolled back: {why}"):
        _check(lakehouse.publisher, publication)


def test_a_row_that_arrived_late_keeps_the_newer_version_there(lakehouse: RawLakehouse) -> None:
    """The marker came with the older row: it would stay, and point to nothing."""
    NEWER(lakehouse)
    OLDER(lakehouse)
    with pytest.raises(PublicationRefused, match=f"newer cannot be rolled back: {POINTS_TO_NOTHING}"):
        _check(lakehouse.publisher, "newer")
    back("older")(lakehouse)
    assert _check(lakehouse.publisher, "newer")


def test_rows_that_arrive_after_the_look_refuse_the_rollback(lakehouse: RawLakehouse) -> None:
    """What was looked at is an input of the rollback."""
    NEWER(lakehouse)
    prepared = undoable(lakehouse.publisher, "newer")
    looked_at = require_sound_rollback(lakehouse.publisher, CATALOG, prepared)
    OLDER(lakehouse)
    with pytest.raises(PublicationRefused, match=RAW):
        roll_back(lakehouse.publisher, "newer", id="undo", steps=CATALOG.steps, inputs=looked_at)


def test_tables_without_a_window_are_rolled_back_as_they_are(lakehouse: RawLakehouse) -> None:
    """Nothing is read for them."""
    lakehouse.publish("p", {"bronze_sales": {NEW: [7]}})
    assert _check(lakehouse.publisher, "p") == ()
