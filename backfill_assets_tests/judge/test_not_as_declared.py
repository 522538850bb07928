"""What lands and is not as declared is measured with the other figures of a day of raw: of files, without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.judge.engine import columns_of
from backfill_assets.judge.measure import measure_files
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.drift import FIELDS, NOT_AS_DECLARED, DriftKind, FieldRows, from_text
from backfill_assets.model.measure import hashes_written_of

pytestmark = pytest.mark.data

RAW, DAY, NEXT_DAY = CATALOG.table("raw_sales"), date(2017, 3, 1), date(2017, 3, 2)
LINE: dict[str, Any] = {
    "household_token": "0" * 64,
    **dict.fromkeys(("store_id", "basket_id", "product_id"), "1"),
    "quantity": "1",
    **dict.fromkeys(("sales_value", "retail_disc", "coupon_disc", "coupon_match_disc"), "1.00"),
    **dict.fromkeys(("transaction_timestamp", "updated_at"), "2017-03-01T10:00:00Z"),
    "currency": "EUR",
    "record_kind": "received",
    "source_file": "sales/2017-03-01/a.jsonl.gz",
    "source_line": 1,
    "day_is_arrival": False,
    "content_hash": 0,
}

DELETED: dict[str, Any] = {"record_kind": "deletion", "arrival_day": None}


def measured(folder: Path, days: Mapping[date, Sequence[Mapping[str, Any]]]) -> Mapping[date, Mapping[str, Any]]:
    """The metrics of lines that are as :data:`LINE` but for what is said of each, with hashes that nobody asks for."""
    columns = columns_of(RAW.contract, [each.name for each in hashes_written_of(RAW)])
    columns = columns.remove(columns.get_field_index("day"))
    hashes = dict.fromkeys((each.name for each in hashes_written_of(RAW)), 0)
    files = {}
    for day, lines in days.items():
        rows = [
            {name: {**LINE, **hashes, "arrival_day": day, **line}.get(name) for name in columns.names} for line in lines
        ]
        pq.write_table(pa.Table.from_pylist(rows, columns), folder / f"{day}.parquet")
        files[day] = [AddedFile(f"{day}.parquet", str(day), 1, 0, "{}")]
    return measure_files(Storage(str(folder)), RAW, files, lambda: pytest.fail("Spark was asked"))


@pytest.mark.parametrize(
    ("lines", "count", "fields"),
    [
        ([{}], 0, []),
        ([{"rescued": '{"loyalty_tier":"gold"}'}, {"rescued": '{"loyalty_tier":"blue","x":"1"}'}, {}], 2,
         [("UNDECLARED", "loyalty_tier", 2, "blue"), ("UNDECLARED", "x", 1, "1")]),
        ([{"store_id": None}, {"store_id": None, "household_token": None}], 2,
         [("MISSING", "store_id", 2, ""), ("MISSING", "household_token", 1, "")]),
        ([{"quantity": "1.5"}, {"quantity": "one"}, {"updated_at": "2017-03-01 10:00"}, {"quantity": "+007"}], 3,
         [("RETYPED", "quantity", 2, "1.5"), ("RETYPED", "updated_at", 1, "2017-03-01 10:00")]),
        # What a source writes as a name is no path, and no JSON of another writer stops a delivery.
        ([{"rescued": '{"$.x":"1","/y":"2","":"3","a\\"b":"4"}'}], 1,
         [("UNDECLARED", "", 1, "3"), ("UNDECLARED", "$.x", 1, "1"), ("UNDECLARED", "/y", 1, "2"),
          ("UNDECLARED", 'a"b', 1, "4")]),
        ([{"rescued": "no JSON"}, {"rescued": '["a"]'}], 2, []),
        # Of a line that is no object, and of a marker, there are no fields.
        ([{**dict.fromkeys(LINE.keys() - {"record_kind", "content_hash"}), "unparsed_line": "{"}], 0, []),
        ([{"record_kind": "supersession", "source_file": None, "arrival_day": None, "store_id": None}], 0, []),
        # What its source took back does not count, nor does the deletion.
        ([{"quantity": "one"}, {"quantity": "one", **DELETED}, {}], 0, []),
        ([{"rescued": '{"x":"1"}'}, {"rescued": '{"x":"1"}', **DELETED}, {"store_id": None}], 1,
         [("MISSING", "store_id", 1, "")]),
        # Of the publication that brings the deletion alone, to be added to what the day had.
        ([{"quantity": "one", **DELETED}, {"rescued": '{"x":"1"}'}], 0,
         [("RETYPED", "quantity", -1, "one"), ("UNDECLARED", "x", 1, "1")]),
    ],
)  # fmt: skip
def test_fields_of_a_day(tmp_path: Path, lines: Sequence[dict[str, Any]], count: int, fields: list[Any]) -> None:
    found = measured(tmp_path, {DAY: lines})[DAY]
    assert found[NOT_AS_DECLARED] == count
    assert from_text(found[FIELDS]) == [FieldRows(DriftKind[kind], *rest) for kind, *rest in fields]


def test_days_are_measured_together_and_each_for_itself(tmp_path: Path) -> None:
    """And however many names a source makes up, a day names a few of them."""
    many = [{"rescued": f'{{"field{number}":"{"x" * 100}"}}'} for number in range(100)]
    found = measured(tmp_path, {DAY: [{}], NEXT_DAY: many})
    assert (found[DAY][NOT_AS_DECLARED], found[DAY][FIELDS]) == (0, "")
    assert found[NEXT_DAY][NOT_AS_DECLARED] == 100
    named = from_text(found[NEXT_DAY][FIELDS])
    assert len(named) == 20 and {len(each.example) for each in named} == {60}
