"""What Arrow makes of expressions over rows of raw that a source took back, or that knew fewer fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

import pyarrow as pa
import pytest
from pyspark.sql import types as T

from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.declaration import Source
from backfill_assets.model.deletion import DELETION
from backfill_assets.model.measure import Both, ContentHash, Fulfils, HasValue, RowHash
from backfill_assets.quality.arrow_hashes import NotRendered, hash_of_row
from backfill_assets.quality.arrow_rows import ArrowRows

DAY = date(2017, 3, 1)
EARLIER = Source("sea", "day", ("sensor",), "sent", ("sensor", "sent"))
SOURCE = replace(EARLIER, fields=("sensor", "sent", "salinity"), rescued_fields=("salinity",))
TEXTS = T.ArrayType(T.StringType())
LISTS: tuple[Sequence[str | None] | None, ...] = (
    *(None, [], [None], [None, None], ["a"], ["a", None], [None, "a"], ["a", None, None]),
    *([None, "a", None], ["a", "b"], ["a", None, "b"]),
)


class OneList(Contract):
    """The shape of a list is in the hash of its row."""

    reasons: TEXTS = Field(nullable=True)  # type: ignore[valid-type]
    code: T.StringType = Field(nullable=True)
    day: T.DateType = Field()


class TwoLists(Contract):
    """It is not known from the values where the first list ends."""

    reasons: TEXTS = Field()  # type: ignore[valid-type]
    doubts: TEXTS = Field()  # type: ignore[valid-type]
    day: T.DateType = Field()


class ListsOfLists(Contract):
    """Arrow has no JSON of it."""

    reasons: T.ArrayType(TEXTS) = Field()  # type: ignore[valid-type]
    day: T.DateType = Field()


def rows(**columns: Sequence[object]) -> ArrowRows:
    return ArrowRows(pa.RecordBatch.from_pydict(columns), DAY)


def test_a_deletion_of_a_marker_is_no_received_row_that_was_taken_back() -> None:
    deletes = Both(Fulfils("record_kind", "eq", DELETION), HasValue("source_file"))
    raw = rows(record_kind=[DELETION, DELETION, "received"], source_file=["sales/a", None, "sales/a"])
    assert raw.value(deletes).to_pylist() == [True, False, False]


def test_the_content_hash_is_over_the_fields_that_a_row_knew() -> None:
    """The first row knew all fields, the second those of before; of the third it is not known."""
    values = {"sensor": ["a", "b", "c"], "sent": ["1", "2", "3"], "salinity": ["7", "8", "9"]}
    whole = rows(**values).value(ContentHash(replace(SOURCE, rescued_fields=()), "values")).to_pylist()
    before = rows(**values).value(ContentHash(EARLIER, "values")).to_pylist()
    assert not set(whole) & set(before)
    landed = rows(**values, content_hash=[whole[0], before[1], 5])
    assert landed.value(ContentHash(SOURCE, "values")).to_pylist() == [whole[0], before[1], whole[2]]


def test_lists_that_differ_have_different_hashes() -> None:
    """XXH64 passes over nulls: a list of one null would be the empty list."""
    found = _of_one_list(pa.array(LISTS, pa.list_(pa.string()))).to_pylist()
    assert len(set(found)) == len(LISTS)


def test_a_part_of_a_batch_has_the_hashes_of_the_whole() -> None:
    lists = pa.array(LISTS, pa.list_(pa.string()))
    whole = _of_one_list(lists).to_pylist()
    for first in range(len(LISTS)):
        assert _of_one_list(lists[first : first + 3]).to_pylist() == whole[first : first + 3]


def test_a_list_without_nulls_is_hashed_as_its_values() -> None:
    """Sums of hashes that are kept in publications stay what they are."""
    lists, codes = pa.array([["a", "b"], [], None], pa.list_(pa.string())), pa.array(["x", None, "y"])
    whole = hash_of_row([lists, codes, lists.is_null(), codes.is_null()], 3).view("int64").tolist()
    assert rows(reasons=lists, code=codes).value(RowHash(OneList)).to_pylist() == whole


def test_a_value_or_a_null_that_goes_to_the_next_list_changes_the_hash() -> None:
    pairs: list[tuple[list[str | None], list[str | None]]] = [
        (["a"], ["b"]),
        (["a", "b"], []),
        ([], ["a", "b"]),
        (["a", None], ["b"]),
        (["a"], [None, "b"]),
        (["a"], ["b", None]),
        (["a", None], ["b", "c"]),
        (["a", "b"], ["c", None]),
        (["a", None], ["b", None]),
    ]
    both = rows(reasons=[one for one, _ in pairs], doubts=[other for _, other in pairs])
    lists = {name: both.column(name).cast(pa.list_(pa.string())) for name in ("reasons", "doubts")}
    assert len(set(rows(**lists).value(RowHash(TwoLists)).to_pylist())) == len(pairs)


def test_lists_of_lists_are_left_to_spark() -> None:
    with pytest.raises(NotRendered, match="reasons"):
        rows(reasons=[[["a"], ["b"]]]).value(RowHash(ListsOfLists))


def _of_one_list(lists: pa.Array) -> pa.Array:
    return rows(reasons=lists, code=pa.nulls(len(lists), pa.string())).value(RowHash(OneList))
