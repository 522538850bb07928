"""Observes tables of others, and publishes records of days that moved, without rows.

A day is known by its files there, their version is a source position: pins, plans, staleness and timelines work
unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date

from backfill_assets import clock
from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest, LakehouseBusy, LakehouseUnusable
from backfill_assets.external.delta_table import DeltaTableOfOthers
from backfill_assets.external.files import NOTHING_MOVED, Moved, days_made_of, moved_days, possible_days
from backfill_assets.external.parquet_folder import ParquetFolderOfOthers
from backfill_assets.external.table_version import TableVersion
from backfill_assets.external.types_there import problems_of
from backfill_assets.lakehouse.delta_log import read_transactions
from backfill_assets.lakehouse.object_store import S3
from backfill_assets.lakehouse.records import (
    DayChange,
    DayContent,
    Position,
    Provenance,
    Publication,
    TableChange,
    content_in,
)
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.dataset import Dataset
from backfill_assets.model.declaration import Step
from backfill_assets.model.external_table import ExternalTable
from backfill_assets.publish.log import PublicationLog
from backfill_assets.publish.promote import MOST_TRIES, Again, promote
from backfill_assets.publish.publisher import Conflict, Publisher

_POSITION = "external:"
"""Prefix of the table's id; the number is its version + 1."""
_SCHEMA = (
    '{"type":"struct","fields":[{"name":"observed","type":"long","nullable":true,"metadata":{}},'
    '{"name":"day","type":"date","nullable":true,"metadata":{}}]}'
)


@dataclass(frozen=True)
class At:
    id: str
    version: int


@dataclass(frozen=True)
class LookThere:
    external: ExternalTable
    known: At | None
    now: At
    moved: Moved = NOTHING_MOVED
    is_recorded: bool = False


@dataclass(frozen=True)
class Observed:
    table: str
    version: int
    changed: tuple[date, ...] = ()
    publication: str = ""


def there_of(external: ExternalTable) -> DeltaTableOfOthers | ParquetFolderOfOthers:
    return DeltaTableOfOthers(external) if external.written == "delta" else ParquetFolderOfOthers(external)


def observed_at(storage: Storage, external: ExternalTable, version: int | None) -> At | None:
    """What main ``version`` stands for, if observed."""
    if version is None:
        return None
    for id, position in read_transactions(storage, external.name, version).items():
        if id.startswith(_POSITION) and position:
            return At(id.removeprefix(_POSITION), position - 1)
    return None


def tables_of_others(steps: Iterable[Step], datasets: Iterable[Dataset]) -> list[tuple[ExternalTable, date]]:
    """What ``steps`` and any of their versions read, with the first day of their dataset."""
    read = {read.table for step in steps for version in step.versions for read in version.reads}
    names = read.union(name for step in steps for name in step.table_names)
    return [
        (step.external, dataset.first_day)
        for dataset in datasets
        for step in dataset.steps
        if step.external and step.name in names
    ]


def observe_tables(publisher: Publisher, tables: Iterable[tuple[ExternalTable, date]]) -> list[Observed]:
    """Raises :class:`LakehouseUnusable` for a missing table, :class:`InvalidRequest` for missing columns."""
    return [_observe(publisher, external, first_day) for external, first_day in tables]


def _observe(publisher: Publisher, external: ExternalTable, first_day: date) -> Observed:
    looking = _Looking(publisher, external, first_day)
    published = promote(publisher, looking, most=MOST_TRIES)
    changed = looking.look.moved.changed if published else ()
    version = looking.look.now.version
    return Observed(external.name, version, tuple(sorted(changed)), published.publication if published else "")


@dataclass
class _Looking:
    publisher: Publisher
    external: ExternalTable
    first_day: date
    look: LookThere = field(init=False)

    def stage(self, *, held: bool) -> Publication | None:
        self.look = look_at(self.publisher.log, self.external, self.first_day, clock.today())
        return None if self.look.is_recorded else _record_of(self.publisher, self.look)

    def overtaken(self, by: Conflict) -> Again:
        first = f"{self.external.name}: others have looked at it first"
        busy = LakehouseBusy(f"{first}, {MOST_TRIES} times.", hint="Run it again when fewer runs begin at once.")
        return Again(f"{first}, looking again", busy)


def look_at(log: PublicationLog, external: ExternalTable, first_day: date, today: date) -> LookThere:
    """``today`` bounds days without a last commit."""
    _require_access(log.storage, external)
    head, there = log.head(), there_of(external)
    known = observed_at(log.storage, external, head.state.versions.get(external.name))
    newest = there.newest()
    if known == At(_id_of(external, there.id_at(newest)), newest):
        return LookThere(external, known, known, is_recorded=True)
    now, touched = there.since(known.version, newest) if known else (there.at(newest), None)
    id = _id_of(external, now.id)
    is_another = known is not None and id != known.id
    require_columns(external, now)
    states = log.day_states(head, {external.name})
    contents = {day: content for _, day in states if (content := content_in(states, TableDay(external.name, day)))}
    possible = possible_days(first_day, there.committed_on(newest) or today)
    made_of = days_made_of(now.files, possible)
    moved = moved_days(contents, made_of, newest, touched, external.read_as, is_another=is_another)
    is_known = known is not None and not is_another and not moved
    is_recorded = is_known and not there.is_worth_a_record(known.version if known else newest, newest)
    return LookThere(external, known, At(id, newest), moved, is_recorded)


def _require_access(storage: Storage, external: ExternalTable) -> None:
    """Spark has credentials for buckets only if the lakehouse is in one."""
    if external.location.startswith(S3) and storage.is_folder:
        raise LakehouseUnusable(
            f"{external.name} is at {external.location}, in a bucket, and the lakehouse in the folder {storage.root}.",
            hint="Name a lakehouse in a bucket, as BACKFILL_LAKEHOUSE=s3://bucket/prefix; one key opens both.",
        )


def _id_of(external: ExternalTable, table: str) -> str:
    return f"{table}:{external.read_as}"


def _record_of(publisher: Publisher, look: LookThere) -> Publication:
    external, moved, now = look.external, look.moved, look.now
    days: Mapping[date, DayContent] = {**moved.changed, **moved.renewed}
    pin = publisher.pin({external.name: days}, {})
    changes = tuple(
        DayChange(day=day, content=days[day], expected=pin.expected[TableDay(external.name, day)], made_of={})
        for day in sorted(days)
    )
    positions = tuple(_positions(look.known, now))
    return Publication(
        id=f"{clock.now():%Y%m%dt%H%M%S}-{external.name.replace('_', '-')}-{clock.token(4)}",
        kind="replace",
        tables=(TableChange(table=external.name, table_schema=_SCHEMA, days=changes, positions=positions),),
        provenance=Provenance(reason=f"looked at version {now.version} of {external.location}"),
    )


def _positions(known: At | None, now: At) -> Iterable[Position]:
    """A table created again starts anew."""
    same = known is not None and known.id == now.id
    yield Position(id=_POSITION + now.id, before=known.version + 1 if same and known else None, after=now.version + 1)
    if known is not None and not same:
        yield Position(id=_POSITION + known.id, before=known.version + 1, after=0)


def require_columns(external: ExternalTable, now: TableVersion) -> None:
    """Raises :class:`InvalidRequest` for missing columns and other types."""
    if problems := problems_of(external, now.types):
        raise InvalidRequest(
            f"{external.name} cannot be read as it is declared: {'; '.join(problems)}.",
            hint=f"Correct its class {external.contract.__name__}: what is there is at {external.location}.",
        )


def is_look(publication: Publication) -> bool:
    return any(each.id.startswith(_POSITION) for change in publication.tables for each in change.positions)


def require_observed(storage: Storage, external: ExternalTable, version: int | None) -> At:
    """Raises :class:`LakehouseUnusable` if never observed."""
    at = observed_at(storage, external, version)
    if at is None:
        raise LakehouseUnusable(
            f"{external.name} was never looked at.", hint=f"backfill run {external.name} --days DAYS looks at it."
        )
    return at


def read_in_place(storage: Storage, steps: Iterable[Step], versions: Mapping[str, int]) -> dict[str, str]:
    found: dict[str, str] = {}
    for external in (step.external for step in steps if step.external):
        at = observed_at(storage, external, versions.get(external.name))
        if at is not None:
            found[external.name] = there_of(external).history(at.version)
    return found
