"""Measures days with ``groupBy(day)``: everything that their rules and their accounting need."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date
from decimal import Decimal, localcontext

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill_assets.model.contract_columns import first_violation
from backfill_assets.model.declaration import EXAMPLE, Aggregates, Metric, Metrics, Source, Table
from backfill_assets.model.deletion import DELETED, DELETED_HASHES, DELETED_MARKERS, DELETION, OF_DELETIONS
from backfill_assets.model.measure import (
    Both,
    CountIf,
    DaysApart,
    DifferentKeys,
    FirstItem,
    Fulfils,
    HasValue,
    IsNull,
    KeyHash,
    Least,
    NamesUnbelievedDay,
    Only,
    RowHash,
    Rows,
    SumOfHashes,
    Total,
    Unsound,
    ValueOf,
    least,
)
from backfill_assets.model.placement import AHEAD_OF_ARRIVAL, ON_ARRIVAL_DAY
from backfill_assets.model.rules import ContentIntact
from backfill_assets.quality.gates import KEYS, VIOLATING

_TOGETHER = 500_000


def measure_days(rows: DataFrame, table: Table, count: int) -> dict[date, Metrics]:
    """The metrics of every day that has rows; ``count`` is how many there are, more or less. Runs Spark.

    Few rows are looked at in one query. A set (of keys, or of texts to take an example from) makes Spark aggregate
    everything beside it object by object, so many rows are counted and summed without any, and then the sets are made,
    for which little is read. 90 days of 50,000 rows of the sales facts took 46 CPU seconds in one query, and 17 and 5
    in two. Days that have an example of what is wrong to show are rare, and get a query of their own.
    """
    found = _measure_numbers(rows, numbers(table), count)
    return _with_examples(found, table, lambda: rows)


def complete_days(
    known: Mapping[date, Metrics], table: Table, rows: Callable[[], DataFrame], count: int
) -> dict[date, Metrics]:
    """:func:`measure_days` of days of which some metrics of every day with rows are ``known``.

    Spark is asked for the others, and for ``rows``, only if there are any: most tables are measured without it.
    """
    unknown = {name: made for name, made in numbers(table).items() if any(name not in day for day in known.values())}
    found = _measure_numbers(rows(), unknown, count) if unknown else {}
    together = {day: as_metrics({**metrics, **found.get(day, {})}) for day, metrics in known.items()}
    together = {day: metrics for day, metrics in together.items() if metrics}
    return _with_examples(together, table, rows)


def numbers(table: Table) -> Aggregates:
    """Every metric of ``table`` but examples of what is wrong."""
    return {**measurement(table), **sets_of_rows(table)}


def _measure_numbers(rows: DataFrame, wanted: Aggregates, count: int) -> dict[date, Metrics]:
    sets = {name: made for name, made in wanted.items() if isinstance(made, DifferentKeys | Least)}
    if count <= _TOGETHER or not sets:
        return collect_metrics(_of(rows, wanted))
    alone = {name: made for name, made in wanted.items() if name not in sets}
    found = collect_metrics(_of(rows, alone)) if alone else {}
    apart = collect_metrics(_of(rows, sets))
    return {day: {**found.get(day, {}), **metrics} for day, metrics in apart.items()}


def _with_examples(found: Mapping[date, Metrics], table: Table, rows: Callable[[], DataFrame]) -> dict[date, Metrics]:
    """``found`` in the order in which metrics are kept, with examples for the days that have something to show."""
    wrong = examples(table)
    shown = [day for day, metrics in found.items() if any(metrics[_count_column(name)] != 0 for name in wrong)]
    texts = collect_metrics(measure_examples(rows().where(F.col("day").isin(shown)), table)) if shown else {}
    nothing = zero_metrics(table)
    return {
        day: _in_order({**nothing, **_without_deletions(metrics), **texts.get(day, {})}, table)
        for day, metrics in found.items()
    }


def measure(rows: DataFrame, table: Table) -> DataFrame:
    """One row per ``day`` that has rows, with every metric of ``table`` but examples of what is wrong.

    One pass, one shuffle of one row a day.
    """
    return _of(rows, numbers(table))


def measure_without_sets(rows: DataFrame, table: Table) -> DataFrame:
    """The metrics that Spark can aggregate by hashing, without an object for each row."""
    return _of(rows, measurement(table))


def compared_metrics(table: Table) -> tuple[str, ...]:
    """The metrics that compare staged days with published ones: totals, and those that its rules name."""
    return (*(f"total_{name}" for name in table.totals), *(name for rule in table.rules for name in rule.compared))


def measure_only(rows: DataFrame, table: Table, names: Collection[str]) -> dict[date, Metrics]:
    """The metrics called ``names``, of those in :func:`measurement`, of every day that has rows. Runs Spark."""
    return collect_metrics(_of(rows, {name: made for name, made in measurement(table).items() if name in names}))


def measure_examples(rows: DataFrame, table: Table) -> DataFrame:
    """One row per ``day`` that has rows, with an example of everything that is wrong in them."""
    return _of(rows, examples(table))


def measurement(table: Table) -> Aggregates:
    """What is counted and summed of ``table``, by metric: as of every table, its totals, and what its rules ask for."""
    return {
        "rows": Rows(),
        "checksum": SumOfHashes(RowHash(table.contract)),
        VIOLATING: CountIf(Unsound(table.contract)),
        **{f"total_{name}": Total(ValueOf(name)) for name in table.totals},
        **{name: made for name, made in _of_rules(table).items() if not name.endswith(EXAMPLE)},
    }


def sets_of_rows(table: Table) -> Aggregates:
    """Metrics for which a value of every row goes into a set: different keys, and the first reason of a quarantine."""
    reasons = {f"rejected{EXAMPLE}": Least(FirstItem("reasons"))}
    key = KeyHash.of(table)
    keys = {KEYS: DifferentKeys(key.names, key.nullable)}
    return {**(reasons if table.layer == "quarantine" else {}), **(keys if table.key else {})}


def examples(table: Table) -> Aggregates:
    """Example texts by the metric that counts them, made only for days where that is not 0."""
    of_rules = {name: made for name, made in _of_rules(table).items() if name.endswith(EXAMPLE)}
    return {f"{VIOLATING}{EXAMPLE}": lambda: least(first_violation(table.contract)), **of_rules}


def zero_metrics(table: Table) -> Metrics:
    """The metrics of a day without rows."""
    names = [*numbers(table), *examples(table)]
    return {name: "" if name.endswith(EXAMPLE) else 0 for name in names if name not in OF_DELETIONS}


def collect_metrics(found: DataFrame) -> dict[date, Metrics]:
    """The metrics of each ``day`` of ``found``. Runs Spark."""
    return {row["day"]: as_metrics(row.asDict()) for row in found.collect()}


def as_metrics(measured: Mapping[str, object]) -> Metrics:
    """A row of :func:`measure` as plain data for JSON: whole numbers as int, other decimals as text."""
    return {name: _plain(value) for name, value in measured.items() if name != "day"}


def add_up(days: Sequence[Metrics]) -> dict[str, int | str | None]:
    """The metrics of several days together: numbers are added exactly, of examples the first stands for all.

    Counts of different keys add up only as long as a key belongs to one day. A number that one of the days was not
    measured for is unknown of all of them together.
    """
    names = dict.fromkeys(name for day in days for name in day)
    absent = dict.fromkeys(OF_DELETIONS, 0)
    return {name: _together(name, [day.get(name, absent.get(name)) for day in days]) for name in names}


def _of(rows: DataFrame, metrics: Aggregates) -> DataFrame:
    return rows.groupBy("day").agg(*(made().alias(name) for name, made in metrics.items()))


def _count_column(example: str) -> str:
    return example.removesuffix(EXAMPLE)


def _of_rules(table: Table) -> Aggregates:
    """What the rules of ``table`` measure, and of raw which of its days another placement concerns."""
    found = {name: made for rule in table.rules for name, made in rule.measure().items()}
    for source in (rule.source for rule in table.rules if isinstance(rule, ContentIntact) and table.layer == "raw"):
        found |= {**_of_arrival(source), **_of_deletions()}
    return found


def _of_deletions() -> Aggregates:
    """A deletion may also cancel a marker, which is no row that was received and has no file."""
    is_deletion = Fulfils("record_kind", "eq", DELETION)
    deletes = Both(is_deletion, HasValue("source_file"))
    return {
        DELETED: CountIf(deletes),
        DELETED_HASHES: SumOfHashes(Only(ValueOf("content_hash"), deletes)),
        DELETED_MARKERS: CountIf(Both(is_deletion, IsNull("source_file"))),
    }


def _in_order(metrics: Metrics, table: Table) -> Metrics:
    """``metrics`` in the order in which they are kept."""
    return {name: metrics[name] for name in (*numbers(table), *examples(table)) if name in metrics}


def _without_deletions(metrics: Metrics) -> Metrics:
    """``metrics`` of a day without deletions as they were before there were any; of another day as they are."""
    if metrics.get(DELETED) or metrics.get(DELETED_MARKERS):
        return metrics
    return {name: each for name, each in metrics.items() if name not in OF_DELETIONS}


def _of_arrival(source: Source) -> Aggregates:
    return {
        ON_ARRIVAL_DAY: CountIf(NamesUnbelievedDay(source)),
        AHEAD_OF_ARRIVAL: CountIf(DaysApart("day", "arrival_day", 0)),
        f"{ON_ARRIVAL_DAY}{EXAMPLE}": lambda: least(NamesUnbelievedDay(source).day().cast("string")),
    }


def _plain(value: object) -> Metric:
    if value is None or isinstance(value, int | str):
        return value
    if not isinstance(value, Decimal):
        raise TypeError(f"Metrics are numbers and text, not {type(value).__name__}.")
    return int(value) if _is_whole(value) else str(value)


def _is_whole(value: Decimal) -> bool:
    exponent = value.as_tuple().exponent
    return isinstance(exponent, int) and exponent >= 0


def _together(name: str, values: Sequence[Metric]) -> int | str | None:
    if name.endswith(EXAMPLE):
        return next((str(value) for value in values if value), "")
    if any(value is None for value in values):
        return None
    if all(isinstance(value, int) for value in values):
        return sum(int(str(value)) for value in values)
    with localcontext() as exact:
        exact.prec = 100
        return str(sum((Decimal(str(value)) for value in values), Decimal(0)))
