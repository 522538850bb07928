"""The one text of a value, over Arrow columns: what content hashes are computed from, as ``model/canonical.py`` has it.

A landed text that is a value already written in that form is taken as it is, and so are nearly all. The others are
looked at one by one, each different text once.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from backfill_assets.model.canonical import landed_pattern
from backfill_assets.model.declaration import Source
from backfill_assets.quality.arrow_hashes import (
    MOST_DIGITS_IN_A_LONG,
    NotRendered,
    bytes_and_places,
    fixed_width,
    hash_of_column,
    hash_where_valid,
    is_micros,
    unscaled,
)
from backfill_assets.quality.compilation import compiled_hashes
from backfill_assets.quality.xxh64 import Words

_MOST_DECIMALS = 6
"""Of a decimal with more, Spark and Arrow write small values in different ways."""
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_FIRST_DAY, _LAST_DAY = -719_528, 2_932_896
"""Years 0 to 9999: others are written with a sign, and have no landed form."""
_HAVE_TEXTS = (pa.types.is_string, pa.types.is_signed_integer, pa.types.is_boolean, is_micros)
_LINE_END = re.compile(r"\r\n\Z|[\r\n]\Z")
"""A Java pattern that ends in ``$`` allows one behind the text, and a cast of Spark cuts it off."""


def hash_of_named_text(name: str, texts: pa.Array, seeds: Words) -> Words:
    """The hash of ``name=text``, for each text."""
    compiled = compiled_hashes()
    if compiled is None:
        return hash_of_column(pc.binary_join_element_wise(pa.scalar(f"{name}="), texts, ""), seeds)
    named = f"{name}=".encode()
    return hash_where_valid(
        texts, lambda texts, seeds: compiled.hash_of_texts(named, *bytes_and_places(texts), seeds), seeds
    )


def hash_of_named_value(name: str, values: pa.Array, spark_type: str, seeds: Words) -> Words:
    """The hash of ``name=text``, for the text of each value; compiled, without writing most of these texts."""
    compiled, named = compiled_hashes(), f"{name}=".encode()
    if compiled is None or not _is_number(values.type):
        return hash_of_named_text(name, text_of_values(values, spark_type), seeds)
    _require_text(values, spark_type)
    scale = values.type.scale if pa.types.is_decimal128(values.type) else 0
    return hash_where_valid(
        values, lambda values, seeds: compiled.hash_of_numbers(named, _numbers(values), scale, seeds), seeds
    )


def _is_number(kind: pa.DataType) -> bool:
    """Whether the text of a value is that of one number of 64 bits, perhaps with a point in it."""
    if pa.types.is_decimal128(kind):
        return bool(kind.precision <= MOST_DIGITS_IN_A_LONG)
    return bool(pa.types.is_signed_integer(kind)) or is_micros(kind)


def _numbers(values: pa.Array) -> npt.NDArray[np.int64]:
    if pa.types.is_decimal128(values.type):
        return np.ascontiguousarray(unscaled(values))
    if is_micros(values.type):
        return fixed_width(values, np.int64)
    return fixed_width(values.cast(pa.int64()), np.int64)


def text_of_values(values: pa.Array, spark_type: str) -> pa.Array:
    """The one text of typed values that are declared as ``spark_type``."""
    _require_text(values, spark_type)
    return (values.view(pa.int64()) if is_micros(values.type) else values).cast(pa.string())


def _require_text(values: pa.Array, spark_type: str) -> None:
    """Raises :class:`NotRendered` where Arrow does not write the text of ``values`` as Spark does."""
    kind = values.type
    if is_micros(kind) == (spark_type != "timestamp"):
        raise NotRendered(f"A {spark_type} is kept as {kind}.")
    if pa.types.is_date32(kind):
        _require_four_digits(values)
    elif pa.types.is_decimal128(kind):
        _require_few_decimals(kind.scale)
    elif not any(is_one(kind) for is_one in _HAVE_TEXTS):
        raise NotRendered(f"The text of {kind}.")


def text_of_landed(texts: pa.Array, source: Source, name: str) -> pa.Array:
    """The one text of what is landed as a field of ``source``; text that is no value counts as it stands."""
    spark_type = source.type_of(name)
    if not pa.types.is_string(texts.type):
        raise NotRendered(f"Landed values are text, and {name} is {texts.type}.")
    if spark_type == "string":
        return texts
    if spark_type == "timestamp":
        return _moments(texts)
    written = pc.match_substring_regex(texts, _canonical_pattern(spark_type))
    return texts if _all_of(written) else _one_by_one(texts, spark_type)


def value_text(text: str, spark_type: str) -> str | None:
    """The one text of the value that a landed ``text`` is; None if it is none."""
    written = _LINE_END.sub("", text)
    if not re.fullmatch(landed_pattern(spark_type), written):
        return None
    if spark_type == "bigint":
        return str(int(written))
    if spark_type in ("date", "timestamp"):
        return _calendar_text(written, spark_type)
    decimal = _DECIMAL.fullmatch(spark_type)
    return _decimal_text(written, int(decimal[2]) if decimal else 0)


def _decimal_text(written: str, scale: int) -> str:
    _require_few_decimals(scale)
    whole, _, fraction = written.lstrip("+-").partition(".")
    text = f"{whole.lstrip('0') or '0'}.{fraction[:scale].ljust(scale, '0')}".rstrip("." if not scale else "")
    return f"-{text}" if written.startswith("-") and text.strip("0.") else text


def _calendar_text(written: str, spark_type: str) -> str | None:
    """By numpy, whose years begin at 0 as those of Java do."""
    try:
        if spark_type == "date":
            return str(np.datetime64(written, "D"))
        return str(np.datetime64(written.removesuffix("Z"), "us").astype(np.int64))
    except ValueError:
        return None


def _moments(texts: pa.Array) -> pa.Array:
    """Microseconds since 1970. Arrow reads a whole column at once, and raises for one wrong moment in it."""
    written = pc.match_substring_regex(texts, f"^{landed_pattern('timestamp')}$")
    if not _all_of(written):
        return _one_by_one(texts, "timestamp")
    try:
        return texts.cast(pa.timestamp("us", "UTC")).view(pa.int64()).cast(pa.string())
    except pa.ArrowInvalid:
        return _one_by_one(texts, "timestamp")


def _one_by_one(texts: pa.Array, spark_type: str) -> pa.Array:
    encoded = texts.dictionary_encode()
    different = encoded.dictionary.to_pylist()
    found = [value if (value := value_text(text, spark_type)) is not None else text for text in different]
    return pa.array(found, pa.string()).take(encoded.indices)


def _canonical_pattern(spark_type: str) -> str:
    """What a landed text of ``spark_type`` looks like that is the one text of its value already."""
    if spark_type == "bigint":
        return r"^(0|-?[1-9][0-9]{0,17})$"
    decimal = _DECIMAL.fullmatch(spark_type)
    if decimal is None:  # whether a day is in the calendar, no pattern knows
        return r"^\z."
    precision, scale = int(decimal[1]), int(decimal[2])
    _require_few_decimals(scale)
    fraction = rf"[.][0-9]{{{scale}}}" if scale else ""
    # An amount of 0 has no sign, so an amount with a sign begins with another digit here; the rest goes one by one.
    return rf"^(0|-?[1-9][0-9]{{0,{precision - scale - 1}}}){fraction}$"


def _all_of(conditions: pa.Array) -> bool:
    """Whether no condition is broken; null breaks none."""
    return bool(pc.all(conditions, min_count=0).as_py())


def _require_few_decimals(scale: int) -> None:
    if scale > _MOST_DECIMALS:
        raise NotRendered(f"The text of a decimal with {scale} decimals.")


def _require_four_digits(days: pa.Array) -> None:
    ends = pc.min_max(days.view(pa.int32()))
    if ends["min"].is_valid and not _FIRST_DAY <= ends["min"].as_py() <= ends["max"].as_py() <= _LAST_DAY:
        raise NotRendered("Days whose year has no four digits.")
