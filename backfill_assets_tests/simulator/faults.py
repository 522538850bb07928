"""The storage goes wrong at each call that an operation makes, in each way, and once more in whoever recovers.

``make faults`` plays all of it with progress, ``FAULTS=rollback`` one operation, and ``FAULTS="rollback:17?l"`` one
line that was printed before. Seventeen calls are answered, and the next one meets the fault; after a comma, the same of
the process that comes next and recovers.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from random import Random
from typing import Any

from deltalake.exceptions import DeltaError

from backfill_assets.errors import BackfillError
from backfill_assets.lakehouse.delta_log import commit_file
from backfill_assets.publish.files import LOG_TABLE
from backfill_assets.text import format_duration
from backfill_assets_tests.simulator.judges.names import anomalies_in
from backfill_assets_tests.simulator.operations import OPERATIONS, Ready
from backfill_assets_tests.simulator.play import built
from backfill_assets_tests.simulator.schedule import Ending, Turn
from backfill_assets_tests.simulator.store import Fault
from backfill_assets_tests.simulator.world import PlayedLife, World

WRITES = frozenset(
    {
        "write",
        "replace",
        "put if absent",
        "delete",
        "delete folder",
        "delete if",
        "commit",
        "create",
        "checkpoint",
        "keep",
    }
)
_TORN, _CONTESTED = frozenset({"write"}), frozenset({"commit", "create", "put if absent"})
FAULTS: dict[Ending, Callable[[str], bool]] = {
    "fails": lambda call: True,
    "is refused": lambda call: True,
    "waits": lambda call: True,
    "loses the answer": WRITES.__contains__,
    "arrives later": WRITES.__contains__,
    "keeps a part": _TORN.__contains__,
    "dies in the middle": _TORN.__contains__,
    "says it exists": _CONTESTED.__contains__,
}
"""What can happen to which calls. One that ``waits`` is overtaken there by a process that types the same: it is also
the late answer of the call before. What is written beside Delta may be torn; a commit gets its name when it is whole.
"""
_NEVER = 10_000
_BEFORE, _TYPED, _POWERLESS = 1, 2, 3
"""The seeds of worlds that follow each other: no two of them may draw the same names."""
_TOLD_EVERY_SECONDS = 2.0


@dataclass(frozen=True)
class Strike:
    """So many steps pass, and then a call meets this."""

    steps: int
    ends: Ending

    def __str__(self) -> str:
        return str(Turn("any-1", self.steps, self.ends)).partition(":")[2]


@dataclass(frozen=True)
class Case:
    """An operation, what its storage does, and what it does to the process that recovers."""

    operation: str
    first: Strike
    second: Strike | None = None
    cut: int | None = None
    """The seed by which the disk loses what it was not told to keep, where power is lost at the first one."""

    def __str__(self) -> str:
        if self.cut is not None:
            return f"{self.operation}:{self.first.steps}~{self.cut}"
        return f"{self.operation}:{self.first}" + (f",{self.second}" if self.second else "")

    @property
    def kind(self) -> str:
        if self.cut is not None:
            return "power is lost"
        return "twice" if self.second else self.first.ends

    @property
    def line(self) -> str:
        return f'make faults FAULTS="{self}"'

    @classmethod
    def parse(cls, text: str) -> Case:
        """Raises :class:`ValueError` for what is no such line."""
        operation, _, strikes = text.partition(":")
        if operation not in OPERATIONS or not strikes:
            raise ValueError(f"{text!r} is no case: write rollback:17?l; operations are {', '.join(OPERATIONS)}")
        if "~" in strikes:
            steps, _, seed = strikes.partition("~")
            return cls(operation, Strike(int(steps), "dies"), cut=int(seed))
        first, *more = (Turn.parse(f"any-1:{strike}") for strike in strikes.split(","))
        second = Strike(more[0].steps, more[0].ends) if more else None
        return cls(operation, Strike(first.steps, first.ends), second)


@dataclass(frozen=True)
class Call:
    """One that an operation makes without a fault, after so many steps."""

    steps: int
    name: str
    path: str


@dataclass
class Ended:
    """What became of it."""

    shown: object
    calls: list[Call] = field(default_factory=list)
    struck: str = ""
    """The call that went wrong."""
    told: Exception | None = None
    """What its caller was told."""
    broken: AssertionError | None = None
    """What a judge has said in the middle of a call, whoever caught it there."""


def cases_of(operation: str) -> list[tuple[Case, Call]]:
    """Every call of it with every fault that can strike it."""
    return [
        (Case(operation, Strike(call.steps, fault)), call)
        for call in sound(operation).calls
        for fault, strikes in FAULTS.items()
        if strikes(call.name)
    ]


def pairs_of(operation: str, seeds: Iterable[int]) -> Iterator[Case]:
    """A fault, and then one in whoever recovers: drawn, for they are some hundred thousand."""
    singles = [case for case, _ in cases_of(operation)]
    second: list[Ending] = [fault for fault in FAULTS if fault != "waits"]
    for seed in seeds:
        draw = Random(f"{operation} {seed}")
        yield Case(operation, draw.choice(singles).first, Strike(draw.randrange(60), draw.choice(second)))


def cuts_of(operation: str, seeds: Iterable[int]) -> Iterator[Case]:
    """The power is lost before each call, and after the last one: then all of it was acknowledged."""
    steps = sorted({call.steps for call in sound(operation).calls})
    for seed in seeds:
        yield from (Case(operation, Strike(each, "dies"), cut=seed) for each in [*steps, _NEVER])


# ------------------------------------------------------------------ one of them, played


@cache
def _begun(operation: str) -> tuple[World, Ready]:
    """The lakehouse before it: made once, and the same for each fault."""
    chosen, ready = OPERATIONS[operation], dict[str, Any]()
    world = World(_BEFORE, {"before-1": _once(lambda life: ready.update(chosen.before(life)))})
    with world.begun():
        if chosen.built:
            world.begin_as(built())
        world.take(Turn("before-1", _NEVER))
        world.files.unkept.clear()  # that was long ago
    return world, ready


def _once(deed: Callable[[PlayedLife], object]) -> Callable[[PlayedLife], object]:
    """A process that does one thing, and then nothing."""

    def done(life: PlayedLife) -> None:
        if life.deeds == 1:
            deed(life)
        life.process.rest()

    return done


@cache
def sound(operation: str) -> Ended:
    """Without a fault."""
    return _play(operation, None)


def play(case: Case) -> Ended:
    """Raises :class:`AssertionError` if a promise is broken, or main ends otherwise than without a fault."""
    ended = _play(case.operation, case)
    assert ended.shown == sound(case.operation).shown, f"main ends otherwise than without {ended.struck}"
    return ended


def _play(name: str, case: Case | None) -> Ended:
    ended = Ended(None)
    with (world := _world(name, ended)).begun():
        world.begin_as(_begun(name)[0])
        if case is not None and case.cut is not None:
            world.begin_as(_powerless(name, case.first.steps, case.cut))
        if case is None:
            _take(world, Turn("typist-1", _NEVER))
        elif case.cut is None:
            _struck(world, ended, case.first, case.second)
        else:
            _begun_anew(world, case.first.steps < _NEVER)
        world.files.carry_out_what_is_on_its_way()
        world.close()
        if ended.broken is not None:
            raise ended.broken
        ended.shown = _rows_in(world), OPERATIONS[name].also(world)
        found = anomalies_in(world.history())
        assert not found, found
    return ended


def _world(name: str, ended: Ended, seed: int = _TYPED) -> World:
    """Two who type the operation, and two who recover."""
    ready = _begun(name)[1]

    def typed(life: PlayedLife) -> None:
        try:
            OPERATIONS[name].deed(life, ready)
        except Exception as error:
            if life.name == "typist-1":
                ended.told = error
            raise

    actors = dict.fromkeys(("typist-1", "typist-2"), _once(typed))
    world = World(seed, actors | dict.fromkeys(("next-1", "next-2"), _once(_recover)))
    world.files.keeping_is_a_call = True
    world.files.at = _watched(world, ended, world.files.at)
    return world


def _struck(world: World, ended: Ended, first: Strike, second: Strike | None) -> None:
    """The fault and what that process still does, one that recovers, and the same typed again."""
    _take(world, Turn("typist-1", first.steps, first.ends))
    if first.ends != "waits":
        _take(world, Turn("typist-1", _NEVER))
        _require_named(ended)
    if second is not None:
        _take(world, Turn("next-1", second.steps, second.ends))
        _take(world, Turn("next-1", _NEVER))
    world.files.carry_out_what_is_on_its_way()
    _take(world, Turn("next-2", _NEVER))
    _take(world, Turn("typist-2", _NEVER))


def _powerless(name: str, steps: int, seed: int) -> World:
    """What a machine has left that loses its power after so many steps of who types."""
    with (world := _world(name, Ended(None), _POWERLESS)).begun():
        world.begin_as(_begun(name)[0])
        _take(world, Turn("typist-1", steps, "dies"))
        world.files.lose_power(Random(seed))
    return world


def _begun_anew(world: World, typed_again: bool) -> None:
    """What was acknowledged is there without being typed again."""
    _take(world, Turn("next-2", _NEVER))
    if typed_again:
        _take(world, Turn("typist-2", _NEVER))
    world.follow()
    behind = {each.table: each.version for each in world.tables.values()} | {LOG_TABLE: world.log.version}
    torn = [table for table, version in behind.items() if commit_file(table, version + 1) in world.files.contents]
    assert not torn, f"the newest commits of {torn} are torn, and stay"


def _take(world: World, turn: Turn) -> None:
    """Unless it is over; then nobody comes in its place."""
    if not world.has_ended(turn.actor):
        world.take(turn)
        world.judge()


def _require_named(ended: Ended) -> None:
    """Who is told of an error is told where it was."""
    if ended.told is not None:
        assert isinstance(ended.told, BackfillError | DeltaError | OSError), repr(ended.told)
        table = ended.struck.rpartition(" ")[2].partition("/")[0]
        assert table in str(ended.told), f"{ended.struck} went wrong, and this is said: {ended.told}"


def _recover(life: PlayedLife) -> None:
    life.watched().recover()


def _watched(world: World, ended: Ended, at: Callable[[str], Fault | None]) -> Callable[[str], Fault | None]:
    """Judges the world before each call, and notes those of the first one who types."""

    def called(call: str) -> Fault | None:
        process = world.running
        if process is None:
            return None
        passed = process.passed
        try:
            world.judge()
        except AssertionError as error:
            ended.broken = ended.broken or error
            raise
        fault = at(call)
        if process.name.endswith(" typist-1/1"):
            name, _, path = call.rpartition(" ")
            ended.calls.append(Call(passed, name, path))
            ended.struck = call if fault else ended.struck
        return fault

    return called


def _rows_in(world: World) -> dict[str, dict[date, Counter[str]]]:
    found = {table: judge.days[-1] for table, judge in world.tables.items() if judge.version >= 0}
    return {table: {day: image.rows for day, image in days.items() if image.rows} for table, days in found.items()}


# ------------------------------------------------------------------ all of them, from the command line


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0 when no case breaks a promise."""
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    parser.add_argument("faults", nargs="?", default="all", help=f"all, one of {', '.join(OPERATIONS)}, or a line")
    parser.add_argument("--every", type=int, default=1, help="one case in so many")
    parser.add_argument("--pairs", type=int, default=0, help="so many pairs of each operation, too")
    parser.add_argument("--cuts", type=int, default=0, help="so many losses of power at each call, too")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args(arguments)
    if ":" in asked.faults:
        case = Case.parse(asked.faults)
        ended = play(case)
        print(f"{case}: {ended.struck or 'overtaken'}; {ended.told or 'no error'}; main ends as without it")
        return 0
    operations = list(OPERATIONS) if asked.faults == "all" else [asked.faults]
    cases = [case for name in operations for case, _ in cases_of(name)[:: asked.every]]
    cases += [case for name in operations for case in pairs_of(name, range(asked.pairs))]
    cases += [case for name in operations for case in list(cuts_of(name, range(asked.cuts)))[:: asked.every]]
    return _many(cases, asked.processes)


def _many(cases: Sequence[Case], processes: int) -> int:
    began = told = time.monotonic()
    failed, done, tally = 0, 0, Counter[str]()
    with ProcessPoolExecutor(processes) as pool:
        for case, broken in zip(cases, pool.map(said_of, cases, chunksize=16), strict=True):
            done += 1
            tally[f"{case.operation}, {case.kind}"] += 1
            if broken:
                failed += 1
                print(f"{case.line}\n    {broken}", flush=True)
            if (now := time.monotonic()) - told > _TOLD_EVERY_SECONDS or done == len(cases):
                told, left = now, (now - began) / done * (len(cases) - done)
                print(f"{done:,}/{len(cases):,} cases, {failed} failed, ETA {format_duration(left)}", flush=True)
    print("\n".join(f"{count:7,}  {what}" for what, count in sorted(tally.items())))
    return int(failed > 0)


def said_of(case: Case) -> str:
    """What is broken; empty if nothing is."""
    try:
        play(case)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


if __name__ == "__main__":
    sys.exit(main())
