"""Faults of all causes as they come and go, and what a person on call should hear of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta

from backfill_assets.days import TableDay
from backfill_assets.model.deletion import DELETED
from backfill_assets.model.lateness import LATE_ROWS, Lateness
from backfill_assets.upkeep.failed_checks import HeldByStream, NotRun
from backfill_assets.upkeep.incidents import Incident
from backfill_assets_tests.upkeep.healing import WITH_RAW, Life
from backfill_assets_tests.upkeep.weeks import put_back_by

Event = Callable[[Life, date], object]
A_DAY = timedelta(days=1)


def nothing(life: Life, day: date) -> None:
    """It is put right without a person."""


@dataclass(frozen=True)
class Fault:
    """How it begins, how a person ends it, and the incidents that it is, by the beginning of their ids."""

    begins: Event
    told: tuple[str, ...] = ()
    """Those of which a person hears: that it is open, and that it is over."""
    listed: tuple[str, ...] = ()
    """Those that heal by themselves and are only listed."""
    ends: Event = nothing
    days: int = 1
    """The days from the first one on that it is about."""

    @property
    def incidents(self) -> tuple[str, ...]:
        return (*self.told, *self.listed)


def _rows(life: Life, day: date, **metrics: int) -> None:
    """Others than there were; with what was counted of them."""
    key = TableDay("raw", day)
    life.world.metrics[key] = metrics
    life.world.publish("raw", day, checksum=str(life.world.sequence), rows=2)


def _publish(table: str) -> Event:
    return lambda life, day: life.world.publish(table, day, checksum=str(life.world.sequence + 1_000))


def _foreign(table: str) -> Event:
    return lambda life, day: life.world.write_past_the_protocol(table, day)


def _put_back(table: str) -> Event:
    def put_back(life: Life, day: date) -> None:
        life.world.newest[table][day] = life.world.states[TableDay(table, day)].physical

    return put_back


def _damaged(table: str, *, lost: bool = False) -> Event:
    return lambda life, day: life.damage(TableDay(table, day), lost=lost)


def _forget(*tables: str, days: int = 1) -> Event:
    def forget(life: Life, day: date) -> None:
        for table in tables:
            life.world.forget(table, *(day + n * A_DAY for n in range(days)))

    return forget


def _both(*events: Event) -> Event:
    def happen(life: Life, day: date) -> None:
        for event in events:
            event(life, day)

    return happen


def _says(check: str, words: str, table: str = "raw", after: int = 0) -> Event:
    def say(life: Life, day: date) -> None:
        life.suspicions.setdefault(TableDay(table, day + after * A_DAY), {})[check] = words.replace("DAY", str(day))

    return say


def _fine(days: int = 1) -> Event:
    def fine(life: Life, day: date) -> None:
        for key in [each for each in life.suspicions if day <= each.day < day + days * A_DAY]:
            del life.suspicions[key]

    return fine


def _dies(life: Life, day: date) -> None:
    life.world.forget("revenue", day)
    life.not_run[TableDay("revenue", day)] = NotRun("a run")
    life.flaky[TableDay("revenue", day)] = 1


def _bad(life: Life, day: date) -> None:
    life.bad.add(TableDay("bronze", day))


def _good(life: Life, day: date) -> None:
    """The source sends what was wrong again."""
    life.bad.discard(TableDay("bronze", day))
    _rows(life, day)


def _held_by_stream(life: Life, day: date) -> None:
    """It goes on reading into raw."""
    _rows(life, day)
    key = TableDay("bronze", day)
    life.streamed[key] = HeldByStream(
        "", 60, life.now, f"backfill raw release bronze {day}", evidence=f"{day} {life.now}"
    )


def _released(life: Life, day: date) -> None:
    """A person publishes the day without its rejected rows, and the stream lets it follow from then on."""
    del life.streamed[TableDay("bronze", day)]
    _built_by_hand(life, day)


def _too_late(life: Life, day: date) -> None:
    asks = Lateness(7, "ask")
    life.steps = tuple(replace(step, lateness=asks) if step.name == "raw" else step for step in life.steps)
    _rows(life, day, **{LATE_ROWS: 3})


def _disagrees(life: Life, day: date) -> None:
    life.disagreeing.add(TableDay("revenue", day))
    life.four_o_clock()


def _agrees(life: Life, day: date) -> None:
    life.disagreeing.discard(TableDay("revenue", day))
    life.four_o_clock()


def _gone_version(life: Life, day: date) -> None:
    life.world.publish("fact", day, code="v0")
    life.world.write_past_the_protocol("fact", day)


def _built_by_hand(life: Life, day: date) -> None:
    """A person launches the day, and all that is made of it."""
    monday = day - day.weekday() * A_DAY
    for table in ("bronze", "quarantine", "fact", "revenue"):
        life.world.build(table, day)
    life.world.build("weekly", monday)


def _rolled_back(life: Life, day: date) -> None:
    """A person puts the day of the fact back, and its input is newer since."""
    life.world.publish("bronze", day, checksum=str(life.world.sequence))
    put_back_by("undo", "fact", day)(life.world)


def _undone_with_raw(life: Life, day: date) -> None:
    """It withdrew rows of raw as well, and its inputs have changed since."""
    life.world.publish("bronze", day, checksum=str(life.world.sequence))
    put_back_by(WITH_RAW, "fact", day)(life.world)


def _rolled_forward(life: Life, day: date) -> None:
    _built_by_hand(life, day)


def _four_o_clock(life: Life, day: date) -> None:
    life.four_o_clock()


TYPED = "as_declared: expected fields, observed price is of another type: 9 of 9 rows (100 %) on DAY -> Ask."
HALF = "as_usual: expected 3,500 to 4,300 (median 3,900 of 8 Fridays), observed rows 1,950 -> Compare."
DOUBLED = "as_usual: expected 3,500 to 4,300 (median 3,900 of 8 Fridays), observed rows 7,800 -> Compare."
EMPTY = "as_usual: expected rows, as on each of the 8 Fridays before, observed no rows -> Compare."

FAULTS: Mapping[str, Fault] = {
    "late rows": Fault(_rows, listed=("late-rows-bronze",)),
    "rows corrected": Fault(lambda life, day: _rows(life, day, **{DELETED: 1}), listed=("rows-corrected-bronze",)),
    "reference data": Fault(_publish("rates"), listed=("reference-data-changed-fact",), days=3),
    "input rebuilt": Fault(_publish("fact"), listed=("input-changed-revenue", "input-changed-weekly")),
    "never built": Fault(_forget("revenue"), listed=("missing-revenue",)),
    "foreign write": Fault(_foreign("fact"), ("foreign-write-fact",)),
    "foreign write, and watchdogs read": Fault(_both(_foreign("fact"), _four_o_clock), ("foreign-write-fact",)),
    "files lost": Fault(_damaged("bronze", lost=True), ("files-lost-bronze",)),
    "content": Fault(_damaged("revenue"), ("content-not-as-published-revenue",)),
    "raw lost": Fault(_damaged("raw", lost=True), ("raw-lost-files-raw",)),
    "raw overwritten": Fault(_foreign("raw"), ("foreign-write-to-raw-raw",), ends=_put_back("raw")),
    "run died": Fault(_dies, ("run-failed-revenue",)),
    "held back": Fault(_both(_bad, _rows), ("late-rows-bronze",), ends=_good),
    "held back from a stream": Fault(_held_by_stream, ("held-back-bronze",), ends=_released),
    "neighbours failed": Fault(
        _both(_bad, _forget("bronze", "quarantine", days=2)),
        ("missing-bronze",),
        ("input-changed-fact",),
        ends=_good,
        days=2,
    ),
    "too late": Fault(_too_late, ("too-late-by-declaration-bronze",), ends=_built_by_hand),
    "disagrees": Fault(_disagrees, ("tables-disagree-revenue",), ends=_agrees),
    "version gone": Fault(
        _gone_version,
        ("foreign-write-fact",),
        ("input-changed-revenue", "input-changed-weekly"),
        ends=_built_by_hand,
    ),
    "half a day": Fault(_says("as_usual", HALF), ("unusual-figures-raw",), ends=_fine()),
    "half, empty and doubled": Fault(
        _both(_says("as_usual", HALF), _says("as_usual", EMPTY, after=1), _says("as_usual", DOUBLED, after=2)),
        ("unusual-figures-raw",) * 3,
        ends=_fine(3),
        days=3,
    ),
    "nothing landed": Fault(
        _says("delivered", "expected by DAY 04:00 UTC, observed nothing landed"),
        ("delivery-incomplete-raw",),
        ends=_fine(),
    ),
    "overdue": Fault(
        _says("delivered_as_usual", "expected by DAY 04:00 UTC, observed nothing landed"),
        ("delivery-overdue-raw",),
        ends=_fine(),
    ),
    "less than sent": Fault(
        _both(_says("as_sent", "expected rows 9, observed rows 8"), _says("as_usual", HALF)),
        ("delivery-incomplete-raw",),
        ends=_fine(),
    ),
    "fields changed": Fault(_says("as_declared", TYPED), ("fields-changed-raw",), ends=_fine()),
    "all in euros": Fault(
        _both(
            _says("as_declared", TYPED),
            _says("as_usual", DOUBLED),
            _says("as_usual", HALF, "bronze"),
            _says("as_usual", HALF, "fact"),
            _bad,
            _rows,
        ),
        ("fields-changed-raw",),
        ("late-rows-bronze", "late-rows-bronze"),
        ends=_both(_fine(), _good),
    ),
    "fields changed for days": Fault(
        _both(*(_says("as_declared", TYPED, after=n) for n in range(3))), ("fields-changed-raw",), ends=_fine(3), days=3
    ),
    "undone with raw": Fault(_undone_with_raw, ("undone-with-rows-of-raw-fact",), ends=_rolled_forward),
    "rolled back": Fault(_rolled_back, ends=_rolled_forward),
}
"""By name. A first build is none either, and has a life of its own."""


def beginning_of(incident: Incident) -> str:
    """The cause that it was opened for, and its table."""
    return incident.id.rsplit("-", 2)[0]
