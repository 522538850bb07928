"""What a worker does with a task: in a process of its own it needs no Spark."""

from __future__ import annotations

import threading
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.judge.engine import columns_of
from backfill_assets.lakehouse.day_files import DayFolders
from backfill_assets.lakehouse.delta_log import AddedFile, statistics_json
from backfill_assets.model.refinement import Refinement
from backfill_assets.rebuild.refine_tasks import Cut, RefineTask
from backfill_assets.rebuild.refining import RefineJob, _queries
from backfill_assets.spark.worker_queries import columns_written

pytestmark = pytest.mark.data

DAY, KEYS = date(2017, 3, 1), 60_000
RAW, (BRONZE, QUARANTINE) = CATALOG.table("raw_sales"), CATALOG.step("bronze_sales").tables
PATIENCE_SECONDS = 25


def landed(folder: Path) -> int:
    """Every other key comes twice, the second version a second later; and one row is broken."""
    versions = [(key, again) for key in range(KEYS) for again in range(1 + key % 2)]
    moments = [datetime(2017, 3, 1, tzinfo=UTC) + timedelta(seconds=again) for _, again in versions]
    texts = {
        "household_token": "0" * 64,
        **dict.fromkeys(("store_id", "product_id", "quantity"), "1"),
        **dict.fromkeys(("sales_value", "retail_disc", "coupon_disc", "coupon_match_disc"), "1.00"),
        "transaction_timestamp": "2017-03-01T10:00:00Z",
        "currency": "EUR",
        "record_kind": "received",
        "source_file": "sales/2017-03-01/a.jsonl.gz",
    }
    columns: dict[str, list[object]] = {
        **{name: [text] * len(versions) for name, text in texts.items()},
        "basket_id": [str(key) for key, _ in versions],
        "updated_at": [f"{moment:%Y-%m-%dT%H:%M:%SZ}" for moment in moments],
        "source_line": list(range(1, len(versions) + 1)),
        "content_hash": list(range(len(versions))),
        "arrival_day": [DAY] * len(versions),
        "day_is_arrival": [False] * len(versions),
    }
    columns["quantity"] = ["many", *columns["quantity"][1:]]
    schema = pa.schema([each for each in columns_of(RAW.contract) if each.name in columns])
    pq.write_table(
        pa.table({name: pa.array(columns[name], schema.field(name).type) for name in schema.names}),
        folder / "raw.parquet",
    )
    return len(versions)


def test_a_day_with_as_many_lone_rows_as_others_is_refined_by_one_thread(tmp_path: Path) -> None:
    rows = landed(tmp_path)
    transform = CATALOG.step("bronze_sales").version().transform
    assert isinstance(transform, Refinement)

    def folders(table: str) -> DayFolders:
        columns = columns_written(CATALOG.table(table))
        return DayFolders(str(tmp_path), table, "write-id=w1", columns.remove(columns.get_field_index("day")))

    queries = {Cut(): _queries(transform, RAW, (BRONZE, QUARANTINE), Cut())}
    job = RefineJob(
        str(tmp_path), columns_of(RAW.contract), queries, folders("bronze_sales"), folders("quarantine_sales")
    )
    file = AddedFile("raw.parquet", str(DAY), 1, 0, statistics_json(rows))
    done = []
    worker = threading.Thread(target=lambda: done.append(job(RefineTask({DAY: [file]}))), daemon=True)
    worker.start()
    worker.join(PATIENCE_SECONDS)
    (refined,) = done
    (accepted,), (rejected,) = refined.accepted, refined.rejected
    assert (accepted.day, accepted.rows, rejected.rows) == (str(DAY), KEYS - 1, 1)
    bronze = pq.read_table(tmp_path / "bronze_sales" / accepted.path, partitioning=None)
    assert sum(bronze["deduplicated_rows"].to_pylist()) == rows - KEYS
    assert max(bronze["updated_at"].to_pylist()) == datetime(2017, 3, 1, 0, 0, 1, tzinfo=UTC)
