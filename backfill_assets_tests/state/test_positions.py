"""Positions read back at any published state, and the boundary of days that are computed from a stream."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from backfill_assets import clock
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.delta_log import VersionGone
from backfill_assets.lakehouse.records import PartitionPosition
from backfill_assets.publish.publisher import Published
from backfill_assets.state.boundaries import RawBoundary
from backfill_assets.state.diagnosis import Cause
from backfill_assets.state.observed import observe
from backfill_assets.state.positions import (
    RawVersions,
    publication_boundaries,
    read_boundaries,
    table_boundaries,
)
from backfill_assets.state.status import day_statuses
from backfill_assets.state.view import View, find_moment
from backfill_assets_tests.streamed_lakehouse import BRONZE, FACT, QUARANTINE, RAW, TOPIC, StreamedLakehouse

pytestmark = pytest.mark.protocol
FIRST, SECOND = date(2017, 3, 1), date(2017, 3, 2)


@pytest.fixture
def lakehouse(tmp_path: Path) -> Iterator[StreamedLakehouse]:
    """History up to offset 10 of partition 0, two days; then live."""
    found = StreamedLakehouse(tmp_path)
    with clock.use(found.time):
        found.begin({0: 10}, FIRST)
        found.stream("history", {FIRST: [1, 2], SECOND: [3]}, {0: (0, 10)})
        yield found


def upto(*offsets: int, live: int | None = 10) -> tuple[PartitionPosition, ...]:
    """By partition; only partition 0 had a history."""
    return tuple(PartitionPosition(TOPIC, n, each, live if n == 0 else None) for n, each in enumerate(offsets))


def raw_now(lakehouse: StreamedLakehouse) -> RawBoundary:
    (found,) = table_boundaries(View.newest(lakehouse.storage), RAW)
    return found.boundary


def test_raw_has_its_positions_at_every_version(lakehouse: StreamedLakehouse) -> None:
    """By version, by publication and by moment: the same state is found."""
    lakehouse.stream("batch-1", {SECOND: [4]}, {0: (10, 12), 1: (0, 3)})
    assert raw_now(lakehouse).positions == upto(12, 3)
    history = View.closed(lakehouse.storage, "history")
    for view in (
        history,
        find_moment(lakehouse.storage, str(history.versions[RAW]), RAW),
        find_moment(lakehouse.storage, "2017-06-01 12:02:30", RAW),
    ):
        (found,) = table_boundaries(view, RAW)
        assert found.boundary.positions == upto(10)
        assert found.boundary.versions == (history.versions[RAW],)


def test_a_rollback_gives_the_positions_back_and_the_boundary_of_what_was_computed(
    lakehouse: StreamedLakehouse,
) -> None:
    """The events are read again: they are before no boundary. An undo computes nothing: its days are older ones."""
    lakehouse.build_bronze("bronze", {SECOND: [3]})
    lakehouse.stream("batch-1", {SECOND: [4]}, {0: (10, 12), 1: (0, 3)})
    lakehouse.build_bronze("later", {SECOND: [3, 4]})
    roll_back(lakehouse.publisher, "later", id="back", steps=CATALOG.steps)
    (found,) = table_boundaries(View.newest(lakehouse.storage), BRONZE)
    assert found.boundary.positions == upto(10)
    roll_back(lakehouse.publisher, "batch-1", id="more", steps=CATALOG.steps)
    assert raw_now(lakehouse).positions == upto(10)
    (then,) = table_boundaries(View.closed(lakehouse.storage, "batch-1"), RAW)
    assert then.boundary.positions == upto(12, 3)


def test_landed_files_are_counted_with_the_newest_arrival(lakehouse: StreamedLakehouse) -> None:
    """A raw table can have both."""
    lakehouse.land("landed", {FIRST: [8]}, "sales/2017-03-04/a.jsonl.gz")
    found = raw_now(lakehouse)
    assert (found.landed_files, found.newest_arrival, found.positions) == (1, date(2017, 3, 4), upto(10))


def test_a_backfill_beside_a_stream_has_the_boundary_that_it_has_read(lakehouse: StreamedLakehouse) -> None:
    """Staged from version v while the stream goes on: no gap and no overlap.

    The publication has the boundary of v. The rows after it are in raw as they came, and their day is stale: the next
    build reads them, and the day that got none stays fresh.
    """
    rows = {FIRST: [1, 2], SECOND: [3]}
    staged = lakehouse.bronze_of("campaign", rows, lakehouse.pin(rows))
    for number in range(3):
        lakehouse.stream(f"batch-{number}", {SECOND: [10 + number]}, {0: (10 + number, 11 + number)})
    before = lakehouse.newest(RAW).to_pyarrow_table().sort_by("id")
    assert isinstance(lakehouse.publish_request(staged), Published)
    found = publication_boundaries(lakehouse.storage, ["campaign"])["campaign"]
    assert [(each.tables, each.days, each.boundary.positions) for each in found] == [
        ((BRONZE, QUARANTINE), (FIRST, SECOND), upto(10))
    ]
    assert raw_now(lakehouse).positions == upto(13)
    assert lakehouse.newest(RAW).to_pyarrow_table().sort_by("id") == before
    assert sorted(before.column("id").to_pylist()) == [0, 1, 2, 3, 10, 11, 12]
    steps = [CATALOG.step(RAW), CATALOG.step(BRONZE)]
    statuses = day_statuses(steps, observe(lakehouse.storage, [RAW, BRONZE, QUARANTINE]), DayRange(FIRST, SECOND))
    assert statuses[BRONZE] == {FIRST: None, SECOND: Cause.LATE}
    lakehouse.build_bronze("follow", {SECOND: [3, 10, 11, 12]})
    found = table_boundaries(View.newest(lakehouse.storage), BRONZE)
    assert [(each.days, each.boundary.positions) for each in found] == [((FIRST,), upto(10)), ((SECOND,), upto(13))]


def test_a_day_is_followed_through_tables_and_publications(lakehouse: StreamedLakehouse) -> None:
    """Fact of one day was computed from bronze of main, of the other from bronze of the same publication."""
    lakehouse.build_bronze("bronze", {FIRST: [1, 2], SECOND: [3]})
    lakehouse.build_fact("fact", {FIRST: [1, 2], SECOND: [3]})
    lakehouse.stream("batch", {SECOND: [4]}, {0: (10, 15)})
    lakehouse.build_both("both", {SECOND: [3, 4]})
    newest = table_boundaries(View.newest(lakehouse.storage), FACT)
    assert [(each.days, each.boundary.positions) for each in newest] == [((FIRST,), upto(10)), ((SECOND,), upto(15))]
    earlier = table_boundaries(View.closed(lakehouse.storage, "fact"), FACT)
    assert [(each.days, each.boundary.positions) for each in earlier] == [((FIRST, SECOND), upto(10))]
    (both,) = publication_boundaries(lakehouse.storage, ["both"])["both"]
    assert both.tables == (BRONZE, FACT, QUARANTINE) and both.boundary.positions == upto(15)


def test_what_a_plan_reads_has_the_boundary_of_its_snapshot(lakehouse: StreamedLakehouse) -> None:
    """Of raw as a whole, and of bronze what its days were computed from."""
    lakehouse.build_bronze("bronze", {FIRST: [1, 2]})
    lakehouse.stream("batch", {SECOND: [4]}, {0: (10, 15)})
    view = View.newest(lakehouse.storage)
    lakehouse.stream("later", {SECOND: [5]}, {0: (15, 16)})
    found = read_boundaries(view, {RAW: [FIRST, SECOND], BRONZE: [FIRST]})
    assert [(each.tables, each.days, each.boundary.positions) for each in found] == [
        ((RAW,), (FIRST, SECOND), upto(15)),
        ((BRONZE,), (FIRST,), upto(10)),
    ]


def test_without_a_stream_nothing_is_looked_up(tmp_path: Path) -> None:
    """Plans and histories of lakehouses that only land files are what they were."""
    landed = StreamedLakehouse(tmp_path)
    landed.land("landed", {FIRST: [1]}, "sales/2017-03-01/a.jsonl.gz")
    landed.build_bronze("bronze", {FIRST: [1]})
    assert publication_boundaries(landed.storage, ["bronze"]) == {}
    assert read_boundaries(View.newest(landed.storage), {RAW: [FIRST]}) == []
    (found,) = table_boundaries(View.newest(landed.storage), BRONZE)
    assert found.boundary.landed_files == 1


def _clean_up(lakehouse: StreamedLakehouse, table: str, before: int) -> None:
    """What Delta does when its log retention is over."""
    lakehouse.newest(table).create_checkpoint()
    for number in range(before):
        (Path(lakehouse.storage.root) / table / "_delta_log" / f"{number:020d}.json").unlink()


def test_positions_outlive_the_delta_log_of_raw(lakehouse: StreamedLakehouse) -> None:
    """The publication log has them too: the boundary of old days is known for as long as they are."""
    lakehouse.build_bronze("bronze", {FIRST: [1, 2]})
    for number in range(3):
        newest = lakehouse.stream(f"batch-{number}", {SECOND: [10 + number]}, {0: (10 + number, 11 + number)})
    _clean_up(lakehouse, RAW, newest)
    (found,) = table_boundaries(View.newest(lakehouse.storage), BRONZE)
    assert found.boundary.positions == upto(10)
    assert found.boundary.landed_files is None and f"those of version {newest}" in found.boundary.unknown


def test_a_version_that_is_gone_names_the_oldest_that_can_be_had(tmp_path: Path) -> None:
    """Nothing is guessed from a later one."""
    landed = StreamedLakehouse(tmp_path)
    for number in range(3):
        newest = landed.land(f"landed-{number}", {FIRST: [number]}, f"sales/2017-03-0{number + 1}/a.jsonl.gz")
    _clean_up(landed, RAW, newest)
    with pytest.raises(VersionGone, match=f"(?s)Version 1 of raw_sales .* oldest version that can be read is {newest}"):
        table_boundaries(find_moment(landed.storage, "1", RAW), RAW)
    assert RawVersions(landed.storage).at(RAW, newest).landed_files == 3


def test_states_that_never_were_are_errors(lakehouse: StreamedLakehouse) -> None:
    """Each names what there is."""
    with pytest.raises(InvalidRequest, match="has no version 99: its newest version is"):
        find_moment(lakehouse.storage, "99", RAW)
    with pytest.raises(InvalidRequest, match="nothing was published to it"):
        find_moment(lakehouse.storage, "0", FACT)
    with pytest.raises(InvalidRequest, match="Nothing was published by 2017-01-01"):
        find_moment(lakehouse.storage, "2017-01-01", RAW)
    with pytest.raises(InvalidRequest, match="Did you mean history"):
        View.closed(lakehouse.storage, "histori")
    with pytest.raises(InvalidRequest, match="Nothing was published to bronze_sales by entry"):
        table_boundaries(View.closed(lakehouse.storage, "history"), BRONZE)
