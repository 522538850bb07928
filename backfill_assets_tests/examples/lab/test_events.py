"""The tally is of the lines that were sent, and the arrivals of the boundary are all of a day's lines."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

from backfill_assets.days import DayRange
from backfill_assets.examples.lab.boundary import DAY, LOADED, STREAMED, arrivals
from backfill_assets.examples.lab.collision import DAYS
from backfill_assets.examples.lab.events import SentEvents, sold_at
from backfill_assets.examples.lab.hazard import TableCount
from backfill_assets.examples.lab.scale import with_a_bad_line
from backfill_assets.examples.sample.real import sales_lines

pytestmark = pytest.mark.data
LINES = sales_lines(DayRange.of(DAY))[DAY][::100]


def rows(*baskets: str) -> pa.Table:
    days = [DAY] * len(baskets)
    return pa.table({"day": days, "basket_id": list(baskets), "product_id": ["7"] * len(baskets)})


def line(basket: str) -> str:
    return f'{{"basket_id":"{basket}","product_id":"7","transaction_timestamp":"{DAY}T10:00:00Z"}}'


def test_a_table_is_compared_with_what_was_sent(tmp_path: Path) -> None:
    landed = SentEvents(tmp_path)
    landed.drop(DAY, "first", [line("1"), line("2")])
    landed.drop(DAY, "later", [line("3")])
    assert landed.count("sales", rows("1", "1", "3")) == TableCount("sales", rows=3, missing=1, doubled=1)
    assert [file.name for file in landed.files([DAY])] == [f"first-{DAY}.jsonl.gz", f"later-{DAY}.jsonl.gz"]


def test_each_line_of_the_boundary_lands_once() -> None:
    drops = arrivals(LINES)
    assert sorted(line for lines in drops.values() for line in lines) == sorted(LINES)
    assert all(drops.values())
    assert max(map(sold_at, drops["history"])) < LOADED <= min(map(sold_at, drops["meanwhile"]))
    assert max(map(sold_at, drops["meanwhile"])) < STREAMED <= min(map(sold_at, drops["live"]))
    assert min(map(sold_at, drops["late"])) < LOADED


def test_one_line_is_bad_and_keeps_its_key() -> None:
    lines = {day: LINES[: 5 + number] for number, day in enumerate(DAYS)}
    changed = with_a_bad_line(lines)
    (bad,) = [line for day in lines for line in set(changed[day]) - set(lines[day])]
    assert '"quantity":"many"' in bad and {day: len(found) for day, found in changed.items()} == {
        date(2017, 3, 4): 5,
        date(2017, 3, 5): 6,
    }
