"""The plans of a source with many fields: they grow with the fields, and not with what can be combined of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ibis
import pytest

from backfill_assets.judge.engine import columns_of
from backfill_assets.model.checks import struct_type
from backfill_assets.model.dataset import Dataset
from backfill_assets.model.measure import hashes_written_of
from backfill_assets.model.refinement import Refinement
from benchmarks.wide_dataset import wide_dataset

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_INFERRED = "spark.sql.constraintPropagation.enabled"
_WHOLE_TEXT = "spark.sql.debug.maxToStringFields"


@pytest.fixture
def inferring_spark(spark: SparkSession) -> Iterator[SparkSession]:
    """Spark that infers conditions, as it does unless the profile says otherwise, and shows plans in full."""
    before = {name: spark.conf.get(name) for name in (_INFERRED, _WHOLE_TEXT)}
    spark.conf.set(_INFERRED, "true")
    spark.conf.set(_WHOLE_TEXT, "100000")
    yield spark
    for name, value in before.items():
        spark.conf.set(name, str(value))


def frames(spark: SparkSession, dataset: Dataset, folder: Path) -> dict[str, DataFrame]:
    """What Spark computes of a day of ``dataset``: the hashes of rows of each table."""
    found = {}
    for table in dataset.tables:
        # Read from a file: of no rows at all Spark would plan nothing.
        schema, file = struct_type(table.contract), str(folder / table.name)
        spark.createDataFrame([], schema).write.parquet(file)
        hashes = (each.column().alias(each.name) for each in hashes_written_of(table))
        found[table.name] = spark.read.schema(schema).parquet(file).select("*", *hashes)
    return found


def queries(dataset: Dataset) -> dict[str, str]:
    """What a day of ``dataset`` is asked from raw to bronze, in DuckDB's SQL."""
    transform = dataset.steps[1].versions[0].transform
    assert isinstance(transform, Refinement)
    raw = ibis.table(ibis.Schema.from_pyarrow(columns_of(dataset.tables[0].contract)), name="raw")
    judged = transform.judged(raw)
    asked = {"judged": judged, **transform.tables(ibis.table(judged.schema(), name="judged"))}
    return {name: str(ibis.to_sql(rows, dialect="duckdb")) for name, rows in asked.items()}


def _optimized(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().optimizedPlan()


def _most_conditions(plan: Any) -> int:
    children = plan.children()
    below = [_most_conditions(children.apply(number)) for number in range(children.size())]
    return max([int(plan.validConstraints().size()), *below])


def test_no_condition_is_made_for_each_way_to_combine_columns(inferring_spark: SparkSession, tmp_path: Path) -> None:
    """A condition on k columns that all get new names becomes 2^k conditions: minutes at 18 fields, for ever at 40."""
    for name, frame in frames(inferring_spark, wide_dataset(12), tmp_path).items():
        assert _most_conditions(_optimized(frame)) < 200, name


def test_plans_grow_with_the_number_of_fields(inferring_spark: SparkSession, tmp_path: Path) -> None:
    """Four times the fields, four times the plan; a little more for the digits of their names."""
    narrow = frames(inferring_spark, wide_dataset(10), tmp_path / "narrow")
    wide = frames(inferring_spark, wide_dataset(40), tmp_path / "wide")
    for (name, one), other in zip(narrow.items(), wide.values(), strict=True):
        assert len(_optimized(other).toString()) < 5 * len(_optimized(one).toString()), name
    of_both = zip(*(queries(wide_dataset(fields)).items() for fields in (10, 40)), strict=True)
    assert [name for (name, one), (_, other) in of_both if len(other) >= 5 * len(one)] == []
