"""Rows that are not chosen are the same before and after, or their day is named."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import types as T

from backfill_assets.judge.engine import columns_of
from backfill_assets.judge.other_rows import days_with_other_rows_changed
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.declaration import Table
from backfill_assets.model.row_filter import read_filter

pytestmark = pytest.mark.data
DAY = date(2017, 3, 1)
NOON = datetime(2017, 3, 1, 12, tzinfo=UTC)


class Sold(Contract):
    store: T.StringType = Field(nullable=True)
    number: T.ShortType = Field()
    price: Annotated[T.DecimalType, 5, 2] = Field()
    sold_at: T.TimestampType = Field()
    day: T.DateType = Field()


SOLD = Table("sold", "fact", "", Sold, key=("store", "number"), groups=("price", "sold_at"))
Row = tuple[str | None, int, str]
OWN: Row = ("3", 1, "1.50")
OTHER: Row = ("5", 1, "2.50")
NOWHERE: Row = (None, 1, "3.50")
BEFORE = [OWN, OTHER, NOWHERE]


def written(root: Path, name: str, rows: Sequence[Row]) -> AddedFile:
    columns: dict[str, list[Any]] = {
        "store": [row[0] for row in rows],
        "number": [row[1] for row in rows],
        "price": [Decimal(row[2]) for row in rows],
        "sold_at": [NOON for _ in rows],
    }
    schema = columns_of(Sold).remove(columns_of(Sold).get_field_index("day"))
    pq.write_table(pa.table(columns, schema=schema), root / f"{name}.parquet")
    return AddedFile(f"{name}.parquet", str(DAY), 0, 0, "{}")


def changed(root: Path, where: str, after: Sequence[Row]) -> bool:
    sides = {DAY: ([written(root, "before", BEFORE)], [written(root, "after", after)])}
    return days_with_other_rows_changed(Storage(str(root)), SOLD, read_filter(where, SOLD), sides) == [DAY]


CHOOSE_OWN = (
    "store = 3",
    "store in (3, 4)",
    "store between '2' and '4'",
    "price = 1.5",
    "price between 0 and 2",
    "sold_at = '2017-03-01T12:00Z' and store = 3",
    "number = 1 and store in (3) and price in (1.5, 9)",
)


@pytest.mark.parametrize("where", CHOOSE_OWN)
def test_only_chosen_rows_may_change_come_and_go(tmp_path: Path, where: str) -> None:
    assert not changed(tmp_path, where, [NOWHERE, OTHER])
    assert not changed(tmp_path, where, [OWN, OTHER, NOWHERE, OWN])
    assert changed(tmp_path, where, [OWN, OTHER]), "a null fulfills nothing"
    assert changed(tmp_path, where, [OWN, OTHER, OTHER, NOWHERE]), "doubled"
    assert changed(tmp_path, where, [OWN, (*OTHER[:2], "2.51"), NOWHERE])
    assert changed(tmp_path, where, [OWN, OTHER, NOWHERE, ("6", 1, "2.50")]), "another row came"


def test_a_row_that_would_be_chosen_now_was_another_before(tmp_path: Path) -> None:
    assert changed(tmp_path, "store = 3", [OWN, ("3", *OTHER[1:]), NOWHERE])
