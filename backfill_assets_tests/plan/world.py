"""Lakehouses for the tests of plans, as their logs show them: a chain of tables, and one with weeks and months."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache

from pyspark.sql import types as T

from backfill_assets.days import Cadence, DayRange, TableDay
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.records import DayContent, DayState, logical_of
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.declaration import Reads, Source, Step, Table, Version
from backfill_assets.plan.records import Plan, PlanRequest
from backfill_assets.plan.situation import PlanContext
from backfill_assets.publish.closed_days import BookEntry
from backfill_assets.rebuild import decide
from backfill_assets.state.diagnosis import Cause
from backfill_assets.state.observed import LogView
from backfill_assets.state.status import day_statuses

D = date(2017, 3, 8)
"""A Wednesday."""


class Anything(Contract):
    day: T.DateType = Field()


def a_step(*tables: str, reads: tuple[Reads, ...] = (), source: bool = False) -> Step:
    declared = tuple(Table(name, "fact", "", Anything, key=()) for name in tables)
    if source:
        return Step(declared, source=Source(tables[0], "day", (), "updated_at", ("day",)))
    return Step(declared, (Version("v2", "", reads, dict),), current="v2")


STEPS = (
    a_step("raw_rates", source=True),
    a_step("raw", source=True),
    a_step("rates", reads=(Reads("raw_rates"),)),
    a_step("bronze", "quarantine", reads=(Reads("raw"),)),
    a_step("fact", reads=(Reads("bronze"), Reads("rates", -2, 0))),
    a_step("revenue", reads=(Reads("fact"),)),
)
TABLES = [table.name for step in STEPS for table in step.tables]


@dataclass
class World:
    """A lakehouse as the logs show it, built step by step by what a correct builder would publish."""

    states: dict[TableDay, DayState]
    newest: dict[str, dict[date, str]]
    pinned: dict[str, dict[date, str]]
    steps: tuple[Step, ...] = STEPS
    closings: tuple[BookEntry, ...] = ()

    def observed(self) -> LogView:
        return LogView(self.states, self.newest, self.pinned, closings=self.closings)

    def close(self, first: date, last: date, table: str = "") -> None:
        at = datetime(2017, 5, 2, tzinfo=UTC)
        entry = BookEntry(id="c", word="close", table=table, first=first, last=last, by="ana", reason="reported", at=at)
        self.closings = (*self.closings, entry)

    def publish(self, table: str, day: date, *, checksum: str = "7", code: str = "v2", rows: int = 1) -> None:
        physical = fingerprints.physical([f"{table}/{day}/{checksum}/{code}"]) if rows else fingerprints.EMPTY_DAY
        content = DayContent(rows=rows, checksum=checksum, code_version=code, inputs=self._inputs(table, day, code))
        self.put(table, day, content, physical)

    def put(self, table: str, day: date, content: DayContent | None, physical: str) -> None:
        self.states[TableDay(table, day)] = DayState(
            table=table, day=day, publication="p", sequence=1, physical=physical, content=content
        )
        for files in (self.newest, self.pinned):
            files.setdefault(table, {})[day] = physical
            if physical == fingerprints.EMPTY_DAY:
                del files[table][day]

    def forget(self, table: str, *days: date) -> None:
        """As if they had never been published."""
        for day in days:
            del self.states[TableDay(table, day)], self.newest[table][day], self.pinned[table][day]

    def copy(self) -> World:
        newest, pinned = ({table: dict(days) for table, days in each.items()} for each in (self.newest, self.pinned))
        return World(dict(self.states), newest, pinned, self.steps, self.closings)

    def write_past_the_protocol(self, table: str, day: date) -> None:
        self.newest.setdefault(table, {})[day] = "another writer's files"

    def _inputs(self, table: str, day: date, code: str) -> str:
        """By the decision that a build makes: status has its own, faster one, and they must agree."""
        step = next(step for step in self.steps if table in [t.name for t in step.tables])
        if step.source:
            return ""
        version = next((version for version in step.versions if version.name == code), step.version())
        needed = decide.read_days(step, version, [day])
        logicals = {
            read: {
                d: logical_of(
                    self.states.get(TableDay(read, d)), self.pinned.get(read, {}).get(d, fingerprints.EMPTY_DAY)
                )
                for d in days
            }
            for read, days in needed.items()
        }
        return decide.wanted(step, version, [day], logicals)[day].inputs

    def statuses(self, day: date) -> dict[str, Cause | None]:
        found = day_statuses(STEPS, self.observed(), DayRange.of(day))
        return {table: by_day[day] for table, by_day in found.items()}


# ------------------------------------------------------------------ a chain with weeks and months

WINDOW = DayRange.parse("2017-02-20..2017-04-09")
"""From a Monday to a Sunday; all of it is published."""
V1, V2 = (
    Version("v1", "", (Reads("bronze"), Reads("rates", -3, -1)), dict),
    Version("v2", "", (Reads("bronze"), Reads("rates", -2, 0)), dict),
)


def a_report(name: str, *reads: Reads, cadence: Cadence = Cadence.DAILY) -> Step:
    return Step((Table(name, "fact", "", Anything, key=()),), (Version("v2", "", reads, dict),), "v2", cadence=cadence)


PIPELINE = (
    a_step("raw_rates", source=True),
    a_step("raw", source=True),
    a_step("rates", reads=(Reads("raw_rates"),)),
    a_step("bronze", "quarantine", reads=(Reads("raw"),)),
    Step((Table("fact", "fact", "", Anything, key=()),), (V1, V2), "v2"),
    a_report("daily", Reads("fact")),
    a_report("weekly", Reads("fact", partial=True), cadence=Cadence.WEEKLY),
    a_report("monthly", Reads("daily", partial=True), cadence=Cadence.MONTHLY),
)


def world_of(steps: Sequence[Step] = PIPELINE, window: DayRange = WINDOW) -> World:
    """Everything published, from what it reads, in order: all of it is fresh."""
    return _built_once(window).copy() if steps is PIPELINE else _built(steps, window)


@cache
def _built_once(window: DayRange) -> World:
    return _built(PIPELINE, window)


def _built(steps: Sequence[Step], window: DayRange) -> World:
    world = World({}, {}, {}, tuple(steps))
    for step in steps:
        for table in step.tables:
            for day in step.cadence.starts(window):
                world.publish(table.name, day)
    return world


def noon_of(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, 12, tzinfo=UTC)


def situation_of(world: World, **more: object) -> PlanContext:
    """``today``, of which it is noon; or ``now``."""
    today = more.pop("today", WINDOW.last + timedelta(days=1))
    assert isinstance(today, date)
    known: dict[str, object] = {"begins": WINDOW.first, "now": noon_of(today), **more}
    return PlanContext(steps=world.steps, observed=world.observed(), **known)  # type: ignore[arg-type]


def asked(target: str, days: str = str(D), **more: object) -> PlanRequest:
    return PlanRequest(target=target, days=days, **more)  # type: ignore[arg-type]


def whys(plan: Plan) -> dict[str, dict[str, Cause]]:
    """Why each day is rebuilt, by step, of the steps that have any."""
    return {step.name: {str(day): why for day, why in step.why.items()} for step in plan.steps if step.rebuild}
