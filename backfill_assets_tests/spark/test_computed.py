"""The tables of a declared version, of rows that Spark holds: those of plain Python, whatever the session is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backfill_assets.model.checks import struct_type
from backfill_assets.model.landed import quarantine_contract
from backfill_assets_tests.strategies.any_source import CASES, raw_of
from backfill_assets_tests.strategies.by_the_query import both, python_rows, require_same
from backfill_assets_tests.strategies.refined_by_python import accepted, rejected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_rows_of_several_days_in_several_partitions(each_spark: SparkSession) -> None:
    """The rows of a partition come once, and are looked at several times: for those that are alone, and the others."""
    asked, texts = CASES["sales"]
    raw = raw_of(asked, texts, seed=3)
    found = both(each_spark.createDataFrame(raw).repartition(5), asked)
    rows, contracts = python_rows(raw), (asked.contract, quarantine_contract(asked.source, asked.contract))
    for table, expected, contract in zip(found.values(), (accepted, rejected), contracts, strict=True):
        assert table.columns == struct_type(contract).names
        require_same(table.toArrow(), expected(rows, asked))
