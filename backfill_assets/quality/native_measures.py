"""Measures days from the rows of their files, with kernels over Arrow's buffers: the same metrics as Spark's.

What was written is read back by a second implementation, which shares nothing with the writer. A metric that has no
rendering for Arrow is left out, and Spark measures it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, localcontext
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_type

from backfill_assets.model import measure as m
from backfill_assets.model.contract import Contract, spark_types
from backfill_assets.model.declaration import Aggregates, Metric
from backfill_assets.quality.arrow_checks import exact_decimal
from backfill_assets.quality.arrow_hashes import NotRendered, fixed_width, limbs
from backfill_assets.quality.arrow_rows import DAY, ArrowRows, key_hashes
from backfill_assets.quality.xxh64 import Words

ROWS_AT_ONCE = 16_384
"""As many as the caches of a core hold, with all that is computed of them."""
_BEYOND_BIGINT = 2**63
_MOST_DIGITS = 38
_ADDED_DIGITS = 10
_DIGITS_OF_ZERO = 10


@dataclass(frozen=True)
class Kernel:
    """How one kind of aggregate is measured: of some rows, and of all of them from its parts."""

    of_rows: Callable[[ArrowRows, Any], Any]
    together: Callable[[Sequence[Any]], Metric]


def measure_day(
    batches: Iterable[pa.RecordBatch], day: date, contract: type[Contract], metrics: Aggregates
) -> dict[str, Metric]:
    """Those of ``metrics`` of ``day`` that have a rendering, of rows of ``contract`` that are in ``batches``.

    None of them if a file has other types than are declared: Spark converts those. One is left out if its rows are
    beyond what its rendering covers: a sum that is no bigint any more, say.
    """
    parts: dict[str, list[Any]] = {name: [] for name in metrics}
    for batch in batches:
        if not is_as_declared(batch.schema, contract):
            return {}
        rows = ArrowRows(batch, day)
        measured = {name: _part(rows, metrics[name]) for name in parts}
        parts = {name: [*parts[name], part] for name, part in measured.items() if part is not None}
    found = {name: _together(metrics[name], part) for name, part in parts.items() if part}
    return {name: metric for name, metric in found.items() if metric is not None}


def is_as_declared(schema: pa.Schema, contract: type[Contract]) -> bool:
    """Whether files of ``schema`` have every column of ``contract`` as it declares it."""
    declared = {name: kind for name, kind in spark_types(contract).items() if name != DAY}
    return set(declared) <= set(schema.names) and all(
        schema.field(name).type == to_arrow_type(kind, timezone="UTC") for name, kind in declared.items()
    )


def _part(rows: ArrowRows, made: object) -> Any:
    """What ``made`` is for some rows; None if it has no rendering for them."""
    kernel = _KERNELS.get(type(made))
    try:
        return None if kernel is None else kernel.of_rows(rows, made)
    except NotRendered:
        return None


def _together(made: object, parts: Sequence[Any]) -> Metric:
    try:
        return _KERNELS[type(made)].together(parts)
    except NotRendered:
        return None


def _count(rows: ArrowRows, asked: m.CountIf) -> int:
    condition = rows.value(asked.condition)
    if not pa.types.is_boolean(condition.type):
        raise NotRendered(f"{condition.type} is no condition.")
    return int(condition.true_count)


def _sum_of_hashes(rows: ArrowRows, asked: m.SumOfHashes) -> int:
    hashes = rows.value(asked.hashes)
    if not pa.types.is_int64(hashes.type):
        raise NotRendered(f"{hashes.type} is no hash.")
    return _sum_of_bigints(hashes)


def _total(rows: ArrowRows, asked: m.Total) -> int | Decimal:
    values = rows.value(asked.value)
    kind = values.type
    if pa.types.is_signed_integer(kind):
        return _sum_of_bigints(values.cast(pa.int64()))
    if not pa.types.is_decimal128(kind) or not _keeps_decimals(kind):
        raise NotRendered(f"The sum of {kind}.")
    return _sum_of_decimals(values)


def _keeps_decimals(kind: pa.DataType) -> bool:
    """Whether a sum keeps the decimals of its values beside the 0 that it is for no value."""
    return bool(min(kind.precision + _ADDED_DIGITS, _MOST_DIGITS) - kind.scale >= _DIGITS_OF_ZERO)


def _total_of_few(rows: ArrowRows, asked: m.TotalOfFew) -> Decimal:
    values = rows.column(asked.name)
    if not pa.types.is_decimal128(values.type) or values.type.scale:
        raise NotRendered(f"A sum of {values.type} that is a whole number.")
    return _sum_of_decimals(values)


def _sum_of_bigints(values: pa.Array) -> int:
    """In halves, which do not overflow."""
    numbers = fixed_width(values.drop_null(), np.int64)
    return (int((numbers >> 32).sum()) << 32) + int((numbers & 0xFFFFFFFF).sum())


def _sum_of_decimals(values: pa.Array) -> Decimal:
    """In parts of 32 bits; only the uppermost one has a sign."""
    parts = limbs(values.drop_null())
    sums = [int(parts[:, number].sum(dtype=np.int64)) for number in range(3)]
    sums.append(int(np.ascontiguousarray(parts[:, 3]).view(np.int32).sum(dtype=np.int64)))
    return exact_decimal(sum(each << (32 * number) for number, each in enumerate(sums)), values.type.scale)


def _least(rows: ArrowRows, asked: m.Least) -> list[str]:
    texts = rows.value(asked.text)
    if not pa.types.is_string(texts.type):
        raise NotRendered(f"The least {texts.type}.")
    return [text for text in [pc.min(texts).as_py()] if text is not None]


def _add(parts: Sequence[int]) -> int:
    return sum(parts)


def _add_as_spark(parts: Sequence[int | Decimal]) -> int | Decimal:
    """What Spark raises an error for is left to Spark."""
    if all(isinstance(part, int) for part in parts):
        whole = sum(int(part) for part in parts)
        if not -_BEYOND_BIGINT <= whole < _BEYOND_BIGINT:
            raise NotRendered("A sum that is no bigint.")
        return whole
    with localcontext() as exact:
        exact.prec = 100
        total = sum((Decimal(part) for part in parts[1:]), Decimal(parts[0]))
    if len(total.as_tuple().digits) > _MOST_DIGITS:
        raise NotRendered("A sum of more than 38 digits.")
    return total


def _different(parts: Sequence[Words]) -> int:
    return len(np.unique(np.concatenate(parts)))


def _first(parts: Sequence[Sequence[str]]) -> str:
    return min((text for part in parts for text in part), key=str.encode, default="")


_KERNELS: Mapping[type, Kernel] = MappingProxyType(
    {
        m.Rows: Kernel(lambda rows, _: len(rows), _add),
        m.CountIf: Kernel(_count, _add),
        m.Total: Kernel(_total, _add_as_spark),
        m.TotalOfFew: Kernel(_total_of_few, _add_as_spark),
        m.SumOfHashes: Kernel(_sum_of_hashes, _add),
        m.DifferentKeys: Kernel(lambda rows, asked: key_hashes(rows, asked.hashes), _different),
        m.Least: Kernel(_least, _first),
    }
)
"""How each kind of aggregate is measured with Arrow. One that is not here is measured by Spark."""
