"""A code location over a small real lakehouse, without a JVM, whose sensor ``repairs`` can be made to stand still.

Everything but the computing is real: the protocol, Dagster's daemon, its backfills and the sensors. A file ``halt``
in the home names the moment in the tick at which it waits for its end; ``halted`` then shows that it is there.
"""

# No postponed annotations here: Dagster resolves resources from the annotations themselves.
import os
import time
import uuid
from collections.abc import Callable, Sequence
from datetime import date
from functools import wraps
from pathlib import Path
from typing import Any

from backfill_assets.days import TableDay
from backfill_assets.defs.location import code_location
from backfill_assets.defs.resources import Backfill, SharedSpark
from backfill_assets.defs.sensors import repairs
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.model.declaration import Step
from backfill_assets.publish.log import PublicationLog
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.outcome import BuildResult, BuiltDay
from backfill_assets.settings import Settings
from backfill_assets.state.observed import LogView, observe
from backfill_assets_tests.defs.small_chain import inputs_of, publish_step
from backfill_assets_tests.defs.small_dataset import SMALL_CATALOG, TABLES
from backfill_assets_tests.small_lakehouse import SmallLakehouse

HOME = Path(os.environ.get("REPAIRING_HOME", "nowhere"))
LAKEHOUSE, HALT, HALTED = "lakehouse", "halt", "halted"
BEFORE, IN, AFTER = "before", "in", "after"


class SmallBuilder(Builder):
    """Gives a day as many rows as what it is made of has; what is unchanged is reused."""

    def __init__(self, lakehouse: SmallLakehouse) -> None:
        self.lakehouse = lakehouse

    def build(self, step: Step, days: Sequence[date], *, force: bool = False, **_: Any) -> BuildResult:
        observed = observe(self.lakehouse.storage, TABLES)
        stale = [day for day in days if force or not _unchanged(step, day, observed)]
        if stale and step.source is None:
            made_of = step.version().reads[0].table
            contents = {day: observed.states[TableDay(made_of, day)].content for day in stale}
            rows = {day: content.rows if content else 0 for day, content in contents.items()}
            publish_step(self.lakehouse, f"run-{uuid.uuid4().hex[:8]}", step, rows)
        states = observe(self.lakehouse.storage, TABLES).states
        return BuildResult(
            tuple(
                BuiltDay.from_log(states[TableDay(table.name, day)], {}, {}, reused=day not in stale)
                for table in step.tables
                for day in days
            )
        )


def _unchanged(step: Step, day: date, observed: LogView) -> bool:
    inputs = "" if step.source else inputs_of(step, day, observed)
    states = [(table.name, observed.states.get(TableDay(table.name, day))) for table in step.tables]
    return all(
        state is not None
        and state.content is not None
        and state.content.inputs == inputs
        and state.physical == observed.newest.get(name, {}).get(day)
        for name, state in states
    )


class RepairingBackfill(Backfill):
    def builder(self, spark: SharedSpark | None = None) -> SmallBuilder:
        return SmallBuilder(SmallLakehouse(self.settings.lakehouse))

    def publications(self) -> PublicationLog:
        return SmallLakehouse(self.settings.lakehouse).publisher.log


def _stand_still(moment: str) -> None:
    asked = HOME / HALT
    if asked.exists() and asked.read_text() == moment:
        (HOME / HALTED).write_text(moment)
        time.sleep(600)


def _halting(function: Callable[..., Any], before: str, after: str | None = None) -> Callable[..., Any]:
    @wraps(function)
    def halting(*arguments: object, **named: object) -> object:
        _stand_still(before)
        found = function(*arguments, **named)
        if after:
            _stand_still(after)
        return found

    return halting


repairs.EVERY_SECONDS = 5
repairs.look = _halting(repairs.look, BEFORE)
repairs.launch = _halting(repairs.launch, IN, AFTER)
_settings = Settings.at(HOME)
_spark = SharedSpark(settings=_settings)
defs = code_location(
    SMALL_CATALOG,
    {"backfill_spark": _spark, "backfill": RepairingBackfill(settings=_settings, catalog=CATALOG, spark=_spark)},
)
