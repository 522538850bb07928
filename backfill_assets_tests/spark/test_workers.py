"""Work in Spark's workers: each task has one answer, in order; an error of ours arrives as it was raised, once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from backfill_assets.errors import LakehouseUnusable, SourceUnreadable
from backfill_assets.judge.measure import FilesUnreadable
from backfill_assets.spark import workers
from backfill_assets.spark.workers import carrying, errors_of_workers, in_workers, of_partitions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def test_each_task_has_its_answer_in_order(each_spark: SparkSession) -> None:
    assert in_workers(each_spark, lambda task: task * 2, list(range(40))) == [number * 2 for number in range(40)]
    assert in_workers(each_spark, lambda task: task, []) == []


def test_tasks_and_answers_are_of_any_type(each_spark: SparkSession) -> None:
    def work(task: tuple[str, int]) -> dict[str, int]:
        return {task[0]: task[1]}

    assert in_workers(each_spark, work, [("a", 1), ("b", 2)]) == [{"a": 1}, {"b": 2}]


def test_an_error_of_ours_is_raised_here(each_spark: SparkSession, tmp_path: Path) -> None:
    def work(task: int) -> int:
        (tmp_path / f"{task}").write_text((tmp_path / f"{task}").read_text() + "x" if task else "x")
        raise SourceUnreadable("sales/2017-03-01/a.jsonl.gz cannot be read.", hint="Send it again.")

    with pytest.raises(SourceUnreadable, match=r"a\.jsonl\.gz cannot be read") as caught:
        in_workers(each_spark, work, [0])
    assert caught.value.hint == "Send it again."
    assert (tmp_path / "0").read_text() == "x"


def test_an_error_of_ours_is_known_again_where_rows_are_taken(each_spark: SparkSession) -> None:
    """By the kind that all know, if its own is that of a module; any other error stays Spark's."""

    def rows(error: Exception) -> DataFrame:
        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from batches
            raise error

        return each_spark.range(10).mapInArrow(carrying(work), "id long")

    with pytest.raises(LakehouseUnusable, match="a\\.parquet: \\{gone\\}") as caught, errors_of_workers():
        rows(FilesUnreadable('a.parquet: {gone} "é\nand more', hint="Put it back.")).count()
    assert (caught.value.message, caught.value.hint) == ('a.parquet: {gone} "é\nand more', "Put it back.")
    with pytest.raises(PySparkException, match="no error of ours"), errors_of_workers():
        rows(ValueError("no error of ours")).count()


def test_workers_without_what_they_need_are_named(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import no_such_engine  # type: ignore[import-not-found]  # noqa: F401

        yield from batches

    monkeypatch.setattr(workers, "_look", lacking)
    workers._known.clear()
    with pytest.raises(LakehouseUnusable, match="No module named 'no_such_engine'") as caught:
        in_workers(spark, lambda task: task, [1])
    assert "Install this package" in str(caught.value.hint)
    monkeypatch.undo()
    workers._known.clear()
    monkeypatch.setattr(workers, "versions", lambda: {"duckdb": "9.9.9"})
    with pytest.raises(LakehouseUnusable, match=r"Spark's workers have duckdb [\d.]+ \(9\.9\.9 here\)"):
        in_workers(spark, lambda task: task, [1])
    monkeypatch.undo()
    assert in_workers(spark, lambda task: task, [1]) == [1]


def test_sessions_that_share_their_workers_ask_once(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream has a session of its own for each micro-batch, and would run a job more with each."""
    known = workers.require_workers(spark)

    def ask_again(session: SparkSession) -> Mapping[str, str]:
        raise AssertionError(session)

    monkeypatch.setattr(workers, "_asked", ask_again)
    assert workers.require_workers(spark.newSession()) == known


def test_each_partition_has_an_answer(each_spark: SparkSession) -> None:
    """An error of ours is raised as it is, also by who has not taken all of the rows."""

    def total(batches: Iterator[pa.RecordBatch]) -> int:
        return sum(sum(batch.column(0).to_pylist()) for batch in batches)

    def refused(batches: Iterator[pa.RecordBatch]) -> int:
        next(batches, None)
        raise SourceUnreadable("A row is no number.", hint="Send it again.")

    rows = each_spark.range(0, 40_000, 1, 3)
    assert sum(of_partitions(rows, total)) == sum(range(40_000)) and len(of_partitions(rows, total)) == 3
    with pytest.raises(SourceUnreadable, match="no number") as caught:
        of_partitions(rows, refused)
    assert caught.value.hint == "Send it again."


def test_what_rows_cannot_be_read_from_is_said_by_spark(each_spark: SparkSession) -> None:
    """Of an event, say, that Spark cannot read: nobody takes what the worker made of the rows before it."""

    def total(batches: Iterator[pa.RecordBatch]) -> int:
        return sum(batch.num_rows for batch in batches)

    rows = each_spark.range(0, 40_000, 1, 2).selectExpr("IF(id = 39999, raise_error('no such row'), id) AS id")
    with pytest.raises(PySparkException, match="no such row"):
        of_partitions(rows, total)
