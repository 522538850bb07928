"""Measures days from files in one query. Spark computes row hashes that are missing or not trusted."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import cache, lru_cache, partial, reduce
from operator import or_
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from backfill_assets.errors import LakehouseUnusable
from backfill_assets.judge.engine import DAY, DayFiles, columns_of, database, of_days, select_rows, without_query
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.lost_file import file_lost
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.canonical import sum_of_hashes
from backfill_assets.model.checks import KINDS, CheckKind
from backfill_assets.model.contract import Contract
from backfill_assets.model.declaration import EXAMPLE, Aggregates, Metrics, Table
from backfill_assets.model.deletion import DELETED
from backfill_assets.model.drift import FIELDS, NOT_AS_DECLARED, DriftKind, FieldRows, as_text
from backfill_assets.model.measure import RowHash, WrittenHash, fields_not_as_declared, hashes_of, undeclared_fields
from backfill_assets.quality import measures
from backfill_assets.quality.gates import VIOLATING

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from duckdb import DuckDBPyConnection
    from pyspark.sql import DataFrame, SparkSession

MOST_BYTES_FROM_A_BUCKET = 256 * 2**20
"""Executors read more, in parallel."""
_ROWS = "rows of the table"
_UNHASHED = "rows without hashes"
_UNANSWERED = re.compile(r"timed?[ -]?out|network|connection|denied|no space left", re.IGNORECASE)
"""Errors that say nothing about files."""
RowsBySpark = Callable[[], "DataFrame"]


class FilesUnreadable(LakehouseUnusable):
    pass


def measure_files(
    storage: Storage,
    table: Table,
    files: DayFiles,
    rows: RowsBySpark,
    *,
    only: Collection[str] | None = None,
    afresh: bool = False,
) -> dict[date, Metrics]:
    """By day; ``afresh`` trusts no stored hashes. Raises :class:`FilesUnreadable`."""
    metrics = {name: made for name, made in measures.numbers(table).items() if only is None or name in only}
    read = partial(_measured, storage)
    if not storage.is_folder and sum(file.size for some in files.values() for file in some) > MOST_BYTES_FROM_A_BUCKET:
        spark = rows().sparkSession
        read = partial(measure_on_executors, spark, storage) if executors_read(spark, storage.uri()) else read
    columns = columns_of(table.contract, _written(table.contract, metrics))
    found = _with_hashes(read(columns, files, query(table.contract, metrics)), metrics, rows, afresh)
    if only is not None:
        return found
    shown = [day for day, has in found.items() if measures.shows_examples(has, table)]
    if shown:
        texts = _measured(storage, columns, of_days(files, shown), query(table.contract, measures.examples(table)))
        found |= {day: {**found[day], **texts[day]} for day in shown}
    if drifting := [day for day, has in found.items() if has.get(NOT_AS_DECLARED) or has.get(DELETED)]:
        fields = _fields_not_as_declared(storage, table, of_days(files, drifting))
        found |= {day: {**found[day], FIELDS: fields[day]} for day in drifting}
    return {day: measures.complete(has, table) for day, has in found.items()}


def prepare(tables: Iterable[Table]) -> None:
    import duckdb  # noqa: F401

    for table in tables:
        query(table.contract, measures.numbers(table))


def fingerprint(table: Table) -> str:
    """Changes with what a rule measures."""
    asked = query(table.contract, {**measures.numbers(table), **measures.examples(table)})
    return hashlib.sha256(asked.encode()).hexdigest()[:16]


def unmeasurable(table: Table) -> list[str]:
    """Checks and metrics beyond the judge, such as patterns with lookahead, with reasons."""
    metrics = {**measures.numbers(table), **measures.examples(table)}
    if not _why_not(table.contract, metrics):
        return []
    of_fields = table.contract.fields().items()
    each: dict[str, Aggregates] = {
        f"{table.contract.__name__}.{name}, {check}": {"fulfilled": partial(_fulfilled, KINDS[check], name, asked)}
        for name, declared in of_fields
        for check, asked in declared.checks.items()
    }
    each |= {f"the metric {name}": {name: made} for name, made in metrics.items() if not name.startswith(VIOLATING)}
    reasons = {what: _why_not(table.contract, asked) for what, asked in each.items()}
    return [f"{table.name}: {what} cannot be judged: {why}." for what, why in reasons.items() if why]


def _fulfilled(kind: CheckKind, name: str, asked: Any, rows: ir.Table) -> ir.Scalar:
    return rows.count(where=kind.of(rows, name, asked))


def _why_not(contract: type[Contract], metrics: Aggregates) -> str:
    try:
        _measured(Storage("."), columns_of(contract, _written(contract, metrics)), {}, query(contract, metrics))
    except Exception as error:
        return str(error).splitlines()[0]
    return ""


def _fields_not_as_declared(storage: Storage, table: Table, files: DayFiles) -> dict[date, str]:
    declared, others = _answers(storage, columns_of(table.contract), files, _drift_queries(table))
    fields = {day: [*_declared(declared[day]), *_others(others.get(day, {}))] for day in declared}
    return {day: as_text(rows) for day, rows in fields.items()}


@cache
def _drift_queries(table: Table) -> tuple[str, str]:
    import ibis

    source, typed = measures.source_of(table), table.typed
    if source is None or typed is None:
        raise LookupError(f"{table.name} has no declared fields to measure it against.")
    rows = ibis.table(ibis.Schema.from_pyarrow(columns_of(table.contract)), name=_ROWS)
    of_declared = rows.group_by(DAY).agg(**fields_not_as_declared(source, typed, rows))
    return str(ibis.to_sql(of_declared, dialect="duckdb")), str(ibis.to_sql(undeclared_fields(rows), dialect="duckdb"))


def _declared(measured: Metrics) -> Iterator[FieldRows]:
    for name, rows in measured.items():
        if not name.endswith(EXAMPLE):
            kind, _, field = name.partition(" ")
            yield FieldRows(DriftKind[kind], field, int(rows or 0), str(measured.get(f"{name}{EXAMPLE}", "")))


def _others(measured: Metrics) -> Iterator[FieldRows]:
    for each in json.loads(str(measured.get("fields") or "[]")):
        example = json.loads(each["kept"]).get(each["field"])
        yield FieldRows(DriftKind.UNDECLARED, each["field"], each["rows"], str(example))


# ------------------------------------------------------------------ one query


def query(contract: type[Contract], metrics: Aggregates) -> str:
    return _query(cast("Hashable", contract), tuple(metrics.items()))


@lru_cache(maxsize=256)
def _query(contract: Any, metrics: tuple[tuple[str, Any], ...]) -> str:
    import ibis

    written = _written(contract, dict(metrics))
    rows = ibis.table(ibis.Schema.from_pyarrow(columns_of(contract, written)), name=_ROWS)
    unhashed = rows.count(where=reduce(or_, (each.is_absent(rows) for each in written.values())))
    found = rows.group_by(DAY).agg(**{_UNHASHED: unhashed}, **{name: made(rows) for name, made in metrics})
    return str(ibis.to_sql(found, dialect="duckdb"))


def _written(contract: type[Contract], metrics: Aggregates) -> dict[str, WrittenHash]:
    return {each.name: each for each in (RowHash(contract), *hashes_of(metrics).values())}


def _measured(
    storage: Storage, columns: pa.Schema, files: DayFiles, asked: str, threads: int = 0
) -> dict[date, dict[str, Any]]:
    return _answers(storage, columns, files, [asked], threads)[0]


def _answers(
    storage: Storage, columns: pa.Schema, files: DayFiles, asked: Sequence[str], threads: int = 0
) -> list[dict[date, dict[str, Any]]]:
    import duckdb

    with database(threads) as connection:
        rows = select_rows(connection, storage, columns, DAY, files)
        try:
            return [_answer(connection, f'WITH "{_ROWS}" AS NOT MATERIALIZED ({rows}) {each}') for each in asked]
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            if damage := _damage(connection, rows):
                lost = file_lost(error)
                raise FilesUnreadable(lost.message if lost else damage, hint=lost.hint if lost else None) from error
            names = ", ".join(sorted({file.path.partition("/")[0] for some in files.values() for file in some}))
            raise LakehouseUnusable(
                f"The rows of {names} cannot be measured: {without_query(error)}",
                hint="Look at the disk, and at what its rules measure: a total has up to 38 digits.",
            ) from error


def _damage(connection: DuckDBPyConnection, rows: str) -> str:
    """Why a trivial query fails; empty if the storage did not answer."""
    import duckdb

    try:
        connection.execute(f"SELECT MIN(COLUMNS(*)) FROM ({rows})").fetchall()  # noqa: S608 - our own query
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        return "" if _UNANSWERED.search(str(error)) else without_query(error)
    return ""


def _answer(connection: DuckDBPyConnection, asked: str) -> dict[date, dict[str, Any]]:
    """Python values keep all digits, unlike Ibis."""
    done = connection.execute(asked)
    names = [each[0] for each in done.description]
    rows = (dict(zip(names, row, strict=True)) for row in done.fetchall())
    return {row[DAY]: dict(measures.as_metrics(row)) for row in rows}


# ------------------------------------------------------------------ hashes that Spark has not written


def _with_hashes(
    found: Mapping[date, dict[str, Any]], metrics: Aggregates, rows: RowsBySpark, afresh: bool
) -> dict[date, Metrics]:
    unhashed = [day for day, has in found.items() if has.pop(_UNHASHED) or afresh]
    hashes = hashes_of(metrics)
    if not unhashed or not hashes:
        return dict(found)
    of_days = rows().where(F.col(DAY).isin(unhashed)).groupBy(DAY)
    added = of_days.agg(*(sum_of_hashes(each.column()).alias(name) for name, each in hashes.items())).collect()
    known = {row[DAY]: row.asDict() for row in added}
    return {day: {**has, **measures.as_metrics(known.get(day, {}))} for day, has in found.items()}


# ------------------------------------------------------------------ on executors, which read files themselves


@cache
def executors_read(spark: SparkSession, root: str) -> bool:
    """By package and access; tried once."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import ibis.backends.duckdb  # noqa: F401

        for batch in batches:
            Storage(root).folders("")
            yield batch

    try:
        return bool(spark.range(1).mapInArrow(read, "id bigint").count() == 1)
    except (PySparkException, Py4JError):
        return False


def measure_on_executors(
    spark: SparkSession, storage: Storage, columns: pa.Schema, files: DayFiles, asked: str
) -> dict[date, dict[str, Any]]:
    """Each measures one day by its own credentials: no key is sent."""
    root = storage.uri()

    def measured(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for day, listed in zip(batch["day"].to_pylist(), batch["files"].to_pylist(), strict=True):
                own = {day: [AddedFile.from_json(file) for file in json.loads(listed)]}
                found = _measured(Storage(root), columns, own, asked, threads=1)
                texts = [json.dumps(has) for has in found.values()]
                yield pa.RecordBatch.from_arrays(
                    [pa.array(found, pa.date32()), pa.array(texts, pa.string())], [DAY, "metrics"]
                )

    listed = [(day, json.dumps([file.to_json() for file in some])) for day, some in files.items()]
    work = spark.createDataFrame(listed, "day date, files string").repartition(len(listed))
    try:
        found = work.mapInArrow(measured, "day date, metrics string").collect()
    except (PySparkException, Py4JError) as error:
        if FilesUnreadable.__name__ in str(error):
            raise FilesUnreadable(str(error)) from error
        raise
    return {row[DAY]: json.loads(row["metrics"]) for row in found}
