"""Rows at a moment and rows that arrived since are together the rows that there are now, and each is counted once."""

from __future__ import annotations

from collections import Counter
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets import clock
from backfill_assets.answers.timelines import raw_since
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.errors import InvalidRequest, PublicationRefused
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.delta_log import read_log
from backfill_assets.lakehouse.named_timelines import ArrivedRows, NamedTimeline, create_timeline
from backfill_assets.lakehouse.records import DayContent, DayRecord
from backfill_assets.publish.compact import compact
from backfill_assets.report.answer import shown
from backfill_assets.state.view import View, find_moment
from backfill_assets.timeline.arrivals import (
    arrivals,
    arrived_since,
    waiting_days,
)
from backfill_assets.timeline.build import base_at_moment, records_at_moment
from backfill_assets.timeline.rewind import RewindRequest, new_timeline, rewound_timeline
from backfill_assets_tests.strategies.how_many import drawn
from backfill_assets_tests.streamed_lakehouse import BRONZE, FACT, RAW, StreamedLakehouse

pytestmark = pytest.mark.protocol
FIRST, SECOND, THIRD = DAYS = tuple(date(2017, 3, day) for day in (1, 2, 3))


def held(day: date, rows: int, checksum: int) -> dict[date, DayRecord]:
    return {day: DayRecord(day=day, content=DayContent(rows=rows, checksum=str(checksum)))}


def test_what_arrived_on_a_day_is_what_it_holds_more() -> None:
    then = {**held(FIRST, 2, 10), **held(SECOND, 5, 9), THIRD: DayRecord(day=THIRD, foreign="x")}
    now = {**held(FIRST, 3, 30), **held(SECOND, 4, 7), **held(THIRD, 1, 1)}
    found = arrivals(then, now)
    assert found == [
        ArrivedRows(day=FIRST, rows=1, checksum="20"),
        ArrivedRows(day=SECOND, rows=-1, checksum="-2"),
        ArrivedRows(day=THIRD, rows=None),
    ]
    assert arrivals(now, now) == []


def rewound(lakehouse: StreamedLakehouse) -> NamedTimeline:
    """The first day of bronze is what it was before it was built again."""
    lakehouse.build_bronze("bronze-1", {FIRST: [1, 2]})
    lakehouse.build_bronze("bronze-2", {FIRST: [1, 2, 3]})
    asked = RewindRequest("back", (BRONZE,))
    moment = find_moment(lakehouse.storage, "bronze-1", BRONZE)
    made = rewound_timeline(lakehouse.storage, CATALOG.steps, asked, moment, lakehouse.now())
    return create_timeline(lakehouse.storage, made)


def test_a_rewound_timeline_keeps_the_positions_of_its_moment(tmp_path: Path) -> None:
    lakehouse = StreamedLakehouse(tmp_path)
    lakehouse.begin({0: 10}, FIRST)
    lakehouse.stream("history", {FIRST: [1, 2], SECOND: [3]}, {0: (0, 10)})
    lakehouse.land("landed", {FIRST: [4]}, "sales/2017-03-02/a.jsonl.gz")
    made = rewound(lakehouse)
    (read,) = made.moment_reads
    assert (read.table, read.rows, read.checksum, read.landed_files) == (RAW, 5, "10", 1)
    assert [(each.partition, each.next_offset) for each in read.offsets] == [(0, 10)]
    assert read.newest_arrival == SECOND and made.moment_base is not None
    assert made.moment_base.versions[RAW] == read.version
    lakehouse.stream("batch", {FIRST: [5]}, {0: (10, 11)})
    found = arrived_since(View.newest(lakehouse.storage), CATALOG.steps, made)
    after = found.recorded_on(made)
    assert [each.next_offset for each in after.reads[0].offsets] == [11]
    assert after.arrived == {RAW: (ArrivedRows(day=FIRST, rows=1, checksum="5"),)}
    (line,) = (shown(raw) for raw in raw_since(after))
    then, now = f"5 rows at its moment, version {read.version}", f"6 in version {after.reads[0].version}"
    assert line == f"raw_sales: {then}; 1 row since on 2017-03-01; {now}"
    again = arrived_since(View.newest(lakehouse.storage), CATALOG.steps, after)
    assert again.since_last == {} and again.recorded_on(after) == after


def test_a_timeline_that_was_not_rewound_has_no_moment(tmp_path: Path) -> None:
    lakehouse = StreamedLakehouse(tmp_path)
    lakehouse.land("landed", {FIRST: [4]}, "sales/2017-03-02/a.jsonl.gz")
    made = new_timeline(lakehouse.storage, "plain", "ana", lakehouse.now())
    with pytest.raises(InvalidRequest, match="does not keep what its days were computed from"):
        records_at_moment(lakehouse.storage, CATALOG.steps, made)


def test_the_moment_is_read_by_its_own_files_also_if_raw_was_compacted_since(tmp_path: Path) -> None:
    """Where a file is gone, nothing begins."""
    lakehouse = StreamedLakehouse(tmp_path)
    lakehouse.land("landed", {FIRST: [1]}, "sales/2017-03-02/a.jsonl.gz")
    lakehouse.land("more", {FIRST: [2]}, "sales/2017-03-02/b.jsonl.gz")
    made = rewound(lakehouse)
    lakehouse.land("late", {FIRST: [3], SECOND: [4]}, "sales/2017-03-03/a.jsonl.gz")
    compact(lakehouse.publisher, RAW, [FIRST], id="c")
    now = View.newest(lakehouse.storage)
    then = records_at_moment(lakehouse.storage, CATALOG.steps, made)[RAW]
    assert then[FIRST].logical == fingerprints.logical(2, 3) and SECOND not in then
    assert (
        not {file.path for file in then[FIRST].files}
        & read_log(lakehouse.storage, RAW, now.versions[RAW]).active.keys()
    )
    lakehouse.storage.delete(f"{RAW}/{then[FIRST].files[0].path}")
    with pytest.raises(PublicationRefused, match="raw_sales: 1 file gone, the earliest moment is"):
        records_at_moment(lakehouse.storage, CATALOG.steps, made)


def test_the_base_at_the_moment_has_all_tables_of_then_whose_files_are_there(tmp_path: Path) -> None:
    """Facts are not what the timeline is computed from: nothing keeps their files of then."""
    lakehouse = StreamedLakehouse(tmp_path)
    lakehouse.land("landed", {FIRST: [1], SECOND: [2]}, "sales/2017-03-02/a.jsonl.gz")
    lakehouse.build_bronze("bronze-0", {SECOND: [2]})
    lakehouse.build_fact("fact-0", {SECOND: [2]})
    made = rewound(lakehouse)
    lakehouse.build_fact("fact-1", {SECOND: [9]})
    then = View.closed(lakehouse.storage, "bronze-1")
    assert made.moment_base is not None and FACT not in made.moment_base.versions
    found = base_at_moment(lakehouse.storage, made)
    assert (found.sequence, found.versions) == (then.sequence, then.versions)
    (file,) = then.records([FACT])[FACT][SECOND].files
    lakehouse.storage.delete(f"{FACT}/{file.path}")
    found = base_at_moment(lakehouse.storage, made)
    assert found.versions == {table: version for table, version in then.versions.items() if table != FACT}


def test_what_main_has_not_taken_in_is_named(tmp_path: Path) -> None:
    """Bronze of the second day is read through to, and was computed before the row arrived; then facts are behind."""
    lakehouse = StreamedLakehouse(tmp_path)
    lakehouse.land("landed", {FIRST: [1], SECOND: [2]}, "sales/2017-03-02/a.jsonl.gz")
    lakehouse.build_bronze("bronze-0", {SECOND: [2]})
    lakehouse.build_fact("fact-0", {SECOND: [2]})
    made = rewound(lakehouse).model_copy(update={"days": {FACT: (DayRecord(day=FIRST),)}})
    lakehouse.land("late", {SECOND: [3]}, "sales/2017-03-03/a.jsonl.gz")
    found = arrived_since(View.newest(lakehouse.storage), CATALOG.steps, made)
    assert found.waiting[BRONZE] == [SECOND] and SECOND in found.waiting[FACT]
    lakehouse.build_bronze("bronze-3", {SECOND: [2, 3]})
    found = arrived_since(View.newest(lakehouse.storage), CATALOG.steps, made)
    assert BRONZE not in found.waiting and SECOND in found.waiting[FACT]


def test_days_to_come_are_not_named_as_behind(tmp_path: Path) -> None:
    """Rates are looked back for over a week, and the facts of the days after the newest sales are no days yet."""
    lakehouse = StreamedLakehouse(tmp_path)
    lakehouse.land("landed", {FIRST: [1], SECOND: [2]}, "sales/2017-03-02/a.jsonl.gz")
    lakehouse.build_bronze("bronze-0", {SECOND: [2]})
    lakehouse.build_fact("fact-0", {SECOND: [2]})
    made = rewound(lakehouse).model_copy(update={"days": {FACT: (DayRecord(day=FIRST),)}})
    arrived = {"raw_fx_rates": [ArrivedRows(day=FIRST, rows=1, checksum="1")]}
    found = waiting_days(View.newest(lakehouse.storage), CATALOG.steps, made, arrived)
    assert (found["bronze_fx_rates"], found[FACT]) == ([FIRST], [SECOND])


def rows_of_raw(lakehouse: StreamedLakehouse) -> Counter[tuple[date, int]]:
    """As they are in the files."""
    table = DeltaTable(lakehouse.storage.uri(RAW)).to_pyarrow_table()
    return Counter(zip(table.column("day").to_pylist(), table.column("id").to_pylist(), strict=True))


HAPPENINGS = st.lists(
    st.tuples(
        st.sampled_from(["stream", "land", "compact", "take back", "forward"]),
        st.sets(st.sampled_from(DAYS), min_size=1),
    ),
    max_size=7,
)


@given(HAPPENINGS)
@settings(max_examples=drawn(5), deadline=None)
def test_each_row_is_counted_once_in_any_order(happenings: list[tuple[str, set[date]]]) -> None:
    """By count and checksum, for a stream and landed files, over compactions and what is taken back."""
    with TemporaryDirectory() as folder:
        lakehouse = StreamedLakehouse(Path(folder))
        lakehouse.begin({0: 1}, FIRST)
        lakehouse.stream("history", {FIRST: [1, 2], SECOND: [3]}, {0: (0, 10)})
        timeline, then, offset = rewound(lakehouse), rows_of_raw(lakehouse), 10
        landed: list[str] = []
        for number, (what, days) in enumerate([*happenings, ("forward", set(DAYS))]):
            rows = {day: [100 * number + 10 + day.day] for day in sorted(days)}
            if what == "stream":
                lakehouse.stream(f"batch-{number}", rows, {0: (offset, offset + 1)})
                offset += 1
            elif what == "land":
                lakehouse.land(f"landed-{number}", rows, f"sales/2017-03-04/{number}.jsonl.gz")
                landed.append(f"landed-{number}")
            elif what == "compact":
                compact(lakehouse.publisher, RAW, sorted(days), id=f"compact-{number}")
            elif what == "take back" and landed and landed[-1] == f"landed-{number - 1}":
                with clock.use(lakehouse.time):
                    roll_back(lakehouse.publisher, landed.pop(), id=f"undo-{number}", steps=CATALOG.steps)
            elif what == "forward":
                timeline = arrived_since(View.newest(lakehouse.storage), CATALOG.steps, timeline).recorded_on(timeline)
                assert_all_counted(timeline, then, rows_of_raw(lakehouse))


def assert_all_counted(
    timeline: NamedTimeline, then: Counter[tuple[date, int]], now: Counter[tuple[date, int]]
) -> None:
    found = {each.day: (each.rows, int(each.checksum)) for each in timeline.arrived.get(RAW, ())}
    gained = {day: [id for (at, id), count in now.items() for _ in range(count) if at == day] for day in DAYS}
    had = {day: [id for (at, id), count in then.items() for _ in range(count) if at == day] for day in DAYS}
    expected = {day: (len(gained[day]) - len(had[day]), sum(gained[day]) - sum(had[day])) for day in DAYS}
    assert found == {day: sums for day, sums in expected.items() if sums != (0, 0)}
    (read,) = timeline.reads
    assert (read.rows, int(read.checksum)) == (now.total(), sum(id for _, id in now.elements()))
