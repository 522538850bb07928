"""A sample in DuckDB: texts as raw reads them, their forms, and how typed rows differ."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from backfill_assets.judge.engine import database
from backfill_assets.landing.landing_files import LandingFile, LinesQuery
from backfill_assets.landing.raw_query import PLACE, raw_rows
from backfill_assets.landing.records import format_of
from backfill_assets.model.declaration import Source
from backfill_assets.model.landed_format import Format, SourceOfFiles, record_columns
from backfill_assets.model.landed_values import parsed, parsed_sql
from backfill_assets.proposal.field_types import TypedField
from backfill_assets.proposal.forms import FORMS, LIST, LISTS, LOSSLESS, NULL_WORDS, SCALARS
from backfill_assets.proposal.profile import DaysSeen, FieldProfile, SampleProfile
from backfill_assets.spark.worker_queries import sql_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_LANDED, _TYPED, _ARRIVED = "landed", "typed", "arrived"
_FEW = 12
_WEEK = 7
_NO_DAY = date(1970, 1, 1)
_KINDS: Mapping[str, str] = {"VARCHAR": "text", "BOOLEAN": "boolean", "OBJECT": "object", "ARRAY": "list"}


@dataclass(frozen=True)
class SampledFile:
    path: str
    arrived: date | None
    most: int


@contextmanager
def sampled(
    format_: Format, fields: Sequence[str], files: Iterable[SampledFile], *, whole: bool, alike: Sequence[str] = ()
) -> Iterator[Sampled]:
    """Read like raw. Raises :class:`SourceUnreadable`."""
    columns = [f"f{number}" for number in range(len(fields))]
    source = SourceOfFiles(
        name="sample",
        event_day_field=columns[0],
        key_fields=(fields[0],),
        version_field=columns[0],
        fields=tuple(fields),
        renamed_fields=dict(zip(fields, columns, strict=True)),
        format=format_,
    )
    asked = _texts(source)
    with database(threads=1) as connection:
        names = ", ".join(f"{column} VARCHAR" for column in (*columns, "unread"))
        connection.execute(f"CREATE TABLE {_LANDED} ({names}, {_ARRIVED} DATE)")
        for file in files:
            landed = LandingFile(file.path, "", file.arrived or _NO_DAY, 0, file.most)
            with LinesQuery(asked, format_, source.fields, "").rows([landed]) as rows:
                texts = pa.Table.from_batches(list(rows), _schema(columns))
            connection.register("texts", texts)
            connection.execute(f"INSERT INTO {_LANDED} FROM texts SELECT *, ?", [file.arrived])
            connection.unregister("texts")
        yield Sampled(connection, dict(zip(fields, columns, strict=True)), whole, tuple(alike))


@cache
def _texts(source: Source) -> str:
    import ibis

    read = pa.schema([*list(record_columns(format_of(source), source.fields))[1:], *PLACE])
    rows = raw_rows(ibis.table(ibis.Schema.from_pyarrow(read), name="records"), source)
    return sql_of(rows.select(*source.columns, unread=rows.unparsed_line))


def _schema(columns: Sequence[str]) -> pa.Schema:
    return pa.schema([(name, pa.string()) for name in (*columns, "unread")])


class Sampled:
    def __init__(
        self, connection: DuckDBPyConnection, columns: Mapping[str, str], whole: bool, alike: tuple[str, ...]
    ) -> None:
        self._connection = connection
        self._columns = columns
        self._whole = whole
        self._alike = alike

    def profile(self, kinds: Mapping[str, Mapping[str, int]], types: Mapping[str, str] | None = None) -> SampleProfile:
        """``kinds``: values by field and JSON kind; ``types``: what files declare."""
        [rows, unread] = self._row(f"FROM {_LANDED} SELECT count(*) FILTER (unread IS NULL), count(unread)")
        self._connection.execute(f"CREATE OR REPLACE TABLE {_LANDED} AS FROM {_LANDED} WHERE unread IS NULL")
        said = types or {}
        found = [
            replace(self._field(name, column, kinds.get(name, {})), typed=said.get(name, ""))
            for name, column in self._columns.items()
        ]
        return SampleProfile(rows, tuple(found), unread, self._whole, self._alike)

    def _field(self, name: str, column: str, kinds: Mapping[str, int]) -> FieldProfile:
        counts = {kind: f"count(*) FILTER ({parsed_sql(column, kind)} IS NOT NULL)" for kind in SCALARS}
        forms = {form: f"count(*) FILTER (regexp_full_match({column}, '{like}'))" for form, like in FORMS.items()}
        forms |= {word: f"count(*) FILTER ({column} = '{word}')" for word in NULL_WORDS}
        forms[LOSSLESS] = f"count(*) FILTER ({_lossless(column)})"
        digits = [_longest(column, "^[+-]?([0-9]+)"), _longest(column, "[.]([0-9]+)$")]
        asked = [f"count({column})", f"count(DISTINCT {column})", *counts.values(), *forms.values(), *digits]
        found = self._row(f"FROM {_LANDED} SELECT {', '.join(asked)}")
        present, different = found[:2]
        fits = dict(zip(counts, found[2:], strict=False))
        seen = dict(zip(forms, found[2 + len(counts) :], strict=False))
        if 0 < seen[LIST] == present:
            fits |= self._lists(column)
        few = self._few(column) if different <= _FEW else ()
        return FieldProfile(name, present, different, kinds, fits, seen, before=found[-2], behind=found[-1], few=few)

    def _lists(self, column: str) -> Mapping[str, int]:
        return dict(zip(LISTS, self._row(_count_lists(column)), strict=True))

    def _few(self, column: str) -> tuple[str, ...]:
        found = self._connection.execute(
            f"FROM {_LANDED} SELECT {column} WHERE {column} IS NOT NULL GROUP BY 1 ORDER BY count(*) DESC, 1"
        )
        return tuple(text for (text,) in found.fetchall())

    def _row(self, asked: str) -> Sequence[Any]:
        found = self._connection.execute(asked).fetchone()
        return found or ()

    # ---------------------------------------------------------------- typed

    def typed(self, fields: Sequence[TypedField]) -> TypedRows:
        values = [f"{_value(self._columns[each.name], each.type)} AS {self._columns[each.name]}" for each in fields]
        self._connection.execute(f"CREATE TABLE {_TYPED} AS FROM {_LANDED} SELECT {', '.join(values)}, {_ARRIVED}")
        return TypedRows(self._connection, self._columns, {each.name: each.type for each in fields})


class TypedRows:
    """See :class:`~backfill_assets.proposal.profile.SampledRows`."""

    def __init__(self, connection: DuckDBPyConnection, columns: Mapping[str, str], types: Mapping[str, str]) -> None:
        self._connection = connection
        self._columns = columns
        self._types = types
        self._all = self._one(f"FROM {_TYPED} SELECT count(*)")
        self.count = self.different(columns)

    @property
    def repeated(self) -> int:
        return self._all - self.count

    def different(self, columns: Collection[str], day: str = "") -> int:
        values = [self._columns[name] for name in columns] + ([self._day(day)] if day else [])
        return self._one(f"FROM (FROM {_TYPED} SELECT DISTINCT {', '.join(values)}) SELECT count(*)")

    def days(self, field: str) -> DaysSeen | None:
        day = self._day(field)
        found = self._connection.execute(
            f"FROM (FROM {_TYPED} SELECT {day} AS d, count(*) AS n, count(*) FILTER ({day} > {_ARRIVED} + 1) AS ahead, "
            f"count(*) FILTER ({day} < {_ARRIVED} - {_WEEK}) AS late WHERE d IS NOT NULL GROUP BY d) "
            "SELECT min(d), max(d), max(n), sum(ahead), sum(late)"
        ).fetchone()
        if not found or found[0] is None:
            return None
        first, last, most, ahead, late = found
        return DaysSeen(first, last, most, int(ahead), int(late))

    def least_and_greatest(self, field: str) -> tuple[str, str]:
        """Empty without any, or without an order."""
        column = self._columns[field]
        text = "strftime({}, '%Y-%m-%dT%H:%M:%SZ')" if self._types[field] == "timestamp" else "{}::VARCHAR"
        ends = ", ".join(text.format(f"{end}({column})") for end in ("min", "max"))
        found = self._connection.execute(f"FROM {_TYPED} SELECT {ends}").fetchone()
        return (found[0], found[1]) if found and found[0] is not None else ("", "")

    def _day(self, field: str) -> str:
        column = self._columns[field]
        return f"({column} AT TIME ZONE 'UTC')::DATE" if self._types[field] == "timestamp" else column

    def _one(self, asked: str) -> int:
        found = self._connection.execute(asked).fetchone()
        return int(found[0]) if found else 0


def profile_of_typed(
    connection: DuckDBPyConnection, columns: Mapping[str, str], types: Mapping[str, str]
) -> tuple[SampleProfile, list[str]]:
    """Also returns names of texts that are all days: they become dates."""
    fields, text_days = list[FieldProfile](), list[str]()
    for name, column in columns.items():
        forms = {form: f"count(*) FILTER (regexp_full_match({column}, '{like}'))" for form, like in FORMS.items()}
        of_text = types[name] == "string"
        asked = [f"count({column})", f"count(DISTINCT {column})", *(forms.values() if of_text else ())]
        days = f"count(*) FILTER ({parsed_sql(column, 'date')} IS NOT NULL)" if of_text else "0"
        found = connection.execute(f"FROM {_TYPED} SELECT {', '.join([*asked, days])}").fetchone() or ()
        few = connection.execute(
            f"FROM {_TYPED} SELECT {column}::VARCHAR WHERE {column} IS NOT NULL GROUP BY 1 ORDER BY count(*) DESC, 1 "
            f"LIMIT {_FEW + 1}"
        ).fetchall()
        shown = tuple(text for (text,) in few) if len(few) <= _FEW else ()
        seen = dict(zip(forms, found[2:-1], strict=False))
        fields.append(FieldProfile(name, found[0], found[1], forms=seen, few=shown, typed=types[name]))
        if found[-1] and found[-1] == found[0]:
            text_days.append(name)
            read = parsed_sql(column, "date")
            connection.execute(f"ALTER TABLE {_TYPED} ALTER {column} TYPE DATE USING {read}")
    rows = connection.execute(f"FROM {_TYPED} SELECT count(*)").fetchone()
    return SampleProfile(rows[0] if rows else 0, tuple(fields)), text_days


def _value(column: str, kind: str) -> str:
    return column if kind == "string" or kind.startswith("array") else parsed_sql(column, kind)


@cache
def _count_lists(column: str) -> str:
    import ibis

    table = ibis.table({column: "string"}, name=_LANDED)
    return sql_of(table.aggregate(**{kind: parsed(table[column], kind).count() for kind in LISTS}))


def _lossless(column: str) -> str:
    """A double prints as this text, or the text has no more digits than doubles keep."""
    mantissa = f"ltrim(regexp_replace(regexp_replace({column}, '[eE].*', ''), '[^0-9]', '', 'g'), '0')"
    return f"length({mantissa}) <= 15 OR try_cast({column} AS DOUBLE)::VARCHAR = {column}"


def _longest(column: str, part: str) -> str:
    return f"coalesce(max(length(regexp_extract({column}, '{part}', 1))), 0)"


# ------------------------------------------------------------------ of JSON


def fields_of_json(lines: Iterable[str]) -> Mapping[str, Mapping[str, int]]:
    """In order of occurrence, with values by kind."""
    with database(threads=1) as connection:
        connection.register("lines", pa.table({"line": pa.array(lines, pa.string())}))
        connection.execute(
            "CREATE TABLE objects AS SELECT row_number() OVER () AS n, line FROM lines "
            "WHERE json_valid(line) AND json_type(line) = 'OBJECT'"
        )
        keys = "generate_subscripts(json_keys(line), 1) AS place, unnest(json_keys(line)) AS name"
        named = connection.execute(
            f"FROM (FROM objects SELECT n, {keys}) SELECT name GROUP BY name ORDER BY min((n, place))"
        ).fetchall()
        return _kinds(connection, [name for (name,) in named])


def _kinds(connection: DuckDBPyConnection, names: Sequence[str]) -> Mapping[str, Mapping[str, int]]:
    counts: dict[str, dict[str, int]] = {name: {} for name in names}
    pointers = ["/" + name.replace("~", "~0").replace("/", "~1") for name in names]
    found = connection.execute(
        "FROM (FROM objects SELECT unnest(range(len(?::VARCHAR[]))) AS field, unnest(json_type(line, ?)) AS kind) "
        "SELECT field, kind, count(*) WHERE kind IS NOT NULL AND kind <> 'NULL' GROUP BY ALL ORDER BY ALL",
        [pointers, pointers],
    )
    for field, kind, count in found.fetchall():
        of, said = counts[names[field]], _KINDS.get(kind, "number")
        of[said] = of.get(said, 0) + count
    return counts
