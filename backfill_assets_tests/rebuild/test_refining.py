"""What a worker does with a task, and a stream with a batch: neither needs Spark for it."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.judge.changed_keys import KeyedFiles, keys_of_raw
from backfill_assets.judge.engine import columns_of, files_by_day
from backfill_assets.lakehouse.day_files import DayFolders
from backfill_assets.lakehouse.delta_log import AddedFile, statistics_json
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.model.declaration import Table
from backfill_assets.model.deletion import DELETION
from backfill_assets.model.landed import quarantine_contract, raw_contract
from backfill_assets.model.refinement import Refinement
from backfill_assets.rebuild.refine_tasks import Cut, RefineTask
from backfill_assets.rebuild.refining import RefineJob, _queries, refine_gained
from backfill_assets.spark.worker_queries import columns_written
from backfill_assets_tests.strategies.any_source import CASES, raw_of
from backfill_assets_tests.strategies.by_the_query import python_rows, require_same
from backfill_assets_tests.strategies.how_many import drawn
from backfill_assets_tests.strategies.refined_by_python import Row, accepted, keys_of, rejected, standing

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


def folders_of(root: Path, table: Table) -> DayFolders:
    columns = columns_written(table)
    return DayFolders(str(root), table.name, "write-id=w1", columns.remove(columns.get_field_index("day")))


def test_a_day_with_as_many_lone_rows_as_others_is_refined_by_one_thread(tmp_path: Path) -> None:
    rows = landed(tmp_path)
    transform = CATALOG.step("bronze_sales").version().transform
    assert isinstance(transform, Refinement)

    queries = {Cut(): _queries(transform, RAW, (BRONZE, QUARANTINE), Cut())}
    folders = (folders_of(tmp_path, table) for table in (BRONZE, QUARANTINE))
    job = RefineJob(str(tmp_path), columns_of(RAW.contract), queries, *folders)
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


def tables_of(asked: Refinement) -> tuple[Table, Table, Table]:
    """Raw, bronze and quarantine of any source."""
    name, source = asked.source.name, asked.source
    return (
        Table(f"raw_{name}", "raw", "", raw_contract(source), ()),
        Table(f"bronze_{name}", "bronze", "", asked.contract, asked.key),
        Table(f"quarantine_{name}", "quarantine", "", quarantine_contract(source, asked.contract), ()),
    )


def write_raw(root: Path, raw: Table, name: str, rows: Sequence[Row]) -> list[AddedFile]:
    """A file for each day."""
    columns, by_day = columns_of(raw.contract), dict[int, list[Row]]()
    for row in rows:
        by_day.setdefault(row["day"], []).append(row)
    files = []
    for of_day in by_day.values():
        held = pa.Table.from_pylist(of_day, columns)
        file = f"day={held['day'][0]}/{name}.parquet"
        (root / raw.name / file).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(held.drop_columns(["day"]), root / raw.name / file)
        files.append(AddedFile(file, str(held["day"][0]), 1, 0, statistics_json(len(of_day))))
    return files


def read_back(folder: Path, table: Table, files: Iterable[AddedFile]) -> pa.Table:
    columns = columns_of(table.contract)
    found = []
    for file in files:
        held = pq.read_table(folder / file.path, partitioning=None)
        days = pa.array([date.fromisoformat(file.day)] * len(held), pa.date32())
        found.append(held.append_column("day", days).select(columns.names).cast(columns))
    return pa.concat_tables(found) if found else columns.empty_table()


@pytest.mark.parametrize("case", ["sales", "rescued", "an absent key"])
def test_a_day_with_deletions_that_is_cut_by_keys_has_the_rows_of_the_whole_day(case: str, tmp_path: Path) -> None:
    """Each part looks at what stands of the whole day, and at its own keys of that."""
    asked, texts = CASES[case]
    chance, landed = random.Random(case), python_rows(raw_of(asked, texts, seed=1, count=150))
    again = [{**row, "arrival_day": (row["arrival_day"] or 0) + 1} for row in chance.sample(landed, 40)]
    taken_back = chance.sample(landed, 30) + chance.sample(again, 20)
    gone = [{**row, "record_kind": DELETION, "arrival_day": None} for row in taken_back]
    rows = [*landed, *again, *gone]
    raw, *into = tables_of(asked)
    files = files_by_day(raw.name, write_raw(tmp_path, raw, "all", rows))
    cuts = [Cut(has_deletions=True), *(Cut(True, part, 5) for part in range(5))]
    queries = {cut: _queries(asked, raw, (into[0], into[1]), cut) for cut in cuts}
    folders = (folders_of(tmp_path, table) for table in into)
    job = RefineJob(str(tmp_path), columns_of(raw.contract), queries, *folders)
    whole, *parts = (job(RefineTask(files, cut)) for cut in cuts)
    stands = standing(rows)
    expected = accepted(stands, asked), rejected(stands, asked)
    for number, (table, found) in enumerate(zip(into, expected, strict=True)):
        assert found
        require_same(read_back(tmp_path / table.name, table, whole[number]), found)
        require_same(read_back(tmp_path / table.name, table, [file for part in parts for file in part[number]]), found)
        assert sum(bool(part[number]) for part in parts) > 1


@pytest.mark.parametrize("case", ["sales", "late", "a key", "rescued", "an absent key"])
def test_what_days_gain_is_what_the_whole_days_have_of_changed_keys(case: str, tmp_path: Path) -> None:
    """Late rows, rejected ones, duplicates, markers and newer versions come in one batch; old rows were there before.

    Of rejected rows, only new ones are written: the old ones are in quarantine.
    """
    asked, texts = CASES[case]
    raw, *into = tables_of(asked)
    for seed in range(drawn(1)):
        root, chance = tmp_path / str(seed), random.Random(seed)
        landed = python_rows(raw_of(asked, texts, seed, count=400))
        moving = set(chance.sample(sorted(keys_of(landed, asked), key=str), len(keys_of(landed, asked)) // 2))
        before, came = list[Row](), list[Row]()
        for row in landed:
            may_come = keys_of([row], asked) <= moving
            (came if may_come and chance.random() < 0.5 else before).append(row)
            if may_come and row["source_file"] and chance.random() < 0.2:
                came.append({**row, "source_line": row["source_line"] + 1_000})
        storage = Storage(str(root))
        new, old = (KeyedFiles(raw, write_raw(root, raw, *of)) for of in (("new", came), ("old", before)))
        timelines = [Timeline(storage, table.name, "one") for table in into]
        changed = keys_of_raw(storage, new, asked)
        done = refine_gained(asked, new, old, changed, list(zip(into, timelines, strict=True)))
        keys, of_day = keys_of(came, asked), accepted([*before, *came], asked)
        expected = [row for row in of_day if (row["day"], *(row[name] for name in asked.key)) in keys]
        for (table, timeline), files, rows in zip(
            zip(into, timelines, strict=True), done, (expected, rejected(came, asked)), strict=True
        ):
            require_same(read_back(root / timeline.path, table, files), rows)
        assert done.accepted and done.rejected and len(expected) < len(of_day)
