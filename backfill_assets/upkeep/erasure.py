"""Erases a person: from raw, from all that is computed from it, and from every file that main no longer names.

In this order, so that it can be killed at any line and run again: landed lines, raw, what is computed from it, old
files. What cannot be reached from here is named.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path

from backfill_assets import clock
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.document import Documents
from backfill_assets.lakehouse.named_timelines import files_of_timelines, kept_timelines
from backfill_assets.lakehouse.records import AuditRecord
from backfill_assets.landing.landed_lines import event_place
from backfill_assets.landing.quarantine import Rejects, all_rejects
from backfill_assets.publish.closed_days import Books, how_to_reopen
from backfill_assets.publish.files import LOG_TABLE
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets.rebuild.erase import EraseBuild, ErasedRows, Place, Whose
from backfill_assets.rebuild.lake import Progress
from backfill_assets.rebuild.outcome import BuildResult, RunInfo
from backfill_assets.rebuild.replay import to_rebuild
from backfill_assets.state.observed import filled_in
from backfill_assets.state.view import View
from backfill_assets.text import format_count
from backfill_assets.upkeep.find_person import (
    DataSubject,
    Search,
    active_files,
    documents_with,
    files_with,
    landed_with,
    whose,
)
from backfill_assets.upkeep.reclaim import delete_now

_FOLDER = "_erasures"


class Begun(AuditRecord):
    """An erasure that has not ended: where its rows were. Lines that could not be read are found by this alone, once
    they are blank.
    """

    by: str
    at: datetime
    reason: str
    places: Mapping[str, tuple[Place, ...]]


@dataclass(frozen=True)
class FoundPerson:
    """What there is to erase. ``files`` are data files with such rows, by table."""

    person: DataSubject
    origins: Sequence[Rejects]
    raw: Sequence[ErasedRows]
    files: Mapping[str, Collection[str]]
    timelines: Sequence[str] = ()
    """Kept timelines that show such rows: a person deletes them first."""


@dataclass(frozen=True)
class Erased:
    raw: Sequence[ErasedRows]
    built: Sequence[tuple[str, BuildResult]]
    deleted: Mapping[str, int]
    """Data files, by table."""
    still: Sequence[str] = ()
    """Files here that still have it."""
    elsewhere: Sequence[str] = ()
    """What cannot be erased from here."""


@dataclass(frozen=True)
class Erasing:
    builder: Builder
    run: RunInfo
    progress: Progress
    beside: Path | None = None
    """The folder of Dagster's storage."""

    def find(self, person: DataSubject, table: str | None) -> FoundPerson:
        """Reads main's raw and each data file of what is computed from it. Raises :class:`InvalidRequest` for a table
        without raw rows, and where there is nothing to erase.
        """
        origins = self._origins(table)
        wanted = {each.raw: self._whose(each, person) for each in origins}
        raw = [self._build(each).look(wanted[each.raw]) for each in origins]
        search = self._search(person, origins, wanted, raw)
        files = search.files()
        found = FoundPerson(person, origins, raw, files, tuple(self._timelines(files)))
        if not files and not any(each.rows for each in raw):
            raise InvalidRequest(
                "No row of it is here.",
                hint="A key is written as for backfill trace. @ alone asks for a personal value.",
            )
        return found

    def erase(self, found: FoundPerson, reason: str) -> Erased:
        """Raises :class:`InvalidRequest` for rows on kept timelines and for a reason that names the person, and what
        building raises: raw is erased then, and the rest when this is run again.
        """
        if found.person.value and found.person.value in reason:
            raise InvalidRequest(
                "The reason has the value that is to be erased, and it is kept in the log.",
                hint="Name the request instead.",
            )
        if found.timelines:
            raise InvalidRequest(
                f"Timelines show these rows: {', '.join(found.timelines)}. Nothing was erased.",
                hint=f"Delete them, and make them again afterwards: backfill timeline delete {found.timelines[0]}",
            )
        begun = self._begin(found, reason)
        wanted = {each.raw: self._whose(each, found.person) for each in found.origins}
        raw = [self._build(each).erase(wanted[each.raw], f"erasure: {reason}") for each in found.origins]
        built = [(name, result) for name, result in self._rebuild(found, raw)]
        search = self._search(found.person, found.origins, wanted, [*found.raw, *raw])
        active = active_files(self.builder.lake.storage, search.tables())
        deleted: dict[str, int] = {}
        still: list[str] = []
        for table, paths in search.files().items():
            named = active.get(table, {})
            still += self._in_main(table, sorted({named[path] for path in paths if path in named}))
            doomed = sorted(path for path in paths if path not in named)
            deleted[table] = len(delete_now(self.builder.lake.publisher, table, doomed))
        lake = self.builder.lake
        texts = files_with(lake.storage, found.person.texts)
        logs = [path for path in texts if LOG_TABLE in path or "/_delta_log/" in path]
        still += [path for path in texts if path not in logs]
        still += landed_with(lake.landing, found.origins, found.person)
        still += (
            f"{file}: its format has no blank lines; land it without these rows, then backfill raw refresh {each.table}"
            for each in raw
            for file in each.left
            if event_place(file, 0) is None
        )
        for name in (begun, *self._begun.files()) if not still else ():
            self._begun.delete(name)
        return Erased(raw, built, deleted, tuple(still), tuple(self._elsewhere(found.person, [*found.raw, *raw], logs)))

    def _in_main(self, table: str, days: Sequence[str]) -> Iterator[str]:
        """Days that still have such rows, and who closed them if so."""
        publisher = self.builder.lake.publisher
        books = Books(publisher.log.head().state.books, publisher.declared)
        for day in days:
            closing = books.closing(table, date.fromisoformat(day))
            yield f"{table} {day}" + (f", {closing.said}. {how_to_reopen(closing)}" if closing else "")

    @property
    def _begun(self) -> Documents[Begun]:
        return Documents(self.builder.lake.storage, _FOLDER, Begun)

    def _begin(self, found: FoundPerson, reason: str) -> str:
        places = {each.table: tuple(sorted(each.places)) for each in found.raw if each.places}
        name, by = self.builder.lake.new_id("erasure"), str(self.run.person)
        self._begun.create(name, Begun(by=by, at=clock.now(), reason=reason, places=places))
        return name

    # ------------------------------------------------------------------ where

    def _origins(self, table: str | None) -> tuple[Rejects, ...]:
        every = all_rejects(self.builder.lake.catalog)
        origins = tuple(each for each in every if table in (None, each.raw, each.table, *each.step.table_names))
        if not origins:
            raise InvalidRequest(
                f"Rows of {table} are erased where they came in." if table else "Nothing lands here.",
                hint=f"Raw tables: {', '.join(each.raw for each in every)}.",
            )
        return origins

    def _whose(self, origin: Rejects, person: DataSubject) -> Whose:
        lake = self.builder.lake
        found = whose(View.newest(lake.storage), lake.landing, origin, person)
        begun = (place for each in self._begun.readable() for place in each.places.get(origin.raw, ()))
        return replace(found, places=found.places.union(begun))

    def _build(self, origin: Rejects) -> EraseBuild:
        lake = self.builder.lake
        return EraseBuild(lake, lake.catalog.step(origin.raw), self.run, self.progress)

    def _search(
        self, person: DataSubject, origins: Sequence[Rejects], wanted: Mapping[str, Whose], raw: Sequence[ErasedRows]
    ) -> Search:
        lake, places = self.builder.lake, frozenset[Place]().union(*(each.places for each in raw))
        places = places.union(*(self._build(each).erased_before() for each in origins))
        return Search(lake.storage, lake.catalog, person, origins, wanted, places)

    def _timelines(self, files: Mapping[str, Collection[str]]) -> Iterator[str]:
        storage = self.builder.lake.storage
        for timeline in kept_timelines(storage, clock.now()):
            for table, paths in files.items():
                shown = files_of_timelines([timeline], table)
                for base in timeline.bases:
                    shown |= View.at(storage, base).paths(table)
                if not {f"{table}/{path}" for path in shown}.isdisjoint(paths):
                    yield timeline.name
                    break

    # ------------------------------------------------------------------ what is computed from it

    def _rebuild(self, found: FoundPerson, raw: Sequence[ErasedRows]) -> Iterator[tuple[str, BuildResult]]:
        """Days that read erased rows, and days whose rows are of an erasure that was killed, by their own versions."""
        lake = self.builder.lake
        catalog, due = lake.catalog, dict[str, set[date]]()
        for origin, erased in zip(found.origins, raw, strict=True):
            due.setdefault(origin.step.name, set()).update(erased.rows)
        for table, named in active_files(lake.storage, found.files).items():
            step = catalog.step(table)
            if step.source is None:
                days = {date.fromisoformat(named[path]) for path in found.files[table] if path in named}
                due.setdefault(step.name, set()).update(days)
        states = {key: state for step in catalog.steps for key, state in lake.states(step).items()}
        published = decide.published_days(states)
        wanted = {name: sorted(days.intersection(published.get(name, ()))) for name, days in due.items()}
        for name, held in to_rebuild(catalog, wanted, published, filled_in(catalog.steps, states)).items():
            step = catalog.step(name)
            self.progress(f"{name}: {format_count(len(held), step.cadence.noun)} without the erased rows ...")
            yield name, self.builder.build(step, held, run=self.run, version=AS_PUBLISHED, progress=self.progress)

    def _elsewhere(self, person: DataSubject, raw: Sequence[ErasedRows], logs: Sequence[str]) -> Iterator[str]:
        if logs:
            yield f"statistics in {format_count(len(logs), 'log file')}, which an earlier release wrote: {logs[0]}"
        events = {place for each in raw for file, line in each.places if (place := event_place(file, line))}
        topics = sorted({(each.topic, each.partition) for each in events})
        for topic, partition in topics:
            offsets = sorted(each.offset for each in events if (each.topic, each.partition) == (topic, partition))
            yield f"topic {topic}, partition {partition}: {len(offsets)} events from offset {offsets[0]} on"
        if self.beside is not None:
            texts = (*person.texts, person.token)
            yield from (f"Dagster's storage: {path}" for path in documents_with(self.beside, texts))
        if not self.builder.lake.storage.is_folder:
            yield f"{self.builder.lake.storage.root}: versions that the bucket keeps"
        yield "backups, and what others have copied from here"
