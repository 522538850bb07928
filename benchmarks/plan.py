"""How long a plan over ten years of twenty tables takes, from logs on disk to JSON: all of history by new code.

Run with ``.venv/bin/python benchmarks/plan.py``. No JVM. The tables' logs are real Delta logs that name files which
do not exist: a plan reads metadata alone. Prints CPU seconds and those of the clock.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime

from deltalake.transaction import AddAction
from pyspark.sql import types as T
from rich.console import Console
from rich.table import Table as Rows

from backfill_assets.backfill.plan import Asked, Plan, Scope
from backfill_assets.backfill.planning import make_plan
from backfill_assets.backfill.situation import Machine, Situation
from backfill_assets.datasets.contract import struct_type
from backfill_assets.datasets.contract_model import Contract, Field
from backfill_assets.datasets.dataset import Reads, Source, Step, Table, Version
from backfill_assets.days import Cadence, DayRange
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.publication_log import HeadState, PublicationLog, utc_now
from backfill_assets.lakehouse.standing import look, uncollected
from backfill_assets.lakehouse.storage import Storage

DAYS = DayRange(date(2010, 1, 1), date(2019, 12, 31))
ROUNDS = 3


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


def write_metadata(storage: Storage, steps: list[Step]) -> None:
    """Every day of every table, published by ``v1`` and timed."""
    log = PublicationLog(storage, utc_now)
    rows, versions = [], {}
    for step in steps:
        days = [str(day) for day in step.cadence.starts(DAYS)]
        schema = struct_type(Anything).json()
        main = MainTable.create(storage, step.name, schema, 30)
        stats = json.dumps({"numRecords": 1000})
        adds = [AddAction(f"day={day}/part-0.parquet", 40_000, {"day": day}, 0, True, stats) for day in days]
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


def situation(storage: Storage, steps: list[Step]) -> Situation:
    standing = look(storage, [step.name for step in steps])
    return Situation(
        steps=steps,
        observed=standing.observed,
        begins=DAYS.first,
        today=date(2020, 1, 1),
        bytes=standing.bytes,
        schemas=standing.schemas,
        machine=Machine(cores=2),
        now=datetime(2020, 1, 1, tzinfo=UTC),
    )


class Clock:
    """Seconds by phase, of the fastest round."""

    def __init__(self) -> None:
        self.best: dict[str, tuple[float, float]] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        cpu, wall = time.process_time(), time.perf_counter()
        yield
        spent = (time.process_time() - cpu, time.perf_counter() - wall)
        self.best[name] = min(spent, self.best.get(name, spent))


def main() -> None:
    clock, steps = Clock(), chain()
    assert sum(len(step.tables) for step in steps) == 20
    with tempfile.TemporaryDirectory() as folder:
        storage = Storage(folder)
        write_metadata(storage, steps)
        for _ in range(ROUNDS):
            with uncollected(), clock.phase("all"):
                plan = _round(clock, storage, steps)
    rows = Rows("what", "CPU s", "clock s")
    for name, (cpu, wall) in clock.best.items():
        rows.add_row(name, f"{cpu:.2f}", f"{wall:.2f}")
    Console().print(rows, f"{plan.id}: {sum(len(step.days) for step in plan.steps):,} days, {len(plan.steps)} steps")


def _round(clock: Clock, storage: Storage, steps: list[Step]) -> Plan:
    asked = Asked(target="sales", days=str(DAYS), scope=Scope.WHOLE)
    with clock.phase("read the logs"):
        now = situation(storage, steps)
    with clock.phase("decide"):
        plan = make_plan(asked, now)
    with clock.phase("id and JSON"):
        assert plan.id and plan.to_json()
    return plan


if __name__ == "__main__":
    main()
