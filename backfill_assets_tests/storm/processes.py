"""Starts the processes of a storm, kills and stops them at random moments, and starts the next ones in their places."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path

from backfill_assets.stream.lease import LEASE_SECONDS
from backfill_assets_tests.storm import worker
from backfill_assets_tests.storm.actors import BUILDS, SPARED
from backfill_assets_tests.storm.notes import file_of
from backfill_assets_tests.storm.worker import OVER, Place

_STOPPED_SECONDS = (1.0, 1.0, 1.0, LEASE_SECONDS + 5.0)
"""A process is stopped for a moment, or now and then until its lease has ended, and goes on as if nothing had been."""
_STOPS = 0.2
"""Of what befalls processes, this share are stops; the rest are kills."""
_END_PATIENCE = 90.0
_LONG = 6.0
_FOR_EVER = 1e12


@dataclass
class Running:
    """One life of an actor."""

    actor: str
    number: int
    process: ForkServerProcess
    begun: float = field(default_factory=time.monotonic)

    @property
    def kind(self) -> str:
        return self.actor.rpartition("-")[0]

    def has_worked(self, notes: Path, patience: float) -> bool:
        """Has it ended a deed? Killed earlier, a slow machine's processes would never come to anything."""
        file = file_of(notes, self.actor, self.number)
        ended = file.exists() and b'"what": "deed"' in file.read_bytes()
        return ended or time.monotonic() - self.begun > patience


@dataclass
class Storm:
    """``actors`` have their numbers; something befalls one of them every so many seconds, on the average."""

    place: Place
    actors: Sequence[str]
    seconds: float
    every: float
    kills: Counter[str] = field(default_factory=Counter)
    stops: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    """What was wrong with how processes ended."""
    _numbers: Counter[str] = field(default_factory=Counter)
    _asleep: dict[int, float] = field(default_factory=dict)
    """The processes that are stopped, and until when."""

    def __post_init__(self) -> None:
        self.random = random.Random(self.place.seed)
        self.context: ForkServerContext = multiprocessing.get_context("forkserver")
        # Arrow imports pandas for its first array, a third of a second, which each life would begin with.
        self.context.set_forkserver_preload([worker.__name__, "pandas"])
        self.running: list[Running] = []

    def begin(self) -> None:
        """The first process of all imports what the others are born with; that is no part of the storm."""
        if any(actor.rpartition("-")[0] in BUILDS for actor in self.actors):
            self.alone("begin-1")
        first = self.context.Process(target=time.time)
        first.start()
        first.join()

    def play(self, enough: Callable[[Storm], bool] | None = None) -> None:
        """For its time, or until it is ``enough``."""
        until = time.time() + self.seconds
        self.running = [self._start(actor, until) for actor in self.actors]
        try:
            while time.time() < until and not (enough and enough(self)):
                time.sleep(self.random.uniform(0.5, 1.5) * self.every)
                self._wake_up()
                self._stop_one() if self.random.random() < _STOPS else self._kill_one(until)
            (self.place.notes / OVER).touch()
            self._wake_up(all_of_them=True)
            self._wait_for_ends()
        finally:
            for each in self.running:
                each.process.kill()
                each.process.join()

    def alone(self, actor: str) -> None:
        """A process that does its deed once, before the storm or after it."""
        over = self.place.notes / OVER
        over.unlink(missing_ok=True)
        running = self._start(actor, _FOR_EVER, once=True)
        running.process.join()
        if running.process.exitcode != 0:
            self.wrong.append(f"{actor} ended with exit code {running.process.exitcode}")

    def _start(self, actor: str, until: float, *, once: bool = False) -> Running:
        self._numbers[actor] += 1
        number = self._numbers[actor]
        process = self.context.Process(target=worker.run, args=(self.place, actor, number, until, once))
        process.start()
        return Running(actor, number, process)

    def _stop_one(self) -> None:
        """SIGSTOP: as a machine that sleeps, or a long collection of garbage. It wakes up where it was."""
        running = self.random.choice([each for each in self.running if each.kind != SPARED])
        pid = running.process.pid
        if pid is None or pid in self._asleep or not running.process.is_alive():
            return
        os.kill(pid, signal.SIGSTOP)
        self.stops[running.kind] += 1
        self._asleep[pid] = time.monotonic() + self.random.choice(_STOPPED_SECONDS)

    def _wake_up(self, *, all_of_them: bool = False) -> None:
        for pid, until in list(self._asleep.items()):
            if all_of_them or time.monotonic() >= until:
                del self._asleep[pid]
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def _kill_one(self, until: float) -> None:
        place = self.random.choice([n for n, each in enumerate(self.running) if each.kind != SPARED])
        running = self.running[place]
        if not running.has_worked(self.place.notes, _LONG * self.place.pace):
            return
        if running.process.is_alive():
            running.process.kill()
            self.kills[running.kind] += 1
        running.process.join()
        self.running[place] = self._start(running.actor, until)

    def _wait_for_ends(self) -> None:
        longest = _END_PATIENCE * self.place.pace
        patience = time.monotonic() + longest
        for each in self.running:
            each.process.join(max(0.1, patience - time.monotonic()))
            if each.process.is_alive():
                self.wrong.append(f"{each.actor} did not end within {longest:.0f} s after the storm")
            elif each.process.exitcode != 0:
                self.wrong.append(f"{each.actor} ended with exit code {each.process.exitcode}")
