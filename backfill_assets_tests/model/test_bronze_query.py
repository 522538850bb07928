"""The declared query beside plain Python, row by row, over generated raw rows of sources of every kind."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from ibis import Schema
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill_assets.judge.engine import columns_of, engine, stored, streamed
from backfill_assets.landing.deletions import as_deletions
from backfill_assets.model import bronze_query
from backfill_assets.model.declaration import OCCURRENCE
from backfill_assets.model.landed import raw_contract
from backfill_assets_tests.strategies.any_source import CASES, raw_of
from backfill_assets_tests.strategies.by_the_query import require_as_by_python, standing_rows
from backfill_assets_tests.strategies.how_many import drawn


@pytest.mark.data
@pytest.mark.parametrize("case", CASES)
def test_the_query_gives_what_plain_python_gives(case: str) -> None:
    """Reasons, values, winners, what they won over, markers and numbers; of a whole day, and of parts of its keys."""
    refinement, texts = CASES[case]
    for seed in range(drawn(1)):
        found = require_as_by_python(raw_of(refinement, texts, seed), refinement)
        assert all(found.values()), seed


@pytest.mark.parametrize("case", ["sales", "rescued"])
def test_the_rows_that_stand_are_those_that_spark_leaves(spark: SparkSession, case: str) -> None:
    """Where rows came twice, were taken back once or twice, and arrived on other days."""
    refinement, texts = CASES[case]
    raw = spark.createDataFrame(raw_of(refinement, texts, seed=1, count=60)).cache()
    again = raw.sample(0.3, seed=2).withColumn("arrival_day", F.date_add("arrival_day", 1))
    gone = as_deletions(raw.sample(0.4, seed=3).union(again.sample(0.5, seed=4)))
    assert standing_rows(raw.union(again).union(gone), refinement.source).count()
    raw.unpersist()


_MANY, _AGAIN = 2_400_000, 60_000


def _passages(many: int, again: int) -> tuple[str, Schema]:
    """So many lines, and some of them again: a query, and the columns of its rows."""
    said = {
        "lane": f"(i % {many})::varchar",
        "toll": "'1'",
        "passed_at": "'2017-03-01T10:00:00Z'",
        "record_kind": "'received'",
        "source_file": "'a'",
        "source_line": "i",
        "arrival_day": "DATE '2017-03-01'",
        "day_is_arrival": "false",
        "content_hash": f"i % {many}",
        "day": "DATE '2017-03-01'",
    }
    columns = columns_of(raw_contract(CASES["numbered"][0].source))
    listed = ", ".join(f"{said.get(name, 'NULL')} AS {name}" for name in columns.names)
    asked = f"SELECT {listed} FROM range({many + again}) AS t(i)"  # noqa: S608 - written above
    return asked, Schema.from_pyarrow(columns)


@pytest.mark.data
def test_the_parts_of_a_day_that_numbers_its_lines_have_each_row_once() -> None:
    """Where the number is all of the key, one part has all rows."""
    numbered, _ = CASES["numbered"]
    asked, columns = _passages(300, 40)
    for key in (numbered.key, (OCCURRENCE,)):
        refinement, found = replace(numbered, key=key), Counter[tuple[int, int]]()
        with engine(threads=1) as connection:
            for part in range(3):
                raw = connection.sql(asked, schema=columns)
                known = stored(bronze_query.judged(raw, refinement, (part, 3)))
                rows = bronze_query.accepted(known, refinement).to_pyarrow().to_pylist()
                found.update((row["content_hash"], row["occurrence"]) for row in rows)
        places = Counter(occurrence for _, occurrence in found.elements())
        assert places == ({1: 1, 2: 1} if key == (OCCURRENCE,) else {1: 300, 2: 40})
        assert set(found.values()) == {1}


@pytest.mark.long
def test_a_large_day_with_many_lines_again_is_streamed_by_one_thread() -> None:
    """DuckDB would wait for itself if the rows of a window came after those of which many wait to be taken."""
    refinement, _ = CASES["numbered"]
    asked, columns = _passages(_MANY, _AGAIN)
    with engine(threads=1) as connection:
        known = stored(bronze_query.judged(connection.sql(asked, schema=columns), refinement))
        batches = streamed(bronze_query.accepted(known, refinement), 100_000)
        found = sum((Counter(batch["occurrence"].to_pylist()) for batch in batches), Counter())
    assert found == {1: _MANY, 2: _AGAIN}
