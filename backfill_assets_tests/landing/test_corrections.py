"""Rejected rows that a later accepted one replaces: only within the window in which a source corrects its rows."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from backfill_assets.days import DayRange
from backfill_assets.landing.quarantine import resolved_positions
from backfill_assets.model.declaration import Source
from backfill_assets.state.view import View
from backfill_assets_tests.stories.personal_key import VISITS

DAY = date(2017, 3, 10)
SOURCE = next(step.source for step in VISITS.steps if step.source is not None)


class Accepted:
    """What a table of accepted rows has, by key and day."""

    def __init__(self, rows: list[tuple[str, date]]) -> None:
        self.rows_there = [row(datetime(2017, 6, 1, tzinfo=UTC), key, day) for key, day in rows]

    def rows(self, table: str, days: DayRange, chosen: pc.Expression | None, columns: list[str]) -> pa.Table:
        there = pa.Table.from_pylist([each for each in self.rows_there if each["day"] in days])
        return there if chosen is None or not there.num_rows else there.filter(chosen)


def row(sent_at: str | datetime, key: str, day: date) -> dict[str, object]:
    return {**dict.fromkeys(SOURCE.key_columns, key), SOURCE.version_field: sent_at, "arrival_day": day, "day": day}


def resolved(source: Source, accepted: list[tuple[str, date]], *rejected: tuple[str, date]) -> set[int]:
    rows = [row("2017-01-01T00:00:00Z", key, day) for key, day in rejected]
    return resolved_positions(cast("View", Accepted(accepted)), source, "bronze", rows)


def test_a_row_out_of_the_window_resolves_nothing_whichever_rows_are_asked_for_with_it() -> None:
    """The days that are read span all rejected rows: one alone has the same answer as one among others."""
    window = timedelta(days=SOURCE.supersession_window_days)
    inside, outside = [("1", DAY + window)], [("1", DAY + window + timedelta(days=1))]
    assert resolved(SOURCE, inside, ("1", DAY)) == {0}
    assert resolved(SOURCE, outside, ("1", DAY)) == set()
    assert resolved(SOURCE, outside, ("1", DAY), ("2", DAY + 9 * window)) == set()
