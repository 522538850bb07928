"""The sensor ``external_tables``: observes days of external tables that moved."""

# No postponed annotations here: Dagster resolves resources from the annotations themselves.
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from itertools import islice

import dagster as dg

from backfill_assets.defs.dagster_internals import DATA_VERSION_TAG
from backfill_assets.defs.own_lakehouse import lakehouse_sensor
from backfill_assets.defs.partitions import PartitionedTables
from backfill_assets.defs.resources import Backfill
from backfill_assets.defs.sensors.repairs import EVERY_SECONDS
from backfill_assets.defs.specs import external_spec, keys_of_others
from backfill_assets.errors import BackfillError
from backfill_assets.external.files import VERSION
from backfill_assets.external.observe import observe_tables, tables_of_others
from backfill_assets.lakehouse.records import DayState
from backfill_assets.model.external_table import ExternalTable
from backfill_assets.publish.log import PublicationLog
from backfill_assets.publish.publisher import Publisher
from backfill_assets.text import format_count

SENSOR = "external_tables"
_MOST_DAYS = 300
"""In one tick: an event takes 10 ms."""
Place = tuple[int, str]


@dataclass
class ObservedUpTo:
    """The cursor; a new log at its place starts anew."""

    log: str
    places: dict[str, Place] = field(default_factory=dict)
    ahead: dict[str, set[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, cursor: str | None, log: str) -> "ObservedUpTo":
        known, places, ahead = json.loads(cursor) if cursor else (log, {}, {})
        if known != log:
            return cls(log)
        tuples = {table: (sequence, day) for table, (sequence, day) in places.items()}
        return cls(log, tuples, {table: set(days) for table, days in ahead.items()})

    def is_new(self, state: DayState) -> bool:
        day = str(state.day)
        place = self.places.get(state.table, (-1, ""))
        return (state.sequence, day) > place or day in self.ahead.get(state.table, ())

    def pass_over(self, state: DayState) -> None:
        self.ahead.setdefault(state.table, set()).add(str(state.day))

    def go_to(self, state: DayState) -> None:
        self.ahead.get(state.table, set()).discard(str(state.day))
        self.places[state.table] = max((state.sequence, str(state.day)), self.places.get(state.table, (-1, "")))

    def cursor(self) -> str:
        return json.dumps([self.log, self.places, {table: sorted(days) for table, days in self.ahead.items() if days}])


def external_specs(tables: PartitionedTables) -> list[dg.AssetSpec]:
    keys = keys_of_others(tables.catalog.steps)
    return [
        external_spec(step, dataset, tables.chain_of[dataset.name], keys[step.name])
        for dataset in tables.catalog.datasets
        for step in dataset.steps
        if step.external
    ]


def external_tables_sensor(tables: PartitionedTables) -> dg.SensorDefinition:
    keys = keys_of_others(tables.catalog.steps)

    def observe(context: dg.SensorEvaluationContext, backfill: Backfill) -> dg.SensorResult:
        publisher = Publisher(backfill.storage, retention_days=backfill.settings.rollback_window_days)
        for each in tables_of_others(tables.catalog.steps, tables.catalog.datasets):
            _look(context, publisher, each)
        log = publisher.log
        seen = ObservedUpTo.of(context.cursor, log.identity)
        found = list(islice(_not_observed(log, tables, seen), _MOST_DAYS))
        said = f"Observed {format_count(len(found), 'day')}." if found else "No table of others has moved."
        return dg.SensorResult(
            skip_reason=said,
            cursor=seen.cursor(),
            asset_events=[_observation(state, keys) for state in found],
        )

    return lakehouse_sensor(
        SENSOR,
        "Looks at the tables that others write and that are read in place, and observes the days that moved, with a "
        "data version for each. What is made of them is stale from then on, and the sensor repairs builds it.",
        EVERY_SECONDS,
        observe,
    )


def _look(context: dg.SensorEvaluationContext, publisher: Publisher, table: tuple[ExternalTable, date]) -> None:
    try:
        observe_tables(publisher, [table])
    except BackfillError as error:
        context.log.warning(str(error))


def _not_observed(log: PublicationLog, tables: PartitionedTables, seen: ObservedUpTo) -> Iterator[DayState]:
    chains, catalog = tables.chain_of, tables.catalog
    partitions = {
        step.name: chains[catalog.dataset_of(step.name).name].of(step) for step in catalog.steps if step.external
    }
    states = log.day_states(log.head(), set(partitions)).values()
    for state in sorted(states, key=lambda each: (each.sequence, each.day, each.table)):
        if not seen.is_new(state):
            continue
        if partitions[state.table].has_partition_key(str(state.day)):
            seen.go_to(state)
            yield state
        else:
            seen.pass_over(state)


def _observation(state: DayState, keys: Mapping[str, dg.AssetKey]) -> dg.AssetObservation:
    content = state.content
    version = content.metrics.get(VERSION) if content else None
    return dg.AssetObservation(
        keys[state.table],
        partition=str(state.day),
        metadata={"version": int(version or 0), "rows_at_most": content.rows if content else 0},
        tags={DATA_VERSION_TAG: content.logical if content else "none"},
    )
