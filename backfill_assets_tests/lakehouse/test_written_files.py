"""What a log records of written files comes from their footers, and never keeps a reader from a row that is there."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.errors import LakehouseUnusable, PublicationRefused
from backfill_assets.lakehouse.arrow_dataset import arrow_dataset
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import StagedAs, Timeline
from backfill_assets.lakehouse.written_files import statistics, written_files

DAY = date(2017, 3, 1)
FOLDER = "write-id=ab12"


def footer(columns: dict[str, pa.Array], rows_in_a_group: int = 1000) -> pq.FileMetaData:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink, row_group_size=rows_in_a_group)
    return pq.read_metadata(pa.BufferReader(sink.getvalue()))


def told(columns: dict[str, pa.Array], rows_in_a_group: int = 1000) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(statistics(footer(columns, rows_in_a_group)))
    return found


def write(root: Path, columns: dict[str, pa.Array], below: str = f"day={DAY}", **how: Any) -> Storage:
    target = root / "t" / "_timelines" / "one" / FOLDER / below / "part-0.snappy.parquet"
    target.parent.mkdir(parents=True)
    pq.write_table(pa.table(columns), target, **how)
    (target.parent / ".part-0.snappy.parquet.crc").write_bytes(b"crc")
    return Storage(str(root))


def test_ends_and_nulls_are_those_of_all_row_groups() -> None:
    found = told({"id": pa.array([3, None, 9, 1], pa.int64()), "name": pa.array(["b", "c", None, None])}, 2)
    assert found == {
        "numRecords": 4,
        "minValues": {"id": 1, "name": "b"},
        "maxValues": {"id": 9, "name": "c"},
        "nullCount": {"id": 1, "name": 2},
    }


def test_no_token_of_a_person_stands_in_the_ends() -> None:
    """Logs keep them for longer than the rows. The ends of all tokens hide no row."""
    tokens = [f"{number:064x}" for number in (7, 15 << 252)]
    found = told({"token": pa.array(tokens), "mixed": pa.array(["Anna", tokens[1]])})
    assert (found["minValues"], found["maxValues"]) == ({"token": "0", "mixed": "Anna"}, {"token": "g", "mixed": "g"})
    assert all("0" <= token <= "g" for token in tokens)


def test_a_row_group_without_ends_leaves_none_to_the_file() -> None:
    """Parquet has none of a long text: the ends of the other group alone would hide its row from a search."""
    columns = {"id": pa.array([1, 2, 3]), "line": pa.array(["aaa", "bbb", "z" * 5000])}
    assert told(columns, 2) == {"numRecords": 3}
    assert told({**columns, "line": pa.array(["aaa", "bbb", None])}, 2)["maxValues"] == {"id": 3, "line": "bbb"}


def test_days_are_recorded_and_moments_to_the_millisecond_around_them() -> None:
    """Delta's log has milliseconds; a greatest moment that is cut off would hide the row that has it."""
    moments = [datetime(2017, 3, 1, 10, 0, 0, 123_456, UTC), datetime(2017, 3, 1, 10, 0, 0, 999_100, UTC)]
    found = told({"at": pa.array(moments, pa.timestamp("us", "UTC")), "on": pa.array([date(2017, 3, 1)] * 2)})
    assert found["minValues"] == {"at": "2017-03-01T10:00:00.123Z", "on": "2017-03-01"}
    assert found["maxValues"] == {"at": "2017-03-01T10:00:01.000Z", "on": "2017-03-01"}


def at_micros(*micros: int) -> pa.Array:
    return pa.array(micros, pa.int64()).cast(pa.timestamp("us", "UTC"))


def test_a_year_of_few_digits_is_written_with_four() -> None:
    """``0001-01-01`` is what some sources send for no moment. Of a year of one digit, delta-rs finds no row at all."""
    moments = [datetime(1, 1, 1, tzinfo=UTC), datetime(999, 12, 31, 23, 59, 59, 1, UTC)]
    found = told({"at": pa.array(moments, pa.timestamp("us", "UTC"))})
    assert found["minValues"] == {"at": "0001-01-01T00:00:00.000Z"}
    assert found["maxValues"] == {"at": "0999-12-31T23:59:59.001Z"}


YEAR_0, END_OF_9999, LAST_DAY = -62_167_219_200_000_000, 253_402_300_799_999_999, 2_932_896


@pytest.mark.parametrize(
    "strange",
    [
        at_micros(YEAR_0, 0),
        at_micros(0, END_OF_9999),
        at_micros(0, END_OF_9999 + 1),
        at_micros(-(2**63), 2**63 - 1),
        pa.array([-719_528, 0], pa.int32()).cast(pa.date32()),
        pa.array([0, LAST_DAY + 1], pa.int32()).cast(pa.date32()),
        pa.array([-(2**31), 2**31 - 1], pa.int32()).cast(pa.date32()),
    ],
    ids=["year 0", "end of 9999", "year 10000", "any moment", "day of year 0", "day of year 10000", "any day"],
)
def test_a_moment_out_of_the_years_of_python_leaves_no_ends_to_the_file(strange: pa.Array) -> None:
    """Landed text may be such a moment: one row of it must not keep its day from being built."""
    assert told({"id": pa.array([1, 2]), "strange": strange}) == {"numRecords": 2}


def test_long_texts_are_cut_off_as_delta_does_it() -> None:
    found = told({"text": pa.array(["k" * 64, "y" * 64, "m"])})
    assert found["minValues"] == {"text": "k" * 32}
    assert found["maxValues"] == {"text": "y" * 32 + chr(0x10FFFF)}


def test_amounts_keep_all_their_digits_and_lists_are_not_recorded() -> None:
    amounts = pa.array([Decimal("1.25"), Decimal("-9999999999999999.99")], pa.decimal128(18, 2))
    text = statistics(footer({"amount": amounts, "flag": pa.array([True, False]), "reasons": pa.array([["x"], []])}))
    assert '"minValues":{"amount":-9999999999999999.99,"flag":false}' in text
    assert json.loads(text)["nullCount"] == {"amount": 0, "flag": 0}


@pytest.mark.parametrize(
    "strange", [pa.array([float("nan"), 1.0]), pa.array([b"bytes", None])], ids=["floats", "bytes"]
)
def test_values_are_recorded_of_all_columns_or_of_none(strange: pa.Array) -> None:
    """Delta-rs takes an end that is missing beside others for one that nothing lies within."""
    assert told({"id": pa.array([1, 2]), "strange": strange}) == {"numRecords": 2}


@given(
    st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), min_size=1),
    st.lists(st.one_of(st.none(), st.text(st.characters(codec="utf-8"), max_size=40)), min_size=1),
    st.integers(1, 3),
)
def test_every_value_lies_between_the_ends(numbers: list[int | None], texts: list[str | None], rows: int) -> None:
    for values, kind in ((numbers, pa.int64()), (texts, pa.string())):
        found = told({"v": pa.array(values, kind)}, rows)
        present = [value for value in values if value is not None]
        assert found["nullCount"]["v"] == len(values) - len(present)
        assert ("v" in found["minValues"]) == bool(present)
        for value in present:
            assert _bytes(found["minValues"]["v"]) <= _bytes(value) <= _bytes(found["maxValues"]["v"])


def test_a_text_that_goes_on_with_the_last_character_lies_between_the_ends() -> None:
    text = "a" * 32 + chr(0x10FFFF) * 2
    assert _bytes(told({"v": pa.array([text])})["maxValues"]["v"]) >= _bytes(text)


def _bytes(value: int | str) -> Any:
    """Texts are compared as Parquet and Delta compare them."""
    return value.encode() if isinstance(value, str) else value


MOMENT = datetime(2017, 3, 1, 10, 0, 0, 999_100, UTC)
COLUMNS: dict[str, tuple[str, pa.Array]] = {
    "at": ("timestamp", pa.array([MOMENT, MOMENT], pa.timestamp("us", "UTC"))),
    "since": ("timestamp", pa.array([datetime(1, 1, 1, tzinfo=UTC), MOMENT], pa.timestamp("us", "UTC"))),
    "token": ("string", pa.array(["a" * 64, "f" * 64])),
    "amount": ("decimal(18,2)", pa.array([Decimal("1.25"), Decimal("9999999999999999.99")], pa.decimal128(18, 2))),
    "flag": ("boolean", pa.array([True, False])),
    "note": ("string", pa.array([None, None], pa.string())),
}


@pytest.mark.parametrize("also", [{}, {"strange": ("double", pa.array([float("nan"), 1.0]))}], ids=["told", "untold"])
def test_readers_who_leave_files_out_find_every_row(tmp_path: Path, also: dict[str, tuple[str, pa.Array]]) -> None:
    """With delta-rs and Arrow, which prune by what the log says."""
    columns = COLUMNS | also
    storage = write(tmp_path, {name: values for name, (_, values) in columns.items()})
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (*((name, kind) for name, (kind, _) in columns.items()), ("day", "date"))
    ]
    timeline = Timeline(storage, "t", "one")
    files = written_files(storage, timeline.path, FOLDER)
    timeline.add(files, json.dumps({"type": "struct", "fields": fields}), {DAY: StagedAs(input_fingerprint="x")})
    rows = arrow_dataset(storage, timeline.path)
    for name, (_, values) in COLUMNS.items():
        for value in values:
            asked = ds.field(name) == value if value.is_valid else ds.field(name).is_null()
            assert rows.to_table(filter=asked).num_rows >= 1, name


def test_files_are_named_with_their_day_and_nothing_else_is_taken(tmp_path: Path) -> None:
    storage = write(tmp_path, {"id": pa.array([1, 2])})
    (file,) = written_files(storage, "t/_timelines/one", FOLDER)
    assert (file.path, file.day, file.rows) == (f"{FOLDER}/day={DAY}/part-0.snappy.parquet", str(DAY), 2)
    assert file.size == (tmp_path / "t/_timelines/one" / file.path).stat().st_size and file.modified_ms > 0
    assert written_files(storage, "t/_timelines/one", "write-id=cd34") == []


@pytest.mark.parametrize(
    "left", [f"_temporary/0/_temporary/attempt_1/day={DAY}", f".spark-staging-1/day={DAY}", f"day={DAY}/_left"]
)
def test_what_a_task_attempt_left_is_not_taken(tmp_path: Path, left: str) -> None:
    """Spark gave the attempt up: another one wrote the same rows, and their files are the ones that count."""
    storage = write(tmp_path, {"id": pa.array([1, 2])})
    write(tmp_path, {"id": pa.array([1, 2])}, left)
    (file,) = written_files(storage, "t/_timelines/one", FOLDER)
    assert file.path == f"{FOLDER}/day={DAY}/part-0.snappy.parquet"


@pytest.mark.parametrize("below", ["day=__HIVE_DEFAULT_PARTITION__", "store=1"])
def test_rows_without_a_day_are_refused(tmp_path: Path, below: str) -> None:
    storage = write(tmp_path, {"id": pa.array([1])}, below)
    with pytest.raises(PublicationRefused, match="a row without a day was computed"):
        written_files(storage, "t/_timelines/one", FOLDER)


def test_rows_of_a_day_that_is_none_are_refused_with_the_day(tmp_path: Path) -> None:
    """As where a producer gives a topic the time of a message in microseconds."""
    storage = write(tmp_path, {"id": pa.array([1])}, "day=+49137-10-07")
    with pytest.raises(PublicationRefused, match=r"a row of the day \+49137-10-07 was computed") as refused:
        written_files(storage, "t/_timelines/one", FOLDER)
    assert "milliseconds since 1970" in (refused.value.hint or "")


def test_moments_that_only_spark_reads_are_refused(tmp_path: Path) -> None:
    moment = pa.array([datetime(2017, 3, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    storage = write(tmp_path, {"at": moment}, use_deprecated_int96_timestamps=True)
    with pytest.raises(LakehouseUnusable, match=r"moments of at .*INT96") as refused:
        written_files(storage, "t/_timelines/one", FOLDER)
    assert "TIMESTAMP_MICROS" in (refused.value.hint or "")
