"""How long a plan over ten years of twenty tables takes, from logs on disk to JSON: all of history by new code.

Run with ``.venv/bin/python -m benchmarks.plan``. No JVM. The tables' logs are real Delta logs that name files which
do not exist: a plan reads metadata alone. Prints CPU seconds and those of the clock.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table as Rows

from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Step
from backfill_assets.plan.keep import declared_schemas
from backfill_assets.plan.make import make_plan
from backfill_assets.plan.records import Plan, PlanRequest, Scope
from backfill_assets.plan.situation import Machine, PlanContext
from backfill_assets.state.observed import gc_paused, observe, schemas_read
from benchmarks.generated_history import DAYS, chain, write_metadata

ROUNDS = 3


def situation(storage: Storage, steps: list[Step]) -> PlanContext:
    observed = observe(storage, [step.name for step in steps])
    schemas = schemas_read(storage, observed)
    return PlanContext(
        steps=steps,
        observed=observed,
        begins=DAYS.first,
        now=datetime(2020, 1, 1, tzinfo=UTC),
        bytes=observed.bytes,
        schemas=schemas,
        declared_schemas=declared_schemas(steps, schemas),
        machine=Machine(cores=2),
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
            with gc_paused(), clock.phase("all"):
                plan = _round(clock, storage, steps)
    rows = Rows("what", "CPU s", "clock s")
    for name, (cpu, wall) in clock.best.items():
        rows.add_row(name, f"{cpu:.2f}", f"{wall:.2f}")
    Console().print(rows, f"{plan.id}: {sum(len(step.days) for step in plan.steps):,} days, {len(plan.steps)} steps")


def _round(clock: Clock, storage: Storage, steps: list[Step]) -> Plan:
    asked = PlanRequest(target="sales", days=str(DAYS), scope=Scope.WHOLE)
    with clock.phase("read the logs"):
        now = situation(storage, steps)
    with clock.phase("decide"):
        plan = make_plan(asked, now)
    with clock.phase("id and JSON"):
        assert plan.id and plan.to_json()
    return plan


if __name__ == "__main__":
    main()
