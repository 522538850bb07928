"""``make storm SECONDS=180``: processes that work on one lakehouse at once, and are killed with -9 at random moments.

Publishers of one table and of two, appenders, a compactor, rollbacks, a foreign writer, a platform's OPTIMIZE and
VACUUM, readers who pin the log, switches of versions, streams that want one lease, processes that name timelines, and
those that fold the log and reclaim files by a clock that runs fast. Some are stopped and go on later.

Afterwards a new process recovers, and what is there is compared with what each process had noted in a file of its own.
Exit code 0: every row exactly once, no pinned read torn, no name shared, nothing acknowledged was lost. ``--s3`` plays
it on a server that speaks S3.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path

from backfill_assets import clock
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.named_timelines import kept_timelines
from backfill_assets.lakehouse.records import Publication
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.publisher import Publisher
from backfill_assets.stream.lease import LEASE_SECONDS
from backfill_assets.upkeep.reclaim import finish_reclaiming
from backfill_assets_tests.protocol import storm_workers
from backfill_assets_tests.protocol.audit import log_rows
from backfill_assets_tests.protocol.staging import change, published_rows, stage
from backfill_assets_tests.protocol.storm_tally import OVER, Found, Judge, Tally, Told, by_text
from backfill_assets_tests.protocol.storm_workers import (
    DAYS,
    DEEDS,
    FACT,
    PAIR,
    RAW,
    SOURCES,
    STREAMED,
    TABLES,
    WINDOW_DAYS,
    StormClock,
)

ROLES = (*DEEDS, "publisher of two", "appender", "stream", "names")
"""Of these there are two each, which compete."""
_STOPPED_SECONDS = (1.0, LEASE_SECONDS + 5.0)
"""A process is stopped for a moment, or until its lease has ended, and goes on as if nothing had been."""
SPARED = "pinned reader"
_STOPS = 0.2
"""Of what befalls processes, this share are stops; the rest are kills."""
_MOST_ROUNDS = 6
"""A storm goes on, a round as long as the first, until enough has happened in it: machines differ in speed."""
_END_PATIENCE = 60.0
_LONG = 10.0
_PACE_OF_S3 = 5.0
_DONE = ("done", "read", "maintained", "foreign done", "named")
_REFUSED = ("refused", "foreign refused", "maintenance refused")


@dataclass(frozen=True)
class Running:
    """One process, and the file that it notes its deeds in."""

    role: str
    name: str
    process: ForkServerProcess
    begun: float = field(default_factory=time.monotonic)

    def has_worked(self, tallies: Path, patience: float) -> bool:
        """Has it begun a second deed? Killed earlier, a slow machine's processes would never come to anything."""
        file = tallies / f"{self.name}.jsonl"
        noted = file.read_text().count("\n") if file.exists() else 0
        return noted > 1 or time.monotonic() - self.begun > patience


@dataclass
class Storm:
    """Starts the processes, kills them, and starts the next ones in their places."""

    root: str
    tallies: Path
    seconds: float
    seed: int
    pace: float = 1.0
    """How much slower than a disk the store is: kills and the busiest processes are so much rarer."""
    roles: Sequence[str] = ROLES
    publishers: Sequence[str] = ("publisher of one", "publisher of two", "appender")
    work: Callable[..., None] = storm_workers.run
    begins: Callable[[str, Path, StormClock], None] = field(default_factory=lambda: begin)
    variables: Mapping[str, str] = field(default_factory=dict)
    """Of the store. The fork server keeps the environment of its first use, which may have been another test's."""
    ends_early: bool = False
    """Once enough has happened. Its time is for a slow machine."""
    kills: Counter[str] = field(default_factory=Counter)
    stops: Counter[str] = field(default_factory=Counter)
    asleep: dict[int, float] = field(default_factory=dict)
    """The processes that are stopped, and until when."""
    ended: list[str] = field(default_factory=list)
    """What was wrong with how processes ended."""

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.numbers = count(1)
        self.context: ForkServerContext = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload([self.work.__module__])
        self.began = time.time()
        self.until = 0.0
        self.running: list[Running] = []

    def play(self) -> None:
        self.begins(self.root, self.tallies, StormClock(self.began))
        self.warm_up()
        for _ in range(_MOST_ROUNDS):
            self.play_round()
            if self.is_enough(Told.read(self.tallies)):
                break

    def is_enough(self, told: Told) -> bool:
        """Has each publisher brought something into a table, has the log been folded, and has the storm killed?"""
        counts = told.count()
        folded = "folder" not in self.roles or told.sum("folded") > 0
        return folded and self.kills.total() > 2 and all(counts[role, "done"] for role in self.publishers)

    def play_round(self) -> None:
        self.until = time.time() + self.seconds
        self.running = [self.start(role) for role in self.roles]
        try:
            while time.time() < self.until and not self.ends_now():
                time.sleep(self.random.uniform(0.3, 1.0) * self.pace)
                self.wake_up()
                self.stop_one() if self.random.random() < _STOPS else self.kill_one()
            self.wake_up(all_of_them=True)
            self.wait_for_ends()
        finally:
            for each in self.running:
                each.process.kill()
                each.process.join()

    def ends_now(self) -> bool:
        if self.ends_early and self.is_enough(Told.read(self.tallies)):
            (self.tallies / OVER).touch()
            return True
        return False

    def warm_up(self) -> None:
        """The first process of all imports what the others are born with; that is no part of the storm."""
        first = self.context.Process(target=time.time)
        first.start()
        first.join()

    def start(self, role: str) -> Running:
        name = f"{role.replace(' ', '-')}-{next(self.numbers)}"
        arguments = (self.root, str(self.tallies), role, name, self.began, self.until, self.pace, self.variables)
        process = self.context.Process(target=self.work, args=arguments)
        process.start()
        return Running(role, name, process)

    def stop_one(self) -> None:
        """SIGSTOP: as a machine that sleeps, or a long collection of garbage. It wakes up where it was."""
        running = self.random.choice([each for each in self.running if each.role != SPARED])
        pid = running.process.pid
        if pid is None or pid in self.asleep or not running.process.is_alive():
            return
        os.kill(pid, signal.SIGSTOP)
        self.stops[running.role] += 1
        self.asleep[pid] = time.monotonic() + self.random.choice(_STOPPED_SECONDS)

    def wake_up(self, *, all_of_them: bool = False) -> None:
        for pid, until in list(self.asleep.items()):
            if all_of_them or time.monotonic() >= until:
                del self.asleep[pid]
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def kill_one(self) -> None:
        place = self.random.choice([n for n, each in enumerate(self.running) if each.role != SPARED])
        running = self.running[place]
        if not running.has_worked(self.tallies, _LONG * self.pace):
            return
        if running.process.is_alive():
            running.process.kill()
            self.kills[running.role] += 1
        running.process.join()
        self.running[place] = self.start(running.role)

    def wait_for_ends(self) -> None:
        longest = _END_PATIENCE * self.pace
        patience = time.monotonic() + longest
        for each in self.running:
            each.process.join(max(0.1, patience - time.monotonic()))
            if each.process.is_alive():
                self.ended.append(f"the {each.role} did not end within {longest:.0f} s after the storm")
            elif each.process.exitcode != 0:
                self.ended.append(f"the {each.role} ended with exit code {each.process.exitcode}")


def begin(root: str, tallies: Path, shown: StormClock) -> None:
    """Every table is there, so that the foreign writer and the platform have something to write to."""
    with clock.use(shown):
        _begin(Publisher(Storage(root), retention_days=WINDOW_DAYS), Tally(tallies / "begin.jsonl"))


def _begin(publisher: Publisher, tally: Tally) -> None:
    storage = publisher.storage
    for tables in ((FACT,), PAIR):
        id = f"two-begin-{tables[0]}"
        rows = {day: [f"{id}/{day}"] for day in DAYS}
        pin = publisher.pin(dict.fromkeys(tables, DAYS), {})
        changes = tuple(change(stage(storage, table, id, rows), rows, pin) for table in tables)
        tally.write("tried", role="begin", id=id, rows=dict.fromkeys(tables, by_text(rows)))
        publisher.publish(Publication(id=id, kind="replace", tables=changes))
    nothing = {DAYS[0]: list[str]()}
    raw = change(stage(storage, RAW, "begin", nothing), nothing, publisher.pin({RAW: list(nothing)}, {}))
    publisher.publish(Publication(id="begin-raw", kind="replace", tables=(raw,)))


def look(root: str) -> Found:
    """What a new process finds: it finishes what is open, and reads everything."""
    storage = Storage(root)
    publisher = Publisher(storage, retention_days=WINDOW_DAYS)
    publisher.recover()
    finish_reclaiming(publisher)
    closed = log_rows(publisher.log, "closed", columns=["sequence", "event", "publication", "outcome"])
    entries = sorted(closed, key=lambda row: row["sequence"])
    main = MainTable.open(storage, RAW)
    return Found(
        entries=tuple((row["publication"], row["outcome"]) for row in entries),
        rows={table: by_text(published_rows(storage, table)) for table in TABLES},
        positions={source: (main.transaction(source) if main else None) or 0 for source in (*SOURCES, STREAMED)},
        switches={step: each.version for step, each in publisher.log.head().state.current.items()},
        timelines=tuple((each.id, each.name) for each in kept_timelines(storage, clock.now())),
        open=tuple(publisher.log.head().state.open),
    )


@dataclass(frozen=True)
class Report:
    """What a storm has shown."""

    seconds: float
    entries: int
    kills: Counter[str]
    stops: Counter[str]
    counts: Counter[tuple[str, str]]
    folded: int
    """Files of the log that were put together."""
    reclaimed: int
    """Files of tables that were deleted."""
    wrong: list[str]

    def as_json(self) -> dict[str, object]:
        return {
            "seconds": round(self.seconds, 1),
            "entries": self.entries,
            "kills": dict(self.kills),
            "stops": dict(self.stops),
            "folded": self.folded,
            "reclaimed": self.reclaimed,
            "pinned_reads": self.total(("read",)),
            "done": self.total(_DONE),
            "refused": self.total(_REFUSED),
            "wrong": self.wrong,
        }

    def total(self, what: Sequence[str], role: str = "") -> int:
        return sum(n for (of, told), n in self.counts.items() if told in what and role in ("", of))

    def lines(self) -> Iterator[str]:
        yield f"{'role':18} {'done':>7} {'refused':>8} {'killed':>7} {'stopped':>8}"
        for role in DEEDS:
            done, refused = self.total(_DONE, role), self.total(_REFUSED, role)
            yield f"{role:18} {done:7} {refused:8} {self.kills[role]:7} {self.stops[role]:8}"
        yield (
            f"{self.kills.total()} kills and {self.stops.total()} stops in {self.seconds:.0f} s, {self.entries} closed"
            f" entries in the log, {self.folded} of its files folded, {self.reclaimed} files reclaimed."
        )
        yield from self.wrong or ["Every row exactly once, no pinned read torn, nothing acknowledged was lost."]


def storm(root: str, tallies: Path, seconds: float, seed: int, *, ends_early: bool = False) -> Report:
    """Play one, and judge it."""
    begun = time.monotonic()
    pace = _PACE_OF_S3 if root.startswith("s3://") else 1.0
    variables = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    played = Storm(root, tallies, seconds, seed, pace, variables=variables, ends_early=ends_early)
    played.play()
    with clock.use(StormClock(played.began)):
        told, found = Told.read(tallies), look(root)
    wrong = [*played.ended, *Judge(told, found, PAIR, RAW).judge()]
    folded, reclaimed = told.sum("folded"), told.sum("reclaimed")
    seconds = time.monotonic() - begun
    return Report(seconds, len(found.entries), played.kills, played.stops, told.count(), folded, reclaimed, wrong)


@contextmanager
def place(folder: Path, *, on_s3: bool) -> Iterator[str]:
    """The lakehouse of a storm: a folder, or a bucket of a server that speaks S3."""
    if not on_s3:
        yield str(folder / "lakehouse")
        return
    from backfill_assets_tests.s3_store import BUCKET, s3_server

    with s3_server() as variables:
        os.environ.update(variables)
        try:
            yield f"s3://{BUCKET}/lakehouse"
        finally:
            for name in variables:
                del os.environ[name]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make storm")
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the kills and of every choice")
    parser.add_argument("--s3", action="store_true", help="on a server that speaks S3, not in a folder")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        tallies = folder / "tallies"
        tallies.mkdir()
        root = stack.enter_context(place(folder, on_s3=asked.s3))
        report = storm(root, tallies, asked.seconds, asked.seed)
    told = json.dumps(report.as_json(), indent=2) if asked.json else "\n".join([f"Seed {asked.seed}.", *report.lines()])
    print(told)
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
