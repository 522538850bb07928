"""What the trail of a row says where a row of a report cannot be named, and which identical line is meant."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import cast

import pyarrow as pa
import pytest

from backfill_assets.days import Cadence, DayRange
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.landing.trace import Found, Tracing, Unnamed, occurrences
from backfill_assets.model.declaration import Step
from backfill_assets.state.view import View

DAY = date(2017, 3, 4)
MONTH = DayRange(date(2017, 3, 1), date(2017, 3, 31))
ROW = Found("fact_sales_transactions", "fact", {"day": DAY, "store_id": "330"}, DayRange.of(DAY))


class OneRow:
    """A view whose every table has one row, and remembers what was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def rows(self, table: str, days: DayRange, chosen: object) -> pa.Table:
        self.asked.append((str(days), str(chosen)))
        return pa.table({"day": [days.first], "revenue_eur": [1]})


def close_keyed(*key: str) -> Step:
    close = CATALOG.step("report_monthly_close")
    return replace(close, tables=(replace(close.tables[0], key=key),), cadence=Cadence.MONTHLY)


def test_a_report_with_one_row_a_month_counts_the_row_of_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its key is the first day of the month, and not the day of the row."""
    view = OneRow()
    step = close_keyed("day")
    (read,) = step.version().reads
    found = Tracing(cast("View", view), CATALOG).row_that_counts(step, step.tables[0], read, ROW)
    assert found == [Found("report_monthly_close", "report", {"day": MONTH.first, "revenue_eur": 1}, MONTH)]
    assert view.asked == [("2017-03-01..2017-03-01", "(day == 2017-03-01)")]


def test_a_report_whose_key_the_row_does_not_have_is_named_all_the_same() -> None:
    """Nothing that counts a row is left out without a word."""
    step = close_keyed("size_class", "store_id")
    (read,) = step.version().reads
    found = Tracing(cast("View", OneRow()), CATALOG).row_that_counts(step, step.tables[0], read, ROW)
    assert found == [Unnamed("report_monthly_close", MONTH, ("size_class",))]


def test_identical_lines_are_numbered_by_file_and_line() -> None:
    """As bronze numbers them, in any order."""
    rows = [
        {"day": DAY, "source_file": file, "source_line": line, "content_hash": content, "record_kind": "received"}
        for file, line, content in (("b", 1, 7), ("a", 2, 7), ("a", 1, 8), ("a", 10, 7))
    ]
    assert occurrences(rows) == {(DAY, "a", 1): 1, (DAY, "a", 2): 1, (DAY, "a", 10): 2, (DAY, "b", 1): 3}
