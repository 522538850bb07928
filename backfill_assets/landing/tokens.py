"""Tokens of personal values: HMAC-SHA256 with a key that only ever exists as a row of data.

A key in an expression would show up in plans, event logs and the UI. So the executors read it from its file, and what
is derived from it reaches the rows through a join with one row.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill_assets.landing.token_key import SHORTEST_KEY

_BLOCK_DIGITS = 128
_INNER, _OUTER = "token_inner_pad", "token_outer_pad"


def with_token_pads(rows: DataFrame, spark: SparkSession, key_file: str) -> DataFrame:
    """``rows`` with the two pads that :func:`token` needs; drop them by selecting what you keep.

    The key is all bytes of ``key_file`` without white space around them.
    """
    key = F.btrim(F.col("value"), F.lit(" \t\r\n"))
    checked = F.when(F.length(key) >= SHORTEST_KEY, key).otherwise(
        F.raise_error(F.lit(f"The token key has fewer than {SHORTEST_KEY} characters."))
    )
    digits = spark.read.text(key_file, wholetext=True).select(_block(checked.cast("binary")).alias("block"))
    pads = digits.select(_xor_block(0x36).alias(_INNER), _xor_block(0x5C).alias(_OUTER))
    return rows.join(F.broadcast(pads), how="cross")


def token(value: Column) -> Column:
    """The token of a text value as 64 hexadecimal digits; null for null and for no text at all."""
    inner = F.sha2(F.concat(_INNER, value.cast("binary")), 256)
    outer = F.sha2(F.concat(F.col(_OUTER), F.unhex(inner)), 256)
    return F.when(F.length(value) > 0, outer)


def _block(key: Column) -> Column:
    """The key as 64 bytes in hexadecimal: hashed if it is longer, filled up with zeros."""
    digits = F.when(F.length(key) > _BLOCK_DIGITS // 2, F.sha2(key, 256)).otherwise(F.hex(key))
    return F.rpad(digits, _BLOCK_DIGITS, "0")


def _xor_block(pad: int) -> Column:
    positions = F.sequence(F.lit(1), F.lit(_BLOCK_DIGITS - 1), F.lit(2))
    return F.unhex(F.array_join(F.transform(positions, lambda at: _xor_byte(at, pad)), ""))


def _xor_byte(at: Column, pad: int) -> Column:
    byte = F.conv(F.substring("block", at, 2), 16, 10).cast("int")
    return F.lpad(F.hex(byte.bitwiseXOR(F.lit(pad))), 2, "0")
