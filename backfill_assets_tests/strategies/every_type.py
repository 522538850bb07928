"""Rows of every type, with values at every edge of it, for what is computed by two implementations."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import types as T

from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.declaration import Source, Table
from backfill_assets.model.landed import raw_contract
from backfill_assets.model.rules import ArrivedWithin, ContentIntact

Values = Callable[[random.Random], Any]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TEXTS = (
    *("", "a", "abc", "abcd", "abcde", "1234567", "12345678", "123456789012", "x" * 31, "y" * 32, "z" * 33, "é" * 40),
    *("€", "𝄞𝄞", "USD", "US", "USD\n", "usd", "-", "UNKNOWN", "received", "w" * 257, "1\u2028", "a\r\n", " ", "\u0000"),
)


class EveryType(Contract):
    """A column of each type, and each check on the types that it can be asked of."""

    text: T.StringType = Field(nullable=True, str_length={"min_value": 1, "max_value": 40}, notin=["UNKNOWN", "-"])
    code: T.StringType = Field(nullable=True, str_matches="^[A-Z]{3}$")
    kind: T.StringType = Field(isin=["received", "a", "USD"], ge="a")
    flag: T.BooleanType = Field(nullable=True, eq=True)
    tiny: T.ByteType = Field(nullable=True, gt=-5)
    small: T.ShortType = Field(nullable=True, ne=7)
    whole: T.IntegerType = Field(nullable=True, in_range={"min_value": -1, "max_value": 10, "include_min": False})
    big: T.LongType = Field(nullable=True, le=2**62, isin=[0, 1, -1, 2**62, 2**63 - 1])
    single: T.FloatType = Field(nullable=True)
    double: T.DoubleType = Field(nullable=True, ge=0.5, lt=1e300)
    about: T.DoubleType = Field(nullable=True, digits=2)
    about_single: T.FloatType = Field(nullable=True, digits=0)
    few_digits: Annotated[T.DecimalType, 9, 2] = Field(nullable=True, lt=Decimal("12.345"), ne=Decimal("0.5"))
    money: Annotated[T.DecimalType, 18, 2] = Field(nullable=True, ge=0, le=10**9)
    rate: Annotated[T.DecimalType, 18, 6] = Field(gt=0)
    sums: Annotated[T.DecimalType, 28, 4] = Field(nullable=True, ge=-1, eq=Decimal("2.5"))
    hashes: Annotated[T.DecimalType, 38, 0] = Field(nullable=True, ge=0)
    finest: Annotated[T.DecimalType, 38, 18] = Field(nullable=True, lt=Decimal("0.1"))
    calendar_day: T.DateType = Field(nullable=True, ge=date(1969, 12, 31))
    moment: T.TimestampType = Field(nullable=True)
    reasons: T.ArrayType(T.StringType()) = Field(nullable=True)  # type: ignore[valid-type]
    numbers: T.ArrayType(T.LongType()) = Field(nullable=True)  # type: ignore[valid-type]
    day: T.DateType = Field()


class SoundMostly(Contract):
    """Some columns of :class:`EveryType`, asked for what many of their values fulfil."""

    text: T.StringType = Field(nullable=True, str_length={"min_value": 1}, notin=["UNKNOWN"])
    tiny: T.ByteType = Field(gt=-5)
    money: Annotated[T.DecimalType, 18, 2] = Field(nullable=True, ge=0, le=10**15)


SOURCE = Source(
    name="everything",
    event_day_field="calendar_day",
    key_fields=("text",),
    version_field="moment",
    fields=(
        *("text", "code", "big", "few_digits", "money", "rate", "calendar_day", "moment"),
        *("flag", "tiny", "small", "whole", "single", "double", "reasons", "numbers"),
    ),
    types={
        "reasons": "array<string>",
        "numbers": "array<bigint>",
        "flag": "boolean",
        "tiny": "tinyint",
        "small": "smallint",
        "whole": "int",
        "single": "float",
        "double": "double",
        "big": "bigint",
        "few_digits": "decimal(9,2)",
        "money": "decimal(18,2)",
        "rate": "decimal(18,6)",
        "calendar_day": "date",
        "moment": "timestamp",
    },
)
RAW = Table(
    name="raw_everything",
    layer="raw",
    description="Everything, as text.",
    contract=raw_contract(SOURCE),
    key=("source_file", "source_line"),
    rules=(ContentIntact(SOURCE, "text"), ArrivedWithin(days=7, at_most=Decimal(0))),
)
LANDED: Mapping[str, Sequence[str]] = {
    "bigint": (
        "0",
        "-0",
        "+7",
        "007",
        "12",
        "-12",
        "999999999999999999",
        "1234567890123456789",
        "1.0",
        "12\n",
        "x",
        "",
    ),
    "array<string>": (
        "[]",
        '["a","\\"b\\\\"]',
        '["a",null]',
        "[1,true]",
        "[ 1 ]",
        '["a]',
        '[["a"]]',
        '["\\u00e9\U0001f600"]',
        "x",
        "",
    ),
    "array<bigint>": (
        "[]",
        "[1,-2]",
        "[ 1,\t2 ]",
        '["1",null]',
        "[1.0]",
        "[1,]",
        "[12",
        "[null]",
        "[9223372036854775808]",
    ),
    "boolean": ("true", "false", "True", "t", "1", "", "false\n"),
    "tinyint": ("1", "-0", "127", "128", "-128", "007", "x"),
    "smallint": ("1", "+7", "32767", "32768", "-32768", "00001"),
    "int": ("1", "2147483647", "2147483648", "-2147483648", "1.0", "12\r\n"),
    "float": (
        *("0.1", "-0.0", "1e38", "1e39", "-1e39", "1e-45", "7e-46", "16777217", "NaN", "Infinity", "-Infinity", "nan"),
        *("1.00000005960464477540", "0.50", "5e-1"),
    ),
    "double": (
        *("0.1", "-0.0", "0", "1e308", "1e309", "-1e999", "5e-324", "2e-324", "NaN", "Infinity", "-Infinity", "1e5\n"),
        *("9007199254740993", "0.50", "5e-1", "1.", ".5", "1d", "0x1p3", ""),
    ),
    "decimal(9,2)": ("1.5", "1.50", "-0.00", "+0.1", "0001.20", "1234567.89", "12345678.9", "12", "1.500000", "1.505"),
    "decimal(18,2)": ("3.1", "-3.10", "+03.1000", "12,50", "1e2", "1.", ".5", "9999999999999999.99", "-0", "2.00\n"),
    "decimal(18,6)": ("1", "1.000000", "0.000001", "-0.000000", "200.5", "0.0000001", "123456789012.123456", "1.1\r\n"),
    "date": ("2017-03-01", "2017-02-30", "0000-01-01", "9999-12-31", "2017-3-1", "2016-02-29", "2017-03-01\n", "today"),
    "timestamp": (
        *("2017-03-01T11:20:00Z", "2017-03-01T11:20:00.5Z", "2017-03-01T11:20:00.000001Z", "0001-01-01T00:00:00Z"),
        *("1969-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z", "2017-03-01T25:20:00Z", "2017-02-30T00:00:00Z"),
        *("2017-03-01T24:00:00Z", "2016-12-31T23:59:60Z", "2017-03-01T11:20:00Z\n", "2017-03-01T11:20:00+01:00", ""),
        *("0000-02-29T00:00:00Z", "2017-03-01T11:20:00.1234567Z"),
    ),
    "string": TEXTS,
}


def every_type(seed: int, rows: int, rows_a_day: int = 1) -> pa.Table:
    """Typed rows, each on a day of its own: what is wrong with a value shows in the metrics of its day."""
    chance = random.Random(seed)
    columns = {name: [_or_null(values(chance), chance) for _ in range(rows)] for name, values in _VALUES.items()}
    for name in ("kind", "rate"):
        columns[name] = [_VALUES[name](chance) for _ in range(rows)]
    arrays = {name: pa.array(columns[name], kind) for name, kind in _TYPES.items()}
    return pa.table({**arrays, "day": _days(rows, rows_a_day)})


def every_landed_text(seed: int, rows: int) -> pa.Table:
    """Raw rows of :data:`SOURCE`, each on a day of its own."""
    chance = random.Random(seed)
    columns: dict[str, Any] = {}
    for name in SOURCE.columns:
        texts = LANDED[SOURCE.type_of(name)]
        columns[name] = pa.array([_or_null(chance.choice(texts), chance) for _ in range(rows)], pa.string())
    columns["unparsed_line"] = pa.array(
        [chance.choice([None, None, None, "[1]", ""]) for _ in range(rows)], pa.string()
    )
    columns["source_file"] = pa.array([chance.choice([None, "a.gz"]) for _ in range(rows)], pa.string())
    columns["day_is_arrival"] = pa.array([chance.choice([True, False]) for _ in range(rows)])
    columns["content_hash"] = pa.array([_VALUES["big"](chance) for _ in range(rows)])
    columns["record_kind"] = pa.array([chance.choice(["received", "supersession", "x"]) for _ in range(rows)])
    columns["source_line"] = pa.array([_or_null(chance.randrange(-1, 9), chance) for _ in range(rows)], pa.int64())
    columns["rescued"] = pa.nulls(rows, pa.string())
    for name in ("arrival_day", "superseded_by_day"):
        columns[name] = pa.array([_or_null(_calendar_day(chance), chance) for _ in range(rows)], pa.date32())
    return pa.table({**columns, "day": _days(rows)})


def write_days(rows: pa.Table, folder: Path) -> dict[date, Path]:
    """One Parquet file a day, in the folder of its day; days in their order."""
    written = {}
    for day in sorted(set(rows["day"].to_pylist())):
        file = folder / f"day={day}" / "rows.parquet"
        file.parent.mkdir(parents=True)
        pq.write_table(rows.filter(pa.compute.equal(rows["day"], day)).drop_columns(["day"]), file)
        written[day] = file
    return written


def _days(rows: int, rows_a_day: int = 1) -> pa.Array:
    return pa.array([date(1969, 6, 1) + timedelta(days=number // rows_a_day) for number in range(rows)])


def _or_null(value: Any, chance: random.Random) -> Any:
    return None if chance.random() < 0.15 else value


def _whole(bits: int) -> Values:
    ends = (0, 1, -1, 7, 10, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)))
    return lambda chance: chance.choice((*ends, chance.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1))))


def _decimal(precision: int, scale: int) -> Values:
    edges = (0, 1, -1, 127, 128, -128, -129, 255, 256, 2**31, 2**53, -(2**53) - 1, 10**scale, 5 * 10**scale // 2)
    ends = (10**precision - 1, 1 - 10**precision, *(each for each in edges if abs(each) < 10**precision))

    def value(chance: random.Random) -> Decimal:
        digits = chance.randrange(1, precision + 1)
        number = chance.choice((*ends, chance.randrange(-(10**digits) + 1, 10**digits)))
        return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))

    return value


def _double(chance: random.Random) -> float:
    return chance.choice(
        (0.0, -0.0, 0.5, 1.0, -1.5, float("nan"), float("inf"), -float("inf"), 5e-324, chance.random())
    )


def _single(chance: random.Random) -> float:
    return chance.choice((0.0, -0.0, 0.5, 1.5, -2.25, float("nan"), float("inf"), -float("inf"), 2.0**-149))


def _about(chance: random.Random) -> float:
    """Between two numbers of two digits behind the point, beside the border, and what has no such digits."""
    near = chance.randrange(-(10**13), 10**13) / 10 ** chance.choice((2, 3, 9))
    return chance.choice((0.125, -0.125, 1.005, 2.675, 0.3, 0.1 + 0.2, 1e13, 1e300, near, _double(chance)))


def _calendar_day(chance: random.Random) -> date:
    ends = (date.min, date.max, date(1969, 12, 31), date(1970, 1, 1), date(1582, 10, 10))
    return chance.choice((*ends, date.fromordinal(chance.randrange(1, date.max.toordinal()))))


def _moment(chance: random.Random) -> datetime:
    first, last = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH), (datetime(9999, 12, 31, 23, 59, 59, 999999, UTC) - _EPOCH)
    micros = [each // timedelta(microseconds=1) for each in (first, last)]
    return _EPOCH + timedelta(microseconds=chance.choice((*micros, 0, -1, 1, chance.randrange(*micros))))


def _text(chance: random.Random) -> str:
    drawn = "".join(chance.choice("abAB09 é€𝄞\n") for _ in range(chance.randrange(80)))
    return chance.choice((*TEXTS, drawn))


def _list_of(values: Values) -> Values:
    return lambda chance: [_or_null(values(chance), chance) for _ in range(chance.choice((0, 0, 1, 2, 5)))]


_VALUES: Mapping[str, Values] = {
    "text": _text,
    "code": _text,
    "kind": _text,
    "flag": lambda chance: chance.choice((True, False)),
    "tiny": _whole(8),
    "small": _whole(16),
    "whole": _whole(32),
    "big": _whole(64),
    "single": _single,
    "double": _double,
    "about": _about,
    "about_single": _single,
    "few_digits": _decimal(9, 2),
    "money": _decimal(18, 2),
    "rate": _decimal(18, 6),
    "sums": _decimal(28, 4),
    "hashes": _decimal(38, 0),
    "finest": _decimal(38, 18),
    "calendar_day": _calendar_day,
    "moment": _moment,
    "reasons": _list_of(_text),
    "numbers": _list_of(_whole(64)),
}
_TYPES: Mapping[str, pa.DataType] = {
    **dict.fromkeys(("text", "code", "kind"), pa.string()),
    "flag": pa.bool_(),
    "tiny": pa.int8(),
    "small": pa.int16(),
    "whole": pa.int32(),
    "big": pa.int64(),
    "single": pa.float32(),
    "double": pa.float64(),
    "about": pa.float64(),
    "about_single": pa.float32(),
    "few_digits": pa.decimal128(9, 2),
    "money": pa.decimal128(18, 2),
    "rate": pa.decimal128(18, 6),
    "sums": pa.decimal128(28, 4),
    "hashes": pa.decimal128(38, 0),
    "finest": pa.decimal128(38, 18),
    "calendar_day": pa.date32(),
    "moment": pa.timestamp("us", "UTC"),
    "reasons": pa.list_(pa.string()),
    "numbers": pa.list_(pa.int64()),
}
