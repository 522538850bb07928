"""Years of tables as logs alone: the steps, and what the publication log and Delta's logs say of them."""

from __future__ import annotations

import json
from datetime import date

from pyspark.sql import types as T

from backfill_assets.days import Cadence, DayRange
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.checks import struct_type
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.declaration import Reads, Source, Step, Table, Version
from backfill_assets.publish.log import HeadState, PublicationLog

DAYS = DayRange(date(2010, 1, 1), date(2019, 12, 31))


class Anything(Contract):
    """Any table's contract."""

    amount: T.LongType = Field()
    day: T.DateType = Field()


def _table(name: str) -> Table:
    return Table(name, "fact", "", Anything, key=())


def _built(name: str, *reads: Reads, cadence: Cadence = Cadence.DAILY) -> Step:
    current = "v2" if name == "sales" else "v1"
    return Step((_table(name),), (Version(current, "", reads, dict),), current, cadence=cadence)


def _raw(name: str) -> Step:
    return Step((_table(name),), source=Source(name.removeprefix("raw_"), "day", (), "updated_at", ("day",)))


def chain() -> list[Step]:
    """Three sources, rates that are looked back for, facts, and reports by day, week and month: twenty tables."""
    landed = [_raw("raw_sales"), _raw("raw_rates"), _raw("raw_products")]
    bronze = [
        _built("sales", Reads("raw_sales")),
        _built("rates", Reads("raw_rates")),
        _built("products", Reads("raw_products")),
    ]
    facts = [_built(f"fact_{n}", Reads("sales"), Reads("rates", -7, 0)) for n in range(4)]
    daily = [_built(f"daily_{n}", Reads(f"fact_{n}"), Reads("products", -30, 0)) for n in range(4)]
    weekly = [_built(f"weekly_{n}", Reads(f"fact_{n}", partial=True), cadence=Cadence.WEEKLY) for n in range(3)]
    monthly = [_built(f"monthly_{n}", Reads(f"daily_{n}", partial=True), cadence=Cadence.MONTHLY) for n in range(3)]
    return [*landed, *bronze, *facts, *daily, *weekly, *monthly]


def four_tables() -> list[Step]:
    """A source, its typed rows, facts and a daily report."""
    return [
        _raw("raw_sales"),
        _built("sales", Reads("raw_sales")),
        _built("fact_0", Reads("sales")),
        _built("daily_0", Reads("fact_0")),
    ]


def write_metadata(storage: Storage, steps: list[Step], history: DayRange = DAYS) -> None:
    """Every day of ``history`` of every table, published by ``v1`` and timed."""
    from deltalake.transaction import AddAction, RemoveAction

    log = PublicationLog(storage)
    log.begin()
    rows, versions = [], {}
    for step in steps:
        days = [str(day) for day in step.cadence.starts(history)]
        schema = struct_type(Anything).json()
        main = MainTable.create(storage, step.name, schema, 30)
        stats = json.dumps({"numRecords": 1000})
        adds: list[AddAction | RemoveAction] = [
            AddAction(f"day={day}/part-0.parquet", 40_000, {"day": day}, 0, True, stats) for day in days
        ]
        main.handle.create_write_transaction(adds, "append", main.handle.schema(), ["day"])
        main.handle.update_incremental()
        main.handle.create_checkpoint()
        versions[step.name] = 1
        rows += [_published(step.name, day) for day in days]
    appended = log.append(log.head(), rows, lambda file: HeadState(versions=versions, since=(file,)))
    assert appended


def _published(table: str, day: str) -> dict[str, object]:
    return {
        "event": "published",
        "publication": "p",
        "table": table,
        "day": day,
        "rows": 1000,
        "checksum": "7",
        "code_version": "v1",
        "parameters": "",
        "inputs": "x",
        "physical": fingerprints.physical([f"day={day}/part-0.parquet"]),
        "metrics": '{"rows_of_a_kind": 12, "staged.ms": 450}',
    }
