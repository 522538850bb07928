"""What every registered dataset keeps to, so that everything that is derived from it works. A new one is tested too."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.judge.measure import unmeasurable
from backfill_assets.model.checks import struct_type
from backfill_assets.model.dataset import Dataset
from backfill_assets.model.declaration import PUBLISHED_DAYS, Step, Table, Version
from backfill_assets.model.landed import BronzeColumns, QuarantineColumns, RawColumns
from backfill_assets.spark.computed import computed

DATASETS = pytest.mark.parametrize("dataset", CATALOG.datasets, ids=lambda dataset: dataset.name)
TABLES = pytest.mark.parametrize("table", CATALOG.tables, ids=lambda table: table.name)
VERSIONS = pytest.mark.parametrize(
    ("step", "version"),
    [
        pytest.param(step, version, id=f"{step.name}@{version.name}")
        for step in CATALOG.steps
        for version in step.versions
    ],
)
PREFIXES = {"report": ("report_", "fact_")}
"""A report that is a fact by itself may be called one; every other table has its layer in front."""


@DATASETS
def test_a_dataset_says_what_it_is_and_whose(dataset: Dataset) -> None:
    """People find it in the UI by these; Dagster takes owners as teams or mail addresses."""
    assert dataset.description.endswith(".")
    assert dataset.owners and all(owner.startswith("team:") or "@" in owner for owner in dataset.owners)


@DATASETS
def test_its_sources_are_landed_in_three_tables_of_the_types_that_are_declared(dataset: Dataset) -> None:
    """Everything received is kept in raw, and is in bronze or quarantine with the columns that account for it.

    The type that text is parsed to is declared beside the source: another one in the contract would cast again.
    """
    contracts = {table.name: table.contract for table in dataset.tables}
    for source in (step.source for step in dataset.steps if step.source):
        raw, quarantine, bronze = (contracts[f"{layer}_{source.name}"] for layer in ("raw", "quarantine", "bronze"))
        assert issubclass(raw, RawColumns) and issubclass(quarantine, QuarantineColumns)
        assert issubclass(bronze, BronzeColumns)
        assert {"rescued", "unparsed_line"} <= set(struct_type(raw).names)
        declared = {field.name: field.dataType.simpleString() for field in struct_type(bronze).fields}
        assert {name: source.type_of(name) for name in source.columns} == {n: declared[n] for n in source.columns}
        assert {source.event_day_field, source.version_field, *source.key_fields} <= set(source.fields)


@TABLES
def test_a_table_is_described_by_its_layer_and_columns_and_can_be_judged(table: Table) -> None:
    """The UI and the Delta schema show it. What the judge cannot carry out, the first day that is built would find."""
    assert table.name.startswith(PREFIXES.get(table.layer, (f"{table.layer}_",)))
    assert table.description.endswith(".")
    fields = struct_type(table.contract).fields
    assert [field.name for field in fields if not field.metadata.get("comment")] == []
    assert unmeasurable(table) == []


@VERSIONS
def test_a_version_gives_what_the_contracts_declare(step: Step, version: Version, spark: SparkSession) -> None:
    """Also from nothing: names, order and types of every table of the step."""
    inputs = {
        reads.table: spark.createDataFrame([], struct_type(CATALOG.table(reads.table).contract))
        for reads in version.reads
    }
    if any(reads.partial for reads in version.reads):
        inputs[PUBLISHED_DAYS] = spark.createDataFrame([], "table string, day date")
    outputs = computed(version, inputs)
    assert set(outputs) == {table.name for table in step.tables} and version.description.endswith(".")
    for table in step.tables:
        declared = [(field.name, field.dataType) for field in struct_type(table.contract).fields]
        assert [(field.name, field.dataType) for field in outputs[table.name].schema.fields] == declared
        assert outputs[table.name].isEmpty()
