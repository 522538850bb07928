"""Looks at tables of others, and publishes what was seen: records of days that moved, and no row.

On the publication log such a table is like any other, but its main has no files: each day is known by what its files
are there, and the version that all of it was read from is a source position. So pins, plans, staleness and timelines
work as they do, and what is published was made of what main holds.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date

from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest, LakehouseUnusable
from backfill_assets.external.delta_table import DeltaTableOfOthers, TableVersion
from backfill_assets.external.files import NOTHING_MOVED, Moved, days_made_of, moved_days, possible_days
from backfill_assets.external.types_there import problems_of
from backfill_assets.lakehouse.delta_log import read_transactions
from backfill_assets.lakehouse.records import (
    DayChange,
    DayContent,
    Position,
    Provenance,
    Publication,
    TableChange,
    content_in,
)
from backfill_assets.lakehouse.retry import Retry
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.dataset import Dataset
from backfill_assets.model.declaration import Step
from backfill_assets.model.external_table import ExternalTable
from backfill_assets.publish.log import PublicationLog
from backfill_assets.publish.publisher import Published, Publisher

_POSITION = "external:"
"""Begins the source position of a table of others; its id follows, and the next version is its number."""
_SCHEMA = (
    '{"type":"struct","fields":[{"name":"observed","type":"long","nullable":true,"metadata":{}},'
    '{"name":"day","type":"date","nullable":true,"metadata":{}}]}'
)
"""Of the table without rows that stands for it in the lakehouse."""
_MOST_VERSIONS_BEHIND = 100
"""Of a table that is written to all day, not each version that changes nothing is recorded."""


@dataclass(frozen=True)
class At:
    """The version of a table of others that a look was at."""

    id: str
    version: int


@dataclass(frozen=True)
class Look:
    """What a table of others is now, beside what is known of it. Nothing is written."""

    external: ExternalTable
    known: At | None
    now: At
    moved: Moved = NOTHING_MOVED
    is_recorded: bool = False
    """Whether all of it is known, so that nothing has to be recorded."""


@dataclass(frozen=True)
class Observed:
    """What a look at a table of others found."""

    table: str
    version: int
    changed: tuple[date, ...] = ()
    """The days that are made of other rows than when they were looked at before, or are new."""
    publication: str = ""
    """Empty if nothing had to be recorded."""


def observed_at(storage: Storage, external: ExternalTable, version: int | None) -> At | None:
    """Which version of the table was looked at by ``version`` of main; None if that was never done."""
    if version is None:
        return None
    for id, position in read_transactions(storage, external.name, version).items():
        if id.startswith(_POSITION) and position:
            return At(id.removeprefix(_POSITION), position - 1)
    return None


def tables_of_others(steps: Iterable[Step], datasets: Iterable[Dataset]) -> list[tuple[ExternalTable, date]]:
    """The tables of others that ``steps`` read in any version, or are, each with the first day of its dataset."""
    read = {read.table for step in steps for version in step.versions for read in version.reads}
    names = read.union(name for step in steps for name in step.table_names)
    return [
        (step.external, dataset.first_day)
        for dataset in datasets
        for step in dataset.steps
        if step.external and step.name in names
    ]


def observe_tables(publisher: Publisher, tables: Iterable[tuple[ExternalTable, date]]) -> list[Observed]:
    """Look at tables of others, and record the days that moved since the last look.

    Raises :class:`LakehouseUnusable` where there is no table, and :class:`InvalidRequest` where it has not the columns
    that are declared.
    """
    return [_observe(publisher, external, first_day) for external, first_day in tables]


def _observe(publisher: Publisher, external: ExternalTable, first_day: date) -> Observed:
    retry = Retry(f"Looking at {external.name}")
    while True:
        look = look_at(publisher.log, external, first_day, publisher.now().date())
        if look.is_recorded:
            return Observed(external.name, look.now.version)
        if (found := _record(publisher, look)) is not None:
            return found
        retry.lost("others have looked at it first")


def look_at(log: PublicationLog, external: ExternalTable, first_day: date, today: date) -> Look:
    """What the table is now. ``today`` counts where its own log does not say when it was written last."""
    head, there = log.head(), DeltaTableOfOthers(external)
    known = observed_at(log.storage, external, head.state.versions.get(external.name))
    newest = there.newest()
    if known == At(there.id_at(newest), newest):
        return Look(external, known, known, is_recorded=True)
    now, touched = there.since(known.version, newest) if known else (there.at(newest), None)
    is_another = known is not None and now.id != known.id
    _require_columns(external, now)
    states = log.day_states(head, {external.name})
    contents = {day: content for _, day in states if (content := content_in(states, TableDay(external.name, day)))}
    possible = possible_days(first_day, there.committed_on(newest) or today)
    moved = moved_days(contents, days_made_of(now.files, possible), newest, None if is_another else touched)
    is_recorded = known is not None and not is_another and not _is_worth_a_record(there, known.version, newest, moved)
    return Look(external, known, At(now.id, newest), moved, is_recorded)


def _is_worth_a_record(there: DeltaTableOfOthers, known: int, newest: int, moved: Moved) -> bool:
    """Others clean old versions up: each day at least, a newer one is recorded that changes nothing."""
    if moved.changed or moved.renewed or newest - known > _MOST_VERSIONS_BEHIND:
        return True
    before = there.committed_on(known)
    return before is None or before != there.committed_on(newest)


def _record(publisher: Publisher, look: Look) -> Observed | None:
    """None if another process was faster."""
    external, moved, now = look.external, look.moved, look.now
    days: Mapping[date, DayContent] = {**moved.changed, **moved.renewed}
    pin = publisher.pin({external.name: days}, {})
    changes = tuple(
        DayChange(day=day, content=days[day], expected=pin.expected[TableDay(external.name, day)], made_of={})
        for day in sorted(days)
    )
    positions = tuple(_positions(look.known, now))
    publication = Publication(
        id=f"{publisher.now():%Y%m%dt%H%M%S}-{external.name.replace('_', '-')}-{secrets.token_hex(4)}",
        kind="replace",
        tables=(TableChange(table=external.name, table_schema=_SCHEMA, days=changes, positions=positions),),
        provenance=Provenance(reason=f"looked at version {now.version} of {external.location}"),
    )
    if not isinstance(publisher.publish(publication), Published):
        return None
    return Observed(external.name, now.version, tuple(sorted(moved.changed)), publication.id)


def _positions(known: At | None, now: At) -> Iterable[Position]:
    """A table that was made anew at the same place counts from 1 again, under its own id."""
    same = known is not None and known.id == now.id
    yield Position(id=_POSITION + now.id, before=known.version + 1 if same and known else None, after=now.version + 1)
    if known is not None and not same:
        yield Position(id=_POSITION + known.id, before=known.version + 1, after=0)


def _require_columns(external: ExternalTable, now: TableVersion) -> None:
    if problems := problems_of(external, now.types):
        raise InvalidRequest(
            f"{external.name} cannot be read as it is declared: {'; '.join(problems)}.",
            hint=f"Correct its class {external.contract.__name__}: what is there is at {external.location}.",
        )


def is_look(publication: Publication) -> bool:
    """Is it the record of a look at a table of others?"""
    return any(each.id.startswith(_POSITION) for change in publication.tables for each in change.positions)


def require_observed(storage: Storage, external: ExternalTable, version: int | None) -> At:
    """The version of the table that a pinned version of main stands for; raises where it was never looked at."""
    at = observed_at(storage, external, version)
    if at is None:
        raise LakehouseUnusable(
            f"{external.name} was never looked at.", hint=f"backfill run {external.name} --days DAYS looks at it."
        )
    return at
