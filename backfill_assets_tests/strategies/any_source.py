"""Generated raw rows of sources of every kind: every type, several keys, numbered lines, fields declared later."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any

import pyarrow as pa
from pyspark.sql import types as T

from backfill_assets.examples.datasets.sales import SALES
from backfill_assets.judge.engine import columns_of
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.declaration import OCCURRENCE, Source
from backfill_assets.model.landed import raw_contract
from backfill_assets.model.landed_dataset import LandedDataset
from backfill_assets.model.measure import ContentHash
from backfill_assets.model.refinement import Refinement
from backfill_assets_tests.strategies.values_by_python import content_hash
from backfill_assets_tests.strategies.xxh64 import chained

DAY = date(2017, 3, 1)
Texts = Mapping[str, Sequence[str | None]]
"""What a field says, by its name."""
NUMBERS = ("1", "+7", "07", "7", "-3", "0", "x", "", None, "1.0", " 1", "1\n", "9" * 18, "9" * 19, "\uff11")
AMOUNTS = ("0.50", "12.3", "7", "+1.00", "-1.20", "1.230000", "1.005", "12,3x", "", None, "9" * 16, "9" * 17, "-0.00")
MOMENTS = (
    *("2017-03-01T10:00:00Z", "2017-03-01T10:00:00.5Z", "2017-03-01T10:00:00.500000Z", "2017-03-01T12:00:00+02:00"),
    *("2017-03-01T10:00:00.123456789Z", "0000-01-01T00:00:00Z", "2017-02-30T00:00:00Z", "2017-03-01T24:00:00Z"),
    *("2017-03-01T10:00:00-00:00", "yesterday", "", None, "9999-12-31T23:59:59.999999Z", "2017-03-01T10:00:00Z\n"),
)
DAYS = ("2017-03-01", "2017-02-30", "0000-02-29", "9999-12-31", "2017-3-1", "", None, "2017-03-01\r\n")
BINARIES = (
    *(
        "0.1",
        "-0.0",
        "0",
        "1e5",
        "1.5e-3",
        "NaN",
        "Infinity",
        "-Infinity",
        "1e309",
        "5e-324",
        "1e-999",
        "1e16",
        "123456.7",
    ),
    *("123456.7", "1e39", "16777217", "1e", ".5", "", None, "-1.5", "-1.50", "0.10", "3.0\n", "nan", "1,5"),
)
LISTS = (
    *(
        "[]",
        "[1,2]",
        "[ 1 , 2 ]",
        '["1","2"]',
        "[1.50,null]",
        '["a,b","]","\\"","\\u00e9"]',
        "[32768]",
        "[[1]]",
        '{"a":1}',
    ),
    *('["NaN"]', "[-0.0]", "[1,]", "[1]\n", "1,2", "", None, "[true]", '["\\ud83d"]', '[{"a":1}]'),
)
TRUTHS = ("true", "false", "True", "1", "", None, "true\n")
WORDS = ("a", "-", "\\", "a-b", "a\\", "\\-", "", None, "a'b", "\u00e9", "\U0001f600", "a\nb")


def dataset(row: type[Contract], **more: Any) -> LandedDataset:
    declared = LandedDataset(
        name="visits",
        description="",
        owners=(),
        first_day=DAY,
        rows="visits",
        most_rows=10,
        tolerated_rejects=1,
        **more,
    )
    declared.row("v1", "")(row)
    return declared


class Sale(Contract):
    """Every type, and a key of four parts."""

    id: T.StringType = Field(key=True, joined=("shop", "number", "opened_at", "lane"))
    shop: T.StringType = Field(notin=["\u00e9"], ne="a'b")
    number: T.LongType = Field(in_range={"min_value": 0, "max_value": 10**17})
    lane: T.StringType = Field(str_length={"max_value": 2}, str_matches="[^-]|-$")
    opened_at: T.TimestampType = Field(nullable=True)
    seen_on: T.DateType = Field(event_day=True, ge=date(1000, 1, 1), lt=date(9999, 12, 31))
    amount: Annotated[T.DecimalType, 18, 2] = Field(nullable=True, ge=0, lt=10**15)
    weight: Annotated[T.DecimalType, 38, 12] = Field(nullable=True, gt=-1)
    sent_at: T.TimestampType = Field(version=True)


class Passage(Contract):
    """No key of its own: identical lines are numbered."""

    lane: T.StringType = Field(key=True)
    toll: Annotated[T.DecimalType, 9, 2] = Field(key=True, nullable=True)
    passed_at: T.TimestampType = Field(event_day=True, version=True)


class Visit(Contract):
    """Fields that rows carried before they were declared."""

    id: T.LongType = Field(key=True, ge=0)
    seen_at: T.TimestampType = Field(event_day=True)
    sent_at: T.TimestampType = Field(version=True, nullable=True)
    till: T.LongType = Field(nullable=True, rescued=True, isin=[7, 8])
    lane: T.StringType = Field(rescued=True, str_length={"min_value": 1})


class Weighing(Contract):
    """Numbers in base 2, truth values and short whole numbers, as Python has them and as Spark does."""

    scale: T.ShortType = Field(key=True, ge=-1)
    run: T.IntegerType = Field(key=True, nullable=True)
    slot: T.ByteType = Field(isin=[1, 2, -128])
    day_of: date = Field(event_day=True)
    kilos: float = Field(ge=-1.5, lt=1e300)
    drift: T.FloatType = Field(nullable=True, in_range={"min_value": -1, "max_value": 10**6})
    whole: bool = Field(nullable=True, eq=True)
    checked: bool = Field()
    at: datetime = Field(version=True)
    paid: Decimal = Field(nullable=True, ge=0)
    count: int = Field(nullable=True)
    by: str = Field(nullable=True)
    tags: list[str] = Field(nullable=True)
    tares: list[float] = Field()
    lots: list[T.ShortType] = Field(nullable=True)


class Shift(Contract):
    """A key that may be absent, as versions have it that were declared when that was allowed."""

    place: T.StringType = Field(key=True, nullable=True)
    worked: T.DateType = Field(event_day=True)
    round: T.LongType = Field(version=True, nullable=True)


class Duty(Contract):
    """Fields that are landed as columns of ours are called."""

    place: T.StringType = Field(key=True, landed="reasons", str_length={"min_value": 1})
    work_day: T.DateType = Field(key=True, event_day=True, landed="day")
    round: T.LongType = Field(version=True)


RESCUED = (
    *(None, '{"till":"7","lane":"left"}', '{"till":7,"other":"\\u00e9\\""}', '{"lane":null}', "broken", "[1]", "{}"),
    *('{"lane":{"a":[1,"b"]}}', '{"till":"x","lane":""}'),
)
OF_SALES: Texts = {
    "household_token": ["ab" * 32, "x", None],
    "basket_id": ["1", "2", "3", "4", "5", None],
    "product_id": ["1"],
    "quantity": ["1"] * 40 + list(NUMBERS),
    "sales_value": ["0.50", "0.5", "1"] * 20 + list(AMOUNTS),
    "transaction_timestamp": ["2017-03-01T11:53:26Z"] * 20 + list(MOMENTS),
    "currency": ["USD"] * 9 + ["usd", "USDX\n"],
    "updated_at": ["2017-03-01T10:00:00Z", "2017-03-01T10:00:00.5Z"] * 20 + list(MOMENTS),
}
CASES: Mapping[str, tuple[Refinement, Texts]] = {
    "sales": (SALES.refinement(), OF_SALES),
    "late": (replace(SALES.refinement(), takes_days=7), OF_SALES),
    "every type": (
        dataset(Sale).refinement(),
        {
            "shop": WORDS,
            "lane": WORDS,
            "number": NUMBERS,
            "opened_at": MOMENTS,
            "seen_on": ["2017-03-01"] * 9 + list(DAYS),
            "amount": AMOUNTS,
            "weight": AMOUNTS,
            "sent_at": MOMENTS,
        },
    ),
    "a key": (
        dataset(Sale).refinement(),
        {
            "shop": ["a", "-", "\\", "a-b"],
            "lane": ["-", "b", "\\-"],
            "number": ["7", "07", "+7", "8"],
            "opened_at": ["2017-03-01T10:00:00Z", "2017-03-01T10:00:00.50Z", "2017-03-01T10:00:00.5Z"],
            "seen_on": ["2017-03-01"],
            "amount": ["1", "1.00"],
            "weight": ["1", None],
            "sent_at": ["2017-03-01T10:00:00Z", "2017-03-01T12:00:00+02:00", "2017-03-01T11:00:00Z"],
        },
    ),
    "numbered": (
        dataset(Passage, numbered=True).refinement(),
        {
            "lane": ["a", "b", "", None],
            "toll": ["1.00", "1", "2", "x", None],
            "passed_at": ["2017-03-01T10:00:00Z", "2017-03-01T10:00:00.0Z", "2017-03-01T10:00:01Z"],
        },
    ),
    "rescued": (
        dataset(Visit).refinement(),
        {
            "id": ["1", "01", "2", "3", "-1", "x", None],
            "seen_at": ["2017-03-01T10:00:00Z", "2017-03-01T12:00:00+02:00"],
            "sent_at": ["2017-03-01T10:00:00Z", "2017-03-01T10:00:00.1234567Z", None, "x"],
            "till": ["7", "8", "9", "x", None, None, None],
            "lane": ["a", "", None, None, None],
            "rescued": RESCUED,
        },
    ),
    "binary": (
        dataset(Weighing).refinement(),
        {
            "scale": ["1", "01", "2", "3", "-32768", "32768", None],
            "run": ["7", "+7", "8", "2147483647", "2147483648", None],
            "slot": ["1"] * 9 + ["2", "-128", "128", "x"],
            "day_of": ["2017-03-01"] * 9 + ["x"],
            "kilos": ["0.5"] * 20 + list(BINARIES),
            "drift": ["0.5"] * 20 + list(BINARIES),
            "whole": ["true"] * 9 + list(TRUTHS),
            "checked": ["true", "false"] * 9 + list(TRUTHS),
            "at": ["2017-03-01T10:00:00Z", "2017-03-01T12:00:00.000000001+02:00", "2017-03-01T11:00:00Z"] * 3 + ["x"],
            "paid": ["1", "1.50", "0." + "1" * 18] * 5 + list(AMOUNTS),
            "count": ["1", "2"] * 5 + list(NUMBERS),
            "by": WORDS,
            "tags": LISTS,
            "tares": ["[0.5,1]"] * 9 + list(LISTS),
            "lots": ["[1]"] * 20 + list(LISTS),
        },
    ),
    "another name": (
        dataset(Duty).refinement(),
        {"place": ["a", "b", "", None], "work_day": ["2017-03-01"] * 9 + list(DAYS), "round": ["1", "2", "x", None]},
    ),
    "an absent key": (
        dataset(Shift).refinement(),
        {"place": ["a", "b", "", None], "worked": ["2017-03-01"], "round": ["1", "2", "x", None]},
    ),
}


def raw_rows(chance: random.Random, refinement: Refinement, texts: Texts, count: int) -> list[dict[str, Any]]:
    """Rows of two days, in files that arrived on different ones; some are markers, or no JSON object.

    A source that numbers its lines can have no markers.
    """
    source, markers = refinement.source, 0 if OCCURRENCE in refinement.key else 0.1

    def row(number: int) -> dict[str, Any]:
        arrival = DAY + timedelta(chance.choice([0, 0, 1, 9]))
        said = {
            name: chance.choice(texts.get(name, ["0"])) for name in (*source.columns, "rescued") if name != "rescued"
        }
        added = {
            "rescued": chance.choice(texts.get("rescued", [None])),
            "unparsed_line": chance.choice([None] * 30 + ["[1]"]),
            "record_kind": "received",
            "source_file": f"visits/{arrival}/{chance.choice('ab')}.jsonl.gz",
            "source_line": number // 2,
            "arrival_day": arrival,
            "day_is_arrival": chance.random() < 0.1,
            "content_hash": 0,
            "superseded_by_day": None,
            "day": DAY + timedelta(chance.choice([0, 0, 1])),
        }
        return {**said, **added, **(_marker(chance) if chance.random() < markers else {})}

    return [row(number) for number in range(count)]


def _marker(chance: random.Random) -> dict[str, Any]:
    none = dict.fromkeys(("source_file", "source_line", "arrival_day", "rescued", "unparsed_line"))
    moved = DAY + timedelta(chance.choice([3, 4]))
    return {
        **none,
        "record_kind": "supersession",
        "superseded_by_day": moved,
        "content_hash": chance.choice([-5, 5]),
        "day_is_arrival": False,
    }


def raw_of(refinement: Refinement, texts: Texts, seed: int, count: int = 250) -> pa.Table:
    """Hashed as ingestion hashes them: now, when moments had one form, and before some fields were declared."""
    source = refinement.source
    rows = raw_rows(random.Random(seed), refinement, texts, count)
    received = (row for row in rows if row["record_kind"] == "received")
    for row in received:
        row["content_hash"] = _hash_of_then(row, source)
    return pa.Table.from_pylist(rows, columns_of(raw_contract(source)))


def _hash_of_then(row: Mapping[str, Any], source: Source) -> int:
    if row["unparsed_line"] is not None:
        return chained([row["unparsed_line"]])
    texts = {name: row[name] for name in source.columns}
    known = [each.source for each in ContentHash(source, "text").by_fields_known()]
    made = [(source, False), *((each, as_before) for each in known for as_before in (False, True))]
    then, as_before = made[row["source_line"] % len(made)]
    return content_hash(texts, then, as_before=as_before)
