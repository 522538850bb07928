"""Identical lines of a source without a key are rows of their own, in any order and files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from backfill_assets.model.canonical import raw_content_hash
from backfill_assets.model.landed import raw_schema
from backfill_assets_tests.stories.toll_passages import FIRST, REFINEMENT, SECOND, SOURCE, passage
from backfill_assets_tests.strategies.by_the_query import accepted
from backfill_assets_tests.strategies.how_many import drawn

Line = tuple[date, str, int]
"""The day a line belongs to, its file and its number of axles; few of each, so that most lines are identical."""

landed = st.lists(
    st.tuples(st.sampled_from([FIRST, SECOND]), st.sampled_from(["a", "b"]), st.sampled_from([1, 2, 3])),
    min_size=1,
    max_size=9,
)


def raw(spark: SparkSession, rows: Sequence[dict[str, Any]]) -> DataFrame:
    names = raw_schema(SOURCE).names
    frame = spark.createDataFrame([tuple(row.get(name) for name in names) for row in rows], raw_schema(SOURCE))
    return frame.withColumn("content_hash", raw_content_hash(SOURCE))


def as_landed(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """One axle is unsound, and no row: it takes no number."""
    return [
        {
            **passage(0, day, axles),
            "record_kind": "received",
            "source_file": f"tolls/{SECOND}/{file}.jsonl.gz",
            "source_line": number,
            "arrival_day": SECOND,
            "day_is_arrival": False,
            "content_hash": 0,
            "day": day,
        }
        for number, (day, file, axles) in enumerate(lines, start=1)
    ]


def in_plain_python(rows: Sequence[dict[str, Any]]) -> set[tuple[Any, ...]]:
    found, counted = set(), dict[tuple[Any, ...], int]()
    for row in sorted(rows, key=lambda row: (row["source_file"], row["source_line"])):
        if int(row["axles"]) >= 2:
            line = (row["day"], int(row["axles"]))
            counted[line] = counted.get(line, 0) + 1
            found.add((*line, counted[line], row["source_file"], row["source_line"]))
    return found


@settings(max_examples=drawn(5), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), lines=landed)
def test_the_numbers_do_not_depend_on_the_order_of_arrival(
    spark: SparkSession, data: st.DataObject, lines: list[Line]
) -> None:
    """In any order and any cutting into tasks: the rows are those that plain Python numbers, and none is lost."""
    rows = as_landed(lines)
    shuffled = raw(spark, data.draw(st.permutations(rows))).repartition(3)
    bronze = accepted(shuffled, REFINEMENT).collect()
    found = {(row.day, row.axles, row.occurrence, row.source_file, row.source_line) for row in bronze}
    assert found == in_plain_python(rows)
    assert len(bronze) == sum(axles >= 2 for _, _, axles in lines)
    assert all(row.deduplicated_rows == 0 for row in bronze)


def test_a_late_file_moves_the_places_of_identical_lines_and_nothing_else(spark: SparkSession) -> None:
    """A file whose name comes first takes the first number: what it says of the day is what it would say at once."""
    early, late = as_landed([(FIRST, "b", 2), (FIRST, "b", 3)]), as_landed([(FIRST, "a", 4), (FIRST, "a", 2)])
    both = accepted(raw(spark, [*early, *late]), REFINEMENT).collect()
    assert {(row.axles, row.occurrence, row.source_file[-10], row.source_line) for row in both} == {
        (2, 1, "a", 2),
        (2, 2, "b", 1),
        (3, 1, "b", 2),
        (4, 1, "a", 1),
    }


def test_a_newer_version_replaces_the_line_of_its_number(spark: SparkSession) -> None:
    """Columns outside the key may be corrected: each of two identical lines by one of two newer ones."""
    older = as_landed(2 * [(FIRST, "a", 2)])
    newer = [{**row, "source_file": "tolls/b", "sent_at": f"{SECOND}T00:00:00Z"} for row in older]
    corrected = accepted(raw(spark, [*newer, *older]), REFINEMENT)
    found = corrected.select("occurrence", "source_file", "deduplicated_rows").orderBy("occurrence").collect()
    assert [tuple(row) for row in found] == [(1, "tolls/b", 1), (2, "tolls/b", 1)]
