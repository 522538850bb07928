"""A lakehouse over real sales with Dagster's own processes, in which faults happen.

Nobody waits for four o'clock: the run of the watchdogs' schedule is launched when they are to read. Seconds are upper
limits, as they have the load of whatever else the machine does.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from backfill_assets.defs.specs import VERIFY_TAG, VERSION_TAG
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets.state.diagnosis import Cause
from backfill_assets.upkeep.automation import SensorBook
from backfill_assets.upkeep.incidents import Incident, IncidentBook
from backfill_assets_tests.cli.command import Backfill, work_with
from backfill_assets_tests.stories import landed_truth
from backfill_assets_tests.stories.real_dagster import RealDagster
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE = 600.0
_HEAD = ("fault", "incident", "noticed", "told", "built", "closed", "equal")


@dataclass(frozen=True)
class Fault:
    """How it happens, the one incident that it is, and what a person does about it, if anybody does."""

    name: str
    happens: Callable[[], object]
    table: str
    cause: Cause
    tellings: int = 2
    """An opening and an end; none for what heals by itself and is only listed."""
    first: date | None = None
    """The first day of the incident, where others of the same table and cause are open at once."""
    person: Callable[[Incident], object] | None = None
    """Once the incident is told and waits."""

    @property
    def start_of_id(self) -> str:
        day = f"{self.first:%Y%m%d}-" if self.first else ""
        return f"{self.cause.value}-{self.table}-{day}".replace(" ", "-").replace("_", "-")

    def is_told_by(self, incident: Incident) -> bool:
        """By what it was opened for, or by what it turned out to be: the checks of a sensor come in any order."""
        found = (incident.cause, incident.table) == (self.cause, self.table)
        return incident.id.startswith(self.start_of_id) or (found and (not self.first or self.first in incident.days))


@dataclass
class _Course:
    """What became of a fault."""

    fault: Fault
    began: datetime
    incident: str = ""
    asked: bool = False


@dataclass
class Healing:
    """Where all is sound, and the processes that keep it so."""

    workshop: Workshop
    dagster: RealDagster
    instance: dg.DagsterInstance
    backfill: Backfill
    """What a person types."""
    to_land: Path
    """Days that have not landed yet."""
    rows: list[Sequence[object]] = field(default_factory=list)

    @property
    def landing(self) -> Path:
        return self.workshop.settings.landing

    @property
    def lakehouse(self) -> Path:
        return self.workshop.settings.lakehouse

    @property
    def book(self) -> IncidentBook:
        return IncidentBook(self.workshop.builder.lake.storage)

    @property
    def sensors(self) -> set[str]:
        """Those that have run to their end."""
        return {each.sensor for each in SensorBook(self.workshop.builder.lake.storage).all() if each.ended}

    def incidents(self, since: datetime) -> list[Incident]:
        return [each for each in (*self.book.open(), *self.book.closed_since(since)) if each.opened >= since]

    def wait_for(self, what: Callable[[], object], named: str) -> None:
        self.dagster.wait_for(what, named)

    def settles(self, named: str = "what follows") -> None:
        """Nothing runs, nothing is being repaired."""
        self.wait_for(self._is_settled, named)

    def _is_settled(self) -> bool:
        if [each for each in self.book.open() if each.state in ("repairing", "proving")]:
            return False
        return all(run.is_finished or run.job_name == "watchdogs" for run in self.instance.get_runs(limit=50))

    # ------------------------------------------------------------------ what happens

    def differences(self) -> list[str]:
        """Days of tables that do not hold what has landed."""
        return landed_truth.differences(self.lakehouse, self.landing)

    def land(self, *days: date) -> None:
        """All that the sources send of these days."""
        for day in days:
            for source in sorted(self.to_land.iterdir()):
                shutil.move(source / str(day), self.landing / source.name / str(day))

    def daily_job(self, *days: date) -> None:
        """As its schedule launches it, for all of ``days`` in one run; it has ended afterwards."""
        tags = {VERSION_TAG: AS_PUBLISHED, VERIFY_TAG: "extended days"}
        run = self.dagster.launch_days("daily_sales", str(min(days)), str(max(days)), tags)
        self._ended(run, f"the daily job of {', '.join(map(str, days))}")

    def watchdogs_read(self, *days: date) -> None:
        """As at four o'clock, all of ``days`` of all tables; they have read them afterwards."""
        self._ended(self.dagster.launch("watchdogs", "look", {"days": ",".join(map(str, days))}), "the watchdogs")

    def _ended(self, run: str, named: str) -> None:
        def is_over() -> bool:
            found = self.instance.get_run_by_id(run)
            return found is not None and found.is_finished

        self.wait_for(is_over, named)

    # ------------------------------------------------------------------ what comes of it

    def play(self, *faults: Fault, read: Collection[date] = ()) -> list[Incident]:
        """All of them at once, until each is over. One is one incident, told once as open and as over; no other is.

        Watchdogs ``read`` these days when all has happened.
        """
        since = datetime.now(UTC)
        courses = []
        for each in faults:
            courses.append(_Course(each, datetime.now(UTC)))
            each.happens()
        if read:
            self.watchdogs_read(*read)
        self.wait_for(lambda: self._are_over(courses, since), ", ".join(each.name for each in faults))
        self.settles()
        self.wait_for(lambda: not [each for each in self.book.open() if each.opened >= since], "the end of all")
        self.wait_for(lambda: self._has_sent(since), "the last notice")
        apart = self.differences()
        for course in courses:
            self.rows.append(self._row(course, apart))
        found = self.incidents(since)
        mine = [course.incident for course in courses]
        told = {each.id: self.told_of(each.id) for each in found}
        assert not apart
        assert {id for id, stages in told.items() if stages and id not in mine} == set(), told
        wanted = {course.incident: course.fault.tellings for course in courses}
        assert {id: len(told[id]) for id in mine} == wanted, told
        return [self.book.get(id) for id in mine]

    def _has_sent(self, since: datetime) -> bool:
        """Whatever is due has reached the place: a sensor of its own delivers."""
        return all({*each.told} <= {*self.told_of(each.id)} for each in self.incidents(since))

    def _are_over(self, courses: Collection[_Course], since: datetime) -> bool:
        over = [self._is_over(each, since) for each in courses]
        return all(over)

    def _is_over(self, course: _Course, since: datetime) -> bool:
        mine = [each for each in self.incidents(since) if course.fault.is_told_by(each)]
        if not mine:
            return False
        (incident,) = mine
        course.incident = incident.id
        person = course.fault.person
        if person and not course.asked and incident.state in ("person", "waiting") and incident.told:
            course.asked = True
            person(incident)
        return incident.closed is not None

    def _row(self, course: _Course, apart: Collection[str]) -> Sequence[object]:
        incident = self.book.get(course.incident)

        def after(moment: datetime | None) -> str:
            return f"{(moment - course.began).total_seconds():.0f}" if moment else "-"

        ended = [each.ended for each in incident.attempts if each.ended]
        told = " + ".join(self.told_of(incident.id)) or "listed"
        days = "no" if apart else "yes"
        noticed, built, closed = after(incident.opened), after(max(ended, default=None)), after(incident.closed)
        return course.fault.name, f"{incident.table}: {incident.cause}", noticed, told, built, closed, days

    def notices(self) -> list[dict[str, str]]:
        path = self.workshop.settings.home / "notices.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def told_of(self, incident: str) -> list[str]:
        """The stages at which people were told of it, each time they were."""
        keys = (each["key"] for each in self.notices())
        return [key.removeprefix(f"{incident}-") for key in keys if key.startswith(f"{incident}-")]

    def closes(self, reason: str) -> Callable[[Incident], object]:
        """A person closes it."""
        return lambda incident: self.backfill("incident", "close", incident.id, reason)

    def table(self) -> str:
        rows = [_HEAD, *([str(cell) for cell in row] for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = (" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
        titles = (f"  {each['title']}" for each in self.notices())
        return "\n".join(["", *lines, "told:", *titles])


def yesterday() -> date:
    return datetime.now(UTC).date() - timedelta(days=1)


def land_nothing(source: Path, day: date, came: datetime | None = None) -> None:
    """A file without lines. One of ``yesterday`` shows that the data goes on: partitions end with it."""
    path = source / str(day) / "nothing.jsonl.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(b""))
    if came:
        os.utime(path, times=(came.timestamp(), came.timestamp()))


@contextmanager
def healing(
    home: Path, sound: Path, url: str, spark: SparkSession, patch: pytest.MonkeyPatch, repairs: str = ""
) -> Iterator[Healing]:
    """On a copy of ``sound``, after the first look."""
    shutil.copytree(sound, home.parent, dirs_exist_ok=True)
    workshop = Workshop(home, lambda: spark)
    for source in sorted(workshop.settings.landing.iterdir()):
        land_nothing(source, yesterday())
    backfill = Backfill(home, patch)
    work_with(patch, workshop)
    variables = {
        "BACKFILL_HOME": str(home),
        "BACKFILL_NOTICES": f"file:{home / 'notices.jsonl'}",
        "BACKFILL_REPAIRS": f"pause=5,settle=2{repairs}",
        "SPARK_REMOTE": url,
    }
    dagster = RealDagster(workshop.settings, variables, patience=PATIENCE)
    began = time.monotonic()
    with dagster.processes(), dg.DagsterInstance.from_config(str(dagster.home)) as instance:
        found = Healing(workshop, dagster, instance, backfill, home.parent / "to-land")
        found.wait_for(lambda: found.sensors >= {"repairs", "dagster_shows_what_is"}, "the first look")
        found.settles("the first look")
        yield found
        print(f"{found.table()}\n{time.monotonic() - began:.0f} s")
