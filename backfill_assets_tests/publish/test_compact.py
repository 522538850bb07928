"""Compaction: fewer files, the same content, and nothing changes downstream."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Field, Schema
from deltalake.schema import PrimitiveType

from backfill_assets import clock
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.errors import PublicationRefused
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.records import Publication
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish import compact as compact_module
from backfill_assets.publish.compact import compact, compact_small_files
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.publish.publisher import Conflict, Published
from backfill_assets_tests.death import Died
from backfill_assets_tests.protocol.lake import D1, D2, Lake, dying_at

pytestmark = pytest.mark.protocol


def _two_files(lake: Lake) -> None:
    for number, rows in enumerate((["x"], ["y"])):
        lake.append(f"a{number}", "raw", {D1: rows})


def test_a_day_becomes_one_file_and_stays_what_it_was(lake: Lake) -> None:
    """Logical state is equal, physical is not: compare-and-swap sees it, staleness does not."""
    _two_files(lake)
    before = lake.day("raw", D1)
    assert isinstance(compact(lake.publisher(), "raw", [D1, D2], id="c1"), Published)
    after = lake.day("raw", D1)
    assert lake.rows("raw") == {D1: ["x", "y"]}
    assert len(lake.state("raw").active) == 1
    assert (after.content, after.physical != before.physical) == (before.content, True)
    assert compact(lake.publisher(), "raw", [D1], id="c2") is None, "one file is left alone"


def test_hashes_of_rows_are_kept(lake: Lake) -> None:
    """Spark wrote them beside rows, in columns that Delta's schema lacks; rows of another writer have none."""
    _two_files(lake)
    hashed, *_ = DeltaTable(lake.storage.uri("raw")).file_uris()
    held = pq.ParquetFile(hashed).read()
    pq.write_table(held.append_column("_row_hash_00000001", pa.array([7] * len(held))), hashed)
    compact(lake.publisher(), "raw", [D1], id="c1")
    (uri,) = DeltaTable(lake.storage.uri("raw")).file_uris()
    assert sorted(pq.ParquetFile(uri).read()["_row_hash_00000001"].to_pylist(), key=str) == [7, None]
    assert "_row_hash_00000001" not in str(DeltaTable(lake.storage.uri("raw")).schema().to_json())


def test_foreign_rows_do_not_become_ours(lake: Lake) -> None:
    """Compacting a day that another writer wrote to must not make its status fresh."""
    _two_files(lake)
    lake.foreign_rows("raw", {D1: ["foreign"]})
    compact(lake.publisher(), "raw", [D1], id="c1")
    state = lake.day("raw", D1)
    assert lake.rows("raw") == {D1: ["foreign", "x", "y"]}
    assert state.logical_at(state.physical) == fingerprints.foreign(state.physical)


def test_rows_are_read_from_the_files_that_are_expected(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read while a publication is half way that is then aborted, they would be published after all."""
    _two_files(lake)
    request = lake.request("p1", {"raw": {D1: ["half way"]}, "u": {D1: ["u"]}})
    really = MainTable.open

    def overtaken(storage: Storage, name: str) -> MainTable | None:
        monkeypatch.setattr(MainTable, "open", really)
        lake.die(CrashPoint.TABLE_COMMITTED, request)
        found = really(storage, name)
        lake.foreign_rows("u", {D1: ["foreign"]})
        assert lake.publisher().recover() == {"p1": "aborted"}
        return found

    publisher = lake.publisher()
    pin = publisher.pin({"raw": [D1]}, {})
    monkeypatch.setattr(publisher, "pin", lambda *_: pin)
    monkeypatch.setattr(MainTable, "open", overtaken)
    assert isinstance(compact(publisher, "raw", [D1], id="c1"), Conflict)
    assert lake.rows("raw") == {D1: ["x", "y"]}


def test_a_compaction_that_died_is_made_again(lake: Lake) -> None:
    """What it left in its timeline may be of older rows: it is written anew. A day of one file is left alone."""
    _two_files(lake)
    with pytest.raises(Died):
        compact(lake.publisher(dying_at(CrashPoint.TABLES_READ)), "raw", [D1], id="c1")
    lake.append("a9", "raw", {D1: ["z"]})
    assert isinstance(compact(lake.publisher(), "raw", [D1], id="c1"), Published)
    assert lake.rows("raw") == {D1: ["x", "y", "z"]}
    assert compact(lake.publisher(), "raw", [D1], id="c2") is compact(lake.publisher(), "none", [D1], id="c3") is None


def test_columns_that_forbid_null_survive(lake: Lake) -> None:
    """The rewritten rows must fit the table they came from."""
    strict = Schema([Field("name", PrimitiveType("string"), nullable=False), Field("day", PrimitiveType("date"))])
    DeltaTable.create(lake.storage.uri("raw"), strict, partition_by=["day"])
    for number in (1, 2):
        request = lake.request(f"a{number}", {"raw": {D1: [f"x{number}"]}}, kind="append")
        changes = tuple(c.model_copy(update={"table_schema": str(strict.to_json())}) for c in request.tables)
        lake.publisher().publish(request.model_copy(update={"tables": changes}))
    assert isinstance(compact(lake.publisher(), "raw", [D1], id="c1"), Published)
    assert lake.rows("raw") == {D1: ["x1", "x2"]}


def test_memory_does_not_grow_with_the_rows(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are read, hashed and written some at a time. As Python values these took 60 MB; Arrow's are in batches."""
    monkeypatch.setattr(compact_module, "_BATCH_ROWS", 1_000)
    monkeypatch.setattr(compact_module, "_ROW_GROUP_BYTES", 100_000)
    for number in range(2):
        lake.append(f"a{number}", "raw", {D1: [f"{number} {row:060d}" for row in range(30_000)]})
    tracemalloc.start()
    try:
        assert isinstance(compact(lake.publisher(), "raw", [D1], id="c1"), Published)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 5_000_000
    (file,) = lake.state("raw").active
    footer = lake.storage.parquet_footer(f"raw/{file}")
    assert (footer.num_rows, footer.num_row_groups > 20) == (60_000, True)


def test_a_day_whose_content_changed_is_not_published(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written is read again: a row that was changed on the way is noticed."""
    _two_files(lake)
    really = pq.ParquetWriter.write_table

    def changed(writer: pq.ParquetWriter, rows: pa.Table, **how: int) -> None:
        really(writer, rows.set_column(0, "name", pa.array(["x"] * rows.num_rows)), **how)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", changed)
    with pytest.raises(PublicationRefused, match=f"Compacting raw {D1} changed its content"):
        compact(lake.publisher(), "raw", [D1], id="c1")
    assert lake.rows("raw") == {D1: ["x", "y"]}


@pytest.fixture(scope="module")
def sixteen_batches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A day of a large file, of another one, and of sixteen small ones: one fewer is not compacted."""
    found = Lake(tmp_path_factory.mktemp("sixteen") / "lakehouse")
    with clock.use(found.time):
        found.append("large", "raw", {D1: [f"large {number}" for number in range(20)], D2: ["y"]})
        for number in range(16):
            assert compact_small_files(found.publisher(), "raw", [D1, D2]) is None
            found.append(f"b{number}", "raw", {D1: [f"r{number:03d}"]})
        yield found


@pytest.fixture
def batches(sixteen_batches: Lake, tmp_path: Path) -> Iterator[Lake]:
    found = sixteen_batches.copy(tmp_path / "copied")
    with clock.use(found.time):
        yield found


def test_small_files_of_a_day_become_one_and_the_others_keep_their_names(batches: Lake) -> None:
    """A large file is not written again for those that came after it; an undo gives the small ones back."""
    files, rows, state = set(batches.state("raw").active), batches.rows("raw"), batches.day("raw", D1)
    (large,) = (path for path, file in batches.state("raw").active.items() if file.rows == 20)
    made = compact_small_files(batches.publisher(), "raw", [D1, D2])
    assert isinstance(made, Published)
    of_day = [path for path, file in batches.state("raw").active.items() if file.day == str(D1)]
    assert (batches.rows("raw"), large in of_day, len(of_day)) == (rows, True, 2)
    assert batches.day("raw", D1).content == state.content
    assert compact_small_files(batches.publisher(), "raw", [D1, D2]) is None
    roll_back(batches.publisher(), made.publication, id="undo", steps=())
    assert set(batches.state("raw").active) == files


def test_a_stream_that_was_faster_keeps_its_rows(batches: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compaction is left for the next batch, and nothing is lost."""
    publisher = batches.publisher()
    really, rows = publisher.publish, batches.rows("raw")[D1]

    def late(request: Publication) -> Published | Conflict:
        batches.append("faster", "raw", {D1: ["faster"]})
        return really(request)

    monkeypatch.setattr(publisher, "publish", late)
    assert isinstance(compact_small_files(publisher, "raw", [D1]), Conflict)
    assert isinstance(compact_small_files(batches.publisher(), "raw", [D1]), Published)
    assert batches.rows("raw")[D1] == sorted([*rows, "faster"])


def test_a_file_that_is_not_there_is_not_compacted_away(batches: Lake) -> None:
    """The rows are read from just the files that are replaced: one that cannot be read refuses."""
    active = batches.state("raw").active
    batches.storage.delete(
        "raw/" + next(path for path, file in active.items() if file.rows == 1 and file.day == str(D1))
    )
    with pytest.raises(FileNotFoundError):
        compact_small_files(batches.publisher(), "raw", [D1])
    assert batches.state("raw").active == active
