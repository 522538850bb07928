"""The declared query beside plain Python, row by row, over generated raw rows of sources of every kind."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import Annotated, Any

import pytest
from ibis import Schema
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.examples.datasets.sales import SALES
from backfill_assets.judge.engine import columns_of, engine, stored, streamed
from backfill_assets.landing.deletions import as_deletions
from backfill_assets.landing.raw_rows import raw_schema
from backfill_assets.model import bronze_query
from backfill_assets.model.canonical import content_hash_as_before, raw_content_hash
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.declaration import OCCURRENCE
from backfill_assets.model.landed import raw_contract
from backfill_assets.model.landed_dataset import LandedDataset
from backfill_assets.model.measure import ContentHash
from backfill_assets.model.refinement import Refinement
from backfill_assets_tests.strategies.by_the_query import accepted, rejected, standing_rows

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


class Shift(Contract):
    """A key that may be absent, and the day as a landed field."""

    place: T.StringType = Field(key=True, nullable=True)
    day: T.DateType = Field(event_day=True)
    round: T.LongType = Field(version=True, nullable=True)


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
    "an absent key": (
        dataset(Shift).refinement(),
        {"place": ["a", "b", "", None], "day": ["2017-03-01"], "round": ["1", "2", "x", None]},
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


def raw_of(spark: SparkSession, refinement: Refinement, texts: Texts, seed: int, count: int = 250) -> DataFrame:
    """Hashed as ingestion hashes them: now, when moments had one form, and before some fields were declared."""
    source, chance = refinement.source, random.Random(seed)
    schema = T.StructType(
        [field for field in raw_schema(source).fields if field.name != "day" or field.dataType == T.DateType()]
    )
    rows = raw_rows(chance, refinement, texts, count)
    frame = spark.createDataFrame([tuple(row[name] for name in schema.names) for row in rows], schema)
    known = [each.source for each in ContentHash(source, "text").by_fields_known()]
    made = [
        raw_content_hash(source),
        *(hash_of(each) for each in known for hash_of in (raw_content_hash, content_hash_as_before)),
    ]
    chosen = F.coalesce(*(F.when(F.pmod("source_line", F.lit(len(made))) == at, each) for at, each in enumerate(made)))
    return frame.withColumn(
        "content_hash", F.when(F.col("record_kind") == "received", chosen).otherwise(F.col("content_hash"))
    )


@pytest.mark.parametrize("case", CASES)
def test_the_query_gives_what_plain_python_gives(spark: SparkSession, case: str) -> None:
    """Reasons, values, winners, what they won over, markers and numbers; of a whole day, and of parts of its keys."""
    refinement, texts = CASES[case]
    raw = raw_of(spark, refinement, texts, seed=len(case)).cache()
    kept, set_aside = accepted(raw, refinement).count(), rejected(raw, refinement).count()
    assert kept and set_aside
    raw.unpersist()


@pytest.mark.parametrize("case", ["sales", "rescued"])
def test_the_rows_that_stand_are_those_that_spark_leaves(spark: SparkSession, case: str) -> None:
    """Where rows came twice, were taken back once or twice, and arrived on other days."""
    refinement, texts = CASES[case]
    raw = raw_of(spark, refinement, texts, seed=1, count=60).cache()
    again = raw.sample(0.3, seed=2).withColumn("arrival_day", F.date_add("arrival_day", 1))
    gone = as_deletions(raw.sample(0.4, seed=3).union(again.sample(0.5, seed=4)))
    assert standing_rows(raw.union(again).union(gone), refinement.source).count()
    raw.unpersist()


_MANY, _AGAIN = 2_400_000, 60_000


def _passages(many: int, again: int) -> tuple[str, Schema]:
    """So many lines, and some of them again: a query, and the columns of its rows."""
    said = {
        "lane": f"(i % {many})::varchar",
        "toll": "'1'",
        "passed_at": "'2017-03-01T10:00:00Z'",
        "record_kind": "'received'",
        "source_file": "'a'",
        "source_line": "i",
        "arrival_day": "DATE '2017-03-01'",
        "day_is_arrival": "false",
        "content_hash": f"i % {many}",
        "day": "DATE '2017-03-01'",
    }
    columns = columns_of(raw_contract(CASES["numbered"][0].source))
    listed = ", ".join(f"{said.get(name, 'NULL')} AS {name}" for name in columns.names)
    asked = f"SELECT {listed} FROM range({many + again}) AS t(i)"  # noqa: S608 - written above
    return asked, Schema.from_pyarrow(columns)


@pytest.mark.data
def test_the_parts_of_a_day_that_numbers_its_lines_have_each_row_once() -> None:
    """Where the number is all of the key, one part has all rows."""
    numbered, _ = CASES["numbered"]
    asked, columns = _passages(300, 40)
    for key in (numbered.key, (OCCURRENCE,)):
        refinement, found = replace(numbered, key=key), Counter[tuple[int, int]]()
        with engine(threads=1) as connection:
            for part in range(3):
                raw = connection.sql(asked, schema=columns)
                known = stored(bronze_query.judged(raw, refinement, (part, 3)))
                rows = bronze_query.accepted(known, refinement).to_pyarrow().to_pylist()
                found.update((row["content_hash"], row["occurrence"]) for row in rows)
        places = Counter(occurrence for _, occurrence in found.elements())
        assert places == ({1: 1, 2: 1} if key == (OCCURRENCE,) else {1: 300, 2: 40})
        assert set(found.values()) == {1}


@pytest.mark.long
def test_a_large_day_with_many_lines_again_is_streamed_by_one_thread() -> None:
    """DuckDB would wait for itself if the rows of a window came after those of which many wait to be taken."""
    refinement, _ = CASES["numbered"]
    asked, columns = _passages(_MANY, _AGAIN)
    with engine(threads=1) as connection:
        known = stored(bronze_query.judged(connection.sql(asked, schema=columns), refinement))
        batches = streamed(bronze_query.accepted(known, refinement), 100_000)
        found = sum((Counter(batch["occurrence"].to_pylist()) for batch in batches), Counter())
    assert found == {1: _MANY, 2: _AGAIN}
