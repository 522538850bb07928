"""``readers.sql``: views of one moment, for readers who have only DuckDB; each publication keeps it, once asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from backfill_assets import clock
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish import readers_file
from backfill_assets.publish.compact import compact
from backfill_assets.publish.log import PublicationLog
from backfill_assets.publish.publisher import CrashPoint, Published
from backfill_assets.publish.readers_file import FILE, duckdb_type, is_kept, keep_readers_file, view_of
from backfill_assets_tests.small_lakehouse import SmallLakehouse, table_of

pytestmark = pytest.mark.protocol
DAY, NEXT, LAST = date(2017, 3, 1), date(2017, 3, 2), date(2017, 3, 3)
SUMS = "SELECT (SELECT sum(id) FROM fact), (SELECT sum(id) FROM revenue)"


class WideLakehouse(SmallLakehouse):
    def rows_of(self, table: str, day: date, ids: Any) -> pa.Table:
        return table_of(day, ids).append_column("note", pa.array([str(id) for id in ids], pa.string()))


@pytest.fixture
def lakehouse(tmp_path: Path) -> Iterator[SmallLakehouse]:
    found = SmallLakehouse(tmp_path / "it's a 10% lake")
    with clock.use(found.time):
        found.publish("one", {"fact": {DAY: [1], NEXT: [2]}, "revenue": {DAY: [10], NEXT: [20]}})
        yield found


def opened(lakehouse: SmallLakehouse) -> duckdb.DuckDBPyConnection:
    """As a stranger does."""
    connection = duckdb.connect()
    connection.execute((Path(lakehouse.storage.root) / FILE).read_text())
    return connection


def sums(connection: duckdb.DuckDBPyConnection) -> tuple[int, ...]:
    return tuple(map(int, connection.execute(SUMS).fetchall()[0]))


def test_it_shows_each_publication_and_who_opened_it_keeps_one(lakehouse: SmallLakehouse) -> None:
    keep_readers_file(lakehouse.publisher.log)
    first = opened(lakehouse)
    assert sums(first) == (3, 30)
    lakehouse.publish("two", {"fact": {NEXT: [5]}, "revenue": {NEXT: [50]}})
    assert sums(first) == (3, 30) and sums(opened(lakehouse)) == (6, 60)
    lakehouse.crash("three", {"fact": {DAY: []}, "revenue": {DAY: []}}, at=CrashPoint.TABLE_COMMITTED)
    assert sums(opened(lakehouse)) == (6, 60)
    lakehouse.publisher.recover()
    assert sums(opened(lakehouse)) == (5, 50)


def test_a_day_that_is_undone_compacted_and_brought_back_is_shown_as_it_is(lakehouse: SmallLakehouse) -> None:
    keep_readers_file(lakehouse.publisher.log)
    lakehouse.publish("late", {"fact": {DAY: [4]}}, mode="append")
    lakehouse.publish("two", {"fact": {NEXT: [5]}, "revenue": {NEXT: [50]}})
    assert sums(opened(lakehouse)) == (10, 60)
    roll_back(lakehouse.publisher, "two", id="undone", steps=CATALOG.steps)
    assert sums(opened(lakehouse)) == (7, 30)
    assert isinstance(compact(lakehouse.publisher, "fact", [DAY, NEXT], id="compacted"), Published)
    assert sums(opened(lakehouse)) == (7, 30)
    roll_back(lakehouse.publisher, "undone", id="again", steps=CATALOG.steps)
    assert sums(opened(lakehouse)) == (10, 60)


def test_a_lakehouse_that_never_asked_has_none_and_a_deleted_one_stays_away(lakehouse: SmallLakehouse) -> None:
    lakehouse.publish("two", {"fact": {NEXT: [5]}})
    assert not lakehouse.storage.exists(FILE) and not is_kept(lakehouse.publisher.log.head())
    keep_readers_file(lakehouse.publisher.log)
    lakehouse.storage.delete(FILE)
    lakehouse.publish("three", {"fact": {NEXT: [6]}})
    assert not lakehouse.storage.exists(FILE)
    keep_readers_file(PublicationLog(lakehouse.storage))
    assert sums(opened(lakehouse)) == (7, 30)


def test_a_column_that_came_later_is_null_in_older_files(lakehouse: SmallLakehouse) -> None:
    keep_readers_file(lakehouse.publisher.log)
    wide = WideLakehouse(Path(lakehouse.storage.root))
    wide.minutes = lakehouse.minutes
    with clock.use(wide.time):
        wide.publish("wide", {"fact": {LAST: [5]}})
    rows = opened(lakehouse).execute("SELECT id, note, day FROM fact ORDER BY id").fetchall()
    assert rows == [(1, None, DAY), (2, None, NEXT), (5, "5", LAST)]
    columns = opened(lakehouse).execute("SELECT column_name, column_type FROM (DESCRIBE fact)").fetchall()
    assert columns == [("id", "BIGINT"), ("day", "DATE"), ("note", "VARCHAR")]


def test_only_the_files_of_the_days_asked_for_are_opened(lakehouse: SmallLakehouse) -> None:
    keep_readers_file(lakehouse.publisher.log)
    asked = "EXPLAIN ANALYZE SELECT sum(id) FROM fact WHERE day = '2017-03-02'"
    assert "Scanning Files: 1/2" in opened(lakehouse).execute(asked).fetchall()[0][1]


def test_views_of_other_tables_are_left_as_they_are(lakehouse: SmallLakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_readers_file(lakehouse.publisher.log)
    written: list[str] = []
    real = readers_file.view_of

    def noting(storage: Storage, table: str, *more: Any) -> str:
        written.append(table)
        return real(storage, table, *more)

    monkeypatch.setattr(readers_file, "view_of", noting)
    lakehouse.publish("two", {"fact": {NEXT: [5]}})
    assert written == ["fact"] and sums(opened(lakehouse)) == (6, 30)


def test_a_file_that_cannot_be_written_fails_no_publication(
    lakehouse: SmallLakehouse, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keep_readers_file(lakehouse.publisher.log)

    def full(*_: object, **__: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Storage, "replace_bytes", full)
    lakehouse.publish("two", {"fact": {NEXT: [5]}})
    monkeypatch.undo()
    assert lakehouse.publisher.log.head().state.outcomes["two"] == "done" and sums(opened(lakehouse)) == (3, 30)
    lakehouse.publish("three", {"revenue": {NEXT: [50]}})
    assert sums(opened(lakehouse)) == (6, 60)


def test_of_two_at_once_the_later_entry_stays(lakehouse: SmallLakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first has read the log, and writes after the second."""
    keep_readers_file(lakehouse.publisher.log)
    late = PublicationLog(lakehouse.storage).head().state.versions
    lakehouse.publish("two", {"fact": {NEXT: [5]}})
    readers_file.renew(PublicationLog(lakehouse.storage), late, {}, {})
    assert sums(opened(lakehouse)) == (6, 30)


def test_no_reader_sees_a_torn_moment_while_publications_go_on(lakehouse: SmallLakehouse) -> None:
    keep_readers_file(lakehouse.publisher.log)
    with ThreadPoolExecutor(1) as pool:
        going = pool.submit(_publish_on, lakehouse)
        seen = [sums(opened(lakehouse))]
        while not going.done():
            seen.append(sums(opened(lakehouse)))
    going.result()
    assert all(revenue == 10 * fact for fact, revenue in seen) and len(set(seen)) > 2


def _publish_on(lakehouse: SmallLakehouse) -> None:
    for number in range(12):
        lakehouse.publish(f"p{number}", {"fact": {DAY: [number]}, "revenue": {DAY: [10 * number]}})


TYPES: Mapping[str, Any] = {
    "VARCHAR": "string",
    "DECIMAL(18,2)": "decimal(18,2)",
    "TIMESTAMP WITH TIME ZONE": "timestamp",
    "BIGINT[]": {"type": "array", "elementType": "long", "containsNull": True},
    'STRUCT("a b" INTEGER)': {"type": "struct", "fields": [{"name": "a b", "type": "integer"}]},
    "MAP(VARCHAR, DATE)": {"type": "map", "keyType": "string", "valueType": "date"},
}


@pytest.mark.parametrize("kind", TYPES)
def test_types_are_duckdbs(kind: str) -> None:
    assert duckdb_type(TYPES[kind]) == kind


def test_a_file_of_another_writers_folders_has_the_day_of_the_log(tmp_path: Path) -> None:
    """No ``day=`` in its path, and none within it."""
    storage = Storage(str(tmp_path))
    storage.write_parquet("t/part.parquet", pa.table({"id": pa.array([1], pa.int64())}))
    schema = '{"fields": [{"name": "id", "type": "long"}, {"name": "day", "type": "date"}]}'
    connection = duckdb.connect()
    connection.execute(view_of(storage, "t", schema, [AddedFile("part.parquet", str(DAY), 1, 1, "{}")]))
    assert connection.execute("FROM t").fetchall() == [(1, DAY)]
    assert "DuckDB takes for patterns" in view_of(storage, "t", schema, [AddedFile("a[1].parquet", "", 1, 1, "{}")])


def test_on_a_store_files_have_their_addresses() -> None:
    storage = Storage("s3://bucket/lake", {"AWS_REGION": "eu-central-1"})
    schema = '{"fields": [{"name": "id", "type": "long"}, {"name": "day", "type": "date"}]}'
    told = view_of(storage, "t", schema, [AddedFile(f"day={DAY}/part.parquet", str(DAY), 1, 1, "{}")])
    assert f"'s3://bucket/lake/t/day={DAY}/part.parquet'" in told and "hive_types = {'day': DATE}" in told
