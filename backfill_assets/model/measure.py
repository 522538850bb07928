"""What may be measured of the rows of a day: aggregates over expressions, which the judge carries out over its files.

Each is called with the rows, a table of Ibis, and gives an expression over them. So may any other function: an
aggregate is one of the :data:`~backfill_assets.model.declaration.Aggregates` of a rule. Only the hashes of a row's
content are Spark's: it writes them beside the row (:class:`WrittenHash`), and the judge adds them up.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill_assets.model.canonical import content_hash_of_values, raw_content_hash
from backfill_assets.model.checks import KINDS, asked_of
from backfill_assets.model.contract import Contract, declared_types, is_list, is_nested, once, spark_types
from backfill_assets.model.declaration import Aggregates, Source, Table
from backfill_assets.model.landed_values import typed_value

if TYPE_CHECKING:
    import ibis.expr.types as ir

_ROW_HASH, _CONTENT_HASH, _VERSION = "_row_hash", "_content_hash", "1"
_HASH = re.compile(f"(?:{_ROW_HASH}|{_CONTENT_HASH})_[0-9a-f]{{8}}")
_OF_DAY = 10
"""The characters of a moment that say its day."""


class Expression(ABC):
    """A value of each row, or a condition on it."""

    @abstractmethod
    def __call__(self, rows: ir.Table) -> ir.Value: ...


class Aggregate(ABC):
    """A metric of all rows of a day."""

    @abstractmethod
    def __call__(self, rows: ir.Table) -> ir.Scalar: ...


# ------------------------------------------------------------------ values


@dataclass(frozen=True)
class ValueOf(Expression):
    """The value of a column."""

    name: str

    def __call__(self, rows: ir.Table) -> ir.Value:
        return rows[self.name]


@dataclass(frozen=True)
class FirstItem(Expression):
    """The first item of an array column; null if it has none."""

    name: str

    def __call__(self, rows: ir.Table) -> ir.Value:
        return rows[self.name][0]


@dataclass(frozen=True)
class Only(Expression):
    """A value in the rows that fulfil a condition, null in all others."""

    value: Expression
    where: Expression

    def __call__(self, rows: ir.Table) -> ir.Value:
        return self.where(rows).ifelse(self.value(rows), None)


@dataclass(frozen=True)
class FirstBreach(Expression):
    """The first reason why a row breaks the contract, in words and with the value; null for a sound row."""

    contract: type[Contract]

    def __call__(self, rows: ir.Table) -> ir.Value:
        import ibis

        reasons = [
            broken.ifelse(_words(rows, name, wrong), None) for name, wrong, broken in breaches(self.contract, rows)
        ]
        return ibis.coalesce(*reasons) if reasons else ibis.null("string")


def _words(rows: ir.Table, name: str, wrong: str) -> ir.StringValue:
    import ibis

    value = rows[name]
    return ibis.literal(f"{name}: is missing") if not wrong else f"{name}: {wrong} (was " + value.cast("string") + ")"


def breaches(contract: type[Contract], rows: ir.Table) -> Iterable[tuple[str, str, ir.BooleanValue]]:
    """For each thing asked of a column: its name, what is wrong with a value, and whether a row has such a one.

    As in pandera a null passes every check, and is asked for only by not being nullable: without words.
    """
    for name, declared in contract.fields().items():
        if not declared.nullable:
            yield name, "", rows[name].isnull()
        for kind, asked in asked_of(declared):
            yield name, kind.wrong(asked), ~kind.of(rows, name, asked).fill_null(True)


@dataclass(frozen=True)
class UnbelievedDay(Expression):
    """The day that a received row names, if it can be read and the row is on its arrival day all the same."""

    source: Source

    def __call__(self, rows: ir.Table) -> ir.Value:
        text = rows[self.source.event_day_field].cast("string")
        kind = self.source.type_of(self.source.event_day_field)
        on_arrival = rows["day_is_arrival"] & rows["arrival_day"].notnull()
        return on_arrival.ifelse(typed_value(text, kind).left(_OF_DAY).try_cast("date"), None)


# ------------------------------------------------------------------ hashes that Spark writes


class WrittenHash(Expression):
    """A hash of a row (bigint) that Spark computes as it writes it, into a column of the file.

    Delta's schema lacks that column. A file of another writer lacks it, too, and a watchdog does not believe it: then
    Spark computes the hash again.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The column: see :func:`is_hash`."""

    @abstractmethod
    def column(self) -> Column:
        """As Spark computes it."""

    def __call__(self, rows: ir.Table) -> ir.Value:
        return rows[self.name]

    def is_absent(self, rows: ir.Table) -> ir.BooleanValue:
        """Whether a row ought to have it, and has none."""
        return rows[self.name].isnull()


@dataclass(frozen=True)
class RowHash(WrittenHash):
    """A hash of everything in a row but its day.

    XXH64 passes over nulls, and over where a list ends. So it is over the values of all columns, then over which of
    those that may be are null, and then over the shape of lists: where each has nulls, and if there are several, how
    long each is and whether it has nulls. The only list, if it has none, adds nothing. What is nested deeper is hashed
    as JSON, too.
    """

    contract: type[Contract]

    @property
    def name(self) -> str:
        """With a fingerprint of the columns: rows that were written with others have another hash."""
        return f"{_ROW_HASH}_{_fingerprint(self.contract)}"

    def column(self) -> Column:
        fields = {name: each for name, each in self.contract.fields().items() if name != "day"}
        nullable = [F.col(name).isNull() for name, each in fields.items() if each.nullable]
        types = {name: kind for name, kind in spark_types(self.contract).items() if name != "day"}
        lists = [name for name, kind in types.items() if is_list(kind) and not is_nested(kind)]
        # Of one list alone it is known from all values together where it ends, and whose nulls there are.
        several = lists if len(lists) > 1 else []
        shapes = [*map(_nulls_of_list, lists), *map(F.array_size, several), *map(_has_null, several)]
        nested = [F.to_json(name, {"ignoreNullFields": "false"}) for name, kind in types.items() if is_nested(kind)]
        return F.xxhash64(*map(F.col, fields), *nullable, *shapes, *nested)


def _has_null(name: str) -> Column:
    return F.exists(name, lambda item: item.isNull())


def _nulls_of_list(name: str) -> Column:
    """Which items are null; null for a list without a null."""
    return F.when(_has_null(name), F.transform(name, lambda item: item.isNull()))


@dataclass(frozen=True)
class ContentHash(WrittenHash):
    """The content hash of a row, computed from what it holds: landed text, or typed values.

    It is over the fields that were declared when the row was landed. Rescued fields are declared one after the other,
    and each row knew the first of them, some or all: the hash that it carries says which. Of landed text, only rows
    that were received have one: markers and deletions have another row's.
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
        carried = F.col("content_hash")
        known = F.coalesce(*(F.when(each == carried, each) for each in (whole, *earlier)), whole) if earlier else whole
        return known if self.form == "values" else F.when(F.col("arrival_day").isNotNull(), known)

    def over_all_fields(self) -> Column:
        return raw_content_hash(self.source) if self.form == "text" else content_hash_of_values(self.source)

    def by_fields_known(self) -> list[ContentHash]:
        """Over all fields, and then over ever fewer of those that were rescued."""
        rescued = self.source.rescued_fields
        return [replace(self, source=_without(self.source, rescued[count:])) for count in range(len(rescued), -1, -1)]


def _without(source: Source, fields: Collection[str]) -> Source:
    if not fields:
        return source
    return replace(source, fields=tuple(name for name in source.fields if name not in fields), rescued_fields=())


def is_hash(name: str) -> bool:
    """Whether a column of a file has hashes that Spark wrote."""
    return _HASH.fullmatch(name) is not None


@once
def _fingerprint(contract: type[Contract]) -> str:
    types = declared_types(contract)
    return _digest(f"{name} {types[name]} {each.nullable}" for name, each in contract.fields().items() if name != "day")


def _digest(parts: Iterable[str]) -> str:
    """Of what a hash is made of; another way to compute it would be another version."""
    return hashlib.sha256("\n".join([_VERSION, *parts]).encode()).hexdigest()[:8]


def hashes_written_of(table: Table) -> tuple[WrittenHash, ...]:
    """The hashes that Spark writes beside each row of ``table``: one of everything in it, and what its rules add up."""
    of_rules = {name: made for rule in table.rules for name, made in rule.measure().items()}
    return tuple(dict.fromkeys([RowHash(table.contract), *hashes_of(of_rules).values()]))


def hashes_of(metrics: Aggregates) -> dict[str, WrittenHash]:
    """By metric that adds up hashes which Spark writes, these hashes."""
    sums = {name: made.hashes for name, made in metrics.items() if isinstance(made, SumOfHashes)}
    return {name: hashes for name, hashes in sums.items() if isinstance(hashes, WrittenHash)}


# ------------------------------------------------------------------ conditions


@dataclass(frozen=True)
class IsNull(Expression):
    """A column has no value."""

    name: str

    def __call__(self, rows: ir.Table) -> ir.Value:
        return rows[self.name].isnull()


@dataclass(frozen=True)
class HasValue(Expression):
    """A column, or what is computed of a row, has a value."""

    of: str | Expression

    def __call__(self, rows: ir.Table) -> ir.Value:
        return (rows[self.of] if isinstance(self.of, str) else self.of(rows)).notnull()


@dataclass(frozen=True)
class Both(Expression):
    """Two conditions are fulfilled."""

    one: Expression
    other: Expression

    def __call__(self, rows: ir.Table) -> ir.Value:
        return self.one(rows) & self.other(rows)


@dataclass(frozen=True)
class Fulfils(Expression):
    """A column fulfils one of the checks that a contract may ask for: ``Fulfils("quantity", "ge", 1)``."""

    name: str
    check: str
    asked: Any = field(hash=False)

    def __call__(self, rows: ir.Table) -> ir.Value:
        return KINDS[self.check].of(rows, self.name, self.asked)


@dataclass(frozen=True)
class Unsound(Expression):
    """A row breaks the contract; never null."""

    contract: type[Contract]

    def __call__(self, rows: ir.Table) -> ir.Value:
        import ibis

        return reduce(or_, (broken for *_, broken in breaches(self.contract, rows)), ibis.literal(False))


@dataclass(frozen=True)
class DaysApart(Expression):
    """One day is more than ``more_than`` days after another."""

    later: str
    earlier: str
    more_than: int

    def __call__(self, rows: ir.Table) -> ir.Value:
        return rows[self.later].delta(rows[self.earlier], unit="day") > self.more_than


@dataclass(frozen=True)
class IsNoQuotient(Expression):
    """``converted`` is not ``amount`` divided by ``rate``, to half of the last of its ``digits``."""

    amount: str
    rate: str
    converted: str
    digits: int

    @property
    def allowance(self) -> float:
        """What a product may be off by, as a part of the rate; a fiftieth covers what doubles lose."""
        return float(0.51 * 10**-self.digits)

    def __call__(self, rows: ir.Table) -> ir.Value:
        """As doubles, which do not overflow."""
        amount, rate, converted = (rows[name].cast("float64") for name in (self.amount, self.rate, self.converted))
        return (converted * rate - amount).abs() > rate * self.allowance


# ------------------------------------------------------------------ aggregates


@dataclass(frozen=True)
class Rows(Aggregate):
    """How many rows there are."""

    def __call__(self, rows: ir.Table) -> ir.Scalar:
        return rows.count()


@dataclass(frozen=True)
class CountIf(Aggregate):
    """How many rows fulfil a condition."""

    condition: Expression

    def __call__(self, rows: ir.Table) -> ir.Scalar:
        return rows.count(where=self.condition(rows))


@dataclass(frozen=True)
class Total(Aggregate):
    """The sum of a value, to the last digit; 0 for none."""

    value: Expression

    def __call__(self, rows: ir.Table) -> ir.Scalar:
        import ibis

        value = self.value(rows)
        # Beside a number of another type, a decimal would lose digits or gain some.
        kind = f"decimal(38, {value.type().scale})" if value.type().is_decimal() else "int64"
        return value.sum().fill_null(ibis.literal(0).cast(kind))


@dataclass(frozen=True)
class SumOfHashes(Aggregate):
    """The exact sum of bigint hashes; 0 for none."""

    hashes: Expression

    def __call__(self, rows: ir.Table) -> ir.Scalar:
        return self.hashes(rows).sum().fill_null(0)


@dataclass(frozen=True)
class DifferentKeys(Aggregate):
    """How many different values some columns have together; nulls are equal."""

    names: tuple[str, ...]

    def __call__(self, rows: ir.Table) -> ir.Scalar:
        import ibis

        if len(self.names) > 1:
            return ibis.struct({name: rows[name] for name in self.names}).nunique()
        (only,) = (rows[name] for name in self.names)
        return only.nunique() + only.isnull().any().cast("int64")


@dataclass(frozen=True)
class Least(Aggregate):
    """The smallest of the texts, empty for none."""

    text: Expression

    def __call__(self, rows: ir.Table) -> ir.Scalar:
        return self.text(rows).cast("string").min().fill_null("")


@dataclass(frozen=True)
class Listed(Aggregate):
    """The different texts in their order, separated by commas; empty for none."""

    text: Expression

    def __call__(self, rows: ir.Table) -> ir.Scalar:
        return self.text(rows).collect(distinct=True).sort().join(", ").fill_null("")
