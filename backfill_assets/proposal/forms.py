"""Landed texts' forms as DuckDB's regular expressions."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

WHOLE, PLAIN, PADDED, COMMA = "whole number", "plain number", "number with zeros before it", "number with a comma"
NO_ZONE, OTHER_MOMENT, OTHER_DAY = "moment without an offset", "moment in another form", "day in another form"
E_MAIL, HAS_E_MAIL, IP_ADDRESS = "e-mail address", "text with an e-mail address", "IP address"
LOSSLESS = "number that a double holds to its last digit"
EMPTY, OBJECT, LIST = "empty", "object", "list"
_DAY, _TIME = "[0-9]{4}-[0-9]{2}-[0-9]{2}", "[0-9]{2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?"
_MAIL = "[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+[.][A-Za-z0-9.-]+"
FORMS: Mapping[str, str] = MappingProxyType(
    {
        WHOLE: "[+-]?[0-9]+",
        PLAIN: "[+-]?[0-9]+([.][0-9]+)?",
        PADDED: "[+-]?0[0-9]+([.][0-9]+)?",
        COMMA: "[+-]?([0-9]+|[0-9]{1,3}([.][0-9]{3})+),[0-9]+",
        NO_ZONE: f"{_DAY}[T ]{_TIME}",
        OTHER_MOMENT: f"{_DAY} {_TIME} ?(Z|UTC|[+-][0-9:]+)|[0-9./-]+ {_TIME}.*|1[0-9]{{9}}|1[0-9]{{12}}",
        OTHER_DAY: "[0-9]{1,2}[./-][0-9]{1,2}[./-][0-9]{2,4}|(19|20)[0-9]{2}(0[1-9]|1[0-2])[0-3][0-9]",
        E_MAIL: _MAIL,
        HAS_E_MAIL: f"(?s).*{_MAIL}.*",
        IP_ADDRESS: "([0-9]{1,3}[.]){3}[0-9]{1,3}",
        EMPTY: "",
        OBJECT: r"(?s)\{.*\}",
        LIST: r"(?s)\[.*\]",
    }
)
NULL_WORDS = ("NA", "N/A", "NULL", "null", r"\N", "None", "n/a", "-")
SCALARS = ("bigint", "boolean", "date", "timestamp", "double")
LISTS = tuple(
    f"array<{item}>" for item in ("boolean", "bigint", "date", "timestamp", "decimal(38,18)", "double", "string")
)
