"""JSON arrays of plain values, by a regular expression, alike in DuckDB and Spark: with ``1`` for each item, without
blanks, a list is ``[]`` or ``[1,1,1]``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from backfill_assets.model.of_duckdb import of_duckdb

if TYPE_CHECKING:
    import ibis.expr.types as ir

_SIGNS = r'[^"\\\x00-\x1f]*'
_PAIR = r"u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
ESCAPED = rf'\\(?:["\\/bfnrt]|u[0-9abcefABCEF][0-9a-fA-F]{{3}}|u[dD][0-7][0-9a-fA-F]{{2}}|{_PAIR})'
"""JSON's, except unpaired surrogates."""
_PLAIN = "-?(?:0|[1-9][0-9]*)(?:[.][0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null"
ITEM = rf'"{_SIGNS}(?:{ESCAPED}{_SIGNS})*"|{_PLAIN}'
ITEM_OF_JAVA = rf'"{_SIGNS}(?:{ESCAPED}{_SIGNS})*+"|{_PLAIN}'
"""Possessive: Java would keep a state per escape."""
AROUND = r"[ \t\r\n]*([\[\],])[ \t\r\n]*"
SKELETONS, OPEN_END = ("[1]", "[]"), ",]"
"""A list without each ``1,``; what no list contains."""


def is_list(text: ir.StringValue) -> ir.BooleanValue:
    ones = text.re_replace(ITEM, "1").re_replace(AROUND, r"\1")
    return cast("ir.BooleanValue", ones.replace("1,", "").isin(SKELETONS) & ~ones.contains(OPEN_END))


def texts_of(text: ir.StringValue) -> ir.ArrayValue:
    """The items' texts, as if each had landed alone."""
    import ibis

    items = cast("ir.ArrayValue", of_duckdb("regexp_extract_all", "array<string>", text, ITEM))

    def own(item: ir.StringValue) -> ir.Value:
        said = of_duckdb("json_extract_string", "string", item, "$")
        return cast("ir.Value", ibis.cases((item == "null", None), (item.startswith('"'), said), else_=item))

    return items.map(own)


def list_text(items: ir.ArrayValue, text: Callable[[ir.Value], ir.StringValue], *, quoted: bool) -> ir.StringValue:
    import ibis

    def own(item: ir.Value) -> ir.Value:
        written = text(item)
        return ibis.coalesce(quoted_text(written) if quoted else written, "null")

    joined = ibis.coalesce(of_duckdb("array_to_string", "string", items.map(own), ","), "")
    return cast("ir.StringValue", items.notnull().ifelse(ibis.literal("[") + joined + "]", None))


def quoted_text(text: ir.StringValue) -> ir.StringValue:
    import ibis

    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return cast("ir.StringValue", ibis.literal('"') + escaped + '"')
