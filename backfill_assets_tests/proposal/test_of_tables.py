"""Tables of others as they are: Delta with and without partitions, folders of Parquet, days that are text."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest
from backfill_assets.proposal.of_tables import proposed_table
from backfill_assets.proposal.table_sample import find_table, is_table, sampled_table
from backfill_assets_tests.proposal.test_external_text import arguments_of

pytestmark = pytest.mark.data
FIRST = date(2026, 1, 5)


def orders(days: int = 4, first: int = 0) -> pa.Table:
    """Fifty a day."""
    at = [FIRST + timedelta(days=first + number // 50) for number in range(50 * days)]
    count = len(at)
    columns: dict[str, Sequence[Any] | pa.Array] = {
        "order_id": pa.array(range(first * 50, first * 50 + count), pa.int32()),
        "order_date": at,
        "amount": pa.array([Decimal("1.50")] * count, pa.decimal128(12, 2)),
        "email": [f"a{number}@b.de" if number % 9 else None for number in range(count)],
        "state": ["open", "done"] * (count // 2),
        "parts": [{"a": 1}] * count,
        "tags": [["x"]] * count,
    }
    return pa.table(columns)


def test_a_delta_table(tmp_path: Path) -> None:
    """Its first day is that of all files; of the sample are the newest."""
    location = str(tmp_path / "orders")
    for day in range(5):
        write_deltalake(location, orders(1, day), mode="append")
    found = proposed_table("shop", "corner", location)
    assert arguments_of(found.text) == {"name": "orders", "location": location, "day": "order_date"}
    assert found.days == DayRange.parse("2026-01-07..2026-01-09") and "first_day=date(2026, 1, 5)" in found.text
    for declared in (
        'order_id: T.IntegerType = Field(key=True, description="Order id.")',
        'order_date: date = Field(description="Order date.")',
        'amount: Annotated[T.DecimalType, 12, 2] = Field(description="Amount.")',
        'state: str = Field(description="State.")',
        "tags: list[str] = Field(",
        "# QUESTION: is any of parts to be read?",
        "# QUESTION: is email personal?",
    ):
        assert declared in found.text, declared
    assert 'nullable=True, personal="email"' in " ".join(found.text.split()) and "@b.de" not in found.text
    assert "version=True" not in found.text and "event_day" not in found.text
    assert 'groupBy("day", "state")' in found.text and "rules=" not in found.text


@pytest.mark.parametrize("as_text", [True, False])
def test_the_day_of_a_partition(tmp_path: Path, as_text: bool) -> None:
    """As text too: it is known without reading rows, and is taken before other days."""
    rows = orders()
    days = rows["order_date"].cast(pa.string()) if as_text else rows["order_date"]
    write_deltalake(str(tmp_path / "t"), rows.append_column("day_of_it", days), partition_by=["day_of_it"])
    found = proposed_table("shop", "corner", str(tmp_path / "t"))
    assert arguments_of(found.text)["day"] == "day_of_it" and "first_day=date(2026, 1, 5)" in found.text
    assert f"day_of_it: {'str' if as_text else 'date'} = Field(" in found.text


def test_a_moment_is_on_a_day_of_some_zone(tmp_path: Path) -> None:
    moments = [datetime(2026, 1, 5, tzinfo=UTC) + timedelta(hours=number) for number in range(40)]
    write_deltalake(str(tmp_path / "t"), pa.table({"id": list(range(40)), "placed_at": moments}))
    found = proposed_table("shop", "corner", str(tmp_path / "t"))
    assert "placed_at: datetime = Field(" in found.text
    assert "# QUESTION: is the day of placed_at that of UTC?" in found.text


@pytest.mark.parametrize("folder", ["", "dt=2026-01-05/", "2026/"])
def test_a_folder_of_parquet(tmp_path: Path, folder: str) -> None:
    for number in (5, 6):
        file = tmp_path / "orders" / f"{folder.replace('5', str(number))}part-{number}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(orders(), file)
    (tmp_path / "orders" / "_SUCCESS").touch()
    found = proposed_table("shop", "corner", str(tmp_path / "orders"))
    day = "dt" if "=" in folder else "order_date"
    written = {"name": "orders", "location": str(tmp_path / "orders"), "day": day, "written": "parquet"}
    assert arguments_of(found.text) == written


def test_a_sample_has_the_first_rows_of_the_newest_files_as_they_are(tmp_path: Path) -> None:
    location = str(tmp_path / "t")
    for day in range(5):
        write_deltalake(location, orders(1, day), mode="append", partition_by=["order_date"])
    with sampled_table(find_table(location)) as (profile, rows, _):
        assert (profile.rows, rows.count, rows.repeated) == (150, 150, 0)
        assert rows.least_and_greatest("order_id") == ("100", "249")
        assert rows.different(["state"], "order_date") == 6
        seen = rows.days("order_date")
        assert seen is not None and (seen.first, seen.last, seen.most_rows) == (date(2026, 1, 7), date(2026, 1, 9), 50)


def test_what_is_a_table(tmp_path: Path) -> None:
    """A file of Parquet by itself is none, nor a folder of other files."""
    pq.write_table(orders(), tmp_path / "a.parquet")
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "a.csv").touch()
    assert is_table(str(tmp_path)) and not is_table(str(tmp_path / "a.parquet"))
    assert not is_table(str(tmp_path / "csv")) and not is_table(str(tmp_path / "gone"))


def test_a_table_without_rows_is_refused(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "t"), orders(0))
    with pytest.raises(InvalidRequest, match="has no file with rows"):
        proposed_table("shop", "corner", str(tmp_path / "t"))
