from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import TYPE_CHECKING, ClassVar, TypeVar, cast, get_args

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill_assets.days import Cadence, DayRange
from backfill_assets.errors import InvalidRequest
from backfill_assets.model.contract import Contract, columns_with, declared_types
from backfill_assets.model.dataset import Dataset
from backfill_assets.model.declaration import (
    PUBLISHED_DAYS,
    DayRule,
    Follows,
    Layer,
    Reads,
    Step,
    Table,
    Version,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COMPLETENESS = ("days_published", "complete")


@dataclass(frozen=True)
class TableTransform:
    """``function`` of the frames of ``reads``, cut to ``contract``; a partition a day unless ``clustered``."""

    table: str
    contract: type[Contract]
    function: Callable[..., DataFrame]
    reads: tuple[Reads, ...]
    cadence: Cadence = Cadence.DAILY
    clustered: bool = False

    def decides_rows(self) -> Mapping[str, object]:
        """Without checks, which only hold days back, and ``clustered``, which only changes files."""
        reads = [each.declared for each in self.reads]
        digits = {name: each.digits for name, each in self.contract.fields().items() if each.digits is not None}
        columns = {
            name: f"{kind} in {digits[name]} digits" if name in digits else kind
            for name, kind in declared_types(self.contract).items()
        }
        return {"table": self.table, "reads": reads, "cadence": self.cadence, "columns": columns, "by": self.function}

    def __call__(self, inputs: Mapping[str, DataFrame]) -> Mapping[str, DataFrame]:
        columns = self.contract.fields()
        rows = self.function(*(inputs[each.table] for each in self.reads))
        if self.cadence is not Cadence.DAILY and columns.keys() >= set(COMPLETENESS):
            rows = with_completeness(rows, inputs[PUBLISHED_DAYS], self.reads[0].table, self.cadence)
        selected = rows.select(*columns)
        return {self.table: selected if self.clustered else selected.repartition("day")}


def with_completeness(report: DataFrame, published: DataFrame, table: str, cadence: Cadence) -> DataFrame:
    """Published days without rows count too."""
    period, days = ("week", F.lit(7)) if cadence is Cadence.WEEKLY else ("month", F.dayofmonth(F.last_day("day")))
    of_table = published.where(F.col("table") == table)
    counted = of_table.groupBy(F.trunc("day", period).alias("day")).agg(F.count("*").alias("days_published"))
    return report.join(F.broadcast(counted), "day").withColumn("complete", F.col("days_published") == days)


C = TypeVar("C", bound=type[Contract])
Transformed = TypeVar("Transformed", bound="Callable[..., DataFrame]")


@dataclass(frozen=True, kw_only=True, eq=False)
class DeclaredTables(ABC):
    name: str
    description: str
    owners: tuple[str, ...]
    first_day: date
    unusual_beyond: float | None = 6.0
    closed_before: date | None = None
    """Nothing is published to earlier days, of any of its tables but those that take rows in."""
    is_declaration: ClassVar[bool] = True
    """Arguments of its methods are no logic (``model/logic``)."""
    _steps: dict[type[Contract], Step] = field(default_factory=dict, init=False, repr=False)

    # ------------------------------------------------------------- to declare

    def table(
        self,
        name: str,
        *,
        layer: Layer | None = None,
        cadence: Cadence = Cadence.DAILY,
        rules: tuple[DayRule, ...] = (),
        totals: tuple[str, ...] = (),
        groups: tuple[str, ...] = (),
        closed_before: date | None = None,
    ) -> Callable[[C], C]:
        """Declare a table by its contract and docstring; its name begins with the layer."""

        def declare(contract: C) -> C:
            table = Table(
                name=name,
                layer=layer or _layer_of(name),
                description=" ".join((contract.__doc__ or "").split()),
                contract=contract,
                key=columns_with(contract, "key"),
                rules=rules,
                totals=totals,
                groups=groups,
            )
            self._steps[contract] = Step((table,), cadence=cadence, closed=self._closed(closed_before))
            return contract

        return declare

    def version(
        self,
        contract: type[Contract],
        name: str,
        description: str,
        *reads: Reads | str,
        clustered: bool = False,
        current: bool = True,
        follows: Follows = "",
    ) -> Callable[[Transformed], Transformed]:
        """Declare a function of the frames of ``reads``. A bare name is read for the same day, or the period's
        published days.

        ``clustered``: rows are partitioned by day. The last one ``current`` is.
        """

        def declare(function: Transformed) -> Transformed:
            step = self._step_of(contract)
            partial = step.cadence is not Cadence.DAILY
            known = tuple(Reads(each, partial=partial) if isinstance(each, str) else each for each in reads)
            transform = TableTransform(step.name, contract, function, known, step.cadence, clustered)
            versions = (*step.versions, Version(name, description, known, transform, follows))
            self._steps[contract] = replace(step, versions=versions, current=name if current else step.current)
            return function

        return declare

    # ------------------------------------------------------- what was declared

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *(table.name for step in self._steps.values() for table in step.tables))

    @abstractmethod
    def dataset(self) -> Dataset:
        """Raises :class:`InvalidRequest` for a wrong declaration."""

    def _declared(self, first: tuple[Step, ...], beyond: float | None) -> tuple[Step, ...]:
        steps = (*first, *(_with_origins(step) for step in self._steps.values()))
        steps = tuple(each if each.is_origin or each.closed else replace(each, closed=self._closed()) for each in steps)
        return tuple(replace(s, tables=tuple(replace(t, unusual_beyond=beyond) for t in s.tables)) for s in steps)

    def _closed(self, before: date | None = None) -> DayRange | None:
        """A table is closed as long as its dataset, or longer."""
        end = max(filter(None, (before, self.closed_before)), default=self.first_day)
        return DayRange(self.first_day, end - timedelta(days=1)) if end > self.first_day else None

    def _step_of(self, contract: type[Contract]) -> Step:
        if contract not in self._steps:
            raise InvalidRequest(
                f"{contract.__name__} is no table of {self.name}.",
                hint='Put @DATASET.table("report_name", ...) above the class.',
            )
        return self._steps[contract]


def _layer_of(table: str) -> Layer:
    word = table.partition("_")[0]
    if word not in get_args(Layer):
        raise InvalidRequest(
            f"The name of the table {table} does not begin with its layer.",
            hint=f"Begin it with fact_ or report_, or say the layer: one of {', '.join(get_args(Layer))}.",
        )
    return cast("Layer", word)


def _with_origins(step: Step) -> Step:
    current = next((version for version in step.versions if version.name == step.current), None)
    if current is None or not current.reads:
        return step
    first, [table] = current.reads[0].table, step.tables
    made_of = {
        name: tuple(origin if "." in origin else f"{first}.{origin}" for origin in each.made_of)
        for name, each in table.contract.fields().items()
        if each.made_of
    }
    return replace(step, tables=(replace(table, made_of=made_of),))
