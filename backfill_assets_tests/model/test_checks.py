from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Annotated, Any

import ibis
import pandera.ibis as pandera
import pyarrow as pa
import pytest
from pandera.errors import SchemaErrors
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_type

from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.judge.engine import columns_of, database
from backfill_assets.model.checks import KINDS, pandera_schema
from backfill_assets.model.contract import CHECKS, Contract, Field, once, spark_types
from backfill_assets.model.declaration import Source
from backfill_assets.model.landed import raw_contract
from backfill_assets.model.landed_dataset import LandedDataset
from backfill_assets.model.refinement import Refinement
from backfill_assets.spark.worker_queries import sql_of

DAY = date(2017, 3, 1)


class EveryCheck(Contract):
    """One column for every check that is translated, twice where it takes options."""

    ge: Annotated[T.DecimalType, 9, 2] = Field(nullable=True, ge=0)
    gt: T.LongType = Field(nullable=True, gt=3)
    le: T.LongType = Field(nullable=True, le=3)
    lt: T.DateType = Field(nullable=True, lt=date(2017, 3, 1))
    closed: T.LongType = Field(nullable=True, in_range={"min_value": 1, "max_value": 3})
    opened: T.LongType = Field(
        nullable=True, in_range={"min_value": 1, "max_value": 3, "include_min": False, "include_max": False}
    )
    eq: T.StringType = Field(nullable=True, eq="a")
    ne: T.StringType = Field(nullable=True, ne="a")
    isin: T.StringType = Field(nullable=True, isin=["a", "b"])
    notin: T.StringType = Field(nullable=True, notin=["a", "b"])
    matches: T.StringType = Field(nullable=True, str_matches="[A-Z]{3}$")
    least: T.StringType = Field(nullable=True, str_length={"min_value": 2})
    most: T.StringType = Field(nullable=True, str_length={"max_value": 2})
    present: T.StringType = Field(nullable=False)
    real: T.DoubleType = Field(nullable=False, ge=-1.5)


SOUND: Mapping[str, Any] = {
    "ge": Decimal("0.00"),
    "gt": 4,
    "le": 3,
    "lt": date(2017, 2, 28),
    "closed": 3,
    "opened": 2,
    "eq": "a",
    "ne": "b",
    "isin": "b",
    "notin": "c",
    "matches": "USD",
    "least": "ab",
    "most": "ab",
    "present": "",
    "real": 0.5,
}
BREACHES: list[tuple[str, Any, str]] = [
    ("ge", Decimal("-0.01"), "ge: not greater than or equal to 0 (was -0.01)"),
    ("gt", 3, "gt: not greater than 3 (was 3)"),
    ("le", 4, "le: not less than or equal to 3 (was 4)"),
    ("lt", date(2017, 3, 1), "lt: not less than 2017-03-01 (was 2017-03-01)"),
    ("closed", 4, "closed: not in [1, 3] (was 4)"),
    ("closed", 0, "closed: not in [1, 3] (was 0)"),
    ("opened", 1, "opened: not in (1, 3) (was 1)"),
    ("opened", 3, "opened: not in (1, 3) (was 3)"),
    ("eq", "b", "eq: not equal to a (was b)"),
    ("ne", "a", "ne: equal to a (was a)"),
    ("isin", "c", "isin: not one of a, b (was c)"),
    ("notin", "a", "notin: one of a, b (was a)"),
    ("matches", "xUSD", "matches: does not match ^[A-Z]{3}$ (was xUSD)"),
    ("least", "a", "least: not 2.. characters long (was a)"),
    ("most", "abc", "most: not 0..2 characters long (was abc)"),
    ("present", None, "present: is missing"),
    ("real", -2.5, "real: not greater than or equal to -1.5 (was -2.5)"),
    ("real", math.nan, "real: is not a number"),
]


def _columns_that_pandera_rejects(*rows: Mapping[str, Any]) -> set[str]:
    """Pandera runs a query for every check, and says what is broken in a table."""
    kinds = {name: to_arrow_type(kind, timezone="UTC") for name, kind in spark_types(EveryCheck).items()}
    held = ibis.memtable(pa.Table.from_pylist([*map(dict, rows)], pa.schema(list(kinds.items()))))
    try:
        pandera_schema(EveryCheck).validate(held, lazy=True)
    except SchemaErrors as errors:
        return {error.schema.name for error in errors.schema_errors}
    return set()


def _as_landed(contract: type[Contract]) -> Refinement:
    """Rows of ``contract`` as they land: each with a key, a day and a version."""
    needed = {
        "id": (T.StringType, Field(key=True)),
        "at": (T.TimestampType, Field(event_day=True)),
        "sent": (T.TimestampType, Field(version=True)),
    }
    annotations = {name: kind for name, (kind, _) in needed.items()}
    fields = {name: field for name, (_, field) in needed.items()}
    row = type("Row", (contract,), {**fields, "__annotations__": annotations, "__module__": __name__})
    dataset = LandedDataset(
        name="rows", description="", owners=(), first_day=DAY, rows="rows", most_rows=10, tolerated_rejects=1
    )
    dataset.row("v1", "")(row)
    return dataset.refinement()


@once
def _queries(contract: type[Contract]) -> tuple[Source, str, tuple[str, str]]:
    """Of raw rows and of judged ones: accepted and rejected, compiled once for all rows."""
    asked = _as_landed(contract)
    raw = ibis.table(ibis.Schema.from_pyarrow(columns_of(raw_contract(asked.source))), name="raw")
    judged = asked.judged(raw)
    found = asked.tables(ibis.table(judged.schema(), name="judged"))
    return asked.source, sql_of(judged), (sql_of(found["bronze_rows"]), sql_of(found["quarantine_rows"]))


def _reasons(contract: type[Contract], rows: Sequence[Mapping[str, object]]) -> list[list[str]]:
    """Why each of ``rows``, of text or of values, is rejected by the query of bronze; nothing for a sound one."""
    source, judged, of_judged = _queries(contract)
    moment, added = f"{DAY}T10:00:00Z", {"source_file": "a", "content_hash": 0, "arrival_day": DAY, "day": DAY}
    landed = [
        {name: None if value is None else _landed(value) for name, value in row.items()}
        | {"id": str(at), "at": moment, "sent": moment, "record_kind": "received", "day_is_arrival": False}
        | {**added, "source_line": at}
        for at, row in enumerate(rows)
    ]
    with database(threads=1) as connection:
        connection.register("raw", pa.Table.from_pylist(landed, columns_of(raw_contract(source))))
        connection.execute(f"CREATE TEMP TABLE judged AS {judged}")
        accepted, rejected = (connection.execute(asked).to_arrow_table() for asked in of_judged)
    told = {row["source_line"]: row["reasons"] for row in rejected.to_pylist()}
    kept = set(accepted["source_line"].to_pylist())
    assert kept == set(range(len(rows))) - told.keys()
    return [told.get(at, []) for at in range(len(rows))]


def _landed(value: object) -> str:
    return "NaN" if isinstance(value, float) and math.isnan(value) else str(value)


def test_a_breach_is_reported_in_words_with_the_value() -> None:
    """The known answer for every check that is translated; none is left out."""
    found = _reasons(EveryCheck, [{**SOUND, column: value} for column, value, _ in BREACHES])
    assert found == [[reason] for _, _, reason in BREACHES]
    used = {check for field in EveryCheck.fields().values() for check in field.checks}
    assert used == set(CHECKS) and tuple(KINDS) == CHECKS


def test_verdicts_are_those_of_pandera() -> None:
    """The query asks of landed rows what pandera asks of a table."""
    nothing = {**dict.fromkeys(SOUND), "present": "x", "real": 0.0}
    low = {**SOUND, **{column: value for column, value, _ in BREACHES}}
    high = {**SOUND, **{column: value for column, value, _ in reversed(BREACHES)}}
    rows = [SOUND, nothing, low, high]
    ours = [{reason.split(":")[0] for reason in reasons} for reasons in _reasons(EveryCheck, rows)]
    assert ours == [set(), set(), set(SOUND), set(SOUND)]
    assert [_columns_that_pandera_rejects(*some) for some in ((SOUND, nothing), (low,), (high,))] == ours[1:]


def test_every_alternative_of_a_pattern_is_looked_for_at_the_start() -> None:
    class Either(Contract):
        one: T.StringType = Field(str_matches="EUR|USD")
        other: T.StringType = Field(str_matches="^EUR|USD")

    texts = ("EUR", "USD", "xUSD", "xEUR")
    wrong = [[f"{name}: does not match ^EUR|USD (was {text})" for name in ("one", "other")] for text in texts[2:]]
    assert _reasons(Either, [{"one": text, "other": text} for text in texts]) == [[], [], *wrong]


FOUND = {
    "^[A-Z]{3}$": ["EUR"],
    "EUR$|USD": ["EUR"],
    "[$A-Z]+$": ["EUR", "EURO", "$"],
    r"a\$b$": ["a$b"],
    r"\$": ["$"],
    "[]$]$": ["$"],
}
"""The texts that a pattern is found in."""


def test_the_end_of_a_pattern_is_that_of_the_text() -> None:
    """And no end of a line before it. What is faster says what pandera's own function says."""
    texts = ["EUR\n", "EUR\r\n", "EUR\u0085", "EUR", "EURO", "$", "a$b"]
    held, kind = ibis.memtable({"text": texts}), KINDS["str_matches"]
    for one in (kind, replace(kind, faster=None)):
        found = {each: held.filter(one.of(held, "text", each)).to_pyarrow()["text"].to_pylist() for each in FOUND}
        assert {each: sorted(some) for each, some in found.items()} == {e: sorted(some) for e, some in FOUND.items()}


def test_what_could_not_be_read_is_distinguished_from_what_is_missing() -> None:
    """Both are null when typed; whether the contract allows nulls decides about one, never about the other."""
    rows = [{**SOUND, "ge": "12,3x"}, {**SOUND, "ge": None}]
    assert _reasons(EveryCheck, rows) == [["ge: '12,3x' is not a decimal(9,2)"], []]


@pytest.mark.parametrize(
    ("annotated", "declared", "what"),
    [
        ([], {"name": Field(ge=0)}, "name"),
        (["name"], {}, "name"),
        (["name"], {"name": Field(str_startswith="a")}, "name: str_startswith"),
        (["name"], {"name": Field(), "Config": type("Config", (), {"unique": ["name"]})}, "Config"),
        (["name"], {"name": Field(), "is_short": pandera.check("name")(lambda cls, column: True)}, "is_short"),
    ],
    ids=["no type", "no field", "a check that is not translated", "unique", "a check of its own"],
)
def test_what_cannot_be_judged_on_rows_cannot_be_declared(
    annotated: list[str], declared: dict[str, object], what: str
) -> None:
    """At import, not at the first run: a rule that is silently not checked is worse than none."""
    types = {"__annotations__": dict.fromkeys(annotated, T.StringType), "__module__": __name__}
    with pytest.raises(InvalidRequest, match=f"The contract Declared .*{what}"):
        type("Declared", (Contract,), {**declared, **types})


def test_every_contract_is_the_pandera_schema_it_declares() -> None:
    """What is read without pandera and what pandera makes of it are one: columns, order, nullability, words, checks."""
    for table in CATALOG.tables:
        made, declared = pandera_schema(table.contract).columns, table.contract.fields()
        assert list(made) == list(declared), table.name
        for name, field in declared.items():
            column = made[name]
            assert (column.nullable, column.description) == (field.nullable, field.description)
            assert [check.name for check in column.checks] == [
                kind.pandera for check, kind in KINDS.items() if check in field.checks
            ]
