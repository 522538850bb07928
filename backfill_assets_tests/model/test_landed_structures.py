"""A landed structure is one value of the parts that are declared, and has one text; plain Python says which."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

import ibis
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.errors import InvalidRequest
from backfill_assets.judge.engine import database
from backfill_assets.model.canonical import canonical_text as by_spark
from backfill_assets.model.declaration import require_landed_type
from backfill_assets.model.landed_structures import plain_structure, structure_of
from backfill_assets.model.landed_values import canonical_text, parsed
from backfill_assets.spark.worker_queries import sql_of
from backfill_assets_tests.strategies.how_many import drawn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TILL = "struct<id:bigint,at:timestamp,name:string,open:boolean>"
EVENT = f"struct<till:{TILL},items:array<struct<sku:string,price:decimal(10,2)>>,tags:map<string,bigint>>"
LANDED: Sequence[tuple[str, str, str | None]] = [
    (TILL, '{"id":1}', '{"id":1,"at":null,"name":null,"open":null}'),
    (TILL, '{ "open" : true , "id":"7", "more":{"a":[1]} }', '{"id":7,"at":null,"name":null,"open":true}'),
    (TILL, '{"at":"2017-03-01T01:00:00+01:00"}', '{"id":null,"at":1488326400000000,"name":null,"open":null}'),
    (
        TILL,
        '{"name":"a\\"\\\\\\u00e9\\ud83d\\ude00\\ud83d"}',
        '{"id":null,"at":null,"name":"a\\"\\\\é😀?","open":null}',
    ),
    (
        TILL,
        '{"name":{"first":"x", "n":1.50}}',
        '{"id":null,"at":null,"name":"{\\"first\\":\\"x\\",\\"n\\":1.50}","open":null}',
    ),
    (TILL, '{"name":12.10}', '{"id":null,"at":null,"name":"12.10","open":null}'),
    (TILL, "{}", '{"id":null,"at":null,"name":null,"open":null}'),
    *(
        (TILL, text, None)
        for text in ('{"id":1.5}', '{"id":1,"id":1}', "[1]", "{", '{"id":1}x', "x", "", "null", "{'id':1}")
    ),
    (TILL, '{"id":NaN}', None),
    (TILL, '{"open":"yes"}', None),
    (
        EVENT,
        '{"items":[{"price":1.5,"sku":2},null],"till":null}',
        '{"till":null,"items":[{"sku":"2","price":1.50},null],"tags":null}',
    ),
    (EVENT, '{"items":[{"price":1.505}]}', None),
    (EVENT, '{"items":{"price":1}}', None),
    (EVENT, '{"tags":{"b":1,"a":null}}', '{"till":null,"items":null,"tags":{"a":null,"b":1}}'),
    (EVENT, '{"tags":{"b":"x"}}', None),
    (EVENT, '{"tags":[1]}', None),
    ("map<string,double>", '{"b":1e5,"a":"x"}', None),
    (
        "map<string,map<string,date>>",
        '{"k":{"z":"2017-03-01","a":null},"j":{}}',
        '{"j":{},"k":{"a":null,"z":2017-03-01}}',
    ),
    ("array<struct<a:string>>", '[{"a":1},{"b":2}]', '[{"a":"1"},{"a":null}]'),
    ("array<map<string,array<bigint>>>", '[{"k":[1,2],"j":[]}]', '[{"j":[],"k":[1,2]}]'),
    ("array<struct<a:string>>", '{"a":1}', None),
]
"""A type, a text, and its one text; None for a text that is no value."""


def found(kind: str, texts: Sequence[str | None]) -> list[dict[str, Any]]:
    """The value of each text, and what it counts as."""
    with database(threads=1) as connection:
        connection.register("landed", pa.table({"text": pa.array(texts, pa.string())}))
        rows: list[dict[str, Any]] = connection.execute(_asked(kind)).to_arrow_table().to_pylist()
        return rows


@cache
def _asked(kind: str) -> str:
    rows = ibis.table({"text": "string"}, name="landed")
    return sql_of(rows.select(value=parsed(rows.text, kind), one=canonical_text(rows.text, kind)))


@pytest.mark.data
@pytest.mark.parametrize("kind", dict.fromkeys(kind for kind, _, _ in LANDED))
def test_a_structure_has_the_parts_that_are_declared(kind: str) -> None:
    """What is no value counts as its text, as with all other types."""
    texts = {text: one for of, text, one in LANDED if of == kind}
    rows = found(kind, list(texts))
    assert [row["one"] for row in rows] == [text if one is None else one for text, one in texts.items()]
    assert [row["value"] is None for row in rows] == [one is None for one in texts.values()]


@pytest.mark.spark
def test_spark_gives_each_structure_the_same_text(spark: SparkSession) -> None:
    for kind in dict.fromkeys(kind for kind, _, _ in LANDED):
        texts = {text: one for of, text, one in LANDED if of == kind}
        rows = spark.createDataFrame([(text,) for text in texts], "text string")
        ones = {row.text: row.one for row in rows.select("text", by_spark(rows["text"], kind).alias("one")).collect()}
        assert ones == {text: text if one is None else one for text, one in texts.items()}


_FIRST, _LAST = (datetime(year, 1, 1) for year in (1900, 2100))  # noqa: DTZ001 - as hypothesis wants bounds
_name = st.text(st.characters(codec="utf-8"), max_size=3)
_values = st.fixed_dictionaries(
    {
        "till": st.none()
        | st.fixed_dictionaries(
            {
                "id": st.none() | st.integers(-(10**17), 10**17),
                "at": st.none() | st.datetimes(_FIRST, _LAST, timezones=st.just(UTC)),
                "name": st.none() | _name,
                "open": st.none() | st.booleans(),
            }
        ),
        "items": st.none()
        | st.lists(
            st.none()
            | st.fixed_dictionaries({"sku": st.none() | _name, "price": st.none() | st.decimals(-9, 9, places=2)}),
            max_size=3,
        ),
        "tags": st.none() | st.dictionaries(_name, st.none() | st.integers(-9, 9), max_size=3),
    }
)


@pytest.mark.data
@settings(max_examples=drawn(3), deadline=None)
@given(events=st.lists(_values, min_size=5, max_size=20), order=st.randoms())
def test_a_structure_is_the_value_that_was_written(events: Sequence[Mapping[str, Any]], order: Any) -> None:
    """In whatever order its parts were, with others among them."""
    rows = found(EVENT, [json.dumps(_shuffled(_as_json(each), order)) for each in events])
    assert [_of_arrow(row["value"]) for row in rows] == [dict(each) for each in events]


def _as_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _as_json(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_as_json(each) for each in value]
    return value.isoformat() if isinstance(value, datetime) else str(value) if isinstance(value, Decimal) else value


def _shuffled(event: dict[str, Any], order: Any) -> dict[str, Any]:
    names = [*event, "unknown"]
    order.shuffle(names)
    return {name: event.get(name, {"a": [1]}) for name in names}


def _of_arrow(event: dict[str, Any]) -> dict[str, Any]:
    return {**event, "tags": None if event["tags"] is None else dict(event["tags"])}


def test_a_type_is_told_by_its_parts() -> None:
    found_parts = structure_of(EVENT)
    assert found_parts is not None and list(found_parts.parts) == ["till", "items", "tags"]
    assert found_parts.parts["items"] == "array<struct<sku:string,price:decimal(10,2)>>"
    assert structure_of("decimal(10,2)") is None and plain_structure(None, TILL) is None


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("map<bigint,string>", "the keys of a landed map are text"),
        ("struct<a b:string>", "'a b' is no name of a part"),
        ("struct<a:string,A:string>", "two parts of a struct have one name"),
        ("array<struct<a:map<date,string>>>", "the keys of a landed map are text"),
        ("struct<a:binary>", "cannot be typed as binary"),
    ],
)
def test_a_structure_that_is_declared_wrong_is_told(kind: str, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        require_landed_type(kind)
