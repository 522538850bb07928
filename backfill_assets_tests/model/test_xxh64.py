"""DuckDB computes the hashes of rows that Spark has written: of bytes, texts, nulls and every type of a contract."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from backfill_assets.errors import InvalidRequest, LakehouseUnusable
from backfill_assets.judge.engine import database, engine
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.landed import raw_contract
from backfill_assets.model.landed_values import content_hash_as_before, raw_content_hash
from backfill_assets.model.measure import ContentHash, RowHash, WrittenHash
from backfill_assets.model.xxh64 import hashes_of_values
from backfill_assets_tests.strategies.every_type import SOURCE, EveryType, SoundMostly, every_landed_text, every_type
from backfill_assets_tests.strategies.how_many import drawn
from backfill_assets_tests.strategies.xxh64 import chained_bytes

Row = Sequence[bytes | None]
SIZES = [0, 1, 3, 4, 7, 8, 9, 31, 32, 33, 63, 64, 100, 200]
NAMES = ["a", "number=", "a name of more than thirty-two bytes", "sieben\u00fc", 'with "quotes"']


_chained = cache(chained_bytes)


@pytest.fixture(scope="module")
def duckdb() -> Iterator[Any]:
    with database(1) as connection:
        yield connection


def require_hashes(duckdb: Any, rows: Sequence[Row], names: Sequence[str] = ("a", "b", "c")) -> None:
    """As the specification says of values, and of values with a name in front."""
    columns = {name: pa.array([row[place] for row in rows], pa.binary()) for place, name in enumerate(names)}
    quoted = ['"{}"'.format(name.replace('"', '""')) for name in names]
    duckdb.register("rows", pa.table(columns))
    of_values = f"spark_xxhash64({', '.join(quoted)})"
    of_named = f"spark_xxhash64_of_named(struct_pack({', '.join(f'{each} := {each}' for each in quoted)}))"
    found = duckdb.execute(f"SELECT {of_values}, {of_named} FROM rows").fetchall()  # noqa: S608 - names of ours
    with_names = (
        tuple(None if each is None else f"{name}=".encode() + each for name, each in zip(names, row, strict=True))
        for row in rows
    )
    expected = [(_chained(tuple(row)), _chained(named)) for row, named in zip(rows, with_names, strict=True)]
    assert found == expected


@pytest.mark.data
@pytest.mark.parametrize("most", SIZES)
def test_values_of_any_length_have_the_hash_of_the_specification(duckdb: Any, most: int) -> None:
    """More rows than DuckDB gives at once; of one length, of any up to it, and with nulls among them."""
    chance = random.Random(most)

    def values(nulls: float, least: int) -> list[Row]:
        sizes = [[chance.randint(least, most) for _ in range(3)] for _ in range(300)]
        return [[None if chance.random() < nulls else chance.randbytes(size) for size in row] for row in sizes]

    rows = [*values(0, most), *values(0, 0)] * 2
    require_hashes(duckdb, [*rows, *values(0.5, 0), *rows, *values(0.5, most), *rows])


@pytest.mark.data
@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_any_length_is_in_front(duckdb: Any, name: str) -> None:
    chance = random.Random(name)
    for size in SIZES:
        require_hashes(duckdb, [[chance.randbytes(size)] for _ in range(3)], [name])
    require_hashes(duckdb, [[chance.randbytes(chance.choice(SIZES))] for _ in range(100)], [name])
    require_hashes(
        duckdb, [[each] for each in (None, b"", b"\x00", "\u00fc\U0001f600".encode(), b"x" * 100_000)], [name]
    )


@pytest.mark.data
def test_rows_without_a_value_have_the_seed(duckdb: Any) -> None:
    require_hashes(duckdb, [[None, None, None]] * 3)
    require_hashes(duckdb, [[None, b"", None]] * 3)


@pytest.mark.data
@pytest.mark.parametrize("valid", [[1, 0, 1, 1], [1, 1, 0, 1], [0, 1, 1, 1], [1, 1, 1, 0], [0, 1, 0, 1]])
def test_what_a_null_hides_is_in_no_hash(valid: list[int]) -> None:
    """Arrow allows any bytes behind a null; values may begin within the arrays of others."""
    texts, numbers = ["abc", "defdef", "ghi", "jkl"], [7, -1, 0, 5]
    values = [b"".join(text.encode() for text in texts), struct.pack("<4q", *numbers)]
    offsets = struct.pack("<5i", *accumulate(map(len, texts), initial=0))
    bits = pa.py_buffer(bytes([sum(bit << at for at, bit in enumerate(valid))]))
    of_texts = pa.Array.from_buffers(pa.string(), 4, [bits, pa.py_buffer(offsets), pa.py_buffer(values[0])])
    of_numbers = pa.Array.from_buffers(pa.int64(), 4, [bits, pa.py_buffer(values[1])])
    of_flags = pa.Array.from_buffers(pa.bool_(), 4, [bits, pa.py_buffer(bytes([0b1010]))])
    for hidden in (of_texts, of_numbers, of_flags):
        for part in (hidden, hidden[1:], hidden[1:3]):
            shown = pa.array(part.to_pylist(), part.type)
            assert hashes_of_values(pa.chunked_array([part])) == hashes_of_values(pa.chunked_array([shown]))


@pytest.mark.data
def test_what_has_no_hash_is_refused_in_words() -> None:
    with pytest.raises(LakehouseUnusable, match="takes no values of the type"), database(1) as connection:
        connection.execute("SELECT spark_xxhash64(MAP {'a': 1})").fetchall()


# ------------------------------------------------------------------ values of each type


TYPED, EARLIER = 400, replace(SOURCE, rescued_fields=("rate", "moment"))
"""How many rows; and the source, two of whose fields were declared later than the others."""


def by_spark(spark: SparkSession, rows: pa.Table, hashes: Iterable[WrittenHash], folder: Path) -> list[list[int]]:
    """Of each row each of ``hashes``, as Spark writes them."""
    pq.write_table(rows.append_column("n", pa.array(range(len(rows)))), folder / "rows.parquet")
    read = spark.read.parquet(str(folder / "rows.parquet"))
    columns = [each.column().alias(each.name) for each in hashes]
    return [list(row) for row in read.orderBy("n").select(*columns).collect()]


def by_duckdb(rows: pa.Table, hashes: Iterable[WrittenHash]) -> list[list[int]]:
    import ibis

    table = ibis.memtable(rows.append_column("n", pa.array(range(len(rows)))))
    with engine(1) as connection:
        found = table.select("n", **{each.name: each.value(table) for each in hashes}).order_by("n").drop("n")
        return [list(row.values()) for row in connection.to_pyarrow(found).to_pylist()]


@pytest.mark.spark
@pytest.mark.parametrize("seed", range(drawn(1)))
def test_typed_rows_have_the_hashes_that_spark_writes(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    hashes = [RowHash(EveryType), RowHash(SoundMostly), ContentHash(SOURCE, "values")]
    rows = every_type(seed, TYPED)
    assert by_duckdb(rows, hashes) == by_spark(spark, rows, hashes, tmp_path)


@pytest.mark.spark
@pytest.mark.parametrize("seed", range(drawn(1)))
def test_landed_rows_have_the_hashes_that_spark_writes(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """Also those that carry a hash of fewer fields, or of when moments were read in one form."""
    rows = every_landed_text(seed, TYPED)
    hashes = [RowHash(raw_contract(SOURCE)), ContentHash(SOURCE, "text"), ContentHash(EARLIER, "text")]
    rows = rows.set_column(rows.column_names.index("content_hash"), "content_hash", [carried_by(rows)])
    assert by_duckdb(rows, hashes) == by_spark(spark, rows, hashes, tmp_path)


def carried_by(rows: pa.Table) -> pa.Array:
    """By turns a hash of each form that a row may have been landed with, and another one."""
    import ibis

    first, second, _ = (each.source for each in ContentHash(EARLIER, "text").by_fields_known())
    table = ibis.memtable(rows)
    forms = [
        content_hash_as_before(first, table),
        content_hash_as_before(second, table),
        raw_content_hash(second, table),
    ]
    number = ibis.row_number() % (len(forms) + 1)
    chosen = ibis.cases(*((number == turn, form) for turn, form in enumerate(forms)), else_=table.content_hash)
    with engine(1) as connection:
        return connection.to_pyarrow(table.select(content_hash=chosen)).column("content_hash").combine_chunks()


class Nested(Contract):
    """A list of lists, which Spark hashes as JSON, too."""

    lists: T.ArrayType(T.ArrayType(T.StringType())) = Field(nullable=True)  # type: ignore[valid-type]
    day: T.DateType = Field()


@pytest.mark.data
def test_what_is_nested_deeper_is_refused_by_its_name() -> None:
    import ibis

    with pytest.raises(InvalidRequest, match="nested in lists"):
        RowHash(Nested).value(ibis.table({"lists": "array<array<string>>", "day": "date"}))
