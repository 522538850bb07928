"""The health of sensors, told without the sensor ``repairs``.

The second failure in a row opens an incident, the next success closes it. A document is written when failing begins
or ends, else once a minute.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta

from backfill_assets.lakehouse.document import Documents
from backfill_assets.lakehouse.records import Record
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.state.diagnosis import Cause, diagnose
from backfill_assets.text import format_count
from backfill_assets.upkeep.heal import tell
from backfill_assets.upkeep.incidents import Happened, Incident, IncidentBook, incident_id

_TOLD_FROM = 2
"""A single failure may come from a restart of the daemon."""
_WRITTEN_EVERY = timedelta(minutes=1)
_LATE_AFTER, _LATE_TICKS = timedelta(minutes=5), 5
_LONGEST_ERROR = 200
_IS_IT_RUNNING = "is dagster-daemon running?"


class SensorTicks(Record):
    sensor: str
    every_seconds: int
    ended: datetime | None = None
    failed: int = 0
    error: str = ""
    next_step: str = ""
    incident: str = ""

    @property
    def is_failing(self) -> bool:
        return self.failed >= _TOLD_FROM

    def after_end(self, now: datetime) -> SensorTicks:
        return self.model_copy(update={"ended": now, "failed": 0, "error": "", "next_step": "", "incident": ""})

    def after_failure(self, error: str, next_step: str) -> SensorTicks:
        line = " ".join(error.split())[:_LONGEST_ERROR]
        return self.model_copy(update={"failed": self.failed + 1, "error": line, "next_step": next_step})

    def is_late(self, now: datetime) -> bool:
        allowed = max(_LATE_AFTER, _LATE_TICKS * timedelta(seconds=self.every_seconds))
        return self.ended is None or now - self.ended > allowed

    def trouble(self, now: datetime) -> str:
        if self.is_failing:
            return f"the sensor {self.sensor} failed {format_count(self.failed, 'time')} in a row: {self.error}"
        if self.ended is None:
            return f"the sensor {self.sensor} never ran to its end: {_IS_IT_RUNNING}"
        if not self.is_late(now):
            return ""
        return f"the sensor {self.sensor} last ran to its end {_span(now - self.ended)} ago: {_IS_IT_RUNNING}"


def _span(time: timedelta) -> str:
    minutes = int(time.total_seconds() // 60)
    for noun, length in (("day", 24 * 60), ("hour", 60)):
        if minutes >= 2 * length:
            return format_count(minutes // length, noun)
    return format_count(minutes, "minute")


def all_is_well(known: Iterable[SensorTicks], expected: Iterable[str], now: datetime) -> bool:
    found = {each.sensor: each for each in known}
    return all(name in found and not found[name].failed and not found[name].is_late(now) for name in expected)


class SensorBook:
    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._ticks = Documents(storage, "_sensors", SensorTicks, "Remove the file: the sensor's next tick writes it.")

    def all(self) -> list[SensorTicks]:
        return list(self._ticks.readable())

    def troubles(self, now: datetime, without: Iterable[str] = ()) -> Iterator[str]:
        left_out = set(without)
        yield from filter(None, (each.trouble(now) for each in self.all() if each.sensor not in left_out))

    def note_end(self, sensor: str, every_seconds: int, now: datetime) -> None:
        before = self._of(sensor, every_seconds)
        if not before.failed and before.ended and now - before.ended < _WRITTEN_EVERY:
            return
        for each in self._open(sensor) if before.failed else ():
            self._close(each, now, f"{sensor} ran to its end again")
        self._ticks.replace(sensor, before.after_end(now))

    def note_failure(self, sensor: str, every_seconds: int, now: datetime, error: str, next_step: str) -> bool:
        """Whether to tell this failure now: once, also if a person closed it, until the next success."""
        after = self._of(sensor, every_seconds).after_failure(error, next_step)
        if is_new := after.is_failing and not after.incident:
            opened = next(iter(self._open(sensor)), None) or self._opened(after, now)
            IncidentBook(self.storage).write(tell(self.storage, opened))
            after = after.model_copy(update={"incident": opened.id})
        closings = IncidentBook(self.storage).closings() if after.incident else {}
        for each in self._open(sensor) if after.incident in closings else ():
            said = closings[after.incident]
            self._close(each, now, f"closed by {said.by}: {said.reason}")
        self._ticks.replace(sensor, after)
        return is_new

    def _of(self, sensor: str, every_seconds: int) -> SensorTicks:
        known = next((each for each in self.all() if each.sensor == sensor), None)
        fresh = SensorTicks(sensor=sensor, every_seconds=every_seconds)
        return known.model_copy(update={"every_seconds": every_seconds}) if known else fresh

    def _open(self, sensor: str) -> list[Incident]:
        found = IncidentBook(self.storage).open()
        return [each for each in found if (each.table, each.cause) == (sensor, Cause.AUTOMATION)]

    def _opened(self, ticks: SensorTicks, now: datetime) -> Incident:
        book, today, words = IncidentBook(self.storage), now.date(), ticks.trouble(now)
        found = diagnose({Cause.AUTOMATION: words})
        new = Incident(
            id=_id(book, ticks.sensor, today),
            table=ticks.sensor,
            cause=found.cause,
            severity=found.severity,
            confidence=str(found.confidence),
            days=(today,),
            words=found.words,
            next_step=ticks.next_step or f"look at the newest tick of {ticks.sensor} under Automation in Dagster's UI",
            state="person",
            opened=now,
            history=(Happened(at=now, words=f"opened: {found.words}"),),
        )
        book.write(new)
        return new

    def _close(self, incident: Incident, now: datetime, outcome: str) -> None:
        over = incident.then(now, outcome, state="closed", closed=now, outcome=outcome, next_step="")
        # A closed one is not looked at again: what is told of it comes first.
        IncidentBook(self.storage).write(tell(self.storage, over))


def _id(book: IncidentBook, sensor: str, today: date) -> str:
    return incident_id(sensor, Cause.AUTOMATION, today, book.free_number(sensor, Cause.AUTOMATION, today))
