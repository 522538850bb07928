"""The sensor ``landed_files``: launches backfills of landed days. It lists names only."""

# No postponed annotations here: Dagster resolves resources from the annotations themselves.
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date

import dagster as dg

from backfill_assets import clock
from backfill_assets.defs.dagster_internals import SENSOR_NAME_TAG
from backfill_assets.defs.own_lakehouse import lakehouse_sensor
from backfill_assets.defs.partitions import PartitionedTables
from backfill_assets.defs.resources import Backfill
from backfill_assets.defs.sensors.repairs import EVERY_SECONDS, asset_graph
from backfill_assets.defs.specs import VERSION_TAG
from backfill_assets.defs.under_way import busy_days, ever_targeted, launch_backfill, where_launched
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.zone import LandingZone, file_positions, no_file_of
from backfill_assets.model.dataset import Dataset
from backfill_assets.publish.log import PublicationLog
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets.state.diagnosis import Cause
from backfill_assets.stream.lease import read_streams
from backfill_assets.stream.sources import LANDING
from backfill_assets.text import days_options
from backfill_assets.upkeep.arrivals_due import Due, Landed, arrivals_due, left_to_daily_job, waiting_files
from backfill_assets.upkeep.for_people import first_ranges
from backfill_assets.upkeep.heal import KEPT_CLOSED
from backfill_assets.upkeep.incidents import IncidentBook

SENSOR = "landed_files"
_MOST_RANGES = 4
Listings = Mapping[str, str]


def landed_file_sensor(tables: PartitionedTables) -> dg.SensorDefinition:
    def launch_landed(context: dg.SensorEvaluationContext, backfill: Backfill) -> dg.SensorResult:
        seen = json.loads(context.cursor or "{}")
        landed_chains = [
            _landed_states(context.instance, backfill, chain, tables, seen) for chain in tables.catalog.chains
        ]
        busy = _taken_in_now(context.instance, backfill, tables) | _being_restored(backfill.storage)
        due = arrivals_due(landed_chains, busy, _earlier_launches(context.instance))
        lines = [*_launch(context, due, tables, backfill.settings.ui or ""), *_never_published(landed_chains, busy)]
        for line in lines:
            context.log.info(line)
        zone = LandingZone(backfill.settings.landing)
        for source in (step.source for step in tables.catalog.steps if step.source):
            for path in zone.strays(source):
                context.log.warning(f"{path} is {no_file_of(source)}, and is not read.")
        listings = {landed.dataset.name: _listing(landed.files) for chain in landed_chains for landed in chain}
        return dg.SensorResult(
            skip_reason="\n".join(lines) or "Everything that landed is ingested, or its schedule will ingest it.",
            cursor=json.dumps(listings),
        )

    return lakehouse_sensor(
        SENSOR,
        "Launches one backfill of all landed days for a dataset that was never built, and one of the arrival days "
        "whose folder got files after they, or a later day, were ingested: published days keep their version of the "
        "logic. The sensor repairs builds what late rows make stale.",
        EVERY_SECONDS,
        launch_landed,
    )


def nothing_builds(
    instance: dg.DagsterInstance, backfill: Backfill, chain: Sequence[Dataset], tables: PartitionedTables
) -> dict[str, list[date]]:
    busy = _taken_in_now(instance, backfill, tables)
    states = _landed_states(instance, backfill, chain, tables, {})
    waiting = {landed.raw: sorted(left_to_daily_job(landed)) for landed in states if landed.raw not in busy}
    return {raw: days for raw, days in waiting.items() if days}


def landed_and_waiting(
    instance: dg.DagsterInstance,
    backfill: Backfill,
    chain: Sequence[Dataset],
    tables: PartitionedTables,
    *,
    daily_job: bool,
) -> list[str]:
    busy = _taken_in_now(instance, backfill, tables)
    states = _landed_states(instance, backfill, chain, tables, {})
    lines = (line for landed in states for line in waiting_files(landed, daily_job=daily_job) if landed.raw not in busy)
    return list(lines)


def _taken_in_now(instance: dg.DagsterInstance, backfill: Backfill, tables: PartitionedTables) -> dict[str, str]:
    writes = busy_days(instance, tables.by_table)
    return {table: of_table[-1].name for table, of_table in writes.items()} | _followed_by_streams(backfill.storage)


def _launch(context: dg.SensorEvaluationContext, due: Due, tables: PartitionedTables, ui: str) -> list[str]:
    for arrival in due.launch:
        launch_backfill(
            context.instance,
            asset_graph(context),
            arrival.days,
            title=arrival.title,
            earlier=tables.without_partition(arrival.days),
            tags={SENSOR_NAME_TAG: SENSOR, VERSION_TAG: AS_PUBLISHED},
            backfill_id=arrival.id,
        )
    return [
        *(f"Launched the backfill {arrival.id}: {arrival.title}" for arrival in due.launch),
        *where_launched([arrival.id for arrival in due.launch], ui),
        *(f"Waiting: {text}" for text in due.waiting),
    ]


def _never_published(landed_chains: Iterable[Iterable[Landed]], busy: Mapping[str, str]) -> Iterator[str]:
    for landed in (each for chain in landed_chains for each in chain):
        if not landed.files or landed.published or not landed.targeted:
            continue
        days = f"{landed.raw} {first_ranges(landed.files)}"
        if landed.raw in busy:
            yield f"Waiting: {days}: {busy[landed.raw]} takes them in"
        else:
            yield (
                f"For a person: {days}: launched before, and nothing is published. Its run says why; to launch it "
                f"again: backfill run {landed.raw}+ {days_options(landed.files, _MOST_RANGES)}"
            )


def _landed_states(
    instance: dg.DagsterInstance,
    backfill: Backfill,
    chain: Sequence[Dataset],
    tables: PartitionedTables,
    seen: Listings,
) -> list[Landed]:
    return [_landed_state(instance, backfill, dataset, tables, seen) for dataset in chain if dataset.lands]


def _landed_state(
    instance: dg.DagsterInstance, backfill: Backfill, dataset: Dataset, tables: PartitionedTables, seen: Listings
) -> Landed:
    raw = next(step for step in dataset.steps if step.source)
    if raw.source is None:
        return Landed(dataset)
    today = clock.today()
    files = {
        day: paths
        for day, paths in LandingZone(backfill.settings.landing).paths(raw.source).items()
        if paths and day < today and tables.builds(raw.name, day)
    }
    storage = backfill.storage
    positions = file_positions(storage, raw.source.name, raw.name) if files else {}
    published = bool(files) and (bool(positions) or _holds_days(storage, raw.name))
    return Landed(
        dataset,
        files,
        taken_in=[path for path, content in positions.items() if content],
        given_back=[path for path, content in positions.items() if not content],
        published=published,
        targeted=not published and bool(files) and ever_targeted(instance, raw.name),
        restored=_restored(storage, raw.name),
        settled=seen.get(dataset.name) == _listing(files),
        begins=tables.chain_of[dataset.name].start,
    )


def _being_restored(storage: Storage) -> dict[str, str]:
    lost = (each for each in IncidentBook(storage).open() if each.cause is Cause.LOST_RAW)
    return {each.table: f"the incident {each.id}" for each in lost}


def _restored(storage: Storage, table: str) -> str:
    closed = IncidentBook(storage).closed_since(clock.now() - KEPT_CLOSED)
    return next((each.id for each in reversed(closed) if (each.table, each.cause) == (table, Cause.LOST_RAW)), "")


def _holds_days(storage: Storage, table: str) -> bool:
    log = PublicationLog(storage)
    return bool(log.day_states(log.head(), {table}))


def _followed_by_streams(storage: Storage) -> dict[str, str]:
    now = clock.now()
    running = [status for status in read_streams(storage) if status.is_running(now)]
    return {status.table: f"the stream of {status.table}" for status in running if status.source == LANDING}


def _listing(files: Mapping[date, Sequence[str]]) -> str:
    return hashlib.sha256(json.dumps({str(day): list(paths) for day, paths in files.items()}).encode()).hexdigest()[:20]


def _earlier_launches(instance: dg.DagsterInstance) -> set[str]:
    return {each.backfill_id for each in instance.get_backfills() if each.tags.get(SENSOR_NAME_TAG) == SENSOR}
