"""The small dataset published for real, without a JVM: each day from what is published of its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from types import MappingProxyType

from backfill_assets.days import TableDay
from backfill_assets.lakehouse import fingerprints
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import build_order
from backfill_assets.state.observed import LogView, observe
from backfill_assets_tests.defs.small_dataset import SMALL, TABLES
from backfill_assets_tests.small_lakehouse import SmallLakehouse


def publish_chain(
    lakehouse: SmallLakehouse, id: str, days: Sequence[date], versions: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Two rows a day in every table, each by its current version or that of ``versions``."""
    for step in build_order(SMALL.steps):
        publish_step(lakehouse, id, step, dict.fromkeys(days, 2), versions.get(step.name))


def publish_step(
    lakehouse: SmallLakehouse, id: str, step: Step, rows: dict[date, int], version: str | None = None
) -> None:
    """So many ``rows`` a day in each table of ``step``, in one publication."""
    observed = observe(lakehouse.storage, TABLES)
    inputs = {} if step.source or version else {day: inputs_of(step, day, observed) for day in rows}
    ids = {table.name: {day: range(count) for day, count in rows.items()} for table in step.tables}
    name = f"{id}-{step.name.replace('_', '-')}"
    lakehouse.publish(name, ids, code="v1" if step.source else version or step.current, inputs=inputs)


def inputs_of(step: Step, day: date, observed: LogView) -> str:
    """The fingerprint of what is published of the inputs of ``day``."""
    period = step.cadence.period(day)
    return fingerprints.inputs(
        {read.table: {d: _logical(observed, read.table, d) for d in read.days(period)} for read in step.version().reads}
    )


def _logical(observed: LogView, table: str, day: date) -> str:
    state = observed.states.get(TableDay(table, day))
    return state.content.logical if state and state.content else fingerprints.NEVER_PUBLISHED
