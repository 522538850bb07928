"""Timelines: a Delta table in ``<table>/_timelines/<timeline>/``, beside what it may replace.

Commit metadata lists days with input fingerprint and verdict: days without rows have no file, and failed ones are never
adopted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from operator import not_
from typing import Any

from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import TableNotFoundError
from deltalake.transaction import create_table_with_add_actions
from pydantic import Field

from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest, PublicationRefused
from backfill_assets.lakehouse.delta_log import (
    AddedFile,
    commits_back,
    newest_version,
    open_table,
    read_log,
    written_at,
)
from backfill_assets.lakehouse.main_table import PARTITION_COLUMN, add_action, schema_problems
from backfill_assets.lakehouse.records import DayContent, DayRecord, Environment, Record, day_record
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import RuleOutcome

TIMELINES = "_timelines"
_OPEN = "_open"
_ENVIRONMENT = "backfill.environment"
"""Beside the entry: older processes read that."""
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,99}")
CAMPAIGN = "campaign-"
NAMED = "timeline-"


class StagedAs(Record):
    input_fingerprint: str


class GateVerdict(Record):
    input_fingerprint: str
    passed: bool
    content: DayContent | None = None
    rules: tuple[RuleOutcome, ...] = ()
    replaces: str = ""
    measured: str = ""
    """What ``content`` was measured for; raw is measured at adoption."""


class AdoptedFrom(Record):
    timeline: str
    replaces: str = ""


class TimelineEntry(Record):
    staged: Mapping[date, StagedAs] = {}
    judged: Mapping[date, GateVerdict] = {}
    adopted: Mapping[date, AdoptedFrom] = Field(default={}, exclude_if=not_)


@dataclass(frozen=True)
class StagedDay:
    day: date
    input_fingerprint: str
    files: tuple[AddedFile, ...]
    verdict: GateVerdict | None
    environment: Environment | None = None

    @property
    def record(self) -> DayRecord | None:
        if self.verdict is None or not self.verdict.passed or self.verdict.content is None:
            return None
        return day_record(self.day, self.files, self.verdict.content)


@dataclass(frozen=True)
class Timeline:
    """Only its own run writes to it."""

    storage: Storage
    table: str
    name: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InvalidRequest(
                f"{self.name!r} cannot name a timeline.",
                hint="Use lower-case letters, digits and hyphens.",
            )

    @classmethod
    def holding(cls, storage: Storage, table: str, path: str) -> Timeline:
        _, name, _ = path.split("/", 2)
        return cls(storage, table, name)

    @property
    def is_named(self) -> bool:
        return self.name.startswith(NAMED)

    @property
    def folder(self) -> str:
        return f"{TIMELINES}/{self.name}"

    @property
    def path(self) -> str:
        return f"{self.table}/{self.folder}"

    @property
    def uri(self) -> str:
        return self.storage.uri(self.path)

    @property
    def spark_uri(self) -> str:
        return self.storage.spark_uri(self.path)

    def exists(self) -> bool:
        return self._handle() is not None

    def _handle(self) -> DeltaTable | None:
        try:
            return open_table(self.storage, self.path)
        except TableNotFoundError:
            return None

    def schema(self) -> str:
        """Delta's JSON."""
        handle = self._handle()
        if handle is None:
            raise InvalidRequest(f"The timeline {self.name} of {self.table} holds nothing.")
        return str(handle.schema().to_json())

    def add(self, files: Iterable[AddedFile], schema: str, staged: Mapping[date, StagedAs]) -> None:
        """``schema`` is Delta's JSON. Raises :class:`PublicationRefused` if earlier rows have another."""
        self._add(files, schema, TimelineEntry(staged=dict(staged)))

    def adopt(self, schema: str, days: Mapping[date, AdoptedFrom]) -> None:
        self._add((), schema, TimelineEntry(adopted=dict(days)))

    def _add(self, files: Iterable[AddedFile], schema: str, recorded: TimelineEntry) -> None:
        entry = CommitProperties(custom_metadata={"userMetadata": recorded.model_dump_json()})
        handle, added = self._handle(), list(files)
        self.storage.keep(f"{self.path}/{file.path}" for file in added)
        if handle is None:
            create_table_with_add_actions(
                self.uri,
                Schema.from_json(schema),
                [add_action(file) for file in added],
                partition_by=[PARTITION_COLUMN],
                configuration={"delta.enableDeletionVectors": "false"},
                storage_options=dict(self.storage.options),
                commit_properties=entry,
            )
            self.storage.keep(written_at(self.path, [0]))
            return
        here, new = json.loads(handle.schema().to_json()), json.loads(schema)
        if problems := schema_problems(here, new) or schema_problems(new, here):
            raise PublicationRefused(
                f"{self.table}: rows of another shape are in the timeline {self.name} already: {'; '.join(problems)}.",
                hint="A transform gives rows of one shape for all days; correct it in a new version.",
            )
        self._append(handle, added, entry)

    def judge(
        self,
        verdicts: Mapping[date, GateVerdict],
        staged: Mapping[date, StagedAs] | None = None,
        environment: Environment | None = None,
    ) -> None:
        """Lists the days ``staged``, which an ingest knows only now."""
        handle = self._handle()
        if handle is None:
            raise InvalidRequest(f"The timeline {self.name} of {self.table} holds nothing to judge.")
        metadata = {"userMetadata": TimelineEntry(staged=dict(staged or {}), judged=dict(verdicts)).model_dump_json()}
        if environment is not None:
            metadata[_ENVIRONMENT] = environment.model_dump_json()
        self._append(handle, (), CommitProperties(custom_metadata=metadata))

    def _append(self, handle: DeltaTable, files: Iterable[AddedFile], entry: CommitProperties) -> None:
        before = handle.version()
        handle.create_write_transaction(
            [add_action(file) for file in files], "append", handle.schema(), [PARTITION_COLUMN], commit_properties=entry
        )
        self.storage.keep(written_at(self.path, [before + 1]))  # the handle stays where it was

    def days(self) -> dict[date, StagedDay]:
        """Newest stagings with verdicts; adopted days as in their own timelines."""
        handle = self._handle()
        if handle is None:
            return {}
        staged: dict[date, StagedAs] = {}
        adopted: dict[date, AdoptedFrom] = {}
        verdicts: dict[date, GateVerdict] = {}
        environments: dict[date, Environment | None] = {}
        for entry, environment in self._entries(handle):
            staged.update(entry.staged)
            for day in entry.staged:
                verdicts.pop(day, None)
                environments[day] = environment
                adopted.pop(day, None)
            verdicts.update(entry.judged)
            adopted.update(entry.adopted)
        files = read_log(self.storage, self.path, handle.version()).of_days(staged)
        found = {
            day: StagedDay(
                day=day,
                input_fingerprint=how.input_fingerprint,
                files=tuple(file.below(self.folder) for file in files[day]),
                verdict=_verdict_on(how, verdicts.get(day)),
                environment=environments[day],
            )
            for day, how in staged.items()
        }
        return found | self._adopted_days(adopted)

    def verdicts(self) -> dict[date, GateVerdict]:
        """By commits: empty after their clean-up."""
        newest = newest_version(self.storage, self.path)
        commits = () if newest is None else commits_back(self.storage, self.path, newest)
        found: dict[date, GateVerdict] = {}
        for _, commit in commits:
            if text := commit.get("userMetadata"):
                judged = TimelineEntry.model_validate_json(text).judged
                found = {**judged, **found}
        return found

    def _adopted_days(self, adopted: Mapping[date, AdoptedFrom]) -> dict[date, StagedDay]:
        there = {name: Timeline(self.storage, self.table, name).days() for name in _names(adopted)}
        held = {day: there[source.timeline].get(day) for day, source in adopted.items()}
        return {
            day: replace(found, verdict=found.verdict.model_copy(update={"replaces": adopted[day].replaces}))
            for day, found in held.items()
            if found is not None and found.verdict is not None
        }

    def adopted_from(self) -> set[str]:
        handle = self._handle()
        entries = [] if handle is None else self._entries(handle)
        return {name for entry, _ in entries for name in _names(entry.adopted)}

    def _entries(self, handle: DeltaTable) -> list[tuple[TimelineEntry, Environment | None]]:
        partitions = list(handle.metadata().partition_columns)
        if partitions != [PARTITION_COLUMN]:
            raise PublicationRefused(f"The timeline {self.path} is partitioned by {partitions}, not by day.")
        commits = list(commits_back(self.storage, self.path, handle.version()))
        return [
            (TimelineEntry.model_validate_json(text), _environment(commit))
            for _, commit in reversed(commits)
            if (text := commit.get("userMetadata"))
        ]

    def files(self, days: Iterable[date] | None = None) -> list[AddedFile]:
        handle = self._handle()
        if handle is None:
            return []
        active = read_log(self.storage, self.path, handle.version()).active.values()
        wanted = None if days is None else set(map(str, days))
        return sorted(file for file in active if wanted is None or file.day in wanted)

    def open(self) -> None:
        self.storage.write_bytes(f"{self.table}/{TIMELINES}/{_OPEN}/{self.name}", b"")

    def close(self) -> None:
        self.storage.delete(f"{self.table}/{TIMELINES}/{_OPEN}/{self.name}")


def _names(adopted: Mapping[date, AdoptedFrom]) -> set[str]:
    return {source.timeline for source in adopted.values()}


def _environment(commit: Mapping[str, Any]) -> Environment | None:
    text = commit.get(_ENVIRONMENT)
    return Environment.model_validate_json(text) if text else None


def _verdict_on(how: StagedAs, verdict: GateVerdict | None) -> GateVerdict | None:
    """A verdict counts for the staging it judged."""
    return verdict if verdict and verdict.input_fingerprint == how.input_fingerprint else None


def timelines_of(storage: Storage, table: str, owner: str = "") -> list[Timeline]:
    """Open ones of a campaign or named timeline, or of none; newest first."""
    timelines = open_timelines(storage, table)
    if owner:
        return [timeline for timeline in timelines if timeline.name.startswith(f"{owner}-")]
    return [timeline for timeline in timelines if not timeline.name.startswith((CAMPAIGN, NAMED))]


def close_timelines(storage: Storage, tables: Iterable[str], owner: str) -> list[Timeline]:
    found = [each for table in tables for each in timelines_of(storage, table, owner)]
    for each in found:
        each.close()
    return found


def open_timelines(storage: Storage, table: str) -> list[Timeline]:
    return [Timeline(storage, table, name) for name in sorted(open_since(storage, table), reverse=True)]


def open_since(storage: Storage, table: str) -> dict[str, int]:
    """UTC milliseconds by name."""
    markers = storage.files(f"{table}/{TIMELINES}/{_OPEN}")
    written_at = {file.path.rsplit("/", 1)[1]: file.modified_ms for file in markers}
    return {name: since for name, since in written_at.items() if _NAME.fullmatch(name)}


def newest_days(storage: Storage, table: str, campaign: str) -> dict[date, StagedDay]:
    found: dict[date, StagedDay] = {}
    for timeline in timelines_of(storage, table, campaign):
        found |= {day: staged for day, staged in timeline.days().items() if day not in found}
    return found


def newest_verdicts(storage: Storage, tables: Iterable[str], campaign: str) -> dict[TableDay, GateVerdict]:
    found: dict[TableDay, GateVerdict] = {}
    for timeline in (each for table in tables for each in timelines_of(storage, table, campaign)):
        for day, staged in timeline.days().items():
            if staged.verdict is not None:
                found.setdefault(TableDay(timeline.table, day), staged.verdict)
    return found


def adoptable(timelines: Iterable[Timeline], wanted: Mapping[date, str]) -> dict[date, tuple[Timeline, StagedDay]]:
    """Staged days that passed, of just what would be read now.

    ``wanted`` has input fingerprints; the first timeline wins; reclaimed files do not count.
    """
    adopted: dict[date, tuple[Timeline, StagedDay]] = {}
    for timeline in timelines:
        if len(adopted) == len(wanted):
            break
        for day, staged in timeline.days().items():
            fits = staged.verdict is not None and staged.verdict.passed and wanted.get(day) == staged.input_fingerprint
            if fits and day not in adopted and not _files_gone(timeline, staged):
                adopted[day] = (_holder(timeline, staged), staged)
    return adopted


def _holder(timeline: Timeline, staged: StagedDay) -> Timeline:
    return Timeline.holding(timeline.storage, timeline.table, staged.files[0].path) if staged.files else timeline


def _files_gone(timeline: Timeline, staged: StagedDay) -> list[str]:
    return timeline.storage.missing(f"{timeline.table}/{file.path}" for file in staged.files)
