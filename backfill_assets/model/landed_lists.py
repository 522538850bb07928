"""A landed list: JSON's, of texts and numbers, as one value; and the one text of it.

Whether a text is such a list is decided without a parser, so that DuckDB and Spark decide alike: with a 1 in the place
of each item, and without blanks, it is ``[]`` or ``[1,1,1]``. An item is what a landed field is: text, a number as it
is written, ``true``, ``false`` or ``null``. A list of lists or of objects is none.
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
"""As in JSON; half of a surrogate pair is no sign."""
_PLAIN = "-?(?:0|[1-9][0-9]*)(?:[.][0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null"
ITEM = rf'"{_SIGNS}(?:{ESCAPED}{_SIGNS})*"|{_PLAIN}'
ITEM_OF_JAVA = rf'"{_SIGNS}(?:{ESCAPED}{_SIGNS})*+"|{_PLAIN}'
"""The same, which never goes back: Java would remember each sign that is escaped."""
AROUND = r"[ \t\r\n]*([\[\],])[ \t\r\n]*"
"""A sign between items, with the blanks around it."""
SKELETONS, OPEN_END = ("[1]", "[]"), ",]"
"""What is left of a list of ones without each that has a comma behind it, and what none has at its end."""


def is_list(text: ir.StringValue) -> ir.BooleanValue:
    """Whether a text is a list of items."""
    ones = text.re_replace(ITEM, "1").re_replace(AROUND, r"\1")
    return cast("ir.BooleanValue", ones.replace("1,", "").isin(SKELETONS) & ~ones.contains(OPEN_END))


def texts_of(text: ir.StringValue) -> ir.ArrayValue:
    """The texts of the items of a list, as if each had landed by itself."""
    import ibis

    items = cast("ir.ArrayValue", of_duckdb("regexp_extract_all", "array<string>", text, ITEM))

    def own(item: ir.StringValue) -> ir.Value:
        said = of_duckdb("json_extract_string", "string", item, "$")
        return cast("ir.Value", ibis.cases((item == "null", None), (item.startswith('"'), said), else_=item))

    return items.map(own)


def list_text(items: ir.ArrayValue, text: Callable[[ir.Value], ir.StringValue], *, quoted: bool) -> ir.StringValue:
    """The one text of a list, by the ``text`` of each item; null for null."""
    import ibis

    def own(item: ir.Value) -> ir.Value:
        written = text(item)
        return ibis.coalesce(quoted_text(written) if quoted else written, "null")

    joined = ibis.coalesce(of_duckdb("array_to_string", "string", items.map(own), ","), "")
    return cast("ir.StringValue", items.notnull().ifelse(ibis.literal("[") + joined + "]", None))


def quoted_text(text: ir.StringValue) -> ir.StringValue:
    """A text within the one text of a value that has parts."""
    import ibis

    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return cast("ir.StringValue", ibis.literal('"') + escaped + '"')
