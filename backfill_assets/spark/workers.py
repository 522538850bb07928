"""Work in Spark's Python workers, task by task.

Spark repeats failed tasks, which may leave files: what a task returns counts, once. This project's errors are raised in
the caller.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, TypeVar, cast

import pyarrow as pa

from backfill_assets import errors
from backfill_assets.errors import BackfillError, LakehouseUnusable
from backfill_assets.spark.session import is_lost_server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Task = TypeVar("Task")
Answer = TypeVar("Answer")
_SCHEMA = pa.schema([("id", pa.int64()), ("answer", pa.binary())])
_ANSWER = pa.schema([("answer", pa.binary())])
_NEEDED = "Install this package with the versions of its lock file where Spark's workers run, for the same Python."


def in_workers(spark: SparkSession, work: Callable[[Task], Answer], tasks: Sequence[Task]) -> list[Answer]:
    """In order, from one Spark job, also by Spark Connect.

    ``work``, tasks and answers are pickled, without secrets. This project's errors end retries. Raises
    :class:`LakehouseUnusable` if workers lack this package.
    """
    if not tasks:
        return []
    require_workers(spark)
    todo = list(tasks)

    def answered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                given = pickle.dumps(_given(work, todo[number]))
                yield pa.RecordBatch.from_pydict({"id": [number], "answer": [given]}, schema=_SCHEMA)

    found = spark.range(0, len(todo), 1, len(todo)).mapInArrow(answered, "id long, answer binary").collect()
    # Only our own workers wrote this.
    given = {row["id"]: pickle.loads(row["answer"]) for row in found}  # noqa: S301
    return [_taken(given[number]) for number in range(len(todo))]


def of_partitions(rows: DataFrame, work: Callable[[Iterator[pa.RecordBatch]], Answer]) -> list[Answer]:
    """In any order; otherwise like :func:`in_workers`. Errors in reading ``rows`` are Spark's."""

    def answered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"answer": [pickle.dumps(_given(work, batches))]}, schema=_ANSWER)

    require_workers(rows.sparkSession)
    found = rows.mapInArrow(answered, "answer binary").collect()
    # Only our own workers wrote this.
    return [_taken(pickle.loads(row["answer"])) for row in found]  # noqa: S301


def _given(work: Callable[[Task], Answer], task: Task) -> Answer | _Refused:
    try:
        return work(task)
    except BackfillError as error:
        return _Refused(type(error), error.message, error.hint)


class _Refused:
    """Pickled exceptions lose their arguments."""

    def __init__(self, kind: type[BackfillError], message: str, hint: str | None) -> None:
        self.kind, self.message, self.hint = kind, message, hint


def _taken(given: Answer | _Refused) -> Answer:
    if isinstance(given, _Refused):
        raise given.kind(given.message, hint=given.hint)
    return given


def carried_by_value(declared: object) -> None:
    """Pickles its class with code, for workers without its project."""
    from pyspark import cloudpickle

    project = type(declared).__module__.partition(".")[0]
    if project != __name__.partition(".")[0]:
        cloudpickle.register_pickle_by_value(sys.modules[project])  # type: ignore[no-untyped-call]


# ------------------------------------------------------------------ rows that Spark takes from workers


_CARRIED = "error of backfill_assets: "
Batches = Iterator[pa.RecordBatch]


def carrying(work: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """For ``mapInArrow``, with errors for :func:`errors_of_workers`."""

    def carried(batches: Batches) -> Batches:
        try:
            yield from work(batches)
        except BackfillError as error:
            kind = next(each.__name__ for each in type(error).__mro__ if each.__module__ == errors.__name__)
            told = {"kind": kind, "message": error.message, "hint": error.hint}
            raise RuntimeError(f"{_CARRIED}{json.dumps(told)}") from None

    return carried


@contextmanager
def errors_of_workers() -> Iterator[None]:
    """Raises those of :func:`carrying`, which Spark wraps."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        ours = _carried(str(error))
        if ours is None:
            raise
        raise ours from error


def _carried(said: str) -> BackfillError | None:
    _, _, told = said.partition(_CARRIED)
    try:
        found, _ = json.JSONDecoder().raw_decode(told)
    except ValueError:  # Nothing was carried, or not all of it has arrived.
        return None
    ours: BackfillError = getattr(errors, found["kind"])(found["message"], hint=found["hint"])
    return ours


# ------------------------------------------------------------------ what workers have to have


_known: dict[object, Mapping[str, str]] = {}
"""By what sessions share: each micro-batch has its own."""


def require_workers(spark: SparkSession) -> Mapping[str, str]:
    """Package versions of Spark's workers, asked once.

    Raises :class:`LakehouseUnusable` unless they equal those here: rows must not depend on the place.
    """
    shared = getattr(spark, "sparkContext", spark)  # A session of a Connect server has none.
    if shared not in _known:
        _known[shared] = _asked(spark)
    return _known[shared]


def _asked(spark: SparkSession) -> Mapping[str, str]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        rows = spark.range(0, 1, 1, 1).mapInArrow(_look, "package string, version string").collect()
    except (PySparkException, Py4JError) as error:
        if is_lost_server(error):
            raise
        said = str(error).strip().splitlines()
        why = next((line for line in reversed(said) if "Error" in line), said[0] if said else "")
        raise LakehouseUnusable(f"Spark's workers cannot do this work: {why.strip()}", hint=_NEEDED) from error
    return require_same({row["package"]: row["version"] for row in rows})


def require_same(there: Mapping[str, str]) -> Mapping[str, str]:
    if others := [
        f"{name} {there.get(name, 'not')} ({here} here)" for name, here in versions().items() if there.get(name) != here
    ]:
        raise LakehouseUnusable(f"Spark's workers have {', '.join(others)}.", hint=_NEEDED)
    return there


def versions() -> dict[str, str]:
    return {name: version(name) for name in ("backfill-assets", "duckdb", "pyarrow")}


def versions_of(python: str) -> Mapping[str, str]:
    """Raises :class:`LakehouseUnusable` if one is missing."""
    asked = f"import json, duckdb, {__name__} as workers; print(json.dumps(workers.versions()))"
    try:
        done = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        why = str(getattr(error, "stderr", None) or error).strip().splitlines()[-1]
        raise LakehouseUnusable(f"Spark's workers would run {python}: {why}", hint=_NEEDED) from error
    return cast("Mapping[str, str]", json.loads(done.stdout))


def _look(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import duckdb  # noqa: F401

    found = versions()
    yield pa.RecordBatch.from_pydict({"package": list(found), "version": list(found.values())})
