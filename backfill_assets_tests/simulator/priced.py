"""The chain of sales with prices in it: rates that facts look back to, equal days, rows taken back, two reports.

Four days over a weekend, of two weeks. Facts take the rate of the day before (``v1``) or of the day (``v2``); there are
no rates at weekends, so that both versions agree there, as on days whose rates are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

from pyspark.sql import types as T

from backfill_assets.days import Cadence, DayRange
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.declaration import Layer, Reads, Source, Step, Table, Version
from backfill_assets_tests.simulator.chain import LANDED, Chain, NamedRows, Rows
from backfill_assets_tests.simulator.staging import Names

DAYS = tuple(DayRange.parse("2017-03-24..2017-03-27"))
FRIDAY, SATURDAY, SUNDAY, MONDAY = DAYS
EQUAL_DAYS = (SATURDAY, SUNDAY)
LOOK_BACK = 3
RATE_DAYS = tuple(DayRange(FRIDAY - timedelta(days=LOOK_BACK), MONDAY))
THURSDAY = RATE_DAYS[LOOK_BACK - 1]
TOTAL = "amount"


class PricedRow(Contract):
    """A row is a name, which ends in its amount, and its day."""

    name: T.StringType = Field(description="What the row is.", key=True)
    day: T.DateType = Field(description="The day it belongs to.")
    amount: T.LongType = Field(description="How much it is.")


# ------------------------------------------------------------------ what each table makes of its inputs


def _newest(inputs: Rows) -> Names:
    """Of raw rows ``<key>.<version>=<amount>`` the newest version of each key, but for keys that ``-<key>`` took."""
    names = [name for days in inputs.values() for found in days.values() for name in found]
    gone = {name[1:] for name in names if name.startswith("-")}
    newest: dict[str, tuple[int, str]] = {}
    for name in (name for name in names if not name.startswith("-")):
        key, _, rest = name.partition(".")
        version, _, amount = rest.partition("=")
        if key not in gone:
            newest[key] = max(newest.get(key, (0, "")), (int(version), amount))
    return tuple(sorted(f"{key}={amount}" for key, (_, amount) in newest.items()))


def _priced(inputs: Rows) -> Names:
    """Each row at the last rate that is read."""
    rates = [name.partition("=")[2] for _, names in sorted(inputs["rates"].items()) for name in names]
    rate = int(rates[-1]) if rates else 0
    rows = [name.partition("=") for names in inputs["clean"].values() for name in names]
    return tuple(sorted(f"{key}={int(amount) * rate}" for key, _, amount in rows))


def _summed(inputs: Rows) -> Names:
    """One row: how many there are, and their sum; none without any."""
    amounts = [int(name.partition("=")[2]) for days in inputs.values() for names in days.values() for name in names]
    return (f"{len(amounts)}={sum(amounts)}",) if amounts else ()


MADE = {
    ("clean", "v1"): _newest,
    ("rates", "v1"): _newest,
    ("sums", "v1"): _priced,
    ("sums", "v2"): _priced,
    ("daily", "v1"): _summed,
    ("weekly", "v1"): _summed,
}
"""By table and version."""


# ------------------------------------------------------------------ the declaration


def _version(table: str, cadence: Cadence, name: str, reads: Sequence[Reads]) -> Version:
    def transform(inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        read: dict[str, NamedRows] = {each.table: inputs[each.table] for each in reads}
        days = read[reads[0].table].days
        periods = map(cadence.period, cadence.starts(sorted(days)))
        made: dict[date, Names] = {}
        for each in periods:
            rows = {r.table: {day: read[r.table].days.get(day, ()) for day in r.days(each)} for r in reads}
            made[each.first] = MADE[table, name](rows)
        return {table: NamedRows(made)}

    return Version(name, name, tuple(reads), transform)


def priced_table(name: str, layer: Layer) -> Table:
    return Table(name, layer, f"The {name}.", PricedRow, ("name",), totals=(TOTAL,))


def _step(name: str, layer: Layer, versions: Mapping[str, Sequence[Reads]], cadence: Cadence = Cadence.DAILY) -> Step:
    made = tuple(_version(name, cadence, version, reads) for version, reads in versions.items())
    return Step((priced_table(name, layer),), made, current=made[-1].name, cadence=cadence)


LANDED_RATES = replace(
    LANDED,
    tables=(replace(LANDED.tables[0], name="landed_rates"),),
    source=Source("landed_rates", "day", ("name",), "name", ("name", "day")),
)
CLEAN = _step("clean", "bronze", {"v1": [Reads("landed")]})
RATES = _step("rates", "bronze", {"v1": [Reads("landed_rates")]})
SUMS = _step(
    "sums",
    "fact",
    {
        "v1": [Reads("clean"), Reads("rates", first=-LOOK_BACK, last=-1)],
        "v2": [Reads("clean"), Reads("rates", first=-LOOK_BACK)],
    },
)
DAILY = _step("daily", "report", {"v1": [Reads("sums")]})
WEEKLY = _step("weekly", "report", {"v1": [Reads("sums", partial=True), Reads("daily", partial=True)]}, Cadence.WEEKLY)
STEPS = (LANDED, LANDED_RATES, CLEAN, RATES, SUMS, DAILY, WEEKLY)
PRICED = Chain(DAYS, STEPS, MADE, {step.name: RATE_DAYS for step in (LANDED_RATES, RATES)})
