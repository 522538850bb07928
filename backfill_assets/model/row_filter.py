"""Which rows of a day are meant, by the values of declared columns: ``store_id in (3, 7) and currency = 'EUR'``.

Its literals become values of the columns' declared types; no text of it is ever part of a query. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from backfill_assets.errors import InvalidRequest
from backfill_assets.model.contract import spark_types
from backfill_assets.model.declaration import Table
from backfill_assets.text import suggest_or_list

Value = str | int | Decimal | date | datetime | bool
_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>[-+]?\d+(?:\.\d+)?(?![\w.]))|(?P<word>[A-Za-z_]\w*)|(?P<sign>[=(),]))",
    re.ASCII,
)
_FORMS = "COLUMN = V, COLUMN in (V, W), COLUMN between V and W, joined by and"
_DIGITS = 100
_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}


@dataclass(frozen=True)
class Condition:
    """``values`` are one or more to be equal to, or the ends of a range. A null fulfills none."""

    column: str
    values: tuple[Value, ...]
    is_range: bool = False

    def __str__(self) -> str:
        written = list(map(_written, self.values))
        if self.is_range:
            return f"{self.column} between {written[0]} and {written[1]}"
        return f"{self.column} = {written[0]}" if len(written) == 1 else f"{self.column} in ({', '.join(written)})"


@dataclass(frozen=True)
class RowFilter:
    """Rows that fulfill all ``conditions``. Its text is read as what it is written from."""

    conditions: tuple[Condition, ...]

    def __str__(self) -> str:
        return " and ".join(map(str, self.conditions))

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.column for each in self.conditions))


def filter_columns(table: Table) -> tuple[str, ...]:
    """Columns that rows may be chosen by: those of the key, and those that figures are told apart by."""
    return tuple(name for name in dict.fromkeys((*table.key, *table.groups)) if name != "day")


def read_filter(text: str, table: Table) -> RowFilter:
    """Raises :class:`InvalidRequest` for what is no such text, for other columns, and for values of other types."""
    types = spark_types(table.contract)
    allowed = {name: types[name] for name in filter_columns(table) if name in types}
    reader = _Reader(text, table.name, allowed, list(_tokens(text)))
    found = [reader.condition()]
    while reader.tokens:
        reader.word("and")
        found.append(reader.condition())
    return RowFilter(tuple(sorted(found, key=lambda each: (each.column, str(each)))))


@dataclass
class _Reader:
    text: str
    table: str
    types: Mapping[str, Any]
    tokens: list[tuple[str, str]]

    def condition(self) -> Condition:
        column = self.column()
        kind, said = self.take()
        if (kind, said) == ("sign", "="):
            return Condition(column, (self.value(column),))
        if kind == "word" and said.lower() == "in":
            return Condition(column, self.listed(column))
        if kind == "word" and said.lower() == "between":
            first = self.value(column)
            self.word("and")
            return self.range(column, first, self.value(column))
        raise self.wrong(f"{said!r} after {column}")

    def column(self) -> str:
        kind, name = self.take()
        if kind != "word":
            raise self.wrong(f"{name!r} names no column")
        if name == "day":
            raise InvalidRequest("day is no column to choose rows by.", hint="Days are chosen with --days.")
        if name not in self.types:
            raise InvalidRequest(
                f"{self.table}: {name} is neither of its key nor one of its groups, so no row is chosen by it.",
                hint=suggest_or_list(name, list(self.types), "Columns"),
            )
        return name

    def listed(self, column: str) -> tuple[Value, ...]:
        self.sign("(")
        found = [self.value(column)]
        while self.tokens and self.tokens[0] == ("sign", ","):
            self.take()
            found.append(self.value(column))
        self.sign(")")
        return tuple(sorted(set(found)))

    def range(self, column: str, first: Value, last: Value) -> Condition:
        if first > last:  # type: ignore[operator]  # both of one type
            raise InvalidRequest(
                f"{column} between {_written(first)} and {_written(last)} holds no value.",
                hint=f"Turn it round: {column} between {_written(last)} and {_written(first)}",
            )
        return Condition(column, (first, last), is_range=True)

    def value(self, column: str) -> Value:
        kind, said = self.take()
        declared = self.types[column]
        value = _typed(declared, kind, said)
        if value is None:
            raise InvalidRequest(
                f"{column}: {said} is no {declared.simpleString()}.",
                hint=f"Write it as in {column} = {_example(declared)}",
            )
        return value

    def word(self, expected: str) -> None:
        kind, said = self.take()
        if kind != "word" or said.lower() != expected:
            raise self.wrong(f"{said!r} in place of {expected}")

    def sign(self, expected: str) -> None:
        if (found := self.take()) != ("sign", expected):
            raise self.wrong(f"{found[1]!r} in place of {expected}")

    def take(self) -> tuple[str, str]:
        if not self.tokens:
            raise self.wrong("it ends too early")
        return self.tokens.pop(0)

    def wrong(self, what: str) -> InvalidRequest:
        return InvalidRequest(f"{self.text!r} cannot be read: {what}.", hint=f"What can be said: {_FORMS}")


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    place = 0
    while text[place:].strip():
        found = _TOKEN.match(text, place)
        if found is None:
            rest = text[place:].strip()
            raise InvalidRequest(f"{text!r} cannot be read at {rest!r}.", hint=f"What can be said: {_FORMS}")
        place = found.end()
        yield str(found.lastgroup), found[str(found.lastgroup)]


def _typed(declared: Any, kind: str, said: str) -> Value | None:
    """None for a literal of another type, or one that a value of this type can never equal."""
    name = declared.typeName()
    text = said[1:-1].replace("''", "'") if kind == "text" else said
    if kind not in _LITERALS.get(name, _LITERALS["long"] if name in _BITS else ()):
        return None
    try:
        return _READ[name](text, declared) if name in _READ else _whole(text, _BITS[name])
    except (ValueError, InvalidOperation):
        return None


def _whole(text: str, bits: int) -> int | None:
    number = int(text)
    return number if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1) else None


def _moment(text: str, _: Any) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def _decimal(text: str, declared: Any) -> Decimal | None:
    precision, scale = declared.precision, declared.scale
    value, unit = Decimal(text), Decimal(1).scaleb(-scale)
    exact = value.quantize(unit, context=Context(prec=_DIGITS))
    return exact if exact == value and abs(value) < Decimal(10) ** (precision - scale) else None


_LITERALS: Mapping[str, tuple[str, ...]] = {
    "string": ("text", "number"),
    "long": ("number",),
    "decimal": ("number",),
    "date": ("text",),
    "timestamp": ("text",),
    "boolean": ("word",),
}
_READ: Mapping[str, Callable[[str, Any], Value | None]] = {
    "string": lambda text, _: text,
    "decimal": _decimal,
    "date": lambda text, _: date.fromisoformat(text),
    "timestamp": _moment,
    "boolean": lambda text, _: {"true": True, "false": False}.get(text.lower()),
}


def _written(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | Decimal):
        return f"{value:f}" if isinstance(value, Decimal) else str(value)
    text = value.isoformat() if isinstance(value, date) else value
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


def _example(declared: Any) -> str:
    return {
        "string": "'a'",
        "decimal": "1.5",
        "date": "'2017-03-01'",
        "timestamp": "'2017-03-01T12:00:00Z'",
        "boolean": "true",
    }.get(declared.typeName(), "3")
