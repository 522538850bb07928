"""Whether columns can be read as declared, without guessing, rounding or cutting. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from backfill_assets.model.contract import declared_types
from backfill_assets.model.declaration import a_type
from backfill_assets.model.external_table import ExternalTable
from backfill_assets.text import suggest_or_list

_BY_DELTA: Mapping[str, str] = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
_WIDER: Mapping[str, tuple[str, ...]] = {
    "tinyint": ("smallint", "int", "bigint"),
    "smallint": ("int", "bigint"),
    "int": ("bigint",),
    "float": ("double",),
    "timestamp_ntz": ("timestamp",),
}
"""Moments without a zone count as UTC."""
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def problems_of(external: ExternalTable, there: Mapping[str, str]) -> list[str]:
    return list(_problems(external, {name.lower(): kind for name, kind in there.items()}, there))


def _problems(external: ExternalTable, by_lower: Mapping[str, str], there: Mapping[str, str]) -> Iterator[str]:
    types = declared_types(external.contract)
    for name, column in external.columns.items():
        if column.lower() not in by_lower:
            if name != "day":
                yield f"there is no column {column!r}; {suggest_or_list(column, there, 'Columns')}".rstrip(".")
            continue
        kind = _by_spark(by_lower[column.lower()])
        if name != "day" and not is_readable_as(kind, types[name]):
            yield f"{column!r} is {a_type(kind)}, and is declared as {a_type(types[name])}"


def _by_spark(kind: str) -> str:
    return _BY_DELTA.get(kind, kind)


def is_readable_as(kind: str, declared: str) -> bool:
    """Nested types are left to Spark."""
    if kind == declared or declared in _WIDER.get(kind, ()):
        return True
    has, wants = _DECIMAL.fullmatch(kind), _DECIMAL.fullmatch(declared)
    if has and wants:
        (digits, behind), (most, most_behind) = map(int, has.groups()), map(int, wants.groups())
        return most_behind >= behind and most - most_behind >= digits - behind
    return declared.partition("<")[0] == kind and "<" in declared
