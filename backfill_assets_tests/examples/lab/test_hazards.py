"""What lands of each hazard is all of the real lines, and the count is of the lines that were sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from backfill_assets.days import DayRange
from backfill_assets.examples.lab.counts import TableCount, hazard_texts
from backfill_assets.examples.lab.hazards import COLLISION, HAZARDS, LOADED, STREAMED, SUNDAY, arrivals, with_a_bad_line
from backfill_assets.examples.lab.lakes import Files, ScratchLake, sold_at
from backfill_assets.examples.sample.real import sales_lines

LINES = sales_lines(DayRange.of(SUNDAY))[SUNDAY][::100]


def rows(*baskets: str) -> pa.Table:
    days = [SUNDAY] * len(baskets)
    return pa.table({"day": days, "basket_id": list(baskets), "product_id": ["7"] * len(baskets)})


def line(basket: str) -> str:
    return f'{{"basket_id":"{basket}","product_id":"7","transaction_timestamp":"{SUNDAY}T10:00:00Z"}}'


def test_a_table_is_compared_with_what_was_sent(tmp_path: Path) -> None:
    files = {SUNDAY: {"first": [line("1"), line("2")], "later": [line("3")], "never": [line("4")]}}
    lake = ScratchLake(cast("Any", None), tmp_path, files)
    lake.land("first")
    lake.land("later", SUNDAY)
    assert lake.compare("sales", rows("1", "1", "3")) == TableCount("sales", rows=3, missing=1, doubled=1)
    assert [file.name for file in lake.landed()] == [f"first-{SUNDAY}.jsonl.gz", f"later-{SUNDAY}.jsonl.gz"]


def _all(files: Files) -> list[str]:
    return sorted(line for by_name in files.values() for lines in by_name.values() for line in lines)


def test_each_hazard_has_its_text() -> None:
    assert list(HAZARDS) == list(hazard_texts())


@pytest.mark.parametrize("name", [name for name in HAZARDS if name != "scale"])
def test_each_line_of_a_hazard_lands_once(name: str) -> None:
    """Of its days; some of them in a file that lands later."""
    lines = {day: LINES[number::2] for number, day in enumerate(HAZARDS[name].days)}
    files = HAZARDS[name].files(lines)
    assert _all(files) == sorted(line for of_day in lines.values() for line in of_day)
    assert all(of_name for by_name in files.values() for of_name in by_name.values())


def test_lines_of_the_boundary_land_on_their_sides_of_it() -> None:
    drops = arrivals({SUNDAY: LINES})[SUNDAY]
    assert max(map(sold_at, drops["history"])) < LOADED <= min(map(sold_at, drops["meanwhile"]))
    assert max(map(sold_at, drops["meanwhile"])) < STREAMED <= min(map(sold_at, drops["live"]))
    assert min(map(sold_at, drops["late"])) < LOADED


def test_one_line_is_bad_and_keeps_its_key() -> None:
    lines = {day: LINES[: 5 + number] for number, day in enumerate(COLLISION.days)}
    changed = {day: files["sales"] for day, files in with_a_bad_line(lines).items()}
    (bad,) = [line for day in lines for line in set(changed[day]) - set(lines[day])]
    assert '"quantity":"many"' in bad and [len(found) for found in changed.values()] == [5, 6]
