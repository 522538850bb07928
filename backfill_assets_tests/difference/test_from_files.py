"""What is compared from files is what Spark compares: the same rows, of every type that has a rendering."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import pyarrow as pa
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from backfill_assets.difference import examples
from backfill_assets.difference import rows as by_spark
from backfill_assets.difference.day_rows import DayFiles, arrow_types
from backfill_assets.difference.from_files import (
    MOST_BYTES_OF_A_DAY,
    TOGETHER,
    can_compare,
    columns_beside,
    compare_days,
)
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.contract_columns import struct_type
from backfill_assets.model.declaration import Table
from backfill_assets.quality.arrow_hashes import NotRendered
from backfill_assets_tests.quality.kernels_in_use import WAYS, hashed_by
from backfill_assets_tests.strategies.every_type import TEXTS, write_days
from backfill_assets_tests.strategies.how_many import drawn

pytestmark = pytest.mark.protocol
FIRST = date(2017, 3, 1)
DAYS = [FIRST + timedelta(days=number) for number in range(3)]
SETTINGS = settings(max_examples=drawn(2), phases=[Phase.explicit, Phase.reuse, Phase.generate])
"""One seed gives all rows: a smaller one would be other rows, and each attempt a query."""


class Sold(Contract):
    """A column of each type that has a text and, where it has one, an exact sum."""

    id: T.LongType = Field()
    shop: T.StringType = Field(nullable=True)
    flag: T.BooleanType = Field(nullable=True)
    small: T.ShortType = Field(nullable=True)
    bought: T.DateType = Field(nullable=True)
    level: Annotated[T.DecimalType, 5, 2] = Field(nullable=True)
    amount: Annotated[T.DecimalType, 18, 2] = Field(nullable=True)
    pieces: T.LongType = Field(nullable=True)
    rate: Annotated[T.DecimalType, 18, 8] = Field(nullable=True)
    large: Annotated[T.DecimalType, 38, 10] = Field(nullable=True)
    moment: T.TimestampType = Field(nullable=True)
    reasons: T.ArrayType(T.StringType()) = Field(nullable=True)  # type: ignore[valid-type]
    branch: T.StringType = Field(nullable=True)
    day: T.DateType = Field()


TABLE = Table(
    "sold",
    "fact",
    "",
    Sold,
    key=("id",),
    totals=("amount", "pieces", "rate"),
    groups=("shop", "flag", "small", "bought", "level"),
)
BY_TWO = replace(TABLE, key=("shop", "id", "day"), totals=("pieces",))
WITHOUT_KEY = replace(TABLE, key=())
BY_NULLS = replace(TABLE, key=("shop", "branch", "day"), totals=(), groups=())
BARE = replace(TABLE, totals=(), groups=())
_VALUES: Mapping[str, Callable[[random.Random], Any]] = {
    "shop": lambda chance: chance.choice(("", "a", "B", "é", "𝄞𝄞", "w" * 40)),
    "flag": lambda chance: chance.choice((True, False)),
    "small": lambda chance: chance.choice((0, -1, 32767, -32768)),
    "bought": lambda chance: chance.choice((date(1, 1, 1), date(9999, 12, 31), FIRST)),
    "level": lambda chance: Decimal(chance.choice(("0.00", "-0.01", "999.99", "1.50"))),
    "amount": lambda chance: Decimal(chance.choice(("0.00", "-0.01", "9999999999999999.99", "1.50", "2.75", "3.10"))),
    "pieces": lambda chance: chance.choice((0, 1, -1, 2**53 + 1, -(2**60), 7)),
    "rate": lambda chance: Decimal(chance.choice(("0E-8", "1E-8", "9999999999.99999999", "1.10000000"))),
    "large": lambda chance: Decimal(chance.choice(("0E-10", "1E-10", "-9999999999999999999999999999.9999999999"))),
    "moment": lambda chance: (
        datetime(1, 1, 1, tzinfo=UTC) + timedelta(microseconds=chance.choice((0, 1, 500_000, 10**15)))
    ),
    "branch": lambda chance: chance.choice(("", "a")),
    "reasons": lambda chance: [_or_null(chance.choice(TEXTS), chance) for _ in range(chance.choice((0, 1, 3)))],
}
_NAMES = tuple(Sold.fields())


def _or_null(value: Any, chance: random.Random) -> Any:
    return None if chance.random() < 0.2 else value


def _row(number: int, chance: random.Random) -> dict[str, Any]:
    values = {name: _or_null(value(chance), chance) for name, value in _VALUES.items()}
    return {"id": number, **values, "day": chance.choice(DAYS)}


def _changed(row: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    name = chance.choice((*_VALUES, "day", "day"))
    return {**row, name: chance.choice(DAYS) if name == "day" else _or_null(_VALUES[name](chance), chance)}


def _two_sides(seed: int, rows: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Some rows only on one side, some with another value, and some as they were."""
    chance = random.Random(seed)
    before = [_row(number, chance) for number in range(rows)]
    after = [_changed(row, chance) if chance.random() < 0.4 else row for row in before if chance.random() < 0.85] + [
        _row(rows + number, chance) for number in range(rows // 8)
    ]
    chance.shuffle(after)
    return before, after


class _Side:
    """The files of one side, and its rows as Spark reads them."""

    def __init__(self, folder: Path, rows: Sequence[Mapping[str, Any]], lacks: Sequence[str] = ()) -> None:
        kinds = {**arrow_types(Sold), "day": pa.date32()}
        folder.mkdir()
        table = pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()})
        written = write_days(table.drop_columns(list(lacks)), folder)
        self.folder = str(folder)
        self.files: DayFiles = {
            day: [AddedFile(f"{folder.name}/{path.relative_to(folder)}", str(day), path.stat().st_size, 0, "{}")]
            for day, path in written.items()
        }

    def rows(self, spark: SparkSession) -> DataFrame:
        schema = struct_type(Sold)
        if not self.files:
            return spark.createDataFrame([], schema)
        return spark.read.schema(schema).option("basePath", self.folder).parquet(self.folder).select(*_NAMES)


def _comparable(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str | None], dict[str, Any]]:
    """``repeats`` is for Spark alone: files in which a key is there twice are left to it."""
    return {
        (row["kind"], row["value"]): {name: value for name, value in row.items() if name != "repeats"} for row in rows
    }


def _require_equal(spark: SparkSession, root: Path, table: Table, before: _Side, after: _Side, most: int) -> None:
    storage, sides = Storage(str(root)), (before.rows(spark), after.rows(spark))
    wanted = [row.asDict() for row in by_spark.compare_rows(table, *sides, most).collect()]
    for way in WAYS:
        with hashed_by(way):
            found = compare_days(storage, table, DAYS, before.files, after.files, most)
            assert _comparable([row for row in found if row["kind"] != "day"]) == _comparable(
                [row for row in wanted if row["kind"] != "day"]
            )
            assert _of_days(found) == _of_days(wanted)
    if table.key:
        for withheld in ((), ("shop", "reasons")):
            shown = by_spark.changed_rows(table, *sides, withheld, most).collect()
            assert examples.changed_rows(storage, table, DAYS, before.files, after.files, withheld, most) == [
                row.asDict(recursive=True) for row in shown
            ]


def _of_days(rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """Without the place, which says nothing of a day; a day without rows is one of which nothing is said."""
    numbers = ("added", "removed", "changed", "unchanged")
    found = {
        row["value"]: tuple(
            value for name, value in sorted(row.items()) if name in numbers or "fore_" in name or "ter_" in name
        )
        for row in rows
        if row["kind"] == "day"
    }
    return {day: values for day, values in found.items() if any(values)}


@pytest.mark.parametrize("table", [TABLE, BY_TWO, WITHOUT_KEY, BARE], ids=["key", "two", "none", "bare"])
@given(seed=st.integers(0, 2**32), rows=st.sampled_from([1, 20, 300]))
@example(seed=1133, rows=20)
@SETTINGS
def test_files_are_compared_as_spark_compares_rows(spark: SparkSession, table: Table, seed: int, rows: int) -> None:
    """Rows that change, move to another day or group, come and go, with nulls and edges of types."""
    with TemporaryDirectory() as folder:
        before, after = _two_sides(seed, rows)
        if not table.key:
            before, after = [*before, *before[:5]], [*after, *before[:2]]
        sides = (_Side(Path(folder) / "before", before), _Side(Path(folder) / "after", after))
        _require_equal(spark, Path(folder), table, *sides, most=8)


def test_a_column_that_files_lack_is_null(spark: SparkSession, tmp_path: Path) -> None:
    """A version that adds a column changes every row that has a value in it."""
    rows, _ = _two_sides(1, 40)
    sides = (_Side(tmp_path / "before", rows, lacks=["shop", "rate"]), _Side(tmp_path / "after", rows))
    _require_equal(spark, tmp_path, TABLE, *sides, most=50)


def test_a_list_that_gains_a_null_changes_its_row(spark: SparkSession, tmp_path: Path) -> None:
    """XXH64 passes over nulls, and all that differs is one."""
    (row,), _ = _two_sides(2, 1)
    before, after = (
        _Side(tmp_path / name, [{**row, "reasons": reasons}]) for name, reasons in (("before", []), ("after", [None]))
    )
    _require_equal(spark, tmp_path, TABLE, before, after, most=5)
    (found,) = compare_days(Storage(str(tmp_path)), BARE, [row["day"]], before.files, after.files, 5)
    assert (found["changed"], found["unchanged"]) == (1, 0)


def test_keys_that_differ_in_what_is_null_are_different(spark: SparkSession, tmp_path: Path) -> None:
    """A row of shop "a" is none of branch "a", although their values have one hash."""
    (row,), _ = _two_sides(2, 1)
    before = [{**row, "shop": "a", "branch": None}, {**row, "shop": None, "branch": "a"}]
    after = [before[0], {**before[1], "pieces": 99}]
    old, new = _Side(tmp_path / "before", before), _Side(tmp_path / "after", after)
    _require_equal(spark, tmp_path, BY_NULLS, old, new, most=5)
    (found,) = compare_days(Storage(str(tmp_path)), BY_NULLS, [row["day"]], old.files, new.files, 5)
    assert (found["changed"], found["unchanged"], found["added"], found["removed"]) == (1, 1, 0, 0)


def test_a_side_without_rows_is_compared(spark: SparkSession, tmp_path: Path) -> None:
    """A table that was never published, and days that are withdrawn."""
    rows, _ = _two_sides(2, 40)
    empty, full = _Side(tmp_path / "before", []), _Side(tmp_path / "after", rows)
    _require_equal(spark, tmp_path, TABLE, empty, full, most=5)
    _require_equal(spark, tmp_path, TABLE, full, empty, most=5)


def test_a_key_that_is_there_twice_is_left_to_spark(tmp_path: Path) -> None:
    """Only a foreign write brings one; which of its rows changed is for sets to say."""
    rows, _ = _two_sides(3, 5)
    twice = _Side(tmp_path / "before", [*rows, rows[0]])
    with pytest.raises(NotRendered, match="twice"):
        compare_days(Storage(str(tmp_path)), TABLE, DAYS, twice.files, {}, 5)


def test_what_has_no_exact_sum_or_text_is_left_to_spark(tmp_path: Path) -> None:
    """38 digits leave no room for a sum; a moment as a group is written in other ways."""
    side = _Side(tmp_path / "before", _two_sides(4, 5)[0])
    for table in (replace(TABLE, totals=("large",)), replace(TABLE, groups=("moment",))):
        with pytest.raises(NotRendered):
            compare_days(Storage(str(tmp_path)), table, DAYS, side.files, side.files, 5)


def test_a_day_of_very_many_rows_is_left_to_spark(tmp_path: Path) -> None:
    """Both sides of a day count together, and all days of a bucket, which are read through the network."""

    def files(*sizes: int) -> DayFiles:
        return {day: [AddedFile("f", str(day), size, 0, "{}")] for day, size in zip(DAYS, sizes, strict=False)}

    half, folder = MOST_BYTES_OF_A_DAY // 2, Storage(str(tmp_path))
    assert can_compare(folder, files(half, half), files(half, half))
    assert not can_compare(folder, files(half), files(half + 1))
    bucket = Storage("s3://sales", {"AWS_REGION": "eu-west-1"})
    assert can_compare(bucket, files(half), files(half))
    assert not can_compare(bucket, files(half, 1), files(half))


def _beside(root: Path, before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    root.mkdir()
    sides = [_Side(root / name, rows).files.get(FIRST, ()) for name, rows in (("before", before), ("after", after))]
    return columns_beside(Storage(str(root)), TABLE, FIRST, sides, "level")


def test_the_columns_that_differ_beside_one_are_named(tmp_path: Path) -> None:
    """In any order of rows. Where rows come or go every other column differs; values can change places in a column."""
    rows = [{**row, "day": FIRST, "pieces": number} for number, row in enumerate(_two_sides(3, 30)[0])]
    leveled = [{**row, "level": Decimal("7.25")} for row in reversed(rows)]
    assert _beside(tmp_path / "only", rows, leveled) == ()
    assert _beside(tmp_path / "rate", rows, [{**row, "rate": Decimal("7.25000000")} for row in leveled]) == ("rate",)
    assert set(_beside(tmp_path / "more", rows, leveled[1:])) == {*arrow_types(Sold)} - {"level"}
    swapped = [{**row, "pieces": rows[at - 1]["pieces"]} for at, row in enumerate(rows)]
    assert _beside(tmp_path / "swapped", rows, swapped) == (TOGETHER,)
    assert _beside(tmp_path / "none", [], rows) == tuple(name for name in arrow_types(Sold) if name != "level")
