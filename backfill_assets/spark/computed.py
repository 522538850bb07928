from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from pyspark.sql.types import StructType

from backfill_assets.judge.engine import columns_of
from backfill_assets.model.checks import struct_type
from backfill_assets.model.declaration import Version
from backfill_assets.model.landed import quarantine_contract, raw_contract
from backfill_assets.model.refinement import Refinement
from backfill_assets.spark.partition_query import ROWS, PartitionQuery, by_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_JUDGED = "judged_rows"


class _Asked(NamedTuple):
    query: PartitionQuery
    schema: StructType


def computed(version: Version, inputs: Mapping[str, DataFrame]) -> Mapping[str, DataFrame]:
    """Only to look at: builds write in workers. A day's rows are in one partition."""
    transform = version.transform
    if not isinstance(transform, Refinement):
        return transform(inputs)
    days = inputs[transform.raw].repartition("day")
    return {name: by_query(days, asked.query, asked.schema) for name, asked in _queries(transform).items()}


@cache
def _queries(refinement: Refinement) -> Mapping[str, _Asked]:
    import ibis

    sql, source = partial(ibis.to_sql, dialect="duckdb"), refinement.source
    given = columns_of(raw_contract(source))
    judged = refinement.judged(ibis.table(ibis.Schema.from_pyarrow(given), name=ROWS))
    tables = refinement.tables(ibis.table(judged.schema(), name=_JUDGED))
    contracts = (refinement.contract, quarantine_contract(source, refinement.contract))
    found = {}
    for (name, rows), contract in zip(tables.items(), contracts, strict=True):
        # A partition's rows come once: what is judged of them is kept for both queries.
        asked = f"WITH {_JUDGED} AS MATERIALIZED ({sql(judged)}) SELECT * FROM ({sql(rows)})"  # noqa: S608 - our own
        schema, columns = struct_type(contract), columns_of(contract)
        gives = pa.schema([columns.field(each) for each in schema.names])
        found[name] = _Asked(PartitionQuery(asked, given, gives), schema)
    return found
