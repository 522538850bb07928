"""The markers of keys that return, beside those that Spark finds in the same rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.rows import rows_of_files
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.landing.raw_rows import raw_schema
from backfill_assets.landing.supersessions import supersessions
from backfill_assets.model.declaration import Source
from backfill_assets.rebuild import returning_versions as module
from backfill_assets.rebuild.append import holds_markers
from backfill_assets.rebuild.returning_keys import KeyFiles, returning_keys
from backfill_assets.rebuild.returning_versions import markers_by_day, stage_markers
from backfill_assets_tests.strategies.how_many import drawn

SOURCE = Source(
    "till", "sold", ("till", "receipt"), "sent", ("till", "receipt", "sold", "sent"), supersession_window_days=3
)
DAYS = [date(2017, 3, day) for day in range(1, 7)]
VERSIONS: Mapping[str, Sequence[str]] = {
    "string": ["", "a", "B", "é"],
    "bigint": ["7", "07", "12", "-3", "later"],
    "decimal(6,2)": ["7", "7.50", "12.25", "-0.00", "7.501"],
    "date": ["2017-03-01", "2017-03-20", "0000-01-01", "2017-02-30"],
    "timestamp": ["2017-03-20T00:00:00Z", "2017-03-20T00:00:00.5Z", "0999-03-20T00:00:00.000001Z", "2017-03-20"],
}
KEYS: Mapping[str, Sequence[str | None]] = {
    "string": ["7", "07", "x", "", None],
    "bigint": ["7", "07", "+7", "8", "x", "", None],
    "decimal(9,2)": ["7", "7.0", "8", "x", None],
    "timestamp": ["2017-03-01T10:00:00Z", "2017-03-01T10:00:00.000Z", "2017-03-01T10:00:00.120Z", "2017-03-01"],
}
Row = Mapping[str, Any]


@st.composite
def raw_rows(draw: st.DrawFn, source: Source) -> Row:
    """Any of few rows, so that there are copies, deletions of them, markers, and deletions of these."""
    day, marks = draw(st.sampled_from(DAYS)), draw(st.booleans())
    deleted = draw(st.sampled_from([False, False, True]))
    return {
        "till": draw(st.sampled_from("abcdef")),
        "receipt": draw(st.sampled_from(KEYS[source.type_of("receipt")])),
        "sent": draw(st.sampled_from([*VERSIONS[source.type_of("sent")], None])),
        "record_kind": "deletion" if deleted else "supersession" if marks else "received",
        "source_file": None if marks else "till/2017-03-01/a.jsonl.gz",
        "day_is_arrival": draw(st.sampled_from([False] * 9 + [True])),
        "content_hash": draw(st.sampled_from([-1, 5])),
        "superseded_by_day": draw(st.sampled_from(DAYS)) if marks else None,
        "day": day,
    }


@st.composite
def tables(draw: st.DrawFn) -> tuple[Source, list[Row], list[Row]]:
    kinds = {"receipt": draw(st.sampled_from(sorted(KEYS))), "sent": draw(st.sampled_from(sorted(VERSIONS)))}
    source = replace(SOURCE, types={name: kind for name, kind in kinds.items() if kind != "string"})
    rows = st.lists(raw_rows(source), min_size=40, max_size=120)
    return source, draw(rows), draw(rows)


def written(root: Path, folder: str, source: Source, rows: list[Row]) -> KeyFiles:
    """``rows`` as files, one of each day that has some."""
    shape = to_arrow_schema(raw_schema(source).toNullable(), timezone="UTC")
    columns = shape.remove(shape.get_field_index("day"))
    by_day: dict[date, list[AddedFile]] = {}
    for day in DAYS:
        some = [dict(row) for row in rows if row["day"] == day]
        path = root / folder / f"day={day}" / "0.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(some, columns), path)
        by_day[day] = [AddedFile(f"day={day}/0.parquet", str(day), path.stat().st_size, 0, "{}")]
    return KeyFiles(folder, by_day)


def by_spark(spark: SparkSession, source: Source, arrived: list[Row], existing: list[Row]) -> Counter[tuple[Any, ...]]:
    schema = raw_schema(source)
    frames = [
        spark.createDataFrame([tuple(row.get(name) for name in schema.names) for row in rows], schema)
        for rows in (arrived, existing)
    ]
    return Counter(tuple(row) for row in supersessions(source, *frames).collect())


@settings(max_examples=drawn(5), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tables())
def test_the_markers_are_those_that_spark_finds(
    spark: SparkSession, found: tuple[Source, list[Row], list[Row]]
) -> None:
    """Copies, deletions, markers, other spellings and what cannot be read, in any mixture."""
    source, arrived, existing = found
    with TemporaryDirectory() as folder:
        storage = Storage(folder)
        new, there = (written(Path(folder), name, source, rows) for name, rows in (("new", arrived), ("raw", existing)))
        keys = returning_keys(storage, source, new, there)
        assert keys is not None
        markers = markers_by_day(storage, source, keys, new, there.of_days(keys.days))
    assert markers is not None
    names = raw_schema(source).names
    ours = Counter(
        tuple({**row, "day": day}.get(name) for name in names) for day, rows in markers.items() for row in rows
    )
    assert ours == by_spark(spark, source, arrived, existing)


@pytest.fixture
def few(tmp_path: Path) -> tuple[Storage, KeyFiles, KeyFiles]:
    """A version of each of two keys on the first day, and a newer one of both on the second."""

    def version(day: date, till: str, sent: str) -> Row:
        row = {"till": till, "receipt": "1", "sent": sent, "record_kind": "received", "source_file": "f"}
        return {**row, "day_is_arrival": False, "content_hash": 1, "superseded_by_day": None, "day": day}

    new, there = (
        written(tmp_path, name, SOURCE, [version(day, till, sent) for till in "ab"])
        for name, day, sent in (("new", DAYS[1], "2"), ("raw", DAYS[0], "1"))
    )
    return Storage(str(tmp_path)), new, there


def test_markers_are_files_of_a_timeline(spark: SparkSession, few: tuple[Storage, KeyFiles, KeyFiles]) -> None:
    """Beside the rows that arrived, of one shape with them, and known again as markers."""
    storage, new, there = few
    keys = returning_keys(storage, SOURCE, new, there)
    assert keys is not None
    markers = markers_by_day(storage, SOURCE, keys, new, there)
    assert markers is not None
    timeline = Timeline(storage, "raw", "a-run")
    files = stage_markers(SOURCE, timeline, markers)
    assert [(file.day, file.rows, holds_markers(timeline, file)) for file in files] == [(str(DAYS[0]), 2, True)]
    rows = rows_of_files(spark, timeline, files).select(*raw_schema(SOURCE).names).collect()
    assert {(row.till, row.sent, row.superseded_by_day, row.day) for row in rows} == {
        (till, "2", DAYS[1], DAYS[0]) for till in "ab"
    }
    assert stage_markers(SOURCE, timeline, {}) == [] and timeline.files() == files


@pytest.mark.parametrize(("limit", "most"), [("MOST_ROWS", 2), ("MOST_VERSIONS", 2)])
def test_more_than_python_looks_at_is_left_to_spark(
    few: tuple[Storage, KeyFiles, KeyFiles], monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    storage, new, there = few
    keys = returning_keys(storage, SOURCE, new, there)
    assert keys is not None
    monkeypatch.setattr(module, limit, most)
    assert markers_by_day(storage, SOURCE, keys, new, there) is not None
    monkeypatch.setattr(module, limit, most - 1)
    assert markers_by_day(storage, SOURCE, keys, new, there) is None


def test_a_moment_that_python_has_no_date_for_is_left_to_spark(tmp_path: Path) -> None:
    source = replace(SOURCE, types={"sent": "timestamp"})
    row = {"till": "a", "receipt": "1", "record_kind": "received", "source_file": "f", "day_is_arrival": False}
    files = [
        written(tmp_path, name, source, [{**row, "sent": sent, "content_hash": 1, "day": day}])
        for name, day, sent in (("new", DAYS[1], "0000-03-01T10:00:00Z"), ("raw", DAYS[0], "0000-02-01T10:00:00Z"))
    ]
    keys = returning_keys(Storage(str(tmp_path)), source, *files)
    assert keys is not None and len(keys.hashes) == 1
    assert markers_by_day(Storage(str(tmp_path)), source, keys, *files) is None


def test_a_row_without_a_hash_is_left_to_spark(few: tuple[Storage, KeyFiles, KeyFiles], tmp_path: Path) -> None:
    """No ingest writes one; a foreign writer can, and none is older or newer than it."""
    storage, _, there = few
    row = {"till": "a", "receipt": "1", "sent": "1", "record_kind": "received", "source_file": "f"}
    foreign = {**row, "day_is_arrival": False, "content_hash": None, "superseded_by_day": None, "day": DAYS[1]}
    new = written(tmp_path, "foreign", SOURCE, [foreign])
    keys = returning_keys(storage, SOURCE, new, there)
    assert keys is not None and len(keys.hashes) == 1
    assert markers_by_day(storage, SOURCE, keys, new, there) is None
