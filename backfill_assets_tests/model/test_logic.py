"""The fingerprint of a version's logic: what changes it, what does not, and what is found while it is read."""

from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path

import pytest

from backfill_assets.model import source_code
from backfill_assets.model.declaration import Reads, Version
from backfill_assets.model.logic import Logic, logic_of

Write = Callable[..., Logic]
_NUMBERS = count()

TRANSFORM = '''
from decimal import Decimal
from pyspark.sql import functions as F
from {package}.rates import LONGEST, converted

TAX = Decimal("0.19")
NAMES = {{"a": 1, "b": (2, 3)}}


def total(lines):
    """The sum of each day."""
    priced = lines.withColumn("euros", converted(F.col("amount"), digits=2))
    kept = [name for name in priced.columns if name != "age"]
    return priced.where(F.col("age") < LONGEST).select(*kept).groupBy("day").agg(F.sum("euros") * TAX, *NAMES)
'''
RATES = """
from pyspark.sql import functions as F

LONGEST = 7


def converted(amount, digits):
    return F.round(amount * 2, digits)


def unused():
    return 1
"""


@pytest.fixture
def logic(tmp_path: Path) -> Iterator[Write]:
    """The logic of the function ``total`` of a project with these modules."""
    before = set(sys.modules)

    def written(main: str = TRANSFORM, rates: str = RATES, *, folder: str = "here") -> Logic:
        package = f"project_{next(_NUMBERS)}"
        root = tmp_path / folder / package
        root.mkdir(parents=True)
        (root / "__init__.py").write_text("")
        (root / "rates.py").write_text(textwrap.dedent(rates))
        (root / "tables.py").write_text(textwrap.dedent(main).format(package=package))
        sys.path.insert(0, str(root.parent))
        try:
            module = importlib.import_module(f"{package}.tables")
        finally:
            sys.path.pop(0)
        return logic_of(Version("v1", "Sums.", (Reads("bronze_lines"),), module.total))

    yield written
    for name in set(sys.modules) - before:
        if name.startswith("project_"):
            del sys.modules[name]


SAME: Mapping[str, tuple[str, str]] = {
    "a comment and a docstring": (TRANSFORM.replace('"""The sum of each day."""', "# Sums."), RATES),
    "another format": (
        TRANSFORM.replace(
            '.where(F.col("age") < LONGEST)', '.where(\n        (F.col("age"))\n        < LONGEST\n    )'
        ),
        RATES.replace("LONGEST = 7", "LONGEST = 0x7"),
    ),
    "local names": (
        TRANSFORM.replace("priced", "with_price")
        .replace("lines", "rows")
        .replace("name ", "each ")
        .replace("name)", "each)"),
        RATES.replace("amount", "value"),
    ),
    "a parameter that is given by name": (TRANSFORM.replace("digits=", "places="), RATES.replace("digits", "places")),
    "annotations": (
        TRANSFORM.replace("(lines):", "(lines: object) -> object:").replace("kept =", "kept: list ="),
        RATES.replace("(amount, digits)", "(amount: int, digits: int)"),
    ),
    "the name of a function of the project": (
        TRANSFORM.replace("converted", "in_euros"),
        RATES.replace("converted", "in_euros"),
    ),
    "how things are imported": (
        TRANSFORM.replace("from pyspark.sql import functions as F", "import pyspark.sql.functions as F")
        .replace("from {package}.rates import LONGEST, converted", "import {package}.rates as rates")
        .replace("LONGEST)", "rates.LONGEST)")
        .replace("converted(", "rates.converted("),
        RATES.replace("from pyspark.sql import functions as F", "from pyspark.sql.functions import round as r").replace(
            "F.round", "r"
        ),
    ),
    "an import within the function": (
        TRANSFORM.replace("from {package}.rates import LONGEST, converted\n", "").replace(
            "    priced =", "    from .rates import LONGEST, converted\n    priced ="
        ),
        RATES,
    ),
    "what it does not use": (f"import random\n{TRANSFORM}\nOTHER = [3]\n", RATES.replace("return 1", "return 2")),
    "where its parts are written": (
        TRANSFORM.replace("from {package}.rates import LONGEST, converted", RATES.replace("\ndef unused", "\ndef _no")),
        "",
    ),
}
OTHER: Mapping[str, tuple[str, str, str]] = {
    "the transform": (TRANSFORM.replace("< LONGEST", "<= LONGEST"), RATES, "total"),
    "a function that it calls": (TRANSFORM, RATES.replace("* 2", "* 3"), "converted"),
    "a constant": (TRANSFORM.replace("0.19", "0.16"), RATES, "TAX"),
    "a constant elsewhere": (TRANSFORM, RATES.replace("LONGEST = 7", "LONGEST = 8"), "LONGEST"),
    "an entry of a constant": (TRANSFORM.replace("(2, 3)", "(2, 4)"), RATES, "NAMES"),
    "another function of Spark": (TRANSFORM.replace("F.sum", "F.max"), RATES, "total"),
    "two parameters that change places": (
        TRANSFORM,
        RATES.replace("(amount, digits)", "(digits, amount)"),
        "converted",
    ),
    "another column": (TRANSFORM.replace('"euros"', '"dollars"'), RATES, "total"),
}


@pytest.mark.parametrize("what", SAME)
def test_what_changes_no_row_changes_no_fingerprint(logic: Write, what: str) -> None:
    """Whoever is alarmed by a comment turns the alarm off."""
    assert logic(*SAME[what], folder="elsewhere").fingerprint == logic().fingerprint


@pytest.mark.parametrize("what", OTHER)
def test_what_may_change_a_row_changes_the_fingerprint_and_is_named(logic: Write, what: str) -> None:
    main, rates, part = OTHER[what]
    one, other = logic(), logic(main, rates)
    assert other.fingerprint != one.fingerprint
    assert part in {name for name in one.parts if one.parts[name] != other.parts.get(name)}


_IMPORTS = """
from functools import cache, partial, wraps
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType
"""


@pytest.mark.parametrize(
    ("kind", "code"),
    {
        "a lambda": "total = lambda rows: rows * TWO",
        "one of two lambdas on a line": "no, total = (lambda rows: rows), (lambda rows: rows * TWO)",
        "a nested function": "def total(rows):\n    def twice(row):\n        return row * TWO\n    return twice(rows)",
        "a partial": "def times(rows, by):\n    return rows * by\ntotal = partial(times, by=TWO)",
        "a decorator": "def scaled(by):\n    def around(f):\n        @wraps(f)\n        def inner(rows):\n"
        "            return f(rows) * by\n        return inner\n    return around\n"
        "@scaled(TWO)\ndef total(rows):\n    return rows",
        "what a decorator wraps": "def same(f):\n    @wraps(f)\n    def inner(rows):\n        return f(rows)\n"
        "    return inner\n@same\ndef total(rows):\n    return rows * TWO",
        "a cached function": "@cache\ndef by():\n    return TWO\ndef total(rows):\n    return rows * by()",
        "a method": "class Sums:\n    by = TWO\n    def of(self, rows):\n        return rows * self.by\n"
        "total = Sums().of",
        "a class method": "class Sums:\n    @classmethod\n    def of(cls, rows):\n        return rows * TWO\n"
        "def total(rows):\n    return Sums.of(rows)",
        "a base class": "class Base:\n    def by(self):\n        return TWO\nclass Sums(Base):\n    pass\n"
        "def total(rows):\n    return rows * Sums().by()",
        "a default": "def total(rows, by=TWO):\n    return rows * by",
        "a function of Python that Spark calls": "@F.udf(IntegerType())\ndef twice(row):\n    return row * TWO\n"
        "def total(rows):\n    return twice(rows)",
        "a value that is made by an expression": "COLUMN = object() if TWO == 9 else [TWO, object]\n"
        "def total(rows):\n    return COLUMN",
        "a function in a constant": "def by(rows):\n    return rows * TWO\nALL = (by,)\n"
        "def total(rows):\n    return ALL[0](rows)",
        "recursion": "def down(n):\n    return up(n - 1)\ndef up(n):\n    return TWO if n < 0 else down(n)\n"
        "def total(rows):\n    return up(rows)",
        "an f-string": "def total(rows):\n    return f'a {rows} b' f'{TWO:>3}'",
        "a pattern": "def total(rows):\n    match rows:\n        case [a, *_, TWO.real]:\n            return a\n",
    }.items(),
)
def test_logic_is_followed_however_it_is_written(logic: Write, kind: str, code: str) -> None:
    """Each of these hides ``TWO`` in another way."""
    code = code.replace("{", "{{").replace("}", "}}")
    made = [logic(f"{_IMPORTS}\nTWO = {two}\n{code}\n", "") for two in (2, 2, 3)]
    assert made[0].fingerprint == made[1].fingerprint != made[2].fingerprint, kind
    assert not made[0].unread


def test_what_is_installed_counts_by_its_name_alone(logic: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another patch of Spark may write its functions otherwise, and elsewhere."""
    from pyspark.sql import functions

    before = logic()
    monkeypatch.setattr(functions, "round", lambda column, scale=0: column)
    monkeypatch.setattr("pyspark.__version__", "4.2.99")
    assert logic().fingerprint == before.fingerprint


def test_what_the_system_has_installed_is_no_code_of_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that shares the packages of the system does not name their folder."""
    importlib.import_module("pyspark.sql.column")
    monkeypatch.setattr(source_code, "_installed", lambda: ("/elsewhere",))
    source_code._is_beside.cache_clear()
    assert not source_code.Project.around("shop.datasets").owns("pyspark.sql.column")
    source_code._is_beside.cache_clear()


def test_what_a_version_reads_is_part_of_it() -> None:
    def total(rows: object) -> object:
        return rows

    one, other = (Version("v1", "", (Reads("bronze_rates", first),), total) for first in (-7, -6))  # type: ignore[arg-type]
    assert logic_of(one).fingerprint != logic_of(other).fingerprint
    assert logic_of(one) is logic_of(one), "it is read once a process"


ASKS = {
    "F.current_date()": "F.current_date",
    "F.current_timestamp().cast('date')": "F.current_timestamp",
    "F.now()": "F.now",
    "F.rand(3)": "F.rand",
    "F.randn()": "F.randn",
    "F.uuid()": "F.uuid",
    "F.shuffle('a')": "F.shuffle",
    "F.monotonically_increasing_id()": "F.monotonically_increasing_id",
    "F.spark_partition_id()": "F.spark_partition_id",
    "F.input_file_name()": "F.input_file_name",
    "F.unix_timestamp()": "F.unix_timestamp",
    "rand()": "F.rand",
    "datetime.now()": "datetime.datetime.now",
    "dt.date.today()": "datetime.date.today",
    "time.time()": "time.time",
    "random.random()": "random.random",
    "uuid4()": "uuid.uuid4",
    "os.environ['A']": "os.environ",
    "os.environ.get('A')": "os.environ.get",
    "F.expr('current_date')": "current_date in SQL",
    "rows.selectExpr('day', 'rand() AS r')": "rand() in SQL",
    "rows.where('day < current_date()')": "current_date() in SQL",
    "rows.where(f'day < {1} AND now() > day')": "now() in SQL",
    "F.call_function('uuid')": "uuid() in SQL",
    "F.expr(SQL)": "shuffle() in SQL",
    "rows.sample(0.5)": ".sample()",
    "TODAY": "datetime.date.today",
}
FINE = (
    "F.unix_timestamp('at')",
    "F.to_date('current_date')",
    "F.col('now')",
    "rows.where(F.col('current_date') == 'rand()')",
    "F.expr(\"note = 'now()'\")",
    "F.expr('brand(1)')",
    "F.lit('current_date')",
    "datetime(2017, 1, 1)",
    "F.date_sub('day', 3)",
)
_HEAD = """
import datetime as dt
import os, random, time
from datetime import date, datetime
from uuid import uuid4
from pyspark.sql import functions as F
from pyspark.sql.functions import rand
SQL = "shuffle(x)"
TODAY = date.today()
"""


@pytest.mark.parametrize("call", ASKS)
def test_a_clock_and_randomness_are_found_with_file_and_line(logic: Write, call: str) -> None:
    """However they are imported, in a function that is called, in SQL, and in how a constant is made."""
    code = call.replace("{", "{{").replace("}", "}}")
    found = logic(
        f"{_HEAD}\ndef inner(rows):\n    return {code}\n\ndef total(rows):\n    return inner(rows)\n", ""
    ).asks
    assert [each.what for each in found][:1] == [ASKS[call]] or ASKS[call] in {each.what for each in found}
    assert {each.file.partition("/")[2] for each in found} == {"tables.py"}
    lines = {each.line for each in found if each.what == ASKS[call]}
    assert lines == ({9} if call == "TODAY" else {12})


@pytest.mark.parametrize("call", FINE)
def test_what_only_looks_like_a_clock_is_none(logic: Write, call: str) -> None:
    assert logic(f"{_HEAD}\ndef total(rows):\n    return {call}\n", "").asks == ()


def test_what_cannot_be_read_is_named(logic: Write) -> None:
    main = """
    SEEN = []
    LIMITS = [1, 2]
    exec("def made(rows): return rows")

    def total(rows):
        SEEN.append(1)
        return eval("rows"), made(rows), len(SEEN), LIMITS
    """
    found = logic(main, "").unread
    assert any("SEEN" in each and "is changed while it is used" in each for each in found)
    assert any("tables.py:8 uses eval" in each for each in found)
    assert any("made has no source" in each for each in found)
    assert not any("LIMITS" in each for each in found), "a list that nothing changes is a constant"
