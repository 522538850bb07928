"""A builder without Spark that remembers what it published: the defs are tested against it, not against data."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from backfill_assets.days import DayRange
from backfill_assets.defs.resources import Backfill, SharedSpark
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.model.declaration import RuleOutcome, Step, Table
from backfill_assets.publish.closed_days import BookEntry
from backfill_assets.publish.log import PublicationLog
from backfill_assets.quality.gates import gates_of
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets.rebuild.outcome import BuildResult, BuiltDay, DaysFailed, RunInfo
from backfill_assets.settings import Settings
from backfill_assets.state.rolled_back import Undo, UndoIs
from backfill_assets.upkeep.watch import Watch, WatchedDay
from backfill_assets_tests.small_lakehouse import SmallLakehouse

WATCHED = DayRange.parse("2017-03-01..2017-03-03")
_BROKEN = RuleOutcome("content_as_published", "consistency", False, "6 rows", "7 rows", "Build it again.")


@dataclass
class FakeBuilder(Builder):
    """Publishes every requested day with as many rows as the day of the month, unless it is to fail."""

    failing: Mapping[str, Sequence[date]] = field(default_factory=dict)
    late: Mapping[str, tuple[date, ...]] = field(default_factory=dict)
    published: dict[tuple[str, date], BuiltDay] = field(default_factory=dict)
    runs: list[RunInfo] = field(default_factory=list)
    versions: list[str | None] = field(default_factory=list)
    log: PublicationLog | None = None
    watch: Watch | None = None
    rolled_back: Mapping[tuple[str, date], str] = field(default_factory=dict)
    """The rollback that a day was published by before."""
    held: Mapping[tuple[str, date], bool] = field(default_factory=dict)
    """Days that a repair leaves to the rollback ``undo``, and whether it has left something of them."""
    closed: Mapping[date, bool] = field(default_factory=dict)
    """Days that are closed, and whether they were built before."""

    def build(
        self,
        step: Step,
        days: Sequence[date],
        *,
        run: RunInfo,
        version: str | None = None,
        force: bool = False,
        repairs: bool = False,
        progress: Callable[[str], None] = print,
        **_: Any,
    ) -> BuildResult:
        self.runs.append(run)
        self.versions.append(version)
        if step.versions and version != AS_PUBLISHED:
            step.version(version)
        progress(f"{step.name}: {len(days)}/{len(days)} days staged")
        built = [self._built(table, day, force, repairs) for table in step.tables for day in days]
        failed = tuple(replace(day, publication="") for day in built if not all(rule.passed for rule in day.rules))
        if failed:
            raise DaysFailed(failed, staged=len(days) - len({day.day for day in failed}))
        self.published |= {(day.table, day.day): day for day in built}
        return BuildResult(
            tuple(built), (f"publication-of-{step.name}",), {t.name: self.late.get(t.name, ()) for t in step.tables}
        )

    def staged(self, table: Table, day: date) -> BuiltDay:
        rules = [rule.name for rule in gates_of(table)]
        return built_day(table.name, day, passed=day not in self.failing.get(table.name, ()), rules=rules)

    def _built(self, table: Table, day: date, force: bool, repairs: bool) -> BuiltDay:
        if repairs and (is_there := self.held.get((table.name, day))) is not None:
            left = replace(self.staged(table, day), publication="undo", reused=True, rules=(), is_there=is_there)
            return replace(left, held_by=Undo("undo", UndoIs.HELD))
        if (was_built := self.closed.get(day)) is not None:
            by = "publication" if was_built else ""
            left = replace(self.staged(table, day), publication=by, reused=True, rules=(), is_there=was_built)
            return replace(left, closed_by=CLOSING)
        earlier = self.published.get((table.name, day))
        if earlier and not force:
            return replace(earlier, reused=True, rules=())
        return replace(self.staged(table, day), rolled_back_by=self.rolled_back.get((table.name, day), ""))


CLOSING = BookEntry(
    id="c",
    word="close",
    first=date(2017, 3, 1),
    last=date(2017, 3, 31),
    by="ana",
    reason="reported",
    at=datetime(2017, 5, 2, tzinfo=UTC),
)


class FakeBackfill(Backfill):
    """The resource ``backfill`` over one :class:`FakeBuilder`."""

    fake: dg.ResourceDependency[FakeBuilder]

    def builder(self, spark: SharedSpark | None = None) -> FakeBuilder:
        return self.fake

    def publications(self) -> PublicationLog | None:
        return self.fake.log

    def watch(self) -> Watch | None:
        return self.fake.watch


@dataclass
class FakeWatch(Watch):
    """Finds ``wrong`` days of every table, and remembers what it was asked to look at."""

    wrong: Sequence[date] = ()
    looked: list[tuple[str, date]] = field(default_factory=list)

    def look(self, tables: Sequence[Table], days: Iterable[date]) -> list[WatchedDay]:
        asked = [(table.name, day) for table in tables for day in days]
        self.looked += asked
        return [self._day(table, day) for table, day in asked if day in WATCHED]

    def _day(self, table: str, day: date) -> WatchedDay:
        return WatchedDay(table, day, "p1", "files", 7, (replace(_BROKEN, passed=day not in self.wrong),))


def fake_watch(lakehouse: SmallLakehouse, wrong: Sequence[date] = ()) -> FakeWatch:
    """Raises when it asks for Spark."""
    return FakeWatch(CATALOG, lakehouse.storage, lakehouse.publisher.log, pytest.fail, wrong=wrong)


def fake_resources(fake: FakeBuilder, home: Path = Path("nowhere"), *, automation: bool = True) -> dict[str, Any]:
    """``home`` has the lakehouse and the landing zone; the builder decides what is built, published and watched."""
    settings = replace(Settings.at(home), automation=automation, repairs="pause=0,settle=0")
    return resources_of(settings, FakeBackfill, fake=fake)


def resources_of(settings: Settings, kind: type[Backfill] = Backfill, **more: Any) -> dict[str, Any]:
    """As a code location has them."""
    spark = SharedSpark(settings=settings)
    return {
        "backfill_spark": spark,
        "backfill": kind(settings=settings, catalog=CATALOG, spark=spark, **more),
    }


def built_day(table: str, day: date, *, passed: bool = True, rules: Sequence[str] = ("contract_holds",)) -> BuiltDay:
    """Its last rule is broken unless it ``passed``."""
    return BuiltDay(
        table=table,
        day=day,
        rows=day.day,
        checksum=f"sum-{day}",
        publication=f"publication-of-{table}",
        table_version=1,
        code_version="v2",
        reused=False,
        input_fingerprint="fingerprint",
        inputs={"upstream": 1},
        metrics={"received": day.day, "quarantined": 0},
        rules=tuple(_rule(name, passed=passed or name != rules[-1]) for name in rules),
        bytes=100,
        files=1,
        seconds=0.01,
    )


def _rule(name: str, *, passed: bool) -> RuleOutcome:
    return RuleOutcome(
        rule=name,
        dimension="completeness",
        passed=passed,
        observed="7 rows" if passed else "6 rows",
        expected="7 rows",
        next_step="Look at the quarantine of that day.",
    )
