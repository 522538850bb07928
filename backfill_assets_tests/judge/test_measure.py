"""What the judge measures is what plain Python says: rows with values at every edge of every type among them."""

from __future__ import annotations

import math
import operator
import random
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal, localcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import types as T

from backfill_assets.errors import LakehouseUnusable
from backfill_assets.judge import measure
from backfill_assets.judge.measure import FilesUnreadable, measure_files, unmeasurable
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model import measure as m
from backfill_assets.model.checks import KINDS
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.declaration import Aggregates, DayFacts, DayRule, GateFinding, Metrics, Table
from backfill_assets.model.rules import ConvertedExactly, RatesFound
from backfill_assets.quality.measures import numbers
from backfill_assets_tests.judge.written_rows import InAStore
from backfill_assets_tests.strategies.every_type import (
    RAW,
    SOURCE,
    EveryType,
    every_landed_text,
    every_type,
    write_days,
)
from backfill_assets_tests.strategies.how_many import drawn

pytestmark = pytest.mark.data
SETTINGS = settings(max_examples=drawn(1), phases=[Phase.explicit, Phase.reuse, Phase.generate], deadline=None)
"""One seed gives all rows: a smaller one would be other rows, and each attempt a query."""
DAY, NEXT_DAY = date(2017, 3, 1), date(2017, 3, 2)
Row = Mapping[str, Any]
Oracle = Mapping[str, Callable[[Sequence[Row]], Any]]
"""By metric, what it is for the rows of a day."""


@dataclass(frozen=True)
class Asking(DayRule):
    """A rule that measures whatever is asked for."""

    asked: Any = field(hash=False, default=None)
    name_format = "asking"
    dimension = "validity"

    def measure(self) -> Aggregates:
        found: Aggregates = self.asked
        return found

    def judge(self, facts: DayFacts) -> GateFinding:
        raise NotImplementedError


def asking(contract: type[Contract], metrics: Aggregates, key: tuple[str, ...] = ()) -> Table:
    return Table("asked", "fact", "", contract, key=key, rules=(Asking(asked=metrics),))


def measured(
    rows: pa.Table, table: Table, folder: Path, only: Sequence[str] | None = None, store: type[Storage] = Storage
) -> dict[date, Metrics]:
    """Of files with hashes, so that Spark is asked for nothing."""
    for name in (each.name for each in m.hashes_written_of(table)):
        rows = rows if name in rows.column_names else rows.append_column(name, _numbers(len(rows)))
    files = {
        day: [AddedFile(str(path.relative_to(folder)), str(day), path.stat().st_size, 0, "{}")]
        for day, path in write_days(rows, folder).items()
    }
    return measure_files(store(str(folder)), table, files, lambda: pytest.fail("Spark was asked"), only=only)


def measured_as(rows: pa.Table, written: Table, table: Table, folder: Path) -> dict[date, Metrics]:
    """As one table was declared when its files were written, and another one when they are measured."""
    hashed = rows
    for name in (each.name for each in m.hashes_written_of(written)):
        hashed = hashed.append_column(name, _numbers(len(rows)))
    files = {
        day: [AddedFile(str(path.relative_to(folder)), str(day), path.stat().st_size, 0, "{}")]
        for day, path in write_days(hashed, folder).items()
    }
    return measure_files(Storage(str(folder)), table, files, lambda: pytest.fail("Spark was asked"))


def _numbers(count: int) -> pa.Array:
    chance = random.Random(count)
    return pa.array([chance.randrange(-(2**63), 2**63) for _ in range(count)], pa.int64())


# ------------------------------------------------------------------ what plain Python says


def _order(value: Any) -> Any:
    """NaN is equal to itself, and greater than every other number."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value


def _compared(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda value, limit: compare(
        _order(value), _order(type(value)(limit) if isinstance(value, float) else limit)
    )


def _in_range(value: Any, asked: Mapping[str, Any]) -> bool:
    low, high = asked["min_value"], asked["max_value"]
    above = value >= low if asked.get("include_min", True) else value > low
    return bool(above and (value <= high if asked.get("include_max", True) else value < high))


def _long(value: str, asked: Mapping[str, Any]) -> bool:
    return bool(asked.get("min_value", 0) <= len(value) <= asked.get("max_value", math.inf))


FULFILS: Mapping[str, Callable[[Any, Any], bool]] = {
    **{name: _compared(getattr(operator, name)) for name in ("eq", "ne", "gt", "ge", "lt", "le")},
    "in_range": _in_range,
    "isin": lambda value, allowed: value in allowed,
    "notin": lambda value, forbidden: value not in forbidden,
    "str_matches": lambda value, pattern: re.match(rf"(?:{pattern.removesuffix('$')}\Z)", value) is not None,
    "str_length": _long,
}
"""In a pattern of Python's, ``$`` also stands before the last end of a line."""


def _breaks(contract: type[Contract], row: Row) -> bool:
    return any(
        (row[name] is None and not declared.nullable)
        or (row[name] is not None and not all(FULFILS[c](row[name], asked) for c, asked in declared.checks.items()))
        for name, declared in contract.fields().items()
    )


def _sum(values: Any) -> Any:
    with localcontext() as exact:
        exact.prec = 100
        return sum((value for value in values if value is not None), 0)


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return str(value) if int(value.as_tuple().exponent) < 0 else int(value)
    return value


def _whole(row: Row, names: Sequence[str]) -> str:
    return repr([(_order(value + 0.0) if isinstance(value, float) else value) for value in map(row.get, names)])


def _counted(condition: Callable[[Row], Any]) -> Callable[[Sequence[Row]], int]:
    return lambda rows: sum(bool(condition(row)) for row in rows)


# ------------------------------------------------------------------ typed rows

TOTALS = ("tiny", "small", "whole", "big", "few_digits", "money", "rate", "sums", "hashes", "finest")
CHECKS = [(name, check, asked) for name, f in EveryType.fields().items() for check, asked in f.checks.items()]
ROW_HASH, CONTENT_HASH = m.RowHash(EveryType).name, m.ContentHash(SOURCE, "values").name
LANDED_HASH = m.ContentHash(SOURCE, "text").name
OF_ALL_DIGITS = ("total hashes", "total finest")
"""Of several rows they have more digits than there are."""


def _asked(name: str, check: str, asked: Any) -> Callable[[Any], Any]:
    return lambda rows: rows.count(where=KINDS[check].of(rows, name, asked))


def _total_of(name: str) -> Callable[[Any], Any]:
    return lambda rows: m.exact_sum(rows[name])


TYPED: Aggregates = {
    **{f"{name} {check}": _asked(name, check, asked) for name, check, asked in CHECKS},
    **{f"keys {name}": partial(m.count_different, names=(name,)) for name in EveryType.fields()},
    **{f"total {name}": _total_of(name) for name in TOTALS},
    "two keys": partial(m.count_different, names=("text", "code", "flag")),
    "some": lambda rows: m.exact_sum(rows.money, rows.kind == "USD"),
    "carried": lambda rows: m.exact_sum(rows.big),
    "content": m.ContentHash(SOURCE, "values"),
    "first reason": lambda rows: m.least(rows.reasons[0]),
}


def _fulfilled(name: str, check: str, asked: Any) -> Callable[[Sequence[Row]], int]:
    return _counted(lambda row: row[name] is not None and FULFILS[check](row[name], asked))


def _of(name: str, asked: Callable[[list[Any]], Any]) -> Callable[[Sequence[Row]], Any]:
    return lambda rows: asked([row[name] for row in rows])


def _different(*names: str) -> Callable[[Sequence[Row]], int]:
    return lambda rows: len({_whole(row, names) for row in rows})


def _texts(values: Any) -> list[str]:
    return sorted({value for value in values if value is not None}, key=str.encode)


def _first(row: Row) -> Any:
    return row["reasons"][0] if row["reasons"] else None


OF_TYPED: Oracle = {
    "rows": len,
    "checksum": lambda rows: _sum(row[ROW_HASH] for row in rows),
    "violating": _counted(lambda row: _breaks(EveryType, row)),
    **{f"{name} {check}": _fulfilled(name, check, asked) for name, check, asked in CHECKS},
    **{f"keys {name}": _different(name) for name in EveryType.fields()},
    **{f"total {name}": _of(name, _sum) for name in TOTALS},
    "two keys": _different("text", "code", "flag"),
    "some": lambda rows: _sum(row["money"] for row in rows if row["kind"] == "USD"),
    "carried": lambda rows: _sum(row["big"] for row in rows),
    "content": lambda rows: _sum(row[CONTENT_HASH] for row in rows),
    "first reason": lambda rows: next(iter(_texts(map(_first, rows))), ""),
}


def _require_equal(found: Mapping[date, Metrics], rows: pa.Table, oracle: Oracle) -> None:
    by_day = defaultdict[date, list[Row]](list)
    for row in rows.to_pylist():
        by_day[row["day"]].append(row)
    assert found.keys() == by_day.keys()
    wrong = {
        name: (day, found[day][name], expected, of_day)
        for day, of_day in by_day.items()
        for name, asked in oracle.items()
        if not _is_equal(found[day][name], expected := _plain(asked(of_day)))
    }
    assert wrong == {}


def _is_equal(found: Any, expected: Any) -> bool:
    """A total of a day without a value is 0, with the digits of its column."""
    return found == expected or (isinstance(found, str) and expected == 0 and Decimal(found) == 0)


def _with_hashes(rows: pa.Table, of_row: str, of_content: str) -> pa.Table:
    return rows.append_column(of_row, _numbers(len(rows))).append_column(of_content, _numbers(len(rows) + 1)[1:])


@pytest.mark.parametrize(("count", "a_day"), [(150, 1), (400, 40)])
@given(seed=st.integers(0, 2**32))
@SETTINGS
def test_typed_rows_are_measured_as_plain_python_does(
    tmp_path_factory: pytest.TempPathFactory, seed: int, count: int, a_day: int
) -> None:
    """Where each row is a day, one value that is added up or judged differently is seen."""
    rows = _with_hashes(every_type(seed, count, rows_a_day=a_day), ROW_HASH, CONTENT_HASH)
    wanted = {name: asked for name, asked in OF_TYPED.items() if a_day == 1 or name not in OF_ALL_DIGITS}
    asked = asking(EveryType, {name: made for name, made in TYPED.items() if name in wanted})
    _require_equal(measured(rows, asked, tmp_path_factory.mktemp("typed"), only=list(wanted)), rows, wanted)


# ------------------------------------------------------------------ landed texts


def _named_day(row: Row) -> date | None:
    """The day that is written; Python knows no year 0."""
    written = re.fullmatch("([0-9]{4}-[0-9]{2}-[0-9]{2})(\r\n|[\r\n])?", row["calendar_day"] or "")
    try:
        return date.fromisoformat(written[1]) if written else None
    except ValueError:
        return None


def _is_unbelieved(row: Row) -> bool:
    on_arrival = row["day_is_arrival"] and row["arrival_day"] is not None
    return bool(on_arrival and (_named_day(row) is not None or row["calendar_day"] == "0000-01-01"))


OF_LANDED: Oracle = {
    "rows": len,
    "received": _counted(lambda row: row["arrival_day"] is not None),
    "content_hash_sum": lambda rows: _sum(row["content_hash"] for row in rows if row["arrival_day"] is not None),
    "recomputed_hash_sum": lambda rows: _sum(row[LANDED_HASH] for row in rows),
    "late_rows": _counted(lambda row: row["arrival_day"] and (row["arrival_day"] - row["day"]).days > 7),
    "ahead_of_arrival": _counted(lambda row: row["arrival_day"] and row["day"] > row["arrival_day"]),
    "on_arrival_day": _counted(_is_unbelieved),
    "keys": lambda rows: len({(row["source_file"], row["source_line"]) for row in rows}),
    "violating": _counted(lambda row: _breaks(RAW.contract, row)),
}


@given(seed=st.integers(0, 2**32))
@SETTINGS
def test_landed_texts_are_measured_as_plain_python_does(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """Text that is a day, in whichever way it is written, and text that is none."""
    rows = _with_hashes(every_landed_text(seed, 300), m.RowHash(RAW.contract).name, LANDED_HASH)
    _require_equal(measured(rows, RAW, tmp_path_factory.mktemp("landed"), only=list(numbers(RAW))), rows, OF_LANDED)


# ------------------------------------------------------------------ known answers


class Sale(Contract):
    """A sale of a branch."""

    till: T.LongType = Field(ge=1)
    code: T.StringType = Field(nullable=True, str_matches="EUR|USD")
    branch: T.StringType = Field(nullable=True)
    amount: Annotated[T.DecimalType, 18, 2] = Field(nullable=True, ge=0)
    day: T.DateType = Field()


def _sales(*rows: tuple[int | None, str | None, str | None], day: date = DAY, branch: str | None = None) -> pa.Table:
    amounts = [None if amount is None else Decimal(amount) for *_, amount in rows]
    return pa.table(
        {
            "till": pa.array([row[0] for row in rows], pa.int64()),
            "code": pa.array([row[1] for row in rows], pa.string()),
            "branch": pa.array([branch] * len(rows), pa.string()),
            "amount": pa.array(amounts, pa.decimal128(18, 2)),
            "day": pa.array([day] * len(rows), pa.date32()),
        }
    )


SALES = Table("sales", "fact", "", Sale, key=("till",), totals=("amount", "till"))


@pytest.mark.parametrize("store", [Storage, InAStore])
def test_sums_keep_all_digits_and_nulls_break_no_check(tmp_path: Path, store: type[Storage]) -> None:
    """Wherever files are; a sum of bigints may be none, and every alternative of a pattern stands at the start."""
    rows = _sales((2**63 - 1, "EUR", "0.10"), (1, None, None), (1, "xUSD", "-90000000000000.25"), (0, "USD!", "1.00"))
    found = measured(rows, SALES, tmp_path, store=store)[DAY]
    assert (found["rows"], found["keys"], found["violating"]) == (4, 3, 2)
    assert (found["total_amount"], found["total_till"]) == ("-89999999999999.15", 2**63 + 1)
    assert found["violating_example"] == "code: does not match ^EUR|USD (was xUSD)"


def test_a_total_of_more_digits_than_there_are_is_refused(tmp_path: Path) -> None:
    """Spark would refuse it, too; nothing that is rounded is published."""

    class Heavy(Contract):
        hashes: Annotated[T.DecimalType, 38, 0] = Field()
        day: T.DateType = Field()

    most = pa.array([Decimal("9" * 38)] * 2, pa.decimal128(38, 0))
    table = Table("heavy", "fact", "", Heavy, key=(), totals=("hashes",))
    with pytest.raises(LakehouseUnusable, match="cannot be measured: Out of Range"):
        measured(pa.table({"hashes": most, "day": pa.array([DAY] * 2)}), table, tmp_path)


def test_keys_that_differ_in_what_is_null_are_different(tmp_path: Path) -> None:
    rows = pa.concat_tables([_sales((1, "EUR", None), (1, None, None)), _sales((1, None, None), branch="EUR")])
    own = Table("sales", "fact", "", Sale, key=("till", "code", "branch"))
    assert measured(rows, own, tmp_path)[DAY]["keys"] == 3


def test_examples_are_shown_on_days_that_have_something_wrong(tmp_path: Path) -> None:
    """The least of them in the order of their letters: one that does not depend on the order of rows."""
    rows = pa.concat_tables(
        [_sales((1, "EUR", "1.00")), _sales((None, "EUR", "-1"), (-1, "EUR", "-1.00"), day=NEXT_DAY)]
    )
    found = measured(rows, SALES, tmp_path)
    assert [found[day]["violating_example"] for day in (DAY, NEXT_DAY)] == [
        "",
        "till: is missing",
    ]
    assert [list(metrics) for metrics in found.values()] == [list(metrics) for metrics in found.values()][:1] * 2


def test_any_expression_is_a_metric(tmp_path: Path) -> None:
    """What a rule of one's own measures need not be one of ours."""
    own = asking(Sale, {"odd": lambda rows: rows.count(where=rows.till % 2 == 1)})
    assert measured(_sales((1, "EUR", None), (2, "EUR", None), (3, "EUR", None)), own, tmp_path)[DAY]["odd"] == 2


def test_an_amount_that_is_not_the_quotient_is_counted(tmp_path: Path) -> None:
    """One unit of the last digit off is noticed, and an exact half is not."""

    class Converted(Contract):
        amount: Annotated[T.DecimalType, 18, 2] = Field()
        rate: Annotated[T.DecimalType, 18, 6] = Field()
        euros: Annotated[T.DecimalType, 18, 4] = Field()
        day: T.DateType = Field()

    lines = [
        ("1.00", "200", "0.0050"),
        ("0.01", "200", "0.0001"),
        ("1.23", "1.0737", "1.1456"),
        ("1.23", "1.0737", "1.1457"),
        ("100000000.00", "1.0737", "93135885.2566"),
        ("99999999.99", "1.0737", "93135885.2473"),
    ]
    columns = [
        pa.array([Decimal(line[at]) for line in lines], pa.decimal128(18, digits))
        for at, digits in ((0, 2), (1, 6), (2, 4))
    ]
    rows = pa.table([*columns, pa.array([DAY] * len(lines))], ["amount", "rate", "euros", "day"])
    rule = ConvertedExactly("amount", "rate", "euros", digits=4)
    converted = Table("converted", "fact", "", Converted, key=(), rules=(rule,))
    assert measured(rows, converted, tmp_path)[DAY]["misconverted_euros"] == 1


def test_currencies_without_a_rate_are_listed_once_in_their_order(tmp_path: Path) -> None:
    table = Table("sales", "fact", "", Sale, key=(), rules=(RatesFound("amount", "code", within_days=7),))
    rows = _sales((1, "USD", None), (2, "EUR", None), (3, "USD", None), (4, "CHF", "1.00"))
    found = measured(rows, table, tmp_path)[DAY]
    assert (found["without_rate"], found["without_rate_example"]) == (3, "EUR, USD")


def test_nothing_is_measured_of_no_files() -> None:
    """A quarantine table is mostly empty."""
    assert measure_files(Storage("."), SALES, {}, pytest.fail) == {}


@pytest.mark.parametrize("damage", [b"", b"PAR1 and nothing else PAR1"])
def test_a_damaged_file_and_a_missing_one_are_named(tmp_path: Path, damage: bytes) -> None:
    measured(_sales((1, "EUR", None)), SALES, tmp_path)
    (path,) = tmp_path.rglob("*.parquet")
    file = AddedFile(str(path.relative_to(tmp_path)), str(DAY), 1, 0, "{}")
    path.write_bytes(damage)
    with pytest.raises(FilesUnreadable, match=r"rows\.parquet"):
        measure_files(Storage(str(tmp_path)), SALES, {DAY: [file]}, pytest.fail)
    path.unlink()
    with pytest.raises(FilesUnreadable, match=r"rows\.parquet"):
        measure_files(Storage(str(tmp_path)), SALES, {DAY: [file]}, pytest.fail)


@pytest.mark.parametrize("at", [40, 200, -60, -12])
def test_any_damage_of_a_file_is_the_damage_of_its_day(tmp_path: Path, at: int) -> None:
    """DuckDB has errors of many classes for it. What is wrong with a question is no damage."""
    rows = _sales(*((number, "EUR", "1.00") for number in range(500)))
    measured(rows, SALES, tmp_path)
    (path,) = tmp_path.rglob("*.parquet")
    file = AddedFile(str(path.relative_to(tmp_path)), str(DAY), 1, 0, "{}")
    lookahead = asking(Sale, {"odd": _asked("code", "str_matches", "(?=E)E")})
    with pytest.raises(LakehouseUnusable, match="cannot be measured") as refused:
        measure_files(Storage(str(tmp_path)), lookahead, {DAY: [file]}, pytest.fail, only=["odd"])
    assert not isinstance(refused.value, FilesUnreadable)
    data = bytearray(path.read_bytes())
    data[at : (at + 12) or None] = b"\xff" * 12
    path.write_bytes(data)
    with pytest.raises(FilesUnreadable):
        measure_files(Storage(str(tmp_path)), SALES, {DAY: [file]}, pytest.fail)


def test_hashes_of_another_declaration_have_another_name() -> None:
    """They would be added up with those of this one."""

    class Longer(Sale):
        """With a column more."""

        more: T.StringType = Field(nullable=True)

    assert m.RowHash(Longer).name != m.RowHash(Sale).name
    other = replace(SOURCE, types={**SOURCE.types, "money": "decimal(18,6)"})
    names = {m.ContentHash(source, form).name for source in (SOURCE, other) for form in ("text", "values")}
    assert len(names) == 4 and all(map(m.is_hash, [*names, m.RowHash(Sale).name]))
    assert not m.is_hash("_row_hash_source") and not m.is_hash("content_hash")


def test_a_row_whose_content_ought_to_have_been_hashed_is_hashed_again(tmp_path: Path) -> None:
    """A rule that adds up the content was declared after its files had been written."""
    bare = Table("everything", "fact", "", EveryType, key=())
    with pytest.raises(pytest.fail.Exception, match="Spark was asked"):
        measured_as(every_type(1, 5), bare, asking(EveryType, TYPED), tmp_path)


class Wrong(Contract):
    """Asks for what its columns cannot be asked, and for a pattern that RE2 does not know."""

    code: T.StringType = Field(str_matches="(?<=a)b")
    till: T.LongType = Field(ge="a", str_length={"min_value": 1})
    sound: T.LongType = Field(ge=0)
    day: T.DateType = Field()


def test_what_the_judge_cannot_carry_out_is_named() -> None:
    """Each check by its column, and each metric of a rule."""
    own = {"halves": lambda rows: rows.none.sum(), "odd": lambda rows: rows.count()}
    table = Table("wrong", "fact", "", Wrong, key=(), rules=(Asking(asked=own),))
    named = [reason.partition(" cannot be judged: ")[0] for reason in unmeasurable(table)]
    assert named == [
        "wrong: Wrong.code, str_matches",
        "wrong: Wrong.till, ge",
        "wrong: Wrong.till, str_length",
        "wrong: the metric halves",
    ]


def test_one_query_is_made_once_for_a_table() -> None:
    """To make it takes longer than to answer it for the few rows of a stream."""
    measure.prepare([SALES])
    made = measure._query.cache_info().misses
    assert measure.query(SALES.contract, numbers(SALES)) and measure._query.cache_info().misses == made
