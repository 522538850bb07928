"""Releases an adopted table, where it is or moved, as an ordinary Delta table with main's rows.

Then nothing is published to it, its status is unknown and maintenance skips it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from backfill_assets import clock
from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest, LakehouseBusy, PublicationRefused
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.named_timelines import kept_timelines
from backfill_assets.lakehouse.records import DayChange, Publication, TableChange
from backfill_assets.lakehouse.timelines import TIMELINES
from backfill_assets.publish.past import brought_days
from backfill_assets.publish.promote import Again, promote
from backfill_assets.publish.publisher import Conflict, Publisher
from backfill_assets.publish.unreadable import require_newest
from backfill_assets.rebuild.adopt import move_folder, why_not_moved
from backfill_assets.rebuild.lake import Lake
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.state.campaigns import under_way
from backfill_assets.state.observed import observe_each
from backfill_assets.state.status import left_stale
from backfill_assets.text import format_first


@dataclass(frozen=True)
class ReleasePlan:
    table: str
    location: str
    days: tuple[date, ...]
    adopted_from: str
    done_by: str = ""
    """The publication that released it, if only tidying and moving are left."""

    @property
    def to(self) -> str:
        return self.location or "where it lies"


@dataclass(frozen=True)
class GivingBack:
    lake: Lake
    table: str
    location: str
    run: RunInfo

    @property
    def publisher(self) -> Publisher:
        return self.lake.publisher

    def plan(self) -> ReleasePlan:
        """Raises :class:`InvalidRequest` for a table never adopted, :class:`PublicationRefused` while a campaign or
        timeline needs its files.
        """
        self.publisher.recover([self.table])
        adopted = next(brought_days(self.publisher.log.files(), [self.table], kind="adopt"), None)
        if adopted is None:
            raise InvalidRequest(
                f"{self.table} was never adopted: there is nobody to give it back to.",
                hint="Any engine reads it where it lies, and may copy it.",
            )
        self.require_free()
        self.require_place()
        released = self.publisher.log.head().state.released.get(self.table, "")
        main = MainTable.open(self.lake.storage, self.table)
        days = sorted(main.state().files_by_day()) if main else []
        return ReleasePlan(self.table, self.location, tuple(days), adopted.reason or "", released)

    def require_free(self) -> None:
        storage = self.lake.storage
        plans = [each.plan for each in under_way(self.publisher.log) if self.table in each.tables]
        named = [each.name for each in kept_timelines(storage, clock.now()) if self.table in each.days]
        if needing := [*plans, *named]:
            raise PublicationRefused(
                f"{self.table} cannot be given back: {format_first(needing, 3)} would lose its files.",
                hint=f"First give that up: backfill timeline delete {needing[0]}",
            )

    def require_place(self) -> None:
        own = self.lake.storage
        if self.location and ("://" in self.location or not own.is_folder):
            raise InvalidRequest(
                f"{self.table} cannot be moved to {self.location}: only a folder of a disk is renamed at once.",
                hint=f"Give it back where it lies, then copy it: backfill adopt --release {self.table}",
            )
        source = Path(own.uri(self.table))
        if self.location and source.exists() and (why := why_not_moved(source, Path(self.location).absolute())):
            raise InvalidRequest(f"{self.table} cannot be moved to {self.location}: {why}.")

    def carry_out(self, plan: ReleasePlan) -> str:
        """Publish, tidy and move; returns the publication. Repeatable after a crash."""
        by = plan.done_by or promote(self.publisher, _Released(self)).publication
        self._tidy()
        source = Path(self.lake.storage.uri(self.table))
        if self.location and source.exists():
            move_folder(source, Path(self.location).absolute())
        return by

    def request(self) -> Publication:
        head = self.publisher.log.head()
        main = MainTable.open(self.lake.storage, self.table)
        require_newest(self.table, main.version if main else None, head.state.versions.get(self.table))
        files = main.state().files_by_day() if main else {}
        known = {key.day for key in self.publisher.log.day_states(head, {self.table})}
        change = self._change(main, {day: tuple(sorted(files.get(day, ()))) for day in sorted(known | files.keys())})
        view = observe_each(self.lake.storage, self.lake.catalog.table_names, log=self.publisher.log)
        where = self.location or self.lake.storage.uri(self.table)
        return Publication(
            id=self.lake.new_id(f"release {self.table}"),
            kind="release",
            tables=(change,),
            provenance=self.run.provenance(reason=f"given back to {where}"),
            leaves_stale=left_stale(self.lake.catalog.steps, view, (change,)),
        )

    def _change(self, main: MainTable | None, files: dict[date, tuple[AddedFile, ...]]) -> TableChange:
        pin = self.publisher.pin({self.table: list(files)}, {})
        days = tuple(
            DayChange(day=day, adds=each, content=None, expected=pin.expected[TableDay(self.table, day)])
            for day, each in files.items()
        )
        schema = str(main.handle.schema().to_json()) if main else ""
        return TableChange(table=self.table, table_schema=schema, days=days)

    def _tidy(self) -> None:
        """Delete logs of timelines and files of older states, which VACUUM would not find in a hidden folder."""
        main = MainTable.open(self.lake.storage, self.table)
        if main is None:
            return
        named = {f"{self.table}/{path}" for path in main.state().active}
        for file in self.lake.storage.files(f"{self.table}/{TIMELINES}", recursive=True):
            if file.path not in named:
                self.lake.storage.delete(file.path)
        for folder in self._folders():
            self.lake.storage.delete_empty_folder(folder)

    def _folders(self) -> Iterable[str]:
        below = f"{self.table}/{TIMELINES}"
        return [*(f"{below}/{name}" for name in self.lake.storage.folders(below)), below]


@dataclass
class _Released:
    giving: GivingBack

    def stage(self, *, held: bool) -> Publication:
        return self.giving.request()

    def overtaken(self, by: Conflict) -> Again:
        table = self.giving.table
        busy = f"Others keep publishing to {table}: {by.reasons[0]}."
        return Again(f"{table}: {by.reasons[0]}", LakehouseBusy(busy, hint="Stop them, then run this again."))
