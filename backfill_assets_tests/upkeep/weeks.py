"""Nine days in two weeks, of a chain of tables and its weekly report: the lakehouse of the tests of repairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime

from backfill_assets.days import Cadence, DayRange, TableDay
from backfill_assets.lakehouse import fingerprints
from backfill_assets.model.declaration import Reads, Step, Table, Version
from backfill_assets.upkeep.failed_checks import FailedWatch
from backfill_assets.upkeep.incidents import Incident, RepairAttempt
from backfill_assets.upkeep.trouble import StaleDay
from backfill_assets_tests.plan import world as plan_world
from backfill_assets_tests.plan.world import Anything, World
from backfill_assets_tests.upkeep.incident import incident

WEEKLY = Step(
    (Table("weekly", "report", "", Anything, key=()),),
    (Version("v2", "", (Reads("fact", partial=True),), dict),),
    current="v2",
    cadence=Cadence.WEEKLY,
)
STEPS = (*plan_world.STEPS, WEEKLY)
WEEK = DayRange.parse("2017-03-06..2017-03-12")
DAYS = DayRange.parse("2017-03-06..2017-03-14")
D, E, NEXT_WEEK = date(2017, 3, 7), date(2017, 3, 9), date(2017, 3, 13)
MONDAY = WEEK.first
ALL = ("raw_rates", "raw", "rates", "bronze", "quarantine", "fact", "revenue")

TWO_VERSIONS = tuple(
    replace(step, versions=(Version("v1", "", (Reads("bronze"), Reads("rates", -2, -1)), dict), *step.versions))
    if step.name == "fact"
    else step
    for step in STEPS
)
"""The old logic of the fact reads the rates of the days before, and not those of the day itself."""


def one_version_world() -> World:
    """Nine days of everything, in two weeks."""
    return plan_world.world_of(STEPS, DAYS)


def two_version_world() -> World:
    """The same nine days; the facts of the first week are of the old logic, and NEXT_WEEK's of the current one."""
    world = World({}, {}, {}, TWO_VERSIONS)
    for table in ALL:
        for day in DAYS:
            world.publish(table, day, code="v1" if table == "fact" and day in WEEK else "v2")
    for monday in (MONDAY, NEXT_WEEK):
        world.publish("weekly", monday)
    return world


def failed_watch(world: World, table: str, day: date) -> FailedWatch:
    state = world.states[TableDay(table, day)]
    return FailedWatch(table, day, state.publication, state.physical)


Incidents = dict[TableDay, list[Incident]]
Event = Callable[[World], None]
"""What happens in a world."""


def happened(world: World, *events: Event) -> World:
    for event in events:
        event(world)
    return world


def published(table: str, *days: date, checksum: str = "7", code: str = "v2", rows: int = 1) -> Event:
    def publish(world: World) -> None:
        for day in days:
            world.publish(table, day, checksum=checksum, code=code, rows=rows)

    return publish


def late(*days: date) -> Event:
    """Late rows of the source that sales are made of."""
    return published("raw", *days, checksum="8", rows=2)


def overwritten(table: str, *days: date) -> Event:
    """By a writer that knows nothing of publications."""

    def write(world: World) -> None:
        for day in days:
            world.write_past_the_protocol(table, day)

    return write


def withdrawn(table: str, day: date) -> Event:
    return lambda world: world.put(table, day, None, fingerprints.EMPTY_DAY)


def published_by(publication: str, table: str, *days: date) -> Event:
    """That publication is the newest one of these days."""

    def name(world: World) -> None:
        for key in (TableDay(table, day) for day in days):
            world.states[key] = replace(world.states[key], publication=publication)

    return name


def put_back_by(rollback: str, table: str, *days: date) -> Event:
    """A person has put these days back by that rollback."""

    def name(world: World) -> None:
        for key in (TableDay(table, day) for day in days):
            state = world.states[key]
            origin = replace(state.origin, put_back_by=rollback, rolled_back_by=rollback)
            world.states[key] = replace(state, publication=rollback, origin=origin)

    return name


def repaired(*troubles: StaleDay, times: int = 1, at: datetime = datetime(2017, 4, 1, tzinfo=UTC)) -> Incidents:
    """What is known after ``times`` repairs of ``troubles`` that changed nothing."""
    found: dict[TableDay, list[Incident]] = {}
    for each in troubles:
        attempt = RepairAttempt(id="r", at=at, ended=at, title="Repair", days={}, evidence={each.day: each.evidence})
        tried = incident(table=each.table, days=(each.day,), opened=at, attempts=(attempt,) * times)
        found[TableDay(each.table, each.day)] = [tried]
    return found
