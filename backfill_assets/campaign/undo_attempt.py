"""One attempt at undoing a campaign: what becomes of each day, and the publication that brings it about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cache, cached_property

from backfill_assets.campaign.undo_days import (
    TableDayState,
    UndoAction,
    UndoneDay,
    decide_day,
    first_read_again,
    require_undoable,
)
from backfill_assets.datasets import registry
from backfill_assets.days import TableDay
from backfill_assets.errors import PublicationRefused
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.records import DayChange, InputRead, Prepared, Provenance, Publication, TableChange
from backfill_assets.lakehouse.timelines import CAMPAIGN
from backfill_assets.model.declaration import Step, Version
from backfill_assets.model.graph import missing_inputs
from backfill_assets.publication.publisher import Pin
from backfill_assets.publication.rollback import FindPrepared, main_schema, undoing
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.decide import InputFingerprint
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.overlay import NOTHING_STAGED, DayBefore, Overlay
from backfill_assets.rebuild.replace import ReplaceBuild
from backfill_assets.rebuild.shadow import staged_days
from backfill_assets.text import format_are


@dataclass(frozen=True)
class VersionDays:
    """Days of a step that had the same version of its logic before."""

    step: Step
    tables: tuple[str, ...]
    version: Version | None
    """None if the version is not known or no longer declared."""
    days: tuple[date, ...]


@dataclass
class UndoAttempt:
    """Goes through the steps in build order: what a step reads is put back, or staged again, before it."""

    lake: Lake
    prepared: Prepared
    overlay: Overlay = NOTHING_STAGED
    """The days that are put back or staged again: what comes after reads these, and not main's."""
    days: list[UndoneDay] = field(default_factory=list)
    changes: dict[str, list[DayChange]] = field(default_factory=dict)
    builds: list[ReplaceBuild] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name that the timelines of the undo begin with; only an undo of this campaign adopts from them."""
        return f"{CAMPAIGN}undo-{self.prepared.publication.provenance.campaign.removeprefix(CAMPAIGN)}"

    @cached_property
    def find(self) -> FindPrepared:
        """Reads a publication from the log, each one once."""
        return cache(self.lake.publisher.log.find_prepared)

    def look(self) -> tuple[UndoneDay, ...]:
        """What would become of each day. Days that read what is staged again count as staged again."""
        again: dict[str, frozenset[date]] = {}
        for part, found in self.put_back_parts(again):
            days = frozenset(each.day for each in found if each.way is UndoAction.STAGE_AGAIN)
            again |= {table: again.get(table, frozenset()) | days for table in part.tables}
        return tuple(self.days)

    def stage(self, run: RunInfo, progress: Progress) -> None:
        """Put back what can be put back, and stage the rest; raises for days of which neither can be done."""
        for part, found in self.put_back_parts({}):
            require_undoable(found)
            again = [each.day for each in found if each.way is UndoAction.STAGE_AGAIN]
            if again and part.version is not None:
                progress(f"{part.step.name}: {format_are(len(again), 'day')} staged again by {part.version.name}")
                self.stage_again(part, part.version, again, run, progress)
        self.refuse_lost_files()

    def put_back_parts(self, again: Mapping[str, frozenset[date]]) -> Iterator[tuple[VersionDays, list[UndoneDay]]]:
        """Decide about each part, and put back what can be. ``again`` are days staged again, which callers add to."""
        for part in self.parts():
            pin = self.pin(part)
            found = self.decide(part, pin, again)
            self.days += found
            self.put_back(part, pin, found)
            yield part, found

    # ------------------------------------------------------------------ decide

    def parts(self) -> list[VersionDays]:
        """In build order."""
        writes = self.prepared.publication.writes
        known = {registry.step(table).name for table in sorted(writes)}
        return [part for step in registry.steps() if step.name in known for part in self.parts_of(step, writes)]

    def parts_of(self, step: Step, writes: Iterable[str]) -> list[VersionDays]:
        tables = tuple(table.name for table in step.tables if table.name in writes)
        by_version: dict[str, list[date]] = {}
        for change in self.prepared.change(tables[0]).days:
            content = self.prepared.before[tables[0]][change.day].content
            by_version.setdefault(content.code_version if content else "", []).append(change.day)
        versions = {version.name: version for version in step.versions}
        return [VersionDays(step, tables, versions.get(name), tuple(sorted(days))) for name, days in by_version.items()]

    def pin(self, part: VersionDays) -> Pin:
        written = list(part.days)
        reads = decide.read_days(part.step, part.version, part.days) if part.version else {}
        return self.overlay.over(self.lake.publisher.pin(dict.fromkeys(part.tables, written), reads))

    def decide(self, part: VersionDays, pin: Pin, again: Mapping[str, frozenset[date]]) -> list[UndoneDay]:
        wanted = _wanted_inputs(part, pin)
        reads = part.version.reads if part.version else ()
        reads_raw = any(registry.step(read.table).source for read in reads)
        return [
            decide_day(
                part.step.name,
                day,
                [self.state_of(table, day, pin) for table in part.tables],
                wanted.get(day),
                first_read_again(decide.read_days(part.step, part.version, [day]), again) if part.version else "",
                version_known=part.version is not None,
                reads_raw=reads_raw,
            )
            for day in part.days
        ]

    def state_of(self, table: str, day: date, pin: Pin) -> TableDayState:
        change = next(each for each in self.prepared.change(table).days if each.day == day)
        now = pin.states.get(TableDay(table, day))
        return TableDayState(
            table=table,
            before=self.prepared.before[table][day],
            files=frozenset(self.prepared.target_of(table, change)),
            content=self.prepared.result(table, day),
            now=now,
            now_files=frozenset(pin.expected[TableDay(table, day)].files),
            other_campaign=self.other_campaign(table, day, now.publication) if now else "",
        )

    def other_campaign(self, table: str, day: date, publication: str) -> str:
        """The last other campaign that published the day after the one that is undone; empty without one.

        One that was undone itself is passed by, with everything that it had brought.
        """
        undone = self.prepared.publication
        while publication not in ("", undone.id) and (held := self.find(publication)) is not None:
            found, made = held[0], held[0].publication
            if made.kind == "rollback" and made.provenance.undoes == undone.id:
                return ""
            if made.kind == "rollback":
                found, _ = self.find(made.provenance.undoes) or held
            elif made.provenance.campaign not in ("", undone.provenance.campaign):
                return made.provenance.campaign
            publication = found.before[table][day].publication
        return ""

    # ------------------------------------------------------------------ put back, or stage again

    def put_back(self, part: VersionDays, pin: Pin, found: Sequence[UndoneDay]) -> None:
        days = [each.day for each in found if each.way is UndoAction.PUT_BACK]
        for table in part.tables:
            before = self.prepared.before[table]
            self.changes.setdefault(table, []).extend(
                DayChange(
                    day=day,
                    adds=before[day].files,
                    content=before[day].content,
                    expected=pin.expected[TableDay(table, day)],
                )
                for day in days
            )
            self.overlay = self.overlay.putting_back(table, [(day, self.as_before(table, day)) for day in days])

    def as_before(self, table: str, day: date) -> DayBefore:
        before = self.prepared.before[table][day]
        if not before.files:
            return DayBefore(before.content)
        foreign = "" if before.content else fingerprints.physical(file.path for file in before.files)
        return DayBefore(before.content, files=before.files, foreign=foreign)

    def stage_again(
        self, part: VersionDays, version: Version, days: Sequence[date], run: RunInfo, progress: Progress
    ) -> None:
        self.lake.require_clean_tree()  # to put files back computes nothing, and is never refused
        build = ReplaceBuild(
            self.lake, part.step, version, run, force=False, progress=progress, overlay=self.overlay, campaign=self.name
        )
        build.stage(days)
        build.refuse_failed()
        self.builds.append(build)
        for table in build.tables:
            self.overlay = self.overlay.with_days(table, staged_days(build, table))

    def refuse_lost_files(self) -> None:
        """Refuse the undo if a file that it puts back is gone."""
        paths = (f"{table}/{add.path}" for table, days in self.changes.items() for day in days for add in day.adds)
        if lost := self.lake.storage.missing(paths):
            raise PublicationRefused(
                f"{self.prepared.publication.id} cannot be undone: {lost[0]} is gone, and {len(lost) - 1} more files.",
                hint="Rebuild the days with the version of the code that they had then.",
            )

    # ------------------------------------------------------------------ publish

    def request(self, id: str, made: Provenance) -> Publication:
        staged = [build.request() for build in self.builds if build.staged]
        schemas = {change.table: change.table_schema for each in staged for change in each.tables}
        days = {table: list(found) for table, found in self.changes.items() if found}
        for each in staged:
            for change in each.tables:
                days.setdefault(change.table, []).extend(change.days)
        tables = tuple(
            TableChange(
                table=table,
                table_schema=schemas.get(table) or main_schema(self.lake.publisher, table),
                days=tuple(sorted(found, key=lambda day: day.day)),
            )
            for table, found in days.items()
        )
        inputs: tuple[InputRead, ...] = tuple(read for each in staged for read in each.inputs if read.days)
        request = Publication(id=id, kind="rollback", tables=tables, inputs=inputs, provenance=made)
        return undoing(self.prepared, request)

    def close(self) -> None:
        for build in self.builds:
            build.close_timelines()


def _wanted_inputs(part: VersionDays, pin: Pin) -> dict[date, InputFingerprint]:
    """What the logic from before would be given now, of the days whose inputs are all published."""
    if part.version is None:
        return {}
    without = missing_inputs(part.step, part.version, part.days, decide.published_days(pin.states))
    logicals = {name: read.days for name, read in pin.inputs.items()}
    wanted = decide.wanted(part.step, part.version, part.days, logicals)
    return {day: found for day, found in wanted.items() if day not in without}
