"""On call: what a person hears of faults of all causes, alone, over a week at one look a minute, and in any order."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backfill_assets.days import DayRange
from backfill_assets.upkeep.findings import PENDING, saying
from backfill_assets.upkeep.incidents import Incident
from backfill_assets_tests.simulator.delta import lake_in_memory
from backfill_assets_tests.simulator.store import SimulatedStorage
from backfill_assets_tests.strategies.how_many import drawn
from backfill_assets_tests.upkeep.failing_places import ROUTES, Post, in_turn
from backfill_assets_tests.upkeep.healing import WEEKS, Lakehouse, Life, sound
from backfill_assets_tests.upkeep.on_call import A_DAY, FAULTS, Fault, beginning_of

pytestmark = pytest.mark.data
A_MINUTE, TICKS_A_DAY, FOUR_O_CLOCK = timedelta(minutes=1), 1440, 240
RUNS_EVERY, AFTERWARDS = 4, 40
"""Backfills end at each fourth look; in so many after the last fault, each place is tried again."""


@cache
def _sound_weeks() -> Lakehouse:
    return sound(WEEKS)


@pytest.fixture
def weeks() -> Lakehouse:
    return _sound_weeks()


def look(life: Life, number: int, post: Post | None = None) -> None:
    life.tick()
    if post is not None:
        post.look()
    if number % RUNS_EVERY == RUNS_EVERY - 1:
        life.run_backfills()
    if number % TICKS_A_DAY == FOUR_O_CLOCK:
        life.four_o_clock()
    life.now += A_MINUTE


def incidents_of(life: Life) -> list[Incident]:
    return [*life.book.open(), *life.closed()]


def check_what_was_told(life: Life, faults: Sequence[Fault]) -> tuple[list[Incident], dict[str, str]]:
    """Incidents are causes, and each of which a person heard is told as open and as over, once."""
    found = incidents_of(life)
    told = life.told_of(found)
    assert [each for each in found if not each.closed] == []
    wanted = Counter(each for fault in faults for each in fault.incidents)
    assert Counter(map(beginning_of, found)) == wanted
    heard = [each for each in found if told[each.id]]
    assert Counter(map(beginning_of, heard)) == Counter(each for fault in faults for each in fault.told)
    assert {told[each.id] for each in heard} <= {"opened closed", "given-up closed"}
    return found, told


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_alone_is_its_incidents_and_each_is_told_as_open_and_as_over(
    weeks: Lakehouse, memory: SimulatedStorage, name: str
) -> None:
    life, fault, day = Life.beginning(memory, weeks), FAULTS[name], date(2017, 1, 11)
    fault.begins(life, day)
    for number in range(24):
        look(life, number)
    fault.ends(life, day)
    for number in range(24):
        look(life, number)
    check_what_was_told(life, [fault])


# ------------------------------------------------------------------ a week


@dataclass(frozen=True)
class Placed:
    """A fault that happens at a minute on a day, and what a person does about it later."""

    name: str
    minute: int
    until: int
    day: date

    @property
    def fault(self) -> Fault:
        return FAULTS[self.name]

    def meets(self, other: Placed) -> bool:
        """Would one be taken for the other? Of the same kind at about the same time, or about the same days."""
        if {self.name, other.name} <= _NEVER_BUILT and abs((self.day - other.day).days) < 2:
            return True  # A day that was built once is never again one that never was.
        if self.until + _APART < other.minute or other.until + _APART < self.minute:
            return False
        if set(self.fault.incidents) & set(other.fault.incidents):
            return True
        is_near = abs((self.day - other.day).days) < _DAYS_APART
        return is_near and not any(a.name in _OF_FILES and b.name in _OF_SOURCES for a, b in _both_ways(self, other))


_APART, _DAYS_APART = 60, 4
"""Minutes from the end of one to the beginning of another of its kind, and days between two at one time."""
_NEVER_BUILT = {"never built", "run died", "neighbours failed"}
_OF_FILES = {"foreign write", "foreign write, and watchdogs read", "files lost", "content"}
_OF_SOURCES = {"half a day", "nothing landed", "less than sent", "fields changed", "fields changed for days"}
"""These may come at once on one day: they are two causes wherever they meet."""


def _both_ways(one: Placed, other: Placed) -> Iterator[tuple[Placed, Placed]]:
    yield from ((one, other), (other, one))


def placed(seed: int, minutes: int, count: int) -> list[Placed]:
    """Each of all faults, and some of them again; most of them overlap others."""
    chance, found = random.Random(seed), list[Placed]()
    again = chance.sample(list(FAULTS), max(0, count - len(FAULTS)))
    names = chance.sample([*FAULTS, *again], count)
    days = list(DayRange(WEEKS.first + 2 * A_DAY, WEEKS.last - 4 * A_DAY))
    for name in names:
        tried = (_anywhere(chance, name, minutes, days) for _ in range(10_000))
        found.append(next(each for each in tried if not any(each.meets(other) for other in found)))
    return sorted(found, key=lambda each: each.minute)


def _anywhere(chance: random.Random, name: str, minutes: int, days: Sequence[date]) -> Placed:
    minute = chance.randrange(minutes - 240)
    return Placed(name, minute, minute + chance.randrange(40, 150), chance.choice(days))


def _overlapping(faults: Sequence[Placed]) -> int:
    return sum(any(a.minute < b.until and b.minute < a.until for b in faults if b is not a) for a in faults)


@pytest.mark.parametrize(
    ("minutes", "count"),
    [(TICKS_A_DAY // 2, 13), pytest.param(7 * TICKS_A_DAY, 40, marks=[pytest.mark.long, pytest.mark.timeout(900)])],
    ids=["half a day", "a week"],
)
def test_a_week_on_call(weeks: Lakehouse, memory: SimulatedStorage, minutes: int, count: int) -> None:
    """One look a minute: incidents are causes, tellings are openings and closings, none is wrong, none is left open.

    Each way of being told fails in turn: each place that works has each telling at once, once and in order.
    """
    life, faults = Life.beginning(memory, weeks), placed(7, minutes, count)
    post = Post(life, in_turn(life.now, minutes))
    for number in range(minutes):
        for each in faults:
            if number == each.minute:
                each.fault.begins(life, each.day)
            if number == each.until:
                each.fault.ends(life, each.day)
        look(life, number, post)
    for number in range(AFTERWARDS):
        look(life, number, post)
    found, told = check_what_was_told(life, [each.fault for each in faults])
    post.check(told)
    heard = sum(bool(stages) for stages in told.values())
    tellings = sum(len(stages.split()) for stages in told.values())
    print(
        f"\n{minutes:,} looks, {len(faults)} faults, {_overlapping(faults)} of them overlapping others: "
        f"{len(found)} incidents, {heard} told, {tellings} tellings, {len(life.launched)} backfills, 0 open; of these "
        f"each place had {', '.join(str(len(post.got[route.name])) for route in ROUTES)}, {len(post.again)} twice"
    )


# ------------------------------------------------------------------ in any order


@dataclass
class Shift:
    """Faults that come, go and overlap anywhere, with all that is heard meanwhile."""

    life: Life
    number: int = 0
    going: dict[tuple[str, date], int] = field(default_factory=dict)
    heard: list[tuple[int, str, Incident]] = field(default_factory=list)
    """At which look, at which stage, and the incident as it was then."""
    told: dict[str, set[str]] = field(default_factory=dict)
    once_unbuilt: set[date] = field(default_factory=set)

    def look(self, times: int = 1) -> None:
        for _ in range(times):
            look(self.life, self.number)
            self.number += 1
            open_ = self.life.book.open()
            for each in open_:
                new = set(each.told) - self.told.get(each.id, set())
                self.heard += [(self.number, stage, each) for stage in new]
                self.told[each.id] = set(each.told)
            self.check(open_)

    def begins(self, name: str, day: date) -> None:
        """One at a time on a day; and a day that was built once is never again one that never was."""
        if any(day == other for _, other in self.going) or (name in _NEVER_BUILT and day in self.once_unbuilt):
            return
        self.once_unbuilt |= {day + n * A_DAY for n in (-1, 0, 1)} if name in _NEVER_BUILT else set()
        FAULTS[name].begins(self.life, day)
        self.going[name, day] = self.number

    def end(self, which: int) -> None:
        if self.going:
            name, day = list(self.going)[which % len(self.going)]
            FAULTS[name].ends(self.life, day)
            del self.going[name, day]

    def check(self, open_: Sequence[Incident]) -> None:
        """No two are about the same, and each is about one thing."""
        places = Counter((each.table, each.cause, day) for each in open_ for day in each.days)
        assert {place: count for place, count in places.items() if count > 1} == {}
        for each in open_:
            assert each.days, each
            if each.cause not in PENDING and not each.under_way and each.state != "proving":
                assert len({saying(words) for words in each.said.values()}) <= 1, each.said
        for (name, day), since in self.going.items():
            assert self._openings(FAULTS[name], day, since) <= len(FAULTS[name].told), (name, day, self.heard)

    def _openings(self, fault: Fault, day: date, since: int) -> int:
        """The incidents of a fault that goes on that people were told of."""
        days = {day + n * A_DAY for n in range(fault.days)}
        told = {each.id for at, _, each in self.heard if at > since and days & {*each.days}}
        return sum(any(id.startswith(f"{beginning}-") for beginning in set(fault.told)) for id in told)

    def is_over(self) -> None:
        """All is put right: nothing stays open, and what was told was told once, and is told to be over."""
        while self.going:
            self.end(0)
        for _ in range(3):
            self.look(30)
            self.life.now += timedelta(hours=1)
            self.life.four_o_clock()
        found = incidents_of(self.life)
        assert [each for each in found if not each.closed] == []
        told = self.life.told_of(found)
        for stages in (each.split() for each in told.values() if each):
            assert stages[-1] == "closed" and len(stages) == len(set(stages)) and len(stages) <= 3, told


_days = st.sampled_from([WEEKS.first + n * A_DAY for n in (3, 4, 5, 8, 9, 11)])
_things = st.one_of(
    st.tuples(st.just("begins"), st.sampled_from(list(FAULTS)), _days),
    st.tuples(st.just("ends"), st.integers(0, 9), st.none()),
    st.tuples(st.just("looks"), st.integers(1, 25), st.none()),
)


@settings(max_examples=drawn(3), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(_things, min_size=12, max_size=24))
def test_whatever_comes_goes_and_overlaps(things: list[tuple[str, str | int, date | None]]) -> None:
    """Never two tellings of one, never one for two, and each is over when nothing is wrong."""
    with lake_in_memory() as memory:
        shift = Shift(Life.beginning(memory, _sound_weeks()))
        for kind, what, day in things:
            if kind == "begins" and day is not None:
                shift.begins(str(what), day)
            elif kind == "ends":
                shift.end(int(what))
            shift.look(int(what) if kind == "looks" else 1)
        shift.is_over()
