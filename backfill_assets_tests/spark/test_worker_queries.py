"""The hash of what a line holds is computed once as the line is read, and is the one that is measured afterwards."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.examples.datasets.sales import SALES
from backfill_assets.judge.engine import database
from backfill_assets.landing.line_reader import LINES
from backfill_assets.landing.raw_query import raw_rows, register, register_tokens
from backfill_assets.model.measure import hashes_written_of
from backfill_assets.spark.worker_queries import sql_of, with_hashes, with_hashes_of_read
from backfill_assets_tests.strategies.landed_sales import land_key, sale

TABLE = CATALOG.table("raw_sales")
WRITTEN: list[dict[str, Any]] = [
    {},
    {"sales_value": "1.590", "quantity": "+7"},
    {"transaction_timestamp": "2017-03-01T10:00:00+01:00"},
    {"updated_at": "2017-03-01T10:00:00.123456789Z"},
    {"sales_value": "EUR 1.59", "quantity": None},
    {"loyalty_tier": "gold"},
]


@pytest.mark.parametrize("rescued", [(), ("updated_at",)])
def test_rows_that_are_read_have_the_hashes_that_are_measured(tmp_path: Path, rescued: tuple[str, ...]) -> None:
    import ibis

    source = replace(SALES.source, rescued_fields=rescued)
    lines = [*(json.dumps(sale(**changes)) for changes in WRITTEN), "not json", "{}"]
    day = date(2017, 3, 2)
    given = pa.table(
        [lines, ["sales/2017-03-02/a.jsonl.gz"] * len(lines), list(range(1, len(lines) + 1)), [day] * len(lines)],
        schema=LINES,
    )
    rows = raw_rows(ibis.table(ibis.Schema.from_pyarrow(LINES), name="lines"), source)
    with database(threads=1) as connection:
        register(connection)
        register_tokens(connection, Path(land_key(tmp_path, "0123456789abcdef0123456789abcdef")))
        connection.register("lines", given)
        read, measured = (
            connection.execute(f"FROM ({sql_of(hashed(rows, TABLE))}) ORDER BY source_line").to_arrow_table()
            for hashed in (with_hashes_of_read, with_hashes)
        )
    names = [each.name for each in hashes_written_of(TABLE)]
    assert len(names) == 2
    assert read.select(names).to_pylist() == measured.select(names).to_pylist()
    assert len({row[names[1]] for row in read.to_pylist()}) == len(lines) - 1  # an amount is what it amounts to
