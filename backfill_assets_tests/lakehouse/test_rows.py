"""Published and staged rows are read by naming their files; Delta is asked only where a path does not say its day."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from deltalake import DeltaTable
from deltalake.transaction import AddAction
from pyspark.sql import types as T

from backfill_assets import clock
from backfill_assets.errors import LakehouseUnusable, PublicationRefused
from backfill_assets.lakehouse import rows as rows_module
from backfill_assets.lakehouse.delta_log import AddedFile, read_log
from backfill_assets.lakehouse.records import InputRead
from backfill_assets.lakehouse.rows import published_rows, rows_of_files, rows_of_main_files, stage
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import StagedAs, Timeline
from backfill_assets.lakehouse.written_files import write_folder, written_files
from backfill_assets_tests.small_lakehouse import SmallLakehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession

SCHEMA = T.StructType([T.StructField("id", T.LongType()), T.StructField("day", T.DateType())])
FIRST, SECOND, THIRD = date(2017, 3, 1), date(2017, 3, 2), date(2017, 3, 3)


def ids(rows: DataFrame) -> dict[date, list[int]]:
    found: dict[date, list[int]] = {}
    for row in rows.collect():
        found.setdefault(row["day"], []).append(row["id"])
    return {day: sorted(values) for day, values in sorted(found.items())}


def staged_rows(spark: SparkSession, timeline: Timeline, days: Iterable[date] | None = None) -> DataFrame:
    return rows_of_files(spark, timeline, timeline.files(days))


def scans(rows: DataFrame) -> str:
    """What kind of files the plan reads."""
    return str(rows._jdf.queryExecution().executedPlan())


def read(lake: SmallLakehouse, *days: date, version: int | None = None) -> InputRead:
    return InputRead(
        table="fact",
        version=lake.newest("fact").version() if version is None else version,
        days=dict.fromkeys(days, ""),
    )


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[SmallLakehouse]:
    lake = SmallLakehouse(tmp_path)
    with clock.use(lake.time):
        lake.publish("one", {"fact": {FIRST: [1, 2], SECOND: [3], THIRD: [9]}})
        lake.publish("two", {"fact": {SECOND: [4, 5]}})
        yield lake


def test_days_come_from_the_files_of_the_pinned_version(spark: SparkSession, lake: SmallLakehouse) -> None:
    """Of two timelines, and without the days that were not asked for."""
    now = published_rows(spark, lake.storage, read(lake, FIRST, SECOND), SCHEMA)
    before = published_rows(
        spark, lake.storage, read(lake, FIRST, SECOND, version=lake.newest("fact").version() - 1), SCHEMA
    )
    assert ids(now) == {FIRST: [1, 2], SECOND: [4, 5]}
    assert ids(before) == {FIRST: [1, 2], SECOND: [3]}
    assert "_delta_log" not in scans(now) and "TahoeLog" not in scans(now)


def test_files_that_main_had_are_read_at_any_versions(
    spark: SparkSession, lake: SmallLakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before-images: of several timelines, after the log was cleaned up, and foreign files whose path has no day."""
    monkeypatch.setattr(rows_module, "_MOST_FOLDERS", 1)
    files = read_log(lake.storage, "fact", lake.newest("fact").version() - 1).of_days([FIRST, SECOND])
    (odd,) = files[SECOND]
    root = Path(lake.storage.root) / "fact"
    (root / "by hand.parquet").write_bytes((root / odd.path).read_bytes())
    listed = [*files[FIRST], replace(odd, path="by hand.parquet")]
    assert ids(rows_of_main_files(spark, lake.storage, "fact", listed, SCHEMA)) == {FIRST: [1, 2], SECOND: [3]}
    assert ids(rows_of_main_files(spark, lake.storage, "fact", [], SCHEMA)) == {}


def test_the_files_of_many_publications_are_read_in_one_scan(spark: SparkSession, tmp_path: Path) -> None:
    """Of a day that grew batch by batch: a scan for each few files would be another plan for each batch."""
    lake = SmallLakehouse(tmp_path)
    for number in range(2 * rows_module._MOST_FOLDERS):
        lake.publish(f"batch-{number}", {"fact": {FIRST + timedelta(days=number): [number]}})
    files = read_log(lake.storage, "fact", lake.newest("fact").version()).active.values()
    rows = rows_of_main_files(spark, lake.storage, "fact", list(files), SCHEMA)
    assert scans(rows).count("FileScan") == 1
    assert ids(rows) == {FIRST + timedelta(days=number): [number] for number in range(2 * rows_module._MOST_FOLDERS)}


def test_a_column_that_the_files_lack_is_null(spark: SparkSession, lake: SmallLakehouse) -> None:
    wider = T.StructType([*SCHEMA.fields[:1], T.StructField("note", T.StringType()), SCHEMA["day"]])
    rows = published_rows(spark, lake.storage, read(lake, FIRST), wider)
    assert rows.columns == ["id", "note", "day"]
    assert {row["note"] for row in rows.collect()} == {None}


def test_days_without_files_have_no_rows(spark: SparkSession, lake: SmallLakehouse) -> None:
    rows = published_rows(spark, lake.storage, read(lake, date(2017, 4, 1)), SCHEMA)
    assert rows.schema == SCHEMA and rows.count() == 0


def test_a_file_whose_path_does_not_say_its_day_is_left_to_delta(spark: SparkSession, lake: SmallLakehouse) -> None:
    """The log gives a file its day; a path need not."""
    table = lake.newest("fact")
    source = Path(next(uri for uri in table.file_uris() if str(THIRD) in uri))
    target = Path(lake.storage.uri("fact")) / "elsewhere.parquet"
    target.write_bytes(source.read_bytes())
    add = AddAction("elsewhere.parquet", target.stat().st_size, {"day": str(THIRD)}, 0, True, '{"numRecords": 1}')
    DeltaTable(lake.storage.uri("fact")).create_write_transaction([add], "append", table.schema(), ["day"])
    assert ids(published_rows(spark, lake.storage, read(lake, THIRD), SCHEMA)) == {THIRD: [9, 9]}


def test_staged_rows_are_those_of_the_days_asked_for(spark: SparkSession, lake: SmallLakehouse) -> None:
    timeline = Timeline(lake.storage, "fact", "run-one")
    assert ids(staged_rows(spark, timeline, [FIRST, THIRD])) == {FIRST: [1, 2], THIRD: [9]}
    assert ids(staged_rows(spark, timeline)) == {FIRST: [1, 2], SECOND: [3], THIRD: [9]}


def days_of(spark: SparkSession, rows: dict[date, list[int]]) -> DataFrame:
    flat = [(id, day) for day, numbers in rows.items() for id in numbers]
    return spark.createDataFrame(flat, SCHEMA).repartition("day")


def as_staged(*days: date) -> dict[date, StagedAs]:
    return {day: StagedAs(input_fingerprint=f"of {day}") for day in days}


def test_a_timeline_that_was_written_to_several_times_is_read_at_once(spark: SparkSession, tmp_path: Path) -> None:
    """A scan for each write would be a plan that grows with history."""
    timeline = Timeline(Storage(str(tmp_path)), "fact", "run-two")
    for number in range(10):
        stage(days_of(spark, {FIRST: [number], SECOND: [10 + number]}), timeline, as_staged(FIRST, SECOND))
    rows = staged_rows(spark, timeline, [FIRST, SECOND])
    assert ids(rows) == {FIRST: list(range(10)), SECOND: list(range(10, 20))}
    assert scans(rows).count("FileScan parquet") == 1


def test_the_files_of_one_write_are_read_alone_however_many_there_are(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_module, "_MOST_FILES", 2)
    timeline = Timeline(Storage(str(tmp_path)), "fact", "run-two")
    stage(days_of(spark, {FIRST: [1], SECOND: [2], THIRD: [3]}), timeline, as_staged(FIRST, SECOND, THIRD))
    first = timeline.files()
    stage(days_of(spark, {FIRST: [4]}), timeline, as_staged(FIRST))
    assert ids(rows_of_files(spark, timeline, first)) == {FIRST: [1], SECOND: [2], THIRD: [3]}
    assert ids(rows_of_files(spark, timeline, timeline.files())) == {FIRST: [1, 4], SECOND: [2], THIRD: [3]}
    assert rows_of_files(spark, timeline, []).count() == 0


def test_a_staged_file_outside_its_day_is_named(spark: SparkSession, tmp_path: Path) -> None:
    timeline = Timeline(Storage(str(tmp_path)), "fact", "run-two")
    stage(days_of(spark, {FIRST: [1]}), timeline, as_staged(FIRST))
    stray = replace(timeline.files()[0], path="stray.parquet")
    with pytest.raises(LakehouseUnusable, match="run-two has files outside the folders of their days"):
        rows_of_files(spark, timeline, [stray])


def test_days_are_recorded_by_the_commit_that_adds_their_files(spark: SparkSession, tmp_path: Path) -> None:
    """A day without rows too; what the log records of the files is what is in them."""
    timeline = Timeline(Storage(str(tmp_path)), "fact", "run-two")
    stage(days_of(spark, {FIRST: [1, 7]}), timeline, as_staged(FIRST, SECOND))
    days = timeline.days()
    assert {day: [file.rows for file in held.files] for day, held in days.items()} == {FIRST: [2], SECOND: []}
    assert json.loads(days[FIRST].files[0].stats)["maxValues"] == {"id": 7}
    assert all(field["nullable"] for field in json.loads(timeline.schema())["fields"])


def test_a_write_without_rows_makes_the_timeline(spark: SparkSession, tmp_path: Path) -> None:
    timeline = Timeline(Storage(str(tmp_path)), "fact", "run-two")
    stage(days_of(spark, {}), timeline, as_staged(FIRST))
    assert set(timeline.days()) == {FIRST} and staged_rows(spark, timeline).count() == 0


def test_days_that_were_not_asked_for_are_refused_before_anything_is_committed(
    spark: SparkSession, tmp_path: Path
) -> None:
    timeline = Timeline(Storage(str(tmp_path)), "fact", "run-two")
    with pytest.raises(PublicationRefused, match=f"fact: rows were computed for {SECOND}, which were not asked for"):
        stage(days_of(spark, {FIRST: [1], SECOND: [2]}), timeline, as_staged(FIRST))
    assert not timeline.exists()
    stage(days_of(spark, {FIRST: [1], SECOND: [2]}), timeline, {}, other_days=True)
    assert {file.day for file in timeline.files()} == {str(FIRST), str(SECOND)}


def test_rows_without_a_day_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    timeline = Timeline(Storage(str(tmp_path)), "fact", "run-two")
    with pytest.raises(PublicationRefused, match="a row without a day was computed"):
        stage(spark.createDataFrame([(1, None)], SCHEMA), timeline, as_staged(FIRST))
    assert not timeline.exists()


LOOKS_TYPED = (
    *("3e0228148540", "1E5", "12", "-7", "0x1p3", "1d", "2f", "5L", "NaN", "Infinity", "1.5", "true", "FALSE", "null"),
    *("2017-03-01", "2017-03-01 10", "2017-03-01T10:00:00Z", "12-10", "20170301", "9" * 40),
)


@pytest.mark.timeout(60)
def test_a_folder_whose_name_looks_like_a_number_is_read_at_once(spark: SparkSession, tmp_path: Path) -> None:
    """Folders that were written before stay: Spark computed the 228,148,540 digits of the first of these for hours."""
    timeline = Timeline(Storage(str(tmp_path)), "fact", "run-two")
    stage(days_of(spark, {FIRST: [1]}), timeline, as_staged(FIRST))
    (file,) = timeline.files()
    written = Path(timeline.uri) / file.path
    named = [replace(file, path=f"write-id={value}/day={FIRST}/part-0.parquet") for value in LOOKS_TYPED]
    for each in named:
        target = Path(timeline.uri) / each.path
        target.parent.mkdir(parents=True)
        target.write_bytes(written.read_bytes())
    for each in named:
        assert ids(rows_of_files(spark, timeline, [each])) == {FIRST: [1]}
    assert ids(rows_of_files(spark, timeline, [file, *named])) == {FIRST: [1] * (1 + len(named))}


@pytest.mark.parametrize("digits", [*LOOKS_TYPED, "ab12"])
def test_the_name_of_a_written_folder_is_no_value_of_any_type(digits: str) -> None:
    name, _, value = write_folder(digits).partition("=")
    assert name == "write-id" and not any(is_one(value) for is_one in READ_AS)
    assert not value.lower().startswith(("true", "false", "null", "nan", "inf"))


READ_AS: tuple[Callable[[str], bool], ...] = (
    lambda value: can(float, value),
    lambda value: can(lambda text: int(text, 0), value),
    lambda value: can(float.fromhex, value),
    lambda value: can(Decimal, value),
    lambda value: can(datetime.fromisoformat, value),
    lambda value: value[:1].isdigit() or value[:1] in "+-.",
)
"""What Spark tries on the value of a folder: each is true of a value that the type can have."""


def can(parse: Callable[[str], object], value: str) -> bool:
    try:
        parse(value)
    except (ValueError, ArithmeticError):
        return False
    return True


def test_every_written_row_is_counted_in_the_files(spark: SparkSession, tmp_path: Path) -> None:
    """Also of no rows, and of a write that is in several files of a day. The stories count through Connect too."""
    timeline = Timeline(Storage(str(tmp_path)), "fact", "run-two")
    stage(days_of(spark, {FIRST: [1, 2]}).repartition(3), timeline, as_staged(FIRST))
    stage(days_of(spark, {}), timeline, as_staged(SECOND))
    stage(days_of(spark, {THIRD: [3]}).where("id > 3"), timeline, as_staged(THIRD))
    assert {day: sum(file.rows for file in held.files) for day, held in timeline.days().items()} == {
        FIRST: 2,
        SECOND: 0,
        THIRD: 0,
    }


class Silent:
    """An observation whose event Spark dropped: asking waits without end."""

    @property
    def get(self) -> dict[str, int]:
        threading.Event().wait()
        raise AssertionError


class Failing:
    @property
    def get(self) -> dict[str, int]:
        raise ConnectionError("the server is gone")


def test_a_count_that_spark_never_reports_is_not_waited_for_without_end() -> None:
    with pytest.raises(LakehouseUnusable, match="did not report within 0 s how many"):
        rows_module.observed(cast("Observation", Silent()), 0.05)
    with pytest.raises(ConnectionError, match="the server is gone"):
        rows_module.observed(cast("Observation", Failing()))


def test_a_file_that_the_write_did_not_make_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two attempts at a task one may leave its file in the day: its rows would be there twice."""

    def with_a_stray_file(storage: Storage, table: str, folder: str) -> list[AddedFile]:
        file = next(Path(storage.uri(f"{table}/{folder}")).rglob("part-*.parquet"))
        file.with_name(f"part-again-{file.name}").write_bytes(file.read_bytes())
        return written_files(storage, table, folder)

    monkeypatch.setattr(rows_module, "written_files", with_a_stray_file)
    timeline = Timeline(Storage(str(tmp_path)), "fact", "run-two")
    with pytest.raises(LakehouseUnusable, match=r"Spark wrote 2 rows to .*\. The files there \(2\) hold 4\."):
        stage(days_of(spark, {FIRST: [1, 2]}), timeline, as_staged(FIRST))
    assert not timeline.exists()


def test_what_a_dead_job_left_is_ignored(spark: SparkSession, tmp_path: Path) -> None:
    """Its files are complete, perhaps, but no commit names them."""
    timeline = Timeline(Storage(str(tmp_path)), "fact", "run-two")
    stage(days_of(spark, {FIRST: [1]}), timeline, as_staged(FIRST))
    left = Path(timeline.uri) / "write-id=dead" / f"day={FIRST}" / "part-00000.snappy.parquet"
    left.parent.mkdir(parents=True)
    left.write_bytes(next(Path(timeline.uri).rglob("part-*.parquet")).read_bytes())
    assert ids(staged_rows(spark, timeline)) == {FIRST: [1]}


def test_rows_of_another_shape_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    timeline = Timeline(Storage(str(tmp_path)), "fact", "run-two")
    stage(days_of(spark, {FIRST: [1]}), timeline, as_staged(FIRST))
    for changed in ("cast(id AS string) AS id", "id, 'new' AS note", "1 AS other"):
        rows = days_of(spark, {SECOND: [1]}).selectExpr(*changed.split(", "), "day")
        with pytest.raises(PublicationRefused, match="rows of another shape are in the timeline run-two already"):
            stage(rows, timeline, as_staged(SECOND))
    assert set(timeline.days()) == {FIRST}


def test_nothing_in_a_staged_schema_forbids_null(spark: SparkSession, tmp_path: Path) -> None:
    """Published tables have it so, within lists and structures too: another schema would be refused by them."""
    timeline = Timeline(Storage(str(tmp_path)), "fact", "run-two")
    rows = days_of(spark, {FIRST: [1]}).selectExpr("array('a') AS notes", "named_struct('x', 1L) AS place", "day")
    stage(rows, timeline, as_staged(FIRST))
    schema = timeline.schema()
    assert '"containsNull":true' in schema and '"nullable":false' not in schema and '"containsNull":false' not in schema
