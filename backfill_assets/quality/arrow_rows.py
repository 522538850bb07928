"""Rows of one day as Arrow's columns, and what each expression of ``model/measure.py`` is for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import reduce
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from backfill_assets.model import measure as m
from backfill_assets.model.contract import DeclaredField
from backfill_assets.quality import arrow_texts
from backfill_assets.quality.arrow_checks import check
from backfill_assets.quality.arrow_hashes import (
    MOST_DIGITS_IN_A_LONG,
    NotRendered,
    as_bools,
    first_seeds,
    fixed_offsets,
    hash_of_column,
    hash_of_nulls_in_lists,
    hash_of_row,
    have_nulls,
    is_valid,
    unscaled,
)
from backfill_assets.quality.xxh64 import Words

DAY = "day"
_EXACT_DOUBLE = 2**53


@dataclass(frozen=True)
class ArrowRows:
    """Some rows of one day, without their day, which is that of their folder."""

    batch: pa.RecordBatch
    day: date
    _kept: dict[Any, pa.Array] = field(default_factory=dict, compare=False)

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def column(self, name: str) -> pa.Array:
        if name == DAY:
            return self.kept(DAY, lambda: pa.repeat(pa.scalar(self.day, pa.date32()), len(self)))
        if name not in self.batch.schema.names:
            raise NotRendered(f"There is no column {name}.")
        return self.batch.column(name)

    def value(self, expression: m.Expression) -> pa.Array:
        """What ``expression`` is for each row. Raises :class:`NotRendered` where only Spark can say it."""
        rendering = _RENDERINGS.get(type(expression))
        if rendering is None:
            raise NotRendered(f"{type(expression).__name__} has no rendering.")
        return self.kept(expression, lambda: rendering(self, expression))

    def kept(self, key: Any, compute: Callable[[], pa.Array]) -> pa.Array:
        if key not in self._kept:
            self._kept[key] = compute()
        return self._kept[key]


def key_hashes(rows: ArrowRows, key: m.KeyHash) -> Words:
    """``key`` of each row."""
    values, nulls = map(rows.column, key.names), (pc.is_null(rows.column(name)) for name in key.nulls_hashed())
    return hash_of_row((*values, *nulls), len(rows))


def _value_of(rows: ArrowRows, asked: m.ValueOf) -> pa.Array:
    return rows.column(asked.name)


def _is_null(rows: ArrowRows, asked: m.IsNull) -> pa.Array:
    return pc.is_null(rows.column(asked.name))


def _has_value(rows: ArrowRows, asked: m.HasValue) -> pa.Array:
    return pc.is_valid(rows.column(asked.name))


def _both(rows: ArrowRows, asked: m.Both) -> pa.Array:
    return pc.and_kleene(rows.value(asked.one), rows.value(asked.other))


def _fulfils(rows: ArrowRows, asked: m.Fulfils) -> pa.Array:
    return check(rows.column(asked.name), asked.check, asked.asked)


def _only(rows: ArrowRows, asked: m.Only) -> pa.Array:
    values = rows.value(asked.value)
    return pc.if_else(rows.value(asked.where), values, pa.scalar(None, values.type))


def _first_item(rows: ArrowRows, asked: m.FirstItem) -> pa.Array:
    lists = rows.column(asked.name)
    if not pa.types.is_list(lists.type):
        raise NotRendered(f"The first item of {lists.type}.")
    places = fixed_offsets(lists)
    has_none = (np.diff(places) == 0) | ~is_valid(lists)
    return lists.values.take(pa.array(places[:-1], mask=has_none))


def _days_apart(rows: ArrowRows, asked: m.DaysApart) -> pa.Array:
    later, earlier = rows.column(asked.later), rows.column(asked.earlier)
    if not (pa.types.is_date32(later.type) and pa.types.is_date32(earlier.type)):
        raise NotRendered(f"The days between {earlier.type} and {later.type}.")
    apart = pc.subtract(later.view(pa.int32()), earlier.view(pa.int32()))
    return pc.greater(apart, asked.more_than)


def _row_hash(rows: ArrowRows, asked: m.RowHash) -> pa.Array:
    hashed, nullable = asked.columns()
    if nested := asked.nested():
        raise NotRendered(f"The JSON of {', '.join(nested)}.")
    columns = [*map(rows.column, hashed), *(pc.is_null(rows.column(name)) for name in nullable)]
    hashes = hash_of_row(columns, len(rows))
    for name in asked.lists():
        hashes = hash_of_nulls_in_lists(rows.column(name), hashes)
    for name in asked.several_lists():
        hashes = hash_of_column(pc.list_value_length(rows.column(name)), hashes)
    for name in asked.several_lists():
        hashes = hash_of_column(have_nulls(rows.column(name)), hashes)
    return _as_bigints(hashes)


def _key_hash(rows: ArrowRows, asked: m.KeyHash) -> pa.Array:
    return _as_bigints(key_hashes(rows, asked))


def _content_hash(rows: ArrowRows, asked: m.ContentHash) -> pa.Array:
    """The one over the fields that a row knew is the one that it carries; if there is none, over all fields."""
    whole, *earlier = (_hash_over_all_fields(rows, each) for each in asked.by_fields_known())
    if not earlier:
        return whole
    carried = rows.column("content_hash")
    known = reduce(pc.or_, (pc.equal(each, carried) for each in earlier))
    return pc.if_else(pc.fill_null(known, fill_value=False), carried, whole)


def _hash_over_all_fields(rows: ArrowRows, asked: m.ContentHash) -> pa.Array:
    source, hashes = asked.source, first_seeds(len(rows))
    for name in source.columns:
        values = rows.column(name)
        if asked.form == "values":
            hashes = arrow_texts.hash_of_named_value(name, values, source.type_of(name), hashes)
        else:
            hashes = arrow_texts.hash_of_named_text(name, arrow_texts.text_of_landed(values, source, name), hashes)
    if asked.form == "values":
        return _as_bigints(hashes)
    lines = rows.column("unparsed_line")
    if lines.null_count == len(lines):
        return _as_bigints(hashes)
    return pc.if_else(pc.is_valid(lines), _as_bigints(hash_of_row([lines], len(rows))), _as_bigints(hashes))


def _as_bigints(hashes: Words) -> pa.Array:
    return pa.array(hashes.view(np.int64))


def _unsound(rows: ArrowRows, asked: m.Unsound) -> pa.Array:
    sound = (_soundness(rows, name, field) for name, field in asked.contract.fields().items())
    return pa.array(~reduce(np.logical_and, sound, np.ones(len(rows), np.bool_)))


def _soundness(rows: ArrowRows, name: str, declared: DeclaredField) -> npt.NDArray[np.bool_]:
    """A null passes every check; whether there may be one is asked for itself."""
    values = rows.column(name)
    present = is_valid(values)
    checks = [as_bools(check(values, each, asked)) | ~present for each, asked in declared.checks.items()]
    return reduce(np.logical_and, checks, np.ones(len(rows), np.bool_) if declared.nullable else present)


def _names_unbelieved_day(rows: ArrowRows, asked: m.NamesUnbelievedDay) -> pa.Array:
    name = asked.source.event_day_field
    texts, kind = rows.column(name), asked.source.type_of(name)
    if kind not in ("date", "timestamp") or not pa.types.is_string(texts.type):
        raise NotRendered(f"The day of a {kind}.")
    found = np.zeros(len(rows), np.bool_)
    received = as_bools(rows.column("day_is_arrival")) & is_valid(rows.column("arrival_day"))
    for row in np.flatnonzero(received):
        text = texts[int(row)].as_py()
        found[row] = text is not None and arrow_texts.value_text(text, kind) is not None
    return pa.array(found)


def _is_no_quotient(rows: ArrowRows, asked: m.IsNoQuotient) -> pa.Array:
    names = (asked.amount, asked.rate, asked.converted)
    amount, rate, converted = (as_doubles(rows.column(name)) for name in names)
    wrong = np.abs(converted * rate - amount) > rate * asked.allowance
    valid = reduce(np.logical_and, (is_valid(rows.column(name)) for name in names))
    return pa.array(wrong & valid)


def as_doubles(values: pa.Array) -> npt.NDArray[np.float64]:
    """The double that is nearest to each decimal: Arrow's own casts are off by a bit where a number has many digits."""
    kind = values.type
    if not pa.types.is_decimal128(kind) or kind.precision > MOST_DIGITS_IN_A_LONG:
        raise NotRendered(f"The double of {kind}.")
    numbers = unscaled(values)
    # Of two exact doubles, the quotient is the nearest one; ten to the 18th is exact, as are all before it.
    doubles = numbers / np.float64(10**kind.scale)
    for row in np.flatnonzero(np.abs(numbers) >= _EXACT_DOUBLE):
        doubles[row] = float(f"{numbers[row]}e-{kind.scale}")
    return doubles


_RENDERINGS: Mapping[type[m.Expression], Callable[[ArrowRows, Any], pa.Array]] = MappingProxyType(
    {
        m.ValueOf: _value_of,
        m.FirstItem: _first_item,
        m.Only: _only,
        m.ContentHash: _content_hash,
        m.RowHash: _row_hash,
        m.KeyHash: _key_hash,
        m.IsNull: _is_null,
        m.HasValue: _has_value,
        m.Both: _both,
        m.Fulfils: _fulfils,
        m.Unsound: _unsound,
        m.DaysApart: _days_apart,
        m.NamesUnbelievedDay: _names_unbelieved_day,
        m.IsNoQuotient: _is_no_quotient,
    }
)
