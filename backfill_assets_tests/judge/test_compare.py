"""Two sides of a table are compared as plain Python compares them: rows of every type, with values at every edge."""

from __future__ import annotations

import hashlib
import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import pyarrow as pa
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import types as T

from backfill_assets.difference.difference import EXACT
from backfill_assets.judge.compare import SIDES, TOGETHER, Lines, changed_rows, columns_beside, compare_rows, value_text
from backfill_assets.judge.engine import DAY, declared_types, engine, rows_of_files
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.declaration import Table
from backfill_assets.model.measure import RowHash
from backfill_assets_tests.strategies.every_type import EveryType, every_type, write_days
from backfill_assets_tests.strategies.how_many import drawn

pytestmark = pytest.mark.data
SETTINGS = settings(max_examples=drawn(1), phases=[Phase.explicit, Phase.reuse, Phase.generate], deadline=None)
"""One seed gives all rows: a smaller one would be other rows."""
Row = dict[str, Any]
NOON = datetime(2017, 3, 1, 12)  # noqa: DTZ001 - a moment without a zone


class Compared(EveryType):
    """And what has parts, bytes, and moments without a zone."""

    id: T.LongType = Field()
    part: T.StringType = Field(nullable=True)
    blob: T.BinaryType = Field(nullable=True)
    local: T.TimestampNTZType = Field(nullable=True)
    pair: T.StructType([T.StructField("a", T.StringType()), T.StructField("b", T.DoubleType())]) = Field(nullable=True)  # type: ignore[valid-type]
    nested: T.ArrayType(T.ArrayType(T.StringType())) = Field(nullable=True)  # type: ignore[valid-type]
    shares: T.MapType(T.StringType(), T.DoubleType()) = Field(nullable=True)  # type: ignore[valid-type]
    by_shop: T.ArrayType(T.MapType(T.LongType(), T.MapType(T.StringType(), T.LongType()))) = Field(nullable=True)  # type: ignore[valid-type]


_TYPES = {**declared_types(Compared), DAY: pa.date32()}
_NAMES = tuple(Compared.fields())
TABLE = Table(
    "compared",
    "fact",
    "",
    Compared,
    key=("id",),
    totals=("money", "big", "rate", "few_digits"),
    groups=("text", "flag", "tiny", "few_digits", "calendar_day", "moment", "double"),
)
BY_TWO = replace(TABLE, key=("part", "id", DAY), totals=("few_digits",), groups=("part",))
BY_NULLS = replace(TABLE, key=("part", "text"), totals=(), groups=())
WITHOUT_KEY = replace(TABLE, key=())
BARE = replace(TABLE, totals=(), groups=())


@contextmanager
def _sides(
    table: Table, *sides: Sequence[Row], lacks: Sequence[str] = (), hashed: Sequence[str] = ()
) -> Iterator[tuple[Any, Any]]:
    """Written to files, a day in each, and read; the first side ``lacks`` columns, some have hashes of rows."""
    with TemporaryDirectory() as folder, engine() as duckdb:
        read = []
        for side, rows in zip(SIDES, sides, strict=True):
            arrow = pa.Table.from_pylist(list(rows), pa.schema(list(_TYPES.items())))
            if side == "before":
                arrow = arrow.drop_columns(list(lacks))
            if side in hashed:
                arrow = arrow.append_column(
                    RowHash(table.contract).name, pa.array([_hash(row) for row in rows], pa.int64())
                )
            written = write_days(arrow, Path(folder, side))
            files = {
                day: [AddedFile(str(path.relative_to(folder)), str(day), 0, 0, "{}")] for day, path in written.items()
            }
            read.append(
                rows_of_files(
                    duckdb, Storage(folder), table.contract, files, [RowHash(table.contract).name] if hashed else ()
                )
            )
        yield read[0], read[1]


# ------------------------------------------------------------------ rows


def _made(seed: int, count: int) -> list[Row]:
    chance = random.Random(seed)

    def or_null(value: Any) -> Any:
        return None if chance.random() < 0.2 else value

    return [
        {
            **row,
            "id": number,
            "part": or_null(chance.choice(("", "a", "b"))),
            "blob": or_null(chance.choice((b"", b"a", b"\x00\xff"))),
            "local": or_null(NOON + timedelta(hours=chance.randrange(24))),
            "pair": or_null({"a": or_null("a"), "b": or_null(chance.choice((0.0, -0.0, math.nan, 1.5)))}),
            "nested": or_null([or_null([or_null("a")] * chance.randrange(3)) for _ in range(chance.randrange(3))]),
            "shares": or_null(_in_any_order({"a": 0.5, "b": or_null(math.nan)}, chance)),
            "by_shop": or_null(
                [or_null(_in_any_order({7: or_null(_in_any_order({"x": 1, "y": 2}, chance)), 8: None}, chance))]
            ),
        }
        for number, row in enumerate(every_type(seed, count, rows_a_day=7).to_pylist())
    ]


def _in_any_order(entries: Mapping[Any, Any], chance: random.Random) -> list[tuple[Any, Any]]:
    """A map as Arrow has it, sometimes without its first entry."""
    listed = list(entries.items())[chance.randrange(2) :]
    chance.shuffle(listed)
    return listed


def _two_sides(seed: int, count: int) -> tuple[list[Row], list[Row]]:
    """Some rows only on one side, some with another value or on another day, and some as they were."""
    chance, others = random.Random(seed), _made(seed + 1, count)
    before, after = _made(seed, count), []
    days = [row[DAY] for row in before]
    for row in before:
        if chance.random() < 0.15:
            continue
        changed = dict(row)
        if chance.random() < 0.4:
            name = chance.choice((*_NAMES, "double", "pair", "text", "money", DAY))
            changed[name] = chance.choice(days) if name == DAY else chance.choice(others)[name]
        after.append({**changed, "id": row["id"]})
    after += [{**row, "id": count + row["id"], DAY: chance.choice(days)} for row in others[: count // 8]]
    chance.shuffle(after)
    return before, after


# ------------------------------------------------------------------ what plain Python says


def _canonical(value: Any) -> Any:
    if isinstance(value, list):
        items = sorted(value, key=lambda item: item[0]) if value and isinstance(value[0], tuple) else value
        return tuple(map(_canonical, items))
    if isinstance(value, tuple):
        return tuple(map(_canonical, value))
    if isinstance(value, dict):
        return tuple(map(_canonical, value.values()))
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def _whole(row: Row, names: Sequence[str] = _NAMES) -> tuple[Any, ...]:
    return tuple(_canonical(_counted(name, row[name])) for name in names)


def _counted(name: str, value: Any) -> Any:
    """A double that is declared with digits, rounded to them."""
    digits = Compared.fields()[name].digits
    if digits is None or value is None or not math.isfinite(value):
        return value
    units = value * 10.0**digits
    whole = units if abs(units) >= 2**53 else float(Decimal(units).quantize(Decimal(1), ROUND_HALF_UP, EXACT))
    return whole / 10.0**digits


def _key(table: Table, row: Row) -> tuple[Any, ...]:
    return _whole(row, [DAY, *table.key])


def _expected(table: Table, before: Sequence[Row], after: Sequence[Row], name: str) -> Lines:
    """For keys that do not repeat, and tables without any: rows are matched within each value of ``name``."""
    lines: Lines = defaultdict(
        lambda: dict.fromkeys([*SIDES, "kept", "same", *(f"{s} {t}" for s in SIDES for t in table.totals)], 0)
    )
    keys, wholes = defaultdict(list), defaultdict(list)
    for side, rows in zip(SIDES, (before, after), strict=True):
        for row in rows:
            value = value_text(row[name])
            lines[value][side] += 1
            keys[side].append((value, _key(table, row) if table.key else _whole(row)))
            wholes[side].append((value, _whole(row)))
            for total in table.totals:
                number = f"{side} {total}"
                lines[value][number] = EXACT.add(Decimal(lines[value][number]), Decimal(row[total] or 0))
    for number, found in (("kept", keys), ("same", wholes)):
        for (value, _), count in (Counter(found["before"]) & Counter(found["after"])).items():
            lines[value][number] += count
    return dict(lines)


def _hash(row: Row) -> int:
    digest = hashlib.blake2b(repr(_whole(row, [name for name in _NAMES if name != DAY])).encode(), digest_size=8)
    return int.from_bytes(digest.digest(), signed=True)


def _require_equal(table: Table, before: Sequence[Row], after: Sequence[Row], hashed: Sequence[str] = ()) -> None:
    with _sides(table, before, after, hashed=hashed) as sides:
        found = compare_rows(table, *sides)
    assert list(found) == [DAY, *table.groups]
    for name, lines in found.items():
        assert lines == _expected(table, before, after, name), name
        sums = [line[f"{side} {total}"] for line in lines.values() for side in SIDES for total in table.totals]
        assert all(isinstance(each, Decimal) for each in sums)


# ------------------------------------------------------------------ tests


@pytest.mark.parametrize(
    ("table", "hashed"),
    [
        pytest.param(TABLE, (), id="key-values"),
        pytest.param(TABLE, SIDES, id="key-hashes"),
        pytest.param(TABLE, SIDES[:1], id="key-some"),
        pytest.param(BY_TWO, SIDES, id="two-hashes"),
        pytest.param(WITHOUT_KEY, (), id="none-values"),
        pytest.param(WITHOUT_KEY, SIDES, id="none-hashes"),
        pytest.param(BARE, SIDES, id="bare-hashes"),
    ],
)
@given(seed=st.integers(0, 2**32), count=st.sampled_from([1, 20, 300]))
@example(seed=1133, count=20)
@SETTINGS
def test_sides_are_compared_as_plain_python_compares_rows(
    table: Table, seed: int, count: int, hashed: Sequence[str]
) -> None:
    """Rows that change, move to another day or group, come and go, with nulls and edges of types.

    By the hashes that both sides have, or by their values.
    """
    before, after = _two_sides(seed, count)
    if not table.key:
        before, after = [*before, *before[:5]], [*after, *before[:2]]
    _require_equal(table, before, after, hashed)


@given(seed=st.integers(0, 2**32))
@SETTINGS
def test_the_rows_that_change_most_come_first(seed: int) -> None:
    """By the first total, then by day and key; and of each it is known which of its columns differ."""
    before, after = _two_sides(seed, 100)
    old = {_key(TABLE, row): row for row in before}
    changed = [row for row in after if (was := old.get(_key(TABLE, row))) and _whole(was) != _whole(row)]

    def order(row: Row) -> tuple[Decimal, date, int]:
        was = old[_key(TABLE, row)]
        return -abs(EXACT.subtract(row["money"] or Decimal(0), was["money"] or Decimal(0))), row[DAY], row["id"]

    with _sides(TABLE, before, after) as sides:
        found = changed_rows(TABLE, *sides, 8)
    wanted = sorted(changed, key=order)[:8]
    assert [row["after id"] for row in found] == [row["id"] for row in wanted]
    for row, now in zip(found, wanted, strict=True):
        was = old[_key(TABLE, now)]
        assert {name for name in _NAMES if row[f"differs {name}"]} == {
            name for name in _NAMES if _whole(was, [name]) != _whole(now, [name])
        }
        assert (row["before money"], row["after money"]) == (was["money"], now["money"])


VALUES: Sequence[tuple[str, Any, Any, bool]] = (
    ("double", math.nan, math.nan, True),
    ("single", math.nan, math.nan, True),
    ("double", 0.0, -0.0, True),
    ("single", 0.0, -0.0, True),
    ("double", None, 0.0, False),
    ("double", None, math.nan, False),
    ("text", None, "", False),
    ("text", "a", "A", False),
    ("text", "a", "a ", False),
    ("text", "é", "e\u0301", False),
    ("money", Decimal("1.50"), Decimal("1.5"), True),
    ("money", Decimal("0.01"), None, False),
    ("finest", Decimal("1E-18"), Decimal("2E-18"), False),
    ("moment", NOON.replace(tzinfo=UTC), NOON.replace(tzinfo=UTC) + timedelta(microseconds=1), False),
    ("local", NOON, NOON, True),
    ("local", NOON, NOON + timedelta(microseconds=1), False),
    ("blob", b"", None, False),
    ("blob", b"a\x00", b"a", False),
    ("reasons", [], None, False),
    ("reasons", [], [None], False),
    ("reasons", ["a", None], ["a", ""], False),
    ("reasons", ["a", "b"], ["b", "a"], False),
    ("nested", [["a"], ["b"]], [["a", "b"]], False),
    ("pair", {"a": None, "b": math.nan}, {"a": None, "b": math.nan}, True),
    ("pair", {"a": None, "b": 0.0}, {"a": None, "b": -0.0}, True),
    ("pair", {"a": None, "b": None}, None, False),
    ("shares", [("a", 0.5), ("b", None)], [("b", None), ("a", 0.5)], True),
    ("shares", [("a", 0.5)], [("b", 0.5)], False),
)
"""A column, two values, and whether they are equal."""
SAME, CHANGED, ANOTHER = (1, 1, 1, 1), (1, 1, 1, 0), (1, 1, 0, 0)


def _row(**values: Any) -> Row:
    return {**dict.fromkeys(_NAMES), "id": 1, "kind": "a", "rate": Decimal(1), DAY: date(2017, 3, 1), **values}


def _counts(
    table: Table, before: Sequence[Row], after: Sequence[Row], name: str = DAY
) -> dict[str | None, tuple[int, ...]]:
    """Before, after, kept and same."""
    with _sides(table, before, after) as sides:
        lines = compare_rows(table, *sides)[name]
    return {value: _numbers(line) for value, line in lines.items()}


def _numbers(line: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(line[number] for number in (*SIDES, "kept", "same"))


def _of_each(key: Sequence[str], values: Sequence[tuple[str, Any, Any, bool]]) -> list[tuple[int, ...]]:
    """What becomes of one row for each of ``values``, which has one of them before and the other one after."""
    before, after = ([_row(id=at, **{each[0]: each[side]}) for at, each in enumerate(values)] for side in (1, 2))
    found = _counts(replace(BARE, key=tuple(key), groups=("id",)), before, after, "id")
    return [found[str(at)] for at in range(len(values))]


def test_what_values_are_equal() -> None:
    """In a column, where whole rows are all there is, and as part of a key."""
    assert _of_each(["id"], VALUES) == [SAME if equal else CHANGED for *_, equal in VALUES]
    assert _of_each([], VALUES) == [SAME if equal else ANOTHER for *_, equal in VALUES]
    names = sorted({name for name, *_ in VALUES})
    assert _of_each(["id", *names], VALUES) == [SAME if equal else ANOTHER for *_, equal in VALUES]


def test_keys_that_differ_in_what_is_null_are_different() -> None:
    """A row of part "a" is none of text "a"."""
    before = [_row(part="a", text=None), _row(part=None, text="a")]
    after = [before[0], {**before[1], "big": 99}]
    assert _counts(BY_NULLS, before, after) == {"2017-03-01": (2, 2, 2, 1)}


class Paid(Contract):
    """A few columns: queries over them are made in a tenth of the time."""

    id: T.LongType = Field()
    text: T.StringType = Field(nullable=True)
    money: Annotated[T.DecimalType, 18, 2] = Field(nullable=True)
    day: T.DateType = Field()


PAID = Table("paid", "fact", "", Paid, key=("id",), totals=("money",), groups=("text",))
ONE, OTHER, THIRD = (_row(text="EUR", money=Decimal(number)) for number in (1, 2, 3))
NEW, MOVED = _row(id=2, text="EUR", money=Decimal(5)), {**THIRD, "text": "USD"}


@pytest.mark.parametrize(
    ("before", "after", "of_day", "of_euros"),
    [
        ([ONE, OTHER], [ONE, OTHER], (2, 2, 2, 2), (2, 2, 2, 2)),
        ([ONE, OTHER], [ONE, OTHER, NEW], (2, 3, 2, 2), (2, 3, 2, 2)),
        ([ONE, ONE], [ONE, ONE], (2, 2, 2, 2), (2, 2, 2, 2)),
        ([ONE, ONE], [ONE], (2, 1, 1, 1), (2, 1, 1, 1)),
        ([ONE], [ONE, ONE], (1, 2, 1, 1), (1, 2, 1, 1)),
        ([ONE, OTHER], [THIRD, ONE], (2, 2, 2, 1), (2, 2, 2, 1)),
        ([ONE, OTHER], [OTHER, THIRD], (2, 2, 2, 1), (2, 2, 2, 1)),
        ([ONE, OTHER], [MOVED, ONE], (2, 2, 2, 1), (2, 1, 1, 1)),
        ([ONE, ONE, OTHER], [THIRD], (3, 1, 1, 0), (3, 1, 1, 0)),
    ],
)
def test_rows_of_a_key_that_repeats_are_matched_one_by_one(
    before: list[Row], after: list[Row], of_day: tuple[int, ...], of_euros: tuple[int, ...]
) -> None:
    """A foreign write has brought them. Equal rows belong together, and of the others as many as both sides have."""
    with _sides(PAID, before, after) as sides:
        lines = compare_rows(PAID, *sides)
    assert [_numbers(line) for line in lines[DAY].values()] == [of_day]
    assert _numbers(lines["text"]["EUR"]) == of_euros


@given(seed=st.integers(0, 2**32))
@SETTINGS
def test_where_some_keys_repeat_no_row_is_lost(seed: int) -> None:
    before, after = _two_sides(seed, 60)
    before, after = [*before, *before[:3], {**before[4], "big": 1}], [*after, *after[:2]]
    found = _counts(BARE, before, after)
    assert found == {day: _numbers(line) for day, line in _expected(BARE, before, after, DAY).items()}


def test_a_column_that_files_lack_is_null() -> None:
    """A version that adds a column changes every row that has a value in it."""
    rows = [_row(id=1, text="a", rate=Decimal(1)), _row(id=2, rate=Decimal(1))]
    with _sides(TABLE, rows, rows, lacks=["text"]) as sides:
        assert compare_rows(TABLE, *sides)[DAY]["2017-03-01"]["same"] == 1


def test_a_side_without_rows_is_compared() -> None:
    """A table that was never published, and days that are withdrawn."""
    rows, _ = _two_sides(2, 40)
    _require_equal(TABLE, [], rows)
    _require_equal(TABLE, rows, [])
    _require_equal(TABLE, [], [])


class Weighed(Contract):
    """Something very heavy."""

    id: T.LongType = Field()
    text: T.StringType = Field(nullable=True)
    hashes: Annotated[T.DecimalType, 38, 0] = Field(nullable=True)
    day: T.DateType = Field()


HEAVY_TABLE = Table("weighed", "fact", "", Weighed, key=("id",), totals=("hashes",), groups=("text",))
MOST = Decimal("9" * 37)


def test_sums_have_all_the_digits_that_spark_has() -> None:
    """Not 28 of them; and what changes by one changes."""
    before = [_row(id=1, text="a", hashes=MOST), _row(id=2, text="a", hashes=MOST), _row(id=3, text="b", hashes=None)]
    after = [before[0], {**before[1], "hashes": EXACT.subtract(MOST, Decimal(1))}, before[2]]
    with _sides(HEAVY_TABLE, before, after) as sides:
        found = compare_rows(HEAVY_TABLE, *sides)["text"]
    twice = EXACT.add(MOST, MOST)
    assert (found["a"]["before hashes"], found["a"]["after hashes"]) == (twice, EXACT.subtract(twice, Decimal(1)))
    assert (found["b"]["before hashes"], found["b"]["after hashes"]) == (0, 0)


def test_a_change_of_more_digits_than_there_are_is_the_largest() -> None:
    """It is shown first, and raises nothing."""
    most = Decimal("9" * 38)
    before = [_row(id=1, hashes=Decimal(0)), _row(id=2, hashes=most.copy_negate())]
    after = [_row(id=1, hashes=Decimal(1)), _row(id=2, hashes=most)]
    with _sides(HEAVY_TABLE, before, after) as sides:
        assert [row["after id"] for row in changed_rows(HEAVY_TABLE, *sides, 10)] == [2, 1]


def test_rows_of_a_table_with_one_row_a_day_are_shown() -> None:
    """The day is its key, and comes once."""
    table = replace(HEAVY_TABLE, key=(DAY,))
    before, after = [_row(id=1, hashes=Decimal(1))], [_row(id=1, hashes=Decimal(2))]
    with _sides(table, before, after) as sides:
        (row,) = changed_rows(table, *sides, 10)
    assert (row["before hashes"], row["after hashes"]) == (Decimal(1), Decimal(2))


def test_the_columns_that_differ_beside_one_are_named() -> None:
    """In any order of rows. Where rows come or go every other column differs; values can change places in a column."""
    rows = [{**row, DAY: ONE[DAY], "big": number} for number, row in enumerate(_made(3, 30))]
    leveled = [{**row, "money": Decimal("7.25")} for row in reversed(rows)]

    def beside(before: Sequence[Row], after: Sequence[Row]) -> Mapping[date, tuple[str, ...]]:
        with _sides(TABLE, before, after) as sides:
            return columns_beside(TABLE, *sides, "money")

    others = tuple(name for name in _NAMES if name not in (DAY, "money"))
    assert beside(rows, leveled) == {}
    both = [*rows[:9], *({**row, DAY: ONE[DAY] + timedelta(1)} for row in rows[9:])]
    assert beside(both, [{**row, "rate": Decimal("7.25")} for row in both]) == dict.fromkeys(
        (ONE[DAY], ONE[DAY] + timedelta(1)), ("rate",)
    )
    swapped = [{**row, "big": rows[at - 1]["big"]} for at, row in enumerate(rows)]
    assert beside(rows, swapped) == {ONE[DAY]: (TOGETHER,)}
    assert set(beside(rows, leveled[1:])[ONE[DAY]]) == set(others)
    assert beside([], rows) == {ONE[DAY]: others}
