"""Lines that Spark holds become raw rows in its workers: as a frame, and as the files of their days."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import cloudpickle

from backfill_assets.errors import LakehouseUnusable
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.landing import rows_of_lines as module
from backfill_assets.landing.rows_of_lines import rows_of_lines, write_rows_of_lines
from backfill_assets.model.landed import raw_schema
from backfill_assets.model.measure import hashes_written_of
from backfill_assets.spark.partition_query import PartitionQuery, by_query
from backfill_assets.spark.workers import errors_of_workers
from backfill_assets_tests.stories.toll_passages import SOURCE as TOLLS
from backfill_assets_tests.stories.toll_passages import passage
from backfill_assets_tests.strategies.landed_sales import land_key, sale
from backfill_assets_tests.strategies.raw_by_python import LineReading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

pytestmark = pytest.mark.spark

TABLE, SOURCE = CATALOG.table("raw_sales"), CATALOG.step("raw_sales").source
KEY = "0123456789abcdef0123456789abcdef"
TODAY, ARRIVED = date(2017, 3, 4), date(2017, 3, 2)
_SHAPE = "value binary, source_file string, source_line bigint, arrival_day date"
_BYTES = b'\xff{"household_id":"7"}'


def lines(spark: SparkSession, values: list[tuple[bytes, date | None]]) -> DataFrame:
    rows = [(value, "kafka:sales/0", number, arrived) for number, (value, arrived) in enumerate(values)]
    return spark.createDataFrame(rows, _SHAPE)


def sold(day: date | str) -> bytes:
    return json.dumps(sale(transaction_timestamp=f"{day}T10:00:00Z", household_id=str(day))).encode()


def found_in(rows: DataFrame) -> list[dict[str, Any]]:
    return sorted((row.asDict() for row in rows.collect()), key=lambda row: row["source_line"])


def test_lines_become_rows_in_the_workers_of_every_session(each_spark: SparkSession, tmp_path: Path) -> None:
    """Of bytes that are no text Base64 is kept, or its token; one that arrived nobody knows when is where it says."""
    assert SOURCE is not None
    given = [(sold(ARRIVED), ARRIVED), (b"{", ARRIVED), (_BYTES, ARRIVED), (sold("2017-03-01"), None), (b"null", None)]
    rows = rows_of_lines(SOURCE, lines(each_spark, given), land_key(tmp_path, KEY), TODAY)
    assert rows.schema == raw_schema(SOURCE)
    reading = LineReading(SOURCE, KEY.encode(), TODAY)
    as_text = [*(value.decode() for value, _ in given[:2]), "base64: /3siaG91c2Vob2xkX2lkIjoiNyJ9"]
    expected = [
        *(reading.row(line, json.loads(line) if number == 0 else None, ARRIVED) for number, line in enumerate(as_text)),
        reading.row(given[3][0].decode(), json.loads(given[3][0]), None),
        reading.row("null", None, None),
    ]
    places = ({"source_file": "kafka:sales/0", "source_line": number} for number in range(len(given)))
    assert found_in(rows) == [row | place for row, place in zip(expected, places, strict=True)]
    assert [row["arrival_day"] for row in found_in(rows)[3:]] == [date(2017, 3, 1), TODAY]


def test_events_are_on_the_day_of_their_zone_in_the_workers_of_every_session(each_spark: SparkSession) -> None:
    """DuckDB has the rules of zones in itself there, too; an event that arrived nobody knows when did on that day."""
    source = replace(TOLLS, event_zone="Europe/Berlin")
    moments = {"2020-10-24T21:59:59Z": 24, "2020-10-24T22:00:00Z": 25, "2020-10-25T22:59:59Z": 25}
    events: list[tuple[bytes, date | None]] = [
        (json.dumps({**passage(0), "passed_at": moment}).encode(), None) for moment in moments
    ]
    rows = found_in(rows_of_lines(source, lines(each_spark, events), "", date(2020, 10, 26)))
    assert [(row["day"].day, row["arrival_day"].day) for row in rows] == [(day, day) for day in moments.values()]


def test_each_partition_writes_one_file_for_each_of_its_days(spark: SparkSession, tmp_path: Path) -> None:
    """With the hashes beside its rows, as landed files are written."""
    assert SOURCE is not None
    days = [ARRIVED - timedelta(days=number % 3) for number in range(300)]
    given = lines(spark, [(sold(day), ARRIVED) for day in days]).repartition(4)
    key_file, timeline = land_key(tmp_path, KEY), Timeline(Storage(str(tmp_path / "lakehouse")), TABLE.name, "a-run")
    one = write_rows_of_lines(SOURCE, given.coalesce(1), key_file, TODAY, (TABLE, timeline))
    assert {file.day: file.rows for file in one} == Counter(map(str, days)) and len(one) == 3
    four = write_rows_of_lines(SOURCE, given, key_file, TODAY, (TABLE, timeline))
    assert len(four) == 12 and sum(file.rows for file in four) == 300
    columns = raw_schema(SOURCE).names
    held = [row for file in one for row in timeline.storage.read_parquet(f"{timeline.path}/{file.path}").to_pylist()]
    expected = [
        {name: value for name, value in row.items() if name != "day"}
        for row in found_in(rows_of_lines(SOURCE, given, key_file, TODAY))
    ]
    held.sort(key=lambda row: row["source_line"])
    assert [{name: row[name] for name in columns if name != "day"} for row in held] == expected
    hashes = hashes_written_of(TABLE)
    by_spark = rows_of_lines(SOURCE, given, key_file, TODAY).select("source_line", *(each.column() for each in hashes))
    written = [(row["source_line"], *(row[each.name] for each in hashes)) for row in held]
    assert written == sorted(map(tuple, by_spark.collect()))


def test_the_query_is_made_once_whatever_day_it_is(spark: SparkSession, tmp_path: Path) -> None:
    """It takes half a second, and a stream has a batch every few seconds."""
    assert SOURCE is not None
    given, key_file = lines(spark, [(b"{", None)]), land_key(tmp_path, KEY)
    rows_of_lines(SOURCE, given, key_file, TODAY)
    before = module._sql.cache_info().misses
    for today in (TODAY, TODAY + timedelta(days=1)):
        assert [row["day"] for row in found_in(rows_of_lines(SOURCE, given, key_file, today))] == [today]
    assert module._sql.cache_info().misses == before


def test_no_plan_and_no_task_has_the_token_key(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plans end up in event logs and in the UI; the worker reads the key from its file."""
    assert SOURCE is not None
    key, tasks = "correct-horse-battery-staple-0123", list[bytes]()

    def asked(rows: DataFrame, query: PartitionQuery, schema: StructType) -> DataFrame:
        tasks.append(cloudpickle.dumps(query))  # type: ignore[no-untyped-call]
        return by_query(rows, query, schema)

    monkeypatch.setattr(module, "by_query", asked)
    rows = rows_of_lines(SOURCE, lines(spark, [(sold(ARRIVED), ARRIVED)]), land_key(tmp_path, key), TODAY)
    assert found_in(rows)[0]["household_token"] == LineReading(SOURCE, key.encode()).token(str(ARRIVED))
    for mode in ("extended", "formatted", "codegen"):
        rows.explain(mode=mode)
    execution = getattr(rows, "_jdf").queryExecution()  # noqa: B009
    plans = [execution.optimizedPlan().toJSON(), execution.executedPlan().toJSON()]
    assert key not in capsys.readouterr().out + "".join(plans)
    assert key.encode() not in tasks[0] and b"token.key" in tasks[0]


def test_a_key_that_cannot_be_used_is_named_and_no_row_is_made(spark: SparkSession, tmp_path: Path) -> None:
    assert SOURCE is not None
    given, key_file = lines(spark, [(sold(ARRIVED), ARRIVED)]), land_key(tmp_path, "short")
    with pytest.raises(LakehouseUnusable, match=r"token\.key has fewer than 16"), errors_of_workers():
        rows_of_lines(SOURCE, given, key_file, TODAY).collect()
    timeline = Timeline(Storage(str(tmp_path / "lakehouse")), TABLE.name, "a-run")
    with pytest.raises(LakehouseUnusable, match=r"token\.key has fewer than 16"):
        write_rows_of_lines(SOURCE, given, key_file, TODAY, (TABLE, timeline))
    unkeyed = replace(SOURCE, personal_fields={})
    assert rows_of_lines(unkeyed, given, key_file, TODAY).count() == 1
