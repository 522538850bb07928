"""What computes days is asked of Spark by what works inside the process and through Connect alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backfill_assets.rebuild.environment import environment_of, git_commit
from backfill_assets.spark.java import require_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_it_names_java_and_spark_where_the_rows_are_computed(each_spark: SparkSession) -> None:
    """Both of these run on this machine's Java; it is asked once for each session."""
    found = environment_of(each_spark, None)
    assert found.spark == each_spark.version and found.git_commit == git_commit()
    assert found.java.split(".")[0] == str(require_java()) and found.packages.startswith("uv.lock ")
    assert environment_of(each_spark, None) is found
