"""Published days read afresh: what a foreign writer changed is found, by table and day, and nothing else is."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from backfill_assets.days import DayRange
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.examples.sample.synthetic import SyntheticSpec, synthesize
from backfill_assets.judge import by_pandera
from backfill_assets.judge.by_pandera import AGREES
from backfill_assets.judge.engine import DayFiles
from backfill_assets.judge.measure import measure_files
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing import landing_files, raw_query
from backfill_assets.model import bronze_query, landed_values
from backfill_assets.model.declaration import Table
from backfill_assets.quality.watchdogs import CONTENT, FILES
from backfill_assets.rebuild import refining
from backfill_assets.upkeep import watch
from backfill_assets.upkeep.watch import Watch, WatchedDay
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from pyspark.sql import SparkSession

DAYS = DayRange.parse("2017-03-01..2017-03-03")
SPEC = SyntheticSpec(days=DAYS, rows_per_day=30, seed=7, defects={})
OVERWRITTEN, EMPTIED = date(2017, 3, 2), date(2017, 3, 3)


@pytest.fixture(scope="module")
def sound_home(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    workshop = Workshop(tmp_path_factory.mktemp("sound") / "home", lambda: spark)
    workshop.land_synthetic(SPEC)
    workshop.build_all(DAYS)
    return workshop.settings.home


@pytest.fixture(scope="module")
def built(sound_home: Path, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Workshop:
    """Tests damage it one after the other."""
    return Workshop(shutil.copytree(sound_home, tmp_path_factory.mktemp("watched") / "home"), lambda: spark)


def _look(workshop: Workshop, spark: SparkSession, days: DayRange = DAYS) -> list[WatchedDay]:
    lake = workshop.builder.lake
    return Watch(CATALOG, lake.storage, lake.publisher.log, lambda: spark).look(CATALOG.tables, days)


def _failures(found: list[WatchedDay]) -> dict[tuple[str, date], set[str]]:
    return {(d.table, d.day): {rule.rule for rule in d.rules if not rule.passed} for d in found if not d.passed}


def _overwrite(uri: Path, day: date, column: str) -> None:
    """A day with other values in ``column``, written as a notebook would."""
    table = DeltaTable(str(uri))
    rows = table.to_pandas(types_mapper=pd.ArrowDtype)
    changed = rows[rows["day"] == day].assign(**{column: lambda frame: frame[column] + 1})
    schema = pa.schema(table.schema().to_arrow())
    write_deltalake(
        str(uri),
        pa.Table.from_pandas(changed, schema=schema, preserve_index=False),
        mode="overwrite",
        predicate=f"day = '{day}'",
    )


def test_what_was_published_is_what_is_there(built: Workshop, spark: SparkSession) -> None:
    """Every published day of every table passes, and days that were not published are not judged."""
    found = _look(built, spark, DAYS.widened(after=3))
    assert _failures(found) == {}
    assert {d.day for d in found if d.table == "fact_daily_revenue"} == set(DAYS)
    assert {d.rows for d in found if d.table == "fact_sales_transactions"} == {30}


@pytest.fixture
def without_cents(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A fault of the query that lands, refines and hashes rows: it cuts amounts off at the point."""
    right, made = landed_values.parsed, (landing_files._query, refining._queries)

    def parsed(text: ir.StringValue, spark_type: str) -> ir.Value:
        return right(text.re_replace("[.].*", "") if spark_type.endswith(",2)") else text, spark_type)

    for module in (landed_values, raw_query, bronze_query):
        monkeypatch.setattr(module, "parsed", parsed)
    for queries in made:
        queries.cache_clear()
    yield
    for queries in made:
        queries.cache_clear()


@pytest.mark.usefixtures("without_cents")
def test_a_fault_of_the_query_is_found_by_spark(tmp_path: Path, spark: SparkSession) -> None:
    """What makes rows and what judges them are one engine, and agree: each amount is wrong by the same fault.

    Spark reads what was landed by itself.
    """
    workshop, tables = Workshop(tmp_path / "home", lambda: spark), ("raw_sales", "bronze_sales")
    workshop.land_synthetic(SPEC)
    for table in tables:
        workshop.build(table, DAYS)
    landed, refined = (workshop.read(table)["sales_value"].astype(str) for table in tables)
    assert not landed.str.endswith(".00").all() and refined.str.endswith(".00").all()
    lake = workshop.builder.lake
    by_one_engine = Watch(CATALOG, lake.storage, lake.publisher.log, lambda: pytest.fail("Spark was asked"), True)
    assert _failures(by_one_engine.look([*map(CATALOG.table, tables)], DAYS)) == {}
    nightly = Watch(CATALOG, lake.storage, lake.publisher.log, lambda: spark).look([*map(CATALOG.table, tables)], DAYS)
    assert _failures(nightly) == {("raw_sales", day): {"content_intact"} for day in DAYS}
    assert all(each.is_wrong == (each.table == "raw_sales") for each in nightly)


def test_days_that_were_just_staged_are_looked_at_without_spark(built: Workshop) -> None:
    """A cut-over reads them again, and a person waits for it."""
    lake = built.builder.lake
    look = Watch(CATALOG, lake.storage, lake.publisher.log, lambda: pytest.fail("Spark was asked"), True)
    assert _failures(look.look(CATALOG.tables, DAYS)) == {}


def test_pandera_validates_the_newest_day_of_each_table(built: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """That it disagrees with the judge is said of that day. It is no reason to build the day again."""
    lake = built.builder.lake
    watch = Watch(CATALOG, lake.storage, lake.publisher.log, lambda: pytest.fail("Spark was asked"), True, True)
    found = watch.look(CATALOG.tables, DAYS)
    asked = [each for each in found if any(rule.rule == AGREES for rule in each.rules)]
    newest = {each.table: each.day for each in sorted(found, key=lambda each: each.day) if each.rows}
    assert {each.table: each.day for each in asked} == newest and len(asked) == len(newest)
    assert _failures(found) == {}
    monkeypatch.setattr(by_pandera, "_breaches", lambda *_: ("amount_eur: greater_than(9)",))
    differs = watch.look([CATALOG.table("fact_sales_transactions")], DAYS)
    assert _failures(differs) == {("fact_sales_transactions", DAYS.last): {AGREES}}
    assert not any(each.is_wrong for each in differs)


def test_a_value_that_is_changed_beside_its_hash_is_found(built: Workshop, spark: SparkSession) -> None:
    """The number of rows, the keys and the totals are what they were: its content alone is another."""
    day, revenue = DAYS.first, DeltaTable(str(built.settings.lakehouse / "fact_sales_transactions"))
    (uri,) = revenue.file_uris(file_pruning_predicate=[("day", "=", str(day))])
    path, before = Path(uri), Path(uri).read_bytes()
    held = pq.ParquetFile(path).read()
    at = held.column_names.index("store_id")
    pq.write_table(held.set_column(at, "store_id", pa.array(["1"] * len(held))), path)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    try:
        assert _failures(_look(built, spark)) == {
            ("fact_sales_transactions", day): {CONTENT, "everything_published"},
        }
    finally:
        path.write_bytes(before)


def test_days_that_several_tables_are_judged_by_are_read_once(
    built: Workshop, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    """A cut-over looks table by table, and facts are compared with each report. A file that is new is read."""
    read: list[str] = []

    def counted(storage: Storage, table: Table, files: DayFiles, *given: Any, **asked: Any) -> Any:
        read.extend(file.path for some in files.values() for file in some)
        return measure_files(storage, table, files, *given, **asked)

    monkeypatch.setattr(watch, "measure_files", counted)
    lake = built.builder.lake
    look = Watch(CATALOG, lake.storage, lake.publisher.log, lambda: spark)
    for name in ("fact_sales_transactions", "fact_daily_revenue", "report_department_revenue"):
        assert _failures(look.look([CATALOG.table(name)], DAYS)) == {}
    assert len(read) == len({*read}) > len(DAYS) * 3
    before, changed = len(read), built.settings.lakehouse / "fact_daily_revenue"
    original = DeltaTable(str(changed)).version()
    _overwrite(changed, DAYS.first, "quantity")
    (wrong,) = _failures(look.look([CATALOG.table("fact_daily_revenue")], DAYS))
    assert wrong == ("fact_daily_revenue", DAYS.first) and len(read) == before + 1
    DeltaTable(str(changed)).restore(original)


def test_foreign_writes_and_lost_files_are_found_where_they_are(built: Workshop, spark: SparkSession) -> None:
    """A fact with other amounts no longer adds up with its report; a report whose file is gone cannot be read."""
    lakehouse = built.settings.lakehouse
    _overwrite(lakehouse / "fact_sales_transactions", OVERWRITTEN, "quantity")
    revenue = DeltaTable(str(lakehouse / "fact_daily_revenue"))
    for path in revenue.file_uris(file_pruning_predicate=[("day", "=", str(EMPTIED))]):
        Path(path).unlink()
    found = _failures(_look(built, spark))
    assert found["fact_sales_transactions", OVERWRITTEN] >= {FILES, CONTENT}
    assert found["fact_daily_revenue", OVERWRITTEN] == {"total_agrees_quantity"}
    assert found["fact_daily_revenue", EMPTIED] == {FILES}
    assert {day for table, day in found if not table.startswith("report_")} == {OVERWRITTEN, EMPTIED}


def test_rows_of_a_day_that_was_never_published_are_found_beside_others(built: Workshop, spark: SparkSession) -> None:
    """A notebook appended them: no publication has recorded anything of such a day."""
    name, never = "bronze_sales", date(2017, 3, 20)
    table = DeltaTable(str(built.settings.lakehouse / name))
    schema = pa.schema(table.schema().to_arrow())
    rows = table.to_pandas(types_mapper=pd.ArrowDtype)
    appended = rows[rows["day"] == OVERWRITTEN].assign(day=never)
    write_deltalake(table, pa.Table.from_pandas(appended, schema=schema, preserve_index=False), mode="append")
    lake = built.builder.lake
    look = Watch(CATALOG, lake.storage, lake.publisher.log, lambda: spark)
    found = {day.day: day for day in look.look([CATALOG.table(name)], [OVERWRITTEN, never])}
    assert found[OVERWRITTEN].passed
    assert found[never].is_wrong and found[never].rows == len(appended) > 0
    assert FILES in {rule.rule for rule in found[never].rules if not rule.passed}


def test_a_damaged_file_is_found_and_does_not_hide_the_other_days(built: Workshop, spark: SparkSession) -> None:
    """Spark gives up on the whole table at the first file that it cannot read."""
    bronze = DeltaTable(str(built.settings.lakehouse / "bronze_sales"))
    for path in bronze.file_uris(file_pruning_predicate=[("day", "=", str(DAYS.first))]):
        Path(path).write_bytes(Path(path).read_bytes()[:-100])
    lake = built.builder.lake
    look = Watch(CATALOG, lake.storage, lake.publisher.log, lambda: spark)
    found = {day.day: day for day in look.look([CATALOG.table("bronze_sales")], DAYS)}
    (rule,) = found[DAYS.first].rules
    assert (rule.rule, rule.passed) == (FILES, False)
    assert "damaged" in rule.observed
    assert all(found[day].passed for day in DAYS if day != DAYS.first)


def test_a_day_is_not_wrong_because_one_that_it_is_compared_with_cannot_be_read(
    built: Workshop, spark: SparkSession
) -> None:
    """What a day held whose file is gone is not known, and is not no rows: the report of it was called wrong."""
    fact = DeltaTable(str(built.settings.lakehouse / "fact_sales_transactions"))
    for path in fact.file_uris(file_pruning_predicate=[("day", "=", str(DAYS.first))]):
        Path(path).unlink()
    lake = built.builder.lake
    tables = [CATALOG.table(name) for name in ("fact_sales_transactions", "fact_daily_revenue")]
    found = _failures(Watch(CATALOG, lake.storage, lake.publisher.log, lambda: spark).look(tables, [DAYS.first]))
    assert found == {("fact_sales_transactions", DAYS.first): {FILES}}


def test_a_day_whose_rows_have_come_and_are_not_built_yet_is_behind_and_not_wrong(
    sound_home: Path, tmp_path: Path, spark: SparkSession
) -> None:
    """A stream publishes raw first: facts that read no raw themselves disagree with it for a few seconds."""
    workshop = Workshop(shutil.copytree(sound_home, tmp_path / "home"), lambda: spark)
    late = replace(SPEC, days=DayRange.of(DAYS.last), seed=8)
    synthesize(late, tmp_path / "late")
    (file,) = (tmp_path / "late").rglob(f"sales/*{DAYS.last}*/*")
    target = workshop.settings.landing / file.relative_to(tmp_path / "late")
    file.rename(target.with_name(f"late-{file.name}"))
    workshop.build("raw_sales", DAYS)
    found = {(day.table, day.day): day for day in _look(workshop, spark) if not day.passed}
    assert {table for table, _ in found} == {"bronze_sales", "fact_sales_transactions"}
    assert {day for _, day in found} == {DAYS.last}
    assert all(each.is_behind and not each.is_wrong for each in found.values())
    _overwrite(workshop.settings.lakehouse / "fact_sales_transactions", DAYS.last, "quantity")
    found = {(day.table, day.day): day for day in _look(workshop, spark) if not day.passed}
    assert found["fact_sales_transactions", DAYS.last].is_wrong
    assert not found["fact_sales_transactions", DAYS.last].is_behind
    assert not found["bronze_sales", DAYS.last].is_wrong
