from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_type

from backfill_assets.errors import InvalidRequest
from backfill_assets.model import landed_values
from backfill_assets.model.canonical import (
    canonical,
    content_hash_as_before,
    content_hash_of_values,
    in_newer_form,
    raw_content_hash,
)
from backfill_assets.model.checks import asked_of
from backfill_assets.model.contract import BINARY, Contract, declared_types, is_list, is_nested, once, spark_types
from backfill_assets.model.declaration import EXAMPLE, Aggregates, Source, Table, landed_pattern
from backfill_assets.model.deletion import DELETION
from backfill_assets.model.doubles import decimal_of, in_units, units_of
from backfill_assets.model.drift import DriftKind
from backfill_assets.model.landed import BronzeColumns
from backfill_assets.model.landed_structures import has_structure
from backfill_assets.model.maps import in_key_order
from backfill_assets.model.of_duckdb import of_duckdb

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from ibis.expr.datatypes import DataType

T = TypeVar("T")
NOT_A_NUMBER = "is not a number"
_ROW_HASH, _CONTENT_HASH, _VERSION = "_row_hash", "_content_hash", "1"
_HASH = re.compile(f"(?:{_ROW_HASH}|{_CONTENT_HASH})_[0-9a-f]{{8}}")

# ------------------------------------------------------------------ aggregates


def exact_sum(
    values: ir.NumericColumn, where: ir.BooleanValue | None = None, *, digits: int | None = None
) -> ir.Scalar:
    """0 for no rows. Doubles without ``digits`` raise :class:`InvalidRequest`: the order decides their sum."""
    import ibis

    if values.type().is_floating():
        if digits is None:
            raise InvalidRequest(
                f"{values.get_name()} is a double: its sum is another one in another order of rows.",
                hint="Say how exact it is to be: exact_sum(..., digits=2).",
            )
        values = cast("ir.NumericColumn", decimal_of(values, digits))
    # The zero has the type of the sum: coalescing it with another type would change digits.
    kind = f"decimal(38, {values.type().scale})" if values.type().is_decimal() else "int64"
    return values.sum(where=where).fill_null(ibis.literal(0).cast(kind))


def count_different(rows: ir.Table, names: Collection[str]) -> ir.IntegerScalar:
    """Nulls are equal."""
    import ibis

    if len(names) > 1:
        return ibis.struct({name: rows[name] for name in names}).nunique()
    (only,) = (rows[name] for name in names)
    return only.nunique() + only.isnull().any().cast("int64")


def least(values: ir.Column) -> ir.StringScalar:
    """Text; empty without rows."""
    return values.cast("string").min().fill_null("")


# ------------------------------------------------------------------ what is wrong with a row


def breaches(contract: type[Contract], rows: ir.Table) -> Iterable[tuple[str, str, ir.BooleanValue]]:
    """Column, words, whether a row breaks it. Nulls pass checks; where not nullable, they break without words."""
    types = declared_types(contract)
    for name, declared in contract.fields().items():
        if not declared.nullable:
            yield name, "", rows[name].isnull()
            if types[name] in BINARY:
                yield name, NOT_A_NUMBER, rows[name].isnan().fill_null(False)
        for kind, asked in asked_of(declared):
            yield name, kind.wrong(asked), ~kind.of(rows, name, asked).fill_null(True)


def is_unsound(contract: type[Contract], rows: ir.Table) -> ir.BooleanValue:
    import ibis

    return reduce(or_, (broken for *_, broken in breaches(contract, rows)), ibis.literal(False))


def first_breach(contract: type[Contract], rows: ir.Table) -> ir.StringValue:
    import ibis

    reasons = [broken.ifelse(_words(rows, name, wrong), None) for name, wrong, broken in breaches(contract, rows)]
    return ibis.coalesce(*reasons) if reasons else ibis.null("string")


def _words(rows: ir.Table, name: str, wrong: str) -> ir.StringValue:
    import ibis

    if wrong in ("", NOT_A_NUMBER):
        return ibis.literal(f"{name}: {wrong or 'is missing'}")
    return f"{name}: {wrong} (was " + rows[name].cast("string") + ")"


def count_not_as_declared(source: Source, typed: type[Contract], rows: ir.Table) -> ir.IntegerScalar:
    """Rows, less deleted ones, with an undeclared or missing field, or a text not of its type."""
    differing = _differing(source, typed, rows).values()
    return _standing(rows, reduce(or_, differing, _read_lines(rows) & rows.rescued.notnull()))


def fields_not_as_declared(source: Source, typed: type[Contract], rows: ir.Table) -> dict[str, ir.Scalar]:
    differing = {f"{kind.name} {name}": (name, each) for (kind, name), each in _differing(source, typed, rows).items()}
    examples = {f"{of}{EXAMPLE}": least(each.ifelse(rows[name], None)) for of, (name, each) in differing.items()}
    return {of: _standing(rows, each) for of, (_, each) in differing.items()} | examples


def undeclared_fields(rows: ir.Table) -> ir.Table:
    import ibis

    kept = _read_lines(rows).ifelse(rows.rescued, None)
    named = rows.select("day", counts=_counts(rows), kept=of_duckdb("json_valid", "boolean", kept).ifelse(kept, None))
    each = named.filter(named.kept.notnull()).select(
        "day", "counts", "kept", field=of_duckdb("json_keys", "array<string>", named.kept).unnest()
    )
    counted = each.group_by("day", "field").agg(rows=each.counts.sum().cast("int64"), kept=each.kept.min())
    entry = ibis.struct({name: counted[name] for name in ("field", "rows", "kept")})
    return counted.group_by("day").agg(fields=entry.collect().cast("json").cast("string"))


def _standing(rows: ir.Table, which: ir.BooleanValue) -> ir.IntegerScalar:
    """A deletion subtracts one."""
    return cast("ir.IntegerScalar", exact_sum(_counts(rows), which))


def _counts(rows: ir.Table) -> ir.IntegerValue:
    return cast("ir.IntegerValue", (rows.record_kind == DELETION).ifelse(-1, 1).cast("int64"))


def _read_lines(rows: ir.Table) -> ir.BooleanValue:
    is_line = (rows.record_kind == "received") | ((rows.record_kind == DELETION) & rows.source_file.notnull())
    return is_line & rows.unparsed_line.isnull()


def _differing(source: Source, typed: type[Contract], rows: ir.Table) -> dict[tuple[DriftKind, str], ir.BooleanValue]:
    lacking = {(DriftKind.MISSING, name): rows[name].isnull() for name in _demanded(source, typed)}
    of_another_type = {
        (DriftKind.RETYPED, name): ~of_duckdb(
            "regexp_full_match", "boolean", rows[name], landed_pattern(source.type_of(name))
        ).fill_null(True)
        for name in source.parsed_columns
    }
    return {of: _read_lines(rows) & each for of, each in (lacking | of_another_type).items()}


def _demanded(source: Source, typed: type[Contract]) -> list[str]:
    may_lack = {"day", *source.rescued_fields, *(name for name, each in typed.fields().items() if each.nullable)}
    return [name for name in source.columns if name not in may_lack]


def unbelieved_day(source: Source, rows: ir.Table) -> ir.DateValue:
    """The readable day of a row put on its arrival day."""
    if source.replaced_whole:  # no row names a day
        return cast("ir.DateValue", rows.arrival_day.nullif(rows.arrival_day))
    text = rows[source.event_day_field].cast("string")
    value = landed_values.parsed(text, source.type_of(source.event_day_field))
    named = landed_values.on_its_clock(source, value).try_cast("date")
    return (rows.day_is_arrival & rows.arrival_day.notnull()).ifelse(named, None)


# ------------------------------------------------------------------ hashes that are written beside rows


class WrittenHash(ABC):
    """A row's hash (bigint), in a column that Delta's schema lacks; the metric is the sum. Spark computes missing ones,
    and for watchdogs.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        pass

    @abstractmethod
    def column(self) -> Column:
        pass

    @abstractmethod
    def value(self, rows: ir.Table) -> ir.IntegerValue:
        pass

    def __call__(self, rows: ir.Table) -> ir.Scalar:
        return exact_sum(rows[self.name])

    def is_absent(self, rows: ir.Table) -> ir.BooleanValue:
        return rows[self.name].isnull()


@dataclass(frozen=True)
class RowHash(WrittenHash):
    """A hash of all columns but the day; doubles with ``digits`` count rounded.

    XXH64 skips nulls and list ends: values are followed by null ones and the shape of lists. Deeper types are hashed as
    JSON too, maps as sorted entries, landed structures as canonical text.
    """

    contract: type[Contract]

    @property
    def name(self) -> str:
        """Contains a fingerprint of the columns."""
        return f"{_ROW_HASH}_{_fingerprint(self.contract)}"

    @property
    def _landed_structures(self) -> Mapping[str, str]:
        return _landed_structures(self.contract)

    def column(self) -> Column:
        fields = {name: each for name, each in self.contract.fields().items() if name != "day"}
        nullable = [F.col(name).isNull() for name, each in fields.items() if each.nullable]
        types = {name: kind for name, kind in spark_types(self.contract).items() if name != "day"}
        lists = [name for name, kind in types.items() if is_list(kind) and not is_nested(kind)]
        # The end and the nulls of a single list follow from all values together.
        several = lists if len(lists) > 1 else []
        shapes = [*map(_nulls_of_list, lists), *map(F.array_size, several), *map(_has_null, several)]
        landed = self._landed_structures
        columns = {
            name: canonical(F.col(name), landed[name]) if name in landed else in_key_order(F.col(name), kind)
            for name, kind in types.items()
        }
        by_json = [name for name in types if is_nested(types[name]) and name not in landed]
        nested = [F.to_json(columns[name], {"ignoreNullFields": "false"}) for name in by_json]
        values = [_counted(columns[name], each.digits, in_units) for name, each in fields.items()]
        return F.xxhash64(*values, *nullable, *shapes, *nested)

    def value(self, rows: ir.Table) -> ir.IntegerValue:
        """Raises :class:`InvalidRequest` for nesting deeper than a list: its JSON is Spark's."""
        types = {name: kind for name, kind in spark_types(self.contract).items() if name != "day"}
        landed = self._landed_structures
        if nested := [name for name, kind in types.items() if is_nested(kind) and name not in landed]:
            raise InvalidRequest(f"DuckDB has no hash of rows with what is nested in {', '.join(nested)}.")
        fields = self.contract.fields()
        read: dict[str, Any] = {name: rows[name].cast(_as_read(kind)) for name, kind in types.items()}
        read |= {name: landed_values.canonical(rows[name], kind) for name, kind in landed.items()}
        values = {name: _counted(value, fields[name].digits, units_of) for name, value in read.items()}
        nullable = [values[name].isnull() for name in types if fields[name].nullable]
        lists = [values[name] for name, kind in types.items() if is_list(kind) and name not in landed]
        several = lists if len(lists) > 1 else []
        lengths = (each.length().cast("int32") for each in several)
        return landed_values.hashed(
            *values.values(), *nullable, *map(_nulls_of, lists), *lengths, *map(_has_nulls, several)
        )


def _counted(value: T, digits: int | None, in_units: Callable[[T, int], T]) -> T:
    return value if digits is None else in_units(value, digits)


def _has_null(name: str) -> Column:
    return F.exists(name, lambda item: item.isNull())


def _nulls_of_list(name: str) -> Column:
    return F.when(_has_null(name), F.transform(name, lambda item: item.isNull()))


def _as_read(kind: Any) -> DataType:
    from ibis.expr.datatypes import DataType

    return DataType.from_pyarrow(to_arrow_type(kind, timezone="UTC"))


def _has_nulls(items: ir.ArrayValue) -> ir.BooleanValue:
    return items.filter(lambda item: item.isnull()).length() > 0


def _nulls_of(items: ir.ArrayValue) -> ir.ArrayValue:
    return _has_nulls(items).ifelse(items.map(lambda item: item.isnull()), None)


@dataclass(frozen=True)
class ContentHash(WrittenHash):
    """Covers fields declared at landing: the hash carried shows how many rescued ones were known. Markers and deletions
    carry another row's.
    """

    source: Source
    form: Literal["text", "values"]

    @property
    def name(self) -> str:
        columns = [f"{name} {self.source.type_of(name)}" for name in self.source.columns]
        return f"{_CONTENT_HASH}_{_digest([self.form, *columns, *self.source.rescued_fields])}"

    def is_absent(self, rows: ir.Table) -> ir.BooleanValue:
        absent = rows[self.name].isnull()
        return absent if self.form == "values" else absent & rows["arrival_day"].notnull()

    def column(self) -> Column:
        whole, *earlier = (each.over_all_fields() for each in self.by_fields_known())
        known = F.coalesce(*map(_if_carried, (whole, *earlier)), whole) if earlier else whole
        if self.form == "values":
            return known
        if "timestamp" in map(self.source.type_of, self.source.columns):
            # Only rows with a newer form may carry a hash from when it was still text.
            before = (content_hash_as_before(each.source) for each in self.by_fields_known())
            known = F.when(in_newer_form(self.source), F.coalesce(*map(_if_carried, before), known)).otherwise(known)
        return F.when(F.col("arrival_day").isNotNull(), known)

    def value(self, rows: ir.Table) -> ir.IntegerValue:
        import ibis

        sources = [each.source for each in self.by_fields_known()]
        if self.form == "values":
            return _carried_or_first(rows, [landed_values.content_hash_of_values(each, rows) for each in sources])
        known = _carried_or_first(rows, [landed_values.raw_content_hash(each, rows) for each in sources])
        if "timestamp" in map(self.source.type_of, self.source.columns):
            before = [landed_values.content_hash_as_before(each, rows) for each in sources]
            in_newer_form = landed_values.in_newer_form(self.source, rows)
            known = in_newer_form.ifelse(ibis.coalesce(*_those_carried(rows, before), known), known)
        if landed_values.AS_HASHED in rows.columns:
            known = landed_values.hash_of_staged(self.source, rows, known)
        return cast("ir.IntegerValue", rows["arrival_day"].notnull().ifelse(known, None))

    def over_all_fields(self) -> Column:
        return raw_content_hash(self.source) if self.form == "text" else content_hash_of_values(self.source)

    def by_fields_known(self) -> list[ContentHash]:
        """With all, then ever fewer rescued fields."""
        rescued = self.source.rescued_fields
        return [replace(self, source=_without(self.source, rescued[count:])) for count in range(len(rescued), -1, -1)]


def _if_carried(computed: Column) -> Column:
    return F.when(computed == F.col("content_hash"), computed)


def _carried_or_first(rows: ir.Table, computed: Sequence[ir.IntegerValue]) -> ir.IntegerValue:
    import ibis

    first, *others = computed
    return cast("ir.IntegerValue", ibis.coalesce(*_those_carried(rows, computed), first)) if others else first


def _those_carried(rows: ir.Table, computed: Sequence[ir.IntegerValue]) -> list[ir.Value]:
    # Yields the carried value: a result that repeats the expression would compute the hash twice.
    return [(each == rows.content_hash).ifelse(rows.content_hash, None) for each in computed]


def _without(source: Source, fields: Collection[str]) -> Source:
    if not fields:
        return source
    return replace(source, fields=tuple(name for name in source.fields if name not in fields), rescued_fields=())


def is_hash(name: str) -> bool:
    return _HASH.fullmatch(name) is not None


@once
def _fingerprint(contract: type[Contract]) -> str:
    types = declared_types(contract)
    fields = {name: each for name, each in contract.fields().items() if name != "day"}
    digits = [f"{name} in {each.digits} digits" for name, each in fields.items() if each.digits is not None]
    landed = [f"{name} as landed" for name in _landed_structures(contract)]
    return _digest([*(f"{name} {types[name]} {each.nullable}" for name, each in fields.items()), *digits, *landed])


@once
def _landed_structures(contract: type[Contract]) -> Mapping[str, str]:
    types = declared_types(contract) if issubclass(contract, BronzeColumns) else {}
    return {name: kind for name, kind in types.items() if has_structure(kind)}


def _digest(parts: Iterable[str]) -> str:
    """Another computation needs another ``_VERSION``."""
    return hashlib.sha256("\n".join([_VERSION, *parts]).encode()).hexdigest()[:8]


def hashes_written_of(table: Table) -> tuple[WrittenHash, ...]:
    return tuple(dict.fromkeys([RowHash(table.contract), *hashes_of(table.measured).values()]))


def hashes_of(metrics: Aggregates) -> dict[str, WrittenHash]:
    return {name: made for name, made in metrics.items() if isinstance(made, WrittenHash)}
