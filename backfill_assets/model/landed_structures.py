"""JSON as structs, maps, or lists of them.

Engines read nested numbers differently: Python reads JSON for both, a text per value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

PLAIN = "plain_structure"
KEY, VALUE = "key", "value"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HALF_OF_PAIR = re.compile("[\ud800-\udfff]")
_MAP_OF_TEXT = "map<string,"


class Structure(NamedTuple):
    """Fields of a struct, ``value`` of a map, ``item`` of a list."""

    kind: str
    parts: Mapping[str, str]


def has_structure(spark_type: str) -> bool:
    return "struct<" in spark_type or "map<" in spark_type


@lru_cache
def structure_of(spark_type: str) -> Structure | None:
    kind, _, inner = spark_type.removesuffix(">").partition("<")
    if kind == "struct":
        named = (part.partition(":") for part in _split(inner))
        return Structure(kind, {name: each for name, _, each in named})
    if kind == "map":
        return Structure(kind, {VALUE: inner.removeprefix("string,")})
    return Structure(kind, {"item": inner}) if kind == "array" else None


def _split(inner: str) -> Iterator[str]:
    depth = start = 0
    for at, sign in enumerate(inner):
        depth += (sign in "<(") - (sign in ">)")
        if sign == "," and not depth:
            yield inner[start:at]
            start = at + 1
    yield inner[start:]


def structure_problem(spark_type: str) -> str:
    found = structure_of(spark_type)
    if found is None:
        return ""
    if found.kind == "map" and not spark_type.startswith(_MAP_OF_TEXT):
        return "the keys of a landed map are text"
    if found.kind == "struct" and (wrong := [name for name in found.parts if not _NAME.fullmatch(name)]):
        return f"{wrong[0]!r} is no name of a part: it has letters, digits and underscores"
    if found.kind == "struct" and len({name.lower() for name in found.parts}) < len(found.parts):
        return "two parts of a struct have one name"
    return next(filter(None, map(structure_problem, found.parts.values())), "")


def leaves_of(spark_type: str) -> Iterator[str]:
    found = structure_of(spark_type)
    if found is None:
        yield spark_type
        return
    for part in found.parts.values():
        yield from leaves_of(part)


def with_entries(spark_type: str) -> str:
    found = structure_of(spark_type)
    if found is None:
        return spark_type
    parts = {name: with_entries(part) for name, part in found.parts.items()}
    if found.kind == "map":
        return f"array<struct<{KEY}:string,{VALUE}:{parts[VALUE]}>>"
    inner = ",".join(f"{name}:{part}" for name, part in parts.items()) if found.kind == "struct" else parts["item"]
    return f"{found.kind}<{inner}>"


# ------------------------------------------------------------------ what lands


def plain_structure(text: str | None, spark_type: str) -> str | None:
    """JSON in the declared shape: values as text, maps as entries by key; None for another shape, or a repeated
    name.
    """
    if text is None:
        return None
    try:
        return json.dumps(_in_shape(_JSON.decode(text.strip(" \t\r\n")), spark_type), separators=(",", ":"))
    except (ValueError, RecursionError):
        return None


def _in_shape(value: Any, spark_type: str) -> Any:
    found = structure_of(spark_type)
    if value is None:
        return None
    if found is None:
        return _whole_signs(value if isinstance(value, str) else _written(value))
    if found.kind == "array":
        if not isinstance(value, list) or isinstance(value, _Pairs):
            raise ValueError
        return [_in_shape(each, found.parts["item"]) for each in value]
    if not isinstance(value, _Pairs) or len(fields := dict(value)) < len(value):
        raise ValueError
    if found.kind == "map":
        named = {_whole_signs(name): _in_shape(each, found.parts[VALUE]) for name, each in fields.items()}
        return [{KEY: name, VALUE: named[name]} for name in sorted(named)]
    return {name: _in_shape(fields.get(name), part) for name, part in found.parts.items()}


class _Pairs(list[tuple[str, Any]]):
    pass


class _Digits(str):
    __slots__ = ()


def _no_number(word: str) -> None:
    raise ValueError(word)


_JSON = json.JSONDecoder(
    object_pairs_hook=_Pairs, parse_float=_Digits, parse_int=_Digits, parse_constant=_no_number, strict=True
)


def _written(value: Any) -> str:
    if isinstance(value, _Pairs):
        return "{" + ",".join(f"{json.dumps(name)}:{_written(each)}" for name, each in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    return str(value) if isinstance(value, _Digits) else json.dumps(value)


def _whole_signs(text: str) -> str:
    """Unpaired surrogates fit into no UTF-8 text."""
    return _HALF_OF_PAIR.sub("?", text)


# ------------------------------------------------------------------ in DuckDB


def register_structures(connection: DuckDBPyConnection) -> None:
    make = cast("Callable[..., object]", connection.create_function)
    # A lambda: DuckDB would evaluate the annotations of a named function.
    function = lambda texts, kinds: _plain_structures(texts, kinds)  # noqa: E731, PLW0108
    make(PLAIN, function, ["VARCHAR", "VARCHAR"], "VARCHAR", type="arrow", null_handling="special")


def _plain_structures(texts: pa.ChunkedArray, kinds: pa.ChunkedArray) -> pa.Array:
    import pyarrow as pa

    pairs = zip(texts.to_pylist(), kinds.to_pylist(), strict=True)
    return pa.array([plain_structure(text, kind) for text, kind in pairs], pa.string())
