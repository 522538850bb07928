"""Small days share a task, a large one is cut: each row of raw is looked at by one task, whatever the sizes."""

from __future__ import annotations

from collections import Counter
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.lakehouse.delta_log import AddedFile, statistics_json
from backfill_assets.rebuild.refine_tasks import MOST_ROWS, SHARED_ROWS, refine_tasks

FIRST = date(2017, 3, 1)


def file(day: date, rows: int) -> AddedFile:
    return AddedFile(f"raw/day={day}/{rows}.parquet", str(day), rows, 0, statistics_json(rows))


SIZES = st.lists(st.lists(st.sampled_from([0, 1, 40_000, SHARED_ROWS, MOST_ROWS, 3 * MOST_ROWS + 1]), max_size=3))


@given(sizes=SIZES, data=st.data())
def test_each_file_is_read_by_the_parts_of_its_keys(sizes: list[list[int]], data: st.DataObject) -> None:
    days = {
        FIRST + timedelta(days=number): [file(FIRST + timedelta(days=number), rows) for rows in of_day]
        for number, of_day in enumerate(sizes)
    }
    corrected = {day for day in days if data.draw(st.booleans())}
    tasks = refine_tasks(days, corrected)
    parts = Counter((day, task.cut.parts, task.cut.part) for task in tasks for day in task.files)
    assert max(parts.values(), default=1) == 1
    for day, some in days.items():
        (count,) = {task.cut.parts for task in tasks if day in task.files}
        assert sorted(part for each, _, part in parts if each == day) == list(range(count))
        assert all(task.files[day] == tuple(some) for task in tasks if day in task.files)
    for task in tasks:
        rows = sum(each.rows for some in task.files.values() for each in some)
        assert rows <= MOST_ROWS * task.cut.parts
        assert len(task.files) == 1 or rows <= MOST_ROWS
        assert task.cut.has_deletions == all(day in corrected for day in task.files)


@pytest.mark.parametrize(
    ("rows", "tasks"),
    [
        ([10] * 400, 1),
        ([50_000] * 90, 45),
        ([200_000] * 3, 3),
        ([MOST_ROWS + 1], 2),
        ([50_000, 20_000_000], 9),
    ],
)
def test_how_many_tasks_there_are(rows: list[int], tasks: int) -> None:
    days = {FIRST + timedelta(days=number): [file(FIRST, each)] for number, each in enumerate(rows)}
    assert len(refine_tasks(days, ())) == tasks
