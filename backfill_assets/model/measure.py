"""What may be measured of the rows of a day: a small closed set of aggregates over a small closed set of expressions.

Each has two renderings. Spark's is here, as a column. Arrow's is in ``quality/``, looked up by the class. An aggregate
is called to get its column, so it is one of the :data:`~backfill_assets.model.declaration.Aggregates` of a rule. So is
any other function that gives a column: that one has no rendering but Spark's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill_assets.model.canonical import content_hash_of_values, parsed, raw_content_hash, sum_of_hashes
from backfill_assets.model.contract import Contract, is_list, is_nested, spark_types
from backfill_assets.model.contract_columns import JUDGES, sound
from backfill_assets.model.declaration import Source, Table


class Expression(ABC):
    """A value of each row, or a condition on it."""

    @abstractmethod
    def column(self) -> Column:
        """As Spark computes it."""


class Aggregate(ABC):
    """A metric of all rows of a day."""

    @abstractmethod
    def __call__(self) -> Column:
        """As Spark computes it."""


# ------------------------------------------------------------------ values


@dataclass(frozen=True)
class ValueOf(Expression):
    """The value of a column."""

    name: str

    def column(self) -> Column:
        return F.col(self.name)


@dataclass(frozen=True)
class FirstItem(Expression):
    """The first item of an array column; null if it has none."""

    name: str

    def column(self) -> Column:
        return F.get(self.name, F.lit(0))


@dataclass(frozen=True)
class Only(Expression):
    """A value in the rows that fulfil a condition, null in all others."""

    value: Expression
    where: Expression

    def column(self) -> Column:
        return F.when(self.where.column(), self.value.column())


@dataclass(frozen=True)
class ContentHash(Expression):
    """The content hash of a row, computed from what it holds: landed text, or typed values.

    It is over the fields that were declared when the row was landed. Rescued fields are declared one after the other,
    and each row knew the first of them, some or all: the hash that it carries says which.
    """

    source: Source
    form: Literal["text", "values"]

    def column(self) -> Column:
        whole, *earlier = (each.over_all_fields() for each in self.by_fields_known())
        if not earlier:
            return whole
        carried = F.col("content_hash")
        return F.coalesce(*(F.when(each == carried, each) for each in (whole, *earlier)), whole)

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


@dataclass(frozen=True)
class RowHash(Expression):
    """A hash of everything in a row but its day.

    XXH64 passes over nulls, and over where a list ends. So it is over the values of all columns, then over which of
    those that may be are null, and then over the shape of lists: where each has nulls, and if there are several, how
    long each is and whether it has nulls. The only list, if it has none, adds nothing. What is nested deeper is hashed
    as JSON, too.
    """

    contract: type[Contract]

    def column(self) -> Column:
        hashed, nullable = self.columns()
        several = self.several_lists()
        shapes = [*map(_nulls_of_list, self.lists()), *map(F.array_size, several), *map(_has_null, several)]
        nested = [F.to_json(name, {"ignoreNullFields": "false"}) for name in self.nested()]
        return F.xxhash64(*map(F.col, hashed), *[F.col(name).isNull() for name in nullable], *shapes, *nested)

    def columns(self) -> tuple[list[str], list[str]]:
        """The columns that are hashed, and those of them of which it is hashed, too, whether they are null."""
        fields = {name: each for name, each in self.contract.fields().items() if name != "day"}
        return list(fields), [name for name, each in fields.items() if each.nullable]

    def lists(self) -> list[str]:
        """Lists of single values, of which it is hashed where they have nulls."""
        return [name for name, kind in self._types().items() if is_list(kind) and not is_nested(kind)]

    def several_lists(self) -> list[str]:
        """Of one list alone it is known from all values together where it ends, and whose nulls there are."""
        lists = self.lists()
        return lists if len(lists) > 1 else []

    def nested(self) -> list[str]:
        """Columns of which no list of values says all."""
        return [name for name, kind in self._types().items() if is_nested(kind)]

    def _types(self) -> dict[str, Any]:
        return {name: kind for name, kind in spark_types(self.contract).items() if name != "day"}


@dataclass(frozen=True)
class KeyHash(Expression):
    """A hash of the columns of a key. Of several that may be null it is in it which are: XXH64 passes over nulls."""

    names: tuple[str, ...]
    nullable: tuple[str, ...] = ()

    @classmethod
    def of(cls, table: Table) -> KeyHash:
        fields = table.contract.fields()
        return cls(table.key, tuple(name for name in table.key if fields[name].nullable))

    def column(self) -> Column:
        return F.xxhash64(*map(F.col, self.names), *[F.col(name).isNull() for name in self.nulls_hashed()])

    def nulls_hashed(self) -> tuple[str, ...]:
        """The columns of which it is hashed whether they are null: of one alone it is known from the others."""
        return self.nullable if len(self.nullable) > 1 else ()


def _has_null(name: str) -> Column:
    return F.exists(name, lambda item: item.isNull())


def _nulls_of_list(name: str) -> Column:
    """Which items are null; null for a list without a null."""
    return F.when(_has_null(name), F.transform(name, lambda item: item.isNull()))


# ------------------------------------------------------------------ conditions


@dataclass(frozen=True)
class IsNull(Expression):
    """A column has no value."""

    name: str

    def column(self) -> Column:
        return F.col(self.name).isNull()


@dataclass(frozen=True)
class HasValue(Expression):
    """A column has a value."""

    name: str

    def column(self) -> Column:
        return F.col(self.name).isNotNull()


@dataclass(frozen=True)
class Both(Expression):
    """Two conditions are fulfilled."""

    one: Expression
    other: Expression

    def column(self) -> Column:
        return self.one.column() & self.other.column()


@dataclass(frozen=True)
class Fulfils(Expression):
    """A column fulfils one of the checks that a contract may ask for: ``Fulfils("quantity", "ge", 1)``."""

    name: str
    check: str
    asked: Any = field(hash=False)

    def column(self) -> Column:
        return JUDGES[self.check](F.col(self.name), self.asked)[0]


@dataclass(frozen=True)
class Unsound(Expression):
    """A row breaks the contract; never null."""

    contract: type[Contract]

    def column(self) -> Column:
        return ~sound(self.contract)


@dataclass(frozen=True)
class DaysApart(Expression):
    """One day is more than ``more_than`` days after another."""

    later: str
    earlier: str
    more_than: int

    def column(self) -> Column:
        return F.datediff(self.later, self.earlier) > self.more_than


@dataclass(frozen=True)
class NamesUnbelievedDay(Expression):
    """A received row is on its arrival day, and the day that it names can be read all the same."""

    source: Source

    def column(self) -> Column:
        return self.day().isNotNull()

    def day(self) -> Column:
        """The day that the row names; null for every other row."""
        name = self.source.event_day_field
        received = F.col("day_is_arrival") & F.col("arrival_day").isNotNull()
        return F.when(received, parsed(F.col(name), self.source.type_of(name)).cast("date"))


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

    def column(self) -> Column:
        """As doubles, which do not overflow."""
        amount, rate, converted = (F.col(name).cast("double") for name in (self.amount, self.rate, self.converted))
        return F.abs(converted * rate - amount) > rate * self.allowance


# ------------------------------------------------------------------ aggregates


@dataclass(frozen=True)
class Rows(Aggregate):
    """How many rows there are."""

    def __call__(self) -> Column:
        return F.count("*")


@dataclass(frozen=True)
class CountIf(Aggregate):
    """How many rows fulfil a condition."""

    condition: Expression

    def __call__(self) -> Column:
        return F.count_if(self.condition.column())


@dataclass(frozen=True)
class Total(Aggregate):
    """The sum of a value, to the last digit; 0 for none."""

    value: Expression

    def __call__(self) -> Column:
        return F.coalesce(F.sum(self.value.column()), F.lit(0))


@dataclass(frozen=True)
class TotalOfFew(Aggregate):
    """The sum of a ``decimal(38,0)`` column that is 0 in nearly all rows."""

    name: str

    def __call__(self) -> Column:
        # Spark adds decimals as objects, and passes over nulls.
        total = F.coalesce(F.sum(F.nullif(F.col(self.name), F.lit(0))), F.lit(0))
        return total.cast("decimal(38,0)")


@dataclass(frozen=True)
class SumOfHashes(Aggregate):
    """The exact sum of bigint hashes; 0 for none."""

    hashes: Expression

    def __call__(self) -> Column:
        return sum_of_hashes(self.hashes.column())


@dataclass(frozen=True)
class DifferentKeys(Aggregate):
    """How many different values some columns have together, by their hashes.

    A set of hashes instead of a distinct count, for which Spark would shuffle every row: equal keys are always noticed,
    and the chance of a false alarm for a day of a million keys is 3 in 100 million.
    """

    names: tuple[str, ...]
    nullable: tuple[str, ...] = ()

    def __call__(self) -> Column:
        return F.size(F.collect_set(self.hashes.column()))

    @property
    def hashes(self) -> KeyHash:
        return KeyHash(self.names, self.nullable)


@dataclass(frozen=True)
class Least(Aggregate):
    """The smallest of the texts, empty for none."""

    text: Expression

    def __call__(self) -> Column:
        return least(self.text.column())


def least(texts: Column) -> Column:
    """The smallest text, empty for none. A minimum of texts would make Spark sort all rows instead of hashing days."""
    return F.coalesce(F.get(F.sort_array(F.collect_set(texts)), F.lit(0)), F.lit(""))
