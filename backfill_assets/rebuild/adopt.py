"""Adopts an existing Delta table: a rename moves its folder here, and one publication names its days.

The publication adds and removes no file. Days are measured and judged; broken gates are recorded, but adopted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets import clock
from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest, LakehouseBusy, PublicationRefused
from backfill_assets.judge.by_pandera import with_reports
from backfill_assets.judge.engine import files_by_day
from backfill_assets.judge.measure import measure_files
from backfill_assets.lakehouse.delta_log import AddedFile, newest_version
from backfill_assets.lakehouse.foreign_commits import ForeignCommit
from backfill_assets.lakehouse.records import BREAKS, DayChange, DayContent, Publication, TableChange
from backfill_assets.lakehouse.rows import nullable_schema, rows_of_main_files
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.table_to_adopt import TableToAdopt, read_table_to_adopt
from backfill_assets.model.checks import struct_type
from backfill_assets.model.declaration import ADOPTED, EXAMPLE, DayFacts, RuleOutcome, Step, Table
from backfill_assets.publish.promote import Again, promote
from backfill_assets.publish.publisher import Conflict, Published
from backfill_assets.quality import gates, measures
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.stage import content_of, with_verdict
from backfill_assets.state.observed import observe_each
from backfill_assets.state.status import left_stale

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUIET = timedelta(hours=24)
"""After a newer commit, a writer may still be active."""


@dataclass(frozen=True)
class AdoptedDay:
    files: tuple[AddedFile, ...]
    content: DayContent
    broken: tuple[RuleOutcome, ...] = ()


@dataclass(frozen=True)
class AdoptionPlan:
    step: Step
    found: TableToAdopt
    moves: bool
    writers: tuple[ForeignCommit, ...] = ()
    refused: tuple[str, ...] = ()
    days: Mapping[date, AdoptedDay] = field(default_factory=dict, repr=False)

    @property
    def table(self) -> str:
        return self.step.name

    @property
    def broken(self) -> dict[str, list[date]]:
        found: dict[str, list[date]] = {}
        for day, each in self.days.items():
            for rule in each.broken:
                found.setdefault(rule.rule, []).append(day)
        return found

    def require_allowed(self) -> None:
        if self.refused:
            raise PublicationRefused(
                f"{self.found.uri} cannot be adopted as {self.table}: {'; '.join(self.refused)}.",
                hint="Change it as it says in brackets, then run this again. Nothing was changed.",
            )


@dataclass(frozen=True)
class Adoption:
    """``location`` is the table's folder; empty for the one in the lakehouse."""

    lake: Lake
    step: Step
    location: str
    run: RunInfo
    progress: Progress
    writers_stopped: bool = False
    """A person vouches for it: recent commits do not refuse the adoption."""

    @property
    def table(self) -> Table:
        return self.step.tables[0]

    def plan(self) -> AdoptionPlan:
        """Raises :class:`InvalidRequest` for raw, a table built together with another or published here, and a location
        without a Delta table.
        """
        self.require_adoptable()
        storage, name, moves = self.place()
        found = self.read(storage, name)
        writers = tuple(found.written_since(clock.now() - QUIET))
        target = Path(self.lake.storage.uri(self.table.name))
        in_the_way = [why] if moves and (why := why_not_moved(Path(found.uri), target)) else []
        refused = (*found.problems, *in_the_way, *self.why_not_quiet(writers))
        days = {} if refused else self.measured(found, {})
        return AdoptionPlan(self.step, found, moves, writers, refused, days)

    def require_adoptable(self) -> None:
        table = self.table.name
        if self.step.source is not None or len(self.step.tables) > 1:
            built = "of what has landed" if self.step.source else f"together with {self.step.tables[1].name}"
            raise InvalidRequest(
                f"{table} cannot be adopted: it is made {built}, and accounts for each row.",
                hint="Adopt the fact or the report that you have, and land what arrives from now on.",
            )
        self.lake.publisher.recover([table])
        states = self.lake.states(self.step)
        if published := sorted(key.day for key, state in states.items() if state.content is not None):
            by = states[TableDay(table, published[-1])].publication
            raise InvalidRequest(
                f"{table} is published here already, {published[0]} to {published[-1]}, {published[-1]} by {by}.",
                hint=f"What was adopted, backfill history {table} shows. A table is adopted before its first day.",
            )

    # ------------------------------------------------------------------ where it lies

    def place(self) -> tuple[Storage, str, bool]:
        own, table = self.lake.storage, self.table.name
        if not self.location or self.location.rstrip("/") == own.uri(table):
            return own, table, False
        if "://" in self.location or not own.is_folder:
            raise InvalidRequest(
                f"{self.location} cannot be moved to {own.uri(table)}: only a folder of a disk is renamed at once.",
                hint=f"Copy the table there with your store's own tool, then: backfill adopt {table}",
            )
        folder = Path(self.location).resolve()
        if folder == Path(own.uri(table)).resolve() or (not folder.exists() and self._was_moved()):
            return own, table, False
        return Storage(str(folder.parent)), folder.name, True

    def _was_moved(self) -> bool:
        """An earlier attempt may have died right after the move."""
        return newest_version(self.lake.storage, self.table.name) is not None

    def why_not_quiet(self, writers: Sequence[ForeignCommit]) -> list[str]:
        if not writers or self.writers_stopped:
            return []
        last = f"others wrote to it within {QUIET.total_seconds() / 3600:.0f} hours, the last time: {writers[0]}"
        return [f"{last} (stop them, also their VACUUM, and say so: BACKFILL_WRITERS=stopped)"]

    def read(self, storage: Storage, name: str) -> TableToAdopt:
        return read_table_to_adopt(
            storage,
            name,
            declared=json.loads(nullable_schema(struct_type(self.table.contract))),
            required=[name for name, each in self.table.contract.fields().items() if not each.nullable],
            cadence=self.step.cadence,
            today=clock.today(),
        )

    # ------------------------------------------------------------------ measure and judge

    def measured(self, found: TableToAdopt, known: Mapping[date, AdoptedDay]) -> dict[date, AdoptedDay]:
        """Reads no ``known`` day again whose files are unchanged."""
        days = {day: known[day] for day, files in found.files.items() if day in known and known[day].files == files}
        todo = [day for day in found.files if day not in days]
        size = sum(file.size for day in todo for file in found.files[day])
        began, done = clock.seconds(), 0
        for part in decide.chunks(todo, size // max(1, len(todo))):
            days |= self._measured_part(found, part)
            done += len(part)
            so_far = decide.days_so_far("measured", done, len(todo), clock.seconds() - began)
            self.progress(f"{self.table.name}: {so_far}")
        return dict(sorted(days.items()))

    def _measured_part(self, found: TableToAdopt, days: Sequence[date]) -> dict[date, AdoptedDay]:
        added = [file for day in days for file in found.files[day]]
        files, schema = files_by_day(found.name, added), struct_type(self.table.contract)

        def rows() -> DataFrame:
            return rows_of_main_files(self.lake.spark(), found.storage, found.name, added, schema)

        nothing = measures.zero_metrics(self.table)
        metrics = {**dict.fromkeys(days, nothing), **measure_files(found.storage, self.table, files, rows)}
        # Rules that compare tables are skipped: nothing says that it was made of the present ones.
        asked = [rule for rule in gates.gates_of(self.table) if not rule.tables]
        judged = {day: tuple(rule.outcome(DayFacts(metrics[day])) for rule in asked) for day in metrics}
        rules = with_reports(found.storage, self.table, judged, lambda: files)
        return {
            day: _adopted_day(found.files[day], content_of(metrics[day], ADOPTED, "", {}), rules[day])
            for day in metrics
        }

    # ------------------------------------------------------------------ take it over

    def carry_out(self, plan: AdoptionPlan) -> Published:
        """Publishes its days, with files gained since ``plan``. Repeatable after a crash."""
        plan.require_allowed()
        table = self.table.name
        if plan.moves:
            move_folder(Path(plan.found.uri), Path(self.lake.storage.uri(table)))
        return promote(self.lake.publisher, _TakingOver(self, plan), self.progress)

    def request(self, found: TableToAdopt, days: Mapping[date, AdoptedDay], origin: TableToAdopt) -> Publication:
        publisher, table = self.lake.publisher, self.table.name
        pin = publisher.pin({table: list(days)}, {})
        changes = tuple(
            DayChange(day=day, adds=each.files, content=each.content, expected=pin.expected[TableDay(table, day)])
            for day, each in days.items()
        )
        change = TableChange(table=table, table_schema=found.schema_json, days=changes)
        view = observe_each(self.lake.storage, self.lake.catalog.table_names, log=publisher.log)
        return Publication(
            id=self.lake.new_id(f"adopt {table}"),
            kind="adopt",
            tables=(change,),
            provenance=self.run.provenance(reason=f"adopted from {origin.uri}, version {origin.version}"),
            leaves_stale=left_stale(self.lake.catalog.steps, view, (change,)),
        )


@dataclass
class _TakingOver:
    adoption: Adoption
    plan: AdoptionPlan

    def __post_init__(self) -> None:
        self.days = self.plan.days

    def stage(self, *, held: bool) -> Publication:
        adoption, table = self.adoption, self.plan.table
        found = adoption.read(adoption.lake.storage, table).without_problems(table)
        self.days = adoption.measured(found, self.days)
        return adoption.request(found, self.days, self.plan.found)

    def overtaken(self, by: Conflict) -> Again:
        table = self.plan.table
        return Again(
            f"{table}: others have written to it, looking again",
            LakehouseBusy(
                f"Others keep writing to {self.adoption.lake.storage.uri(table)}: {by.reasons[0]}.",
                hint=f"Stop them, then go on: BACKFILL_WRITERS=stopped backfill adopt {table}",
            ),
        )


def _adopted_day(files: tuple[AddedFile, ...], content: DayContent, rules: Sequence[RuleOutcome]) -> AdoptedDay:
    judged, broken = with_verdict(content, rules), tuple(rule for rule in rules if not rule.passed)
    if broken:
        named = ", ".join(rule.rule for rule in broken)
        judged = replace(judged, metrics={**judged.metrics, BREAKS: len(broken), f"{BREAKS}{EXAMPLE}": named})
    return AdoptedDay(files, judged, broken)


def why_not_moved(source: Path, target: Path) -> str:
    if target.exists():
        return f"{target} is there already (move it away, or leave out where it lies)"
    home = next(each for each in target.parents if each.exists())
    if source.stat().st_dev != home.stat().st_dev:
        return f"{target} is on another disk than {source} (mv {source} {target}, then run this without its place)"
    return ""


def move_folder(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    source.rename(target)
