"""Files of a lakehouse are read as they are declared, wherever they are; and nothing is asked of a network."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import types as T

from backfill_assets.errors import LakehouseUnusable
from backfill_assets.judge.engine import columns_of, database, engine, rows_of_files, select_rows
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.contract import Contract, Field
from backfill_assets_tests.judge.written_rows import InAStore

pytestmark = pytest.mark.data
FIRST, SECOND = date(2017, 3, 1), date(2017, 3, 2)


class Sold(Contract):
    """A sale."""

    id: T.LongType = Field()
    shop: T.StringType = Field(nullable=True)
    at: T.TimestampType = Field(nullable=True)
    day: T.DateType = Field()


@pytest.fixture(params=[Storage, InAStore], ids=["folder", "store"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    made: Storage = request.param(str(tmp_path))
    return made


@pytest.fixture
def duckdb() -> Iterator[Any]:
    with engine() as connection:
        yield connection


def written(storage: Storage, path: str, day: date, **columns: Any) -> AddedFile:
    file = Path(storage.root, path)
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), file)
    return AddedFile(path, str(day), file.stat().st_size, 0, "{}")


def ids(values: list[int], kind: pa.DataType | None = None) -> pa.Array:
    return pa.array(values, kind or pa.int64())


def test_rows_have_the_declared_columns_and_the_day_of_their_file(storage: Storage, duckdb: Any) -> None:
    """A column that a file lacks is null, one that nobody declared is passed over, a narrower type is widened."""
    at = pa.array([datetime(2017, 3, 1, 23, 30, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    files = {
        FIRST: [
            written(storage, "t/day=2017-03-01/a.parquet", FIRST, id=ids([1]), shop=["x"], at=at),
            written(storage, "t/day=2017-03-01/b.parquet", FIRST, id=ids([2], pa.int32()), other=[5.0]),
        ],
        SECOND: [written(storage, "elsewhere/c.parquet", SECOND, shop=["y"], id=ids([3]))],
    }
    rows = rows_of_files(duckdb, storage, Sold, files)
    assert rows.order_by("id").to_pyarrow().to_pylist() == [
        {"id": 1, "shop": "x", "at": datetime(2017, 3, 1, 23, 30, tzinfo=UTC), "day": FIRST},
        {"id": 2, "shop": None, "at": None, "day": FIRST},
        {"id": 3, "shop": "y", "at": None, "day": SECOND},
    ]
    assert rows.group_by("day").agg(n=rows.count()).count().to_pyarrow().as_py() == 2, "it can be read again"


def test_a_path_is_no_pattern(storage: Storage, duckdb: Any) -> None:
    """What is in brackets, stars and question marks are letters like others."""
    names = ["a[12].parquet", "a1.parquet", "b*.parquet", "bc.parquet", "d?.parquet", "de.parquet", "{e,f}.parquet"]
    files = [
        written(storage, f"t/x=[1]/write-id=é {name}", FIRST, id=ids([number])) for number, name in enumerate(names)
    ]
    found = rows_of_files(duckdb, storage, Sold, {FIRST: files[::2]})
    assert sorted(found.id.to_pyarrow().to_pylist()) == [0, 2, 4, 6]


@pytest.mark.parametrize(
    "name", ["x//y.parquet", "x//y*.parquet", "x//*/[y].parquet", "s/./d?.parquet", "b\\*.parquet", "b\\x/**.parquet"]
)
def test_no_row_of_a_file_is_lost_by_its_name(storage: Storage, duckdb: Any, name: str) -> None:
    """Files of another writer are called as it likes: DuckDB has other names for some of them."""
    files = [written(storage, each, FIRST, id=ids([1])) for each in (f"t/{name}", "t/plain.parquet")]
    assert rows_of_files(duckdb, storage, Sold, {FIRST: files}).count().to_pyarrow().as_py() == 2


def read_under_other_names(storage: Storage, files: dict[date, list[AddedFile]]) -> None:
    with database() as one:
        asked = select_rows(one, storage, columns_of(Sold), "day", files)
        ((labels,),) = one.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
        one.register(labels, pa.table({"its file": ["other.parquet"], "its label": [FIRST]}))
        one.execute(asked).fetchall()


def test_a_file_under_another_name_than_it_was_asked_for_is_refused(tmp_path: Path) -> None:
    """Its rows belong to no day, and are not passed over."""
    storage = Storage(str(tmp_path))
    file = written(storage, "t/a.parquet", FIRST, id=ids([1]))
    with pytest.raises(LakehouseUnusable, match=r"another name for a file that it read: .*a\.parquet"):
        read_under_other_names(storage, {FIRST: [file]})
    with pytest.raises(LakehouseUnusable, match="named twice"):
        read_under_other_names(storage, {FIRST: [file], SECOND: [file]})


def test_the_root_may_be_named_from_the_working_folder(
    tmp_path: Path, duckdb: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    storage = Storage("lakehouse")
    file = written(storage, "t/a.parquet", FIRST, id=ids([1]))
    assert rows_of_files(duckdb, storage, Sold, {FIRST: [file]}).id.to_pyarrow().to_pylist() == [1]


def test_no_files_are_no_rows(storage: Storage, duckdb: Any) -> None:
    rows = rows_of_files(duckdb, storage, Sold, {FIRST: ()})
    assert rows.columns == ("id", "shop", "at", "day") and rows.count().to_pyarrow().as_py() == 0


def test_moments_are_counted_in_utc_and_no_extension_is_looked_for(duckdb: Any, tmp_path: Path) -> None:
    """What does not fit into memory has a folder of its own, which is gone afterwards."""
    names = ("TimeZone", "autoinstall_known_extensions", "temp_directory")
    zone, installs, spill = (duckdb.raw_sql(f"SELECT current_setting('{name}')").fetchone()[0] for name in names)
    assert (zone, installs, Path(spill).is_dir()) == ("UTC", False, True)
    with engine() as other:
        folder = Path(other.raw_sql("SELECT current_setting('temp_directory')").fetchone()[0])
    assert folder != Path(spill) and not folder.exists()


def test_a_process_that_no_file_started_prints_no_progress_among_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB takes it for an interactive one."""
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    with database() as connection:
        assert connection.execute("SELECT current_setting('enable_progress_bar')").fetchall() == [(False,)]
