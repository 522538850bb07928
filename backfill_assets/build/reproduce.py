"""Proves that a publication can be computed again: same inputs, code and parameters give the same rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from backfill_assets.build.decide import Wanted, read_days
from backfill_assets.build.lake import Lake
from backfill_assets.build.stage import Chunk, StagedTableDay, stage_chunk
from backfill_assets.datasets import registry
from backfill_assets.datasets.dataset import Step, Version
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.publication import DayContent, InputRead, Publication
from backfill_assets.lakehouse.publish import Pin


@dataclass(frozen=True)
class Reproduced:
    """One published day beside what the recorded inputs and code give today."""

    table: str
    day: date
    rows_published: int
    rows_staged: int
    published_checksum: str
    staged_checksum: str

    @property
    def equal(self) -> bool:
        return (self.rows_published, self.published_checksum) == (self.rows_staged, self.staged_checksum)


def reproduce(lake: Lake, publication: str) -> tuple[Reproduced, ...]:
    """Stage every day of ``publication`` into a timeline of its own, from the input versions it recorded.

    Nothing is published. Raises :class:`InvalidRequest` for an unknown publication and for one that computed nothing
    (an append takes rows in; a rollback and a compaction move files).
    """
    found = lake.publisher.log.find_prepared(publication)
    if found is None:
        raise InvalidRequest(f"There is no publication {publication!r}.", hint="backfill history lists them.")
    prepared = found[0].publication
    if prepared.kind != "replace":
        raise InvalidRequest(
            f"{publication} is of the kind {prepared.kind}: it computed nothing that could be computed again.",
            hint="Name a publication of the kind replace; backfill history shows the kinds.",
        )
    return _compared(lake, prepared)


def _compared(lake: Lake, publication: Publication) -> tuple[Reproduced, ...]:
    step = registry.step(publication.tables[0].table)
    published = {
        (change.table, day.day): day.content
        for change in publication.tables
        for day in change.days
        if day.content is not None
    }
    timelines = lake.timelines(step)
    try:
        staged = []
        for days, reads in _groups(publication).items():
            version = step.version(published[step.name, str(days[0])].code_version)
            chunk = _chunk(step, version, days, dict(reads), published)
            staged += stage_chunk(lake.spark(), lake.storage, chunk, timelines)
    finally:
        for timeline in timelines.values():
            timeline.close()
    return tuple(_beside(published[day.table, str(day.day)], day) for day in sorted(staged, key=_table_and_day))


def _beside(was: DayContent, day: StagedTableDay) -> Reproduced:
    return Reproduced(day.table, day.day, was.rows, day.content.rows, was.checksum, day.content.checksum)


def _table_and_day(day: StagedTableDay) -> tuple[str, date]:
    return day.table, day.day


def _groups(publication: Publication) -> dict[tuple[date, ...], tuple[tuple[str, InputRead], ...]]:
    """Days that were computed from the same versions of the inputs, with those inputs."""
    groups: dict[tuple[tuple[str, int | None], ...], tuple[list[date], dict[str, InputRead]]] = {}
    step = registry.step(publication.tables[0].table)
    for day in publication.tables[0].days:
        version = step.version(day.content.code_version if day.content else None)
        own = date.fromisoformat(day.day)
        reads = {
            table: next(read for read in publication.inputs if read.table == table and set(needed) <= read.days.keys())
            for table, needed in read_days(step, version, [own]).items()
        }
        key = tuple(sorted((table, read.version) for table, read in reads.items()))
        groups.setdefault(key, ([], reads))[0].append(own)
    return {tuple(days): tuple(reads.items()) for days, reads in groups.values()}


def _chunk(
    step: Step,
    version: Version,
    days: tuple[date, ...],
    inputs: dict[str, InputRead],
    published: dict[tuple[str, str], DayContent],
) -> Chunk:
    pin = Pin(expected={}, inputs=inputs, states={}, sequence=-1)
    wanted = {
        day: Wanted(published[step.name, str(day)].inputs, published[step.name, str(day)].input_fingerprint)
        for day in days
    }
    return Chunk(step, version, days, wanted, pin, upstream=_nothing, judged=False)


def _nothing(_: date) -> dict[str, DayContent]:
    return {}
