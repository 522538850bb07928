"""A stream, range backfills, Dagster's daemon and a campaign on the same 30 days, all killed with -9.

A producer sends sales to a real Kafka broker, late ones and corrections among them, and keeps its own tally. Beside
the stream, which reads them into raw and lets facts and daily revenue follow, a loop of backfills rebuilds a part of
these days, Dagster's daemon carries out a backfill of them too, and a campaign brings version 2 of the facts and undoes
it. Afterwards the stream reads to the end. Exit code 0: each event is in raw once and each winner in the facts once, by
count and checksum, and the facts are equal to a whole rebuild.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from backfill_assets.days import DayRange
from backfill_assets.examples.sample.landing_writer import landing
from backfill_assets.examples.sample.references import RATES_LEAD_DAYS, rate_lines
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.publisher import Publisher
from backfill_assets.settings import Settings
from backfill_assets.spark.connect_server import connect_server
from backfill_assets.state.history import history
from backfill_assets.state.stream_positions import topic_positions
from backfill_assets.text import format_count, format_size
from backfill_assets_tests.conftest import CHILDREN_OF_TESTS, SMALL_SPARK
from backfill_assets_tests.stories.real_dagster import RealDagster
from backfill_assets_tests.stream import whole_rebuild
from backfill_assets_tests.stream.broker import Broker, running_broker
from backfill_assets_tests.stream.killed_commands import CommandEnd, KilledCommands, KilledStream, Processes
from backfill_assets_tests.stream.killed_daemon import KilledDaemon
from backfill_assets_tests.stream.producer import LiveProducer, start_producer
from backfill_assets_tests.stream.tally_checks import (
    BRONZE,
    FACT,
    QUARANTINE,
    RAW,
    REVENUE,
    ExpectedEvents,
    TallyCheck,
    contents,
)
from backfill_assets_tests.stream.tally_delays import DelayedEvents, SentCurve, delayed, percentile, visible_rows

PARTITIONS = 4
_RATES_OF = date(2017, 5, 29)
"""A Monday. Rates of the days before it are landed for the days before this week: they differ from day to day."""
_EXTRA_SECONDS = 900.0
"""So much longer the events go on at most, until each part has had its kills and has come to an end."""
_END_SECONDS = 600.0
_LOOK_SECONDS = 0.25
_WARM_UP_SECONDS = 600.0
_FEWEST_BACKFILLS = 2
_COLD_SECONDS = 60.0
"""After so long Java has compiled what a batch needs most."""


@dataclass(frozen=True)
class TallySpec:
    """What is played. ``days`` are rebuilt beside the stream, and each kind of process is killed ``kills`` times."""

    seconds: float
    events_per_second: float
    kills: int
    seed: int
    days: int = 30
    start: datetime = field(default_factory=lambda: datetime.now(UTC))
    """Of the first event. Events go on over midnight."""
    alone: bool = False
    """Only the stream: nothing rebuilds, and nothing is killed. Its delays are those that others are compared with."""

    @property
    def all_days(self) -> DayRange:
        """The days before the first event, which late and corrected events go on to fill."""
        last = self.start.date() - timedelta(days=1)
        return DayRange(last - timedelta(days=self.days - 1), last)

    @property
    def late_half(self) -> DayRange:
        """What every second backfill rebuilds."""
        return DayRange(self.all_days.first + timedelta(days=self.days // 2), self.all_days.last)


@dataclass
class Phase:
    """A stretch of time, such as a cut-over: seconds since 1970."""

    name: str
    began: float
    ended: float

    def holds(self, moment: float) -> bool:
        return self.began <= moment <= self.ended


@dataclass
class Campaigns:
    """Carries out campaigns from version 1 to version 2 of the facts, and undoes each."""

    commands: KilledCommands
    days: str
    phases: list[Phase] = field(default_factory=list)
    done: int = 0

    def play(self, stopping: threading.Event) -> None:
        """At least one, and more until all kills were made."""
        for table in (FACT, REVENUE):
            self.until(stopping, "run", table, "--version", "v1", "--days", self.days)
        while not stopping.is_set() and (not self.done or self.commands.kills_left):
            self.play_one(stopping)

    def play_one(self, stopping: threading.Event) -> None:
        plan = self.started_plan(stopping)
        steps = (self.run_of(plan), ("approve", plan, "--yes"), self.run_of(plan), ("rollback", plan, "--yes"))
        self.done += bool(plan) and all(self.until(stopping, *step) for step in steps)

    def started_plan(self, stopping: threading.Event) -> str:
        """A plan whose campaign has begun; empty if there was no time. A stream outdates plans that wait for long."""
        while not stopping.is_set():
            planned = self.commands.run("plan", FACT, "--days", self.days, "--version", "v2", "--json")
            plan = str(planned.json()["plan"])
            if "Plan again" not in self.commands.run(*self.run_of(plan)).problem:
                return plan
        return ""

    def run_of(self, plan: str) -> tuple[str, ...]:
        """The daemon's repairs publish reports; days that gain events by the second differ from them by any share."""
        return ("run", plan, "--limits", "deviation=none")

    def until(self, stopping: threading.Event, *arguments: str) -> bool:
        """Give a command until it succeeds, or finds that one which was killed had done it already."""
        while not stopping.is_set():
            found = self.commands.run(*arguments)
            if arguments[0] in ("approve", "rollback"):
                self.phases.append(Phase(arguments[0], found.began, found.ended))
            if found.succeeded or "already" in found.problem:
                return True
            stopping.wait(1)
        return False


def rates_as_of_another_day(day: date, another: date) -> list[str]:
    """What the source would deliver on ``day``, with the rates of ``another``."""
    return [line.replace(str(another), str(day)) for line in rate_lines(another)]


def play_backfills(commands: KilledCommands, spec: TallySpec, stopping: threading.Event) -> None:
    """Rebuild days whole, as they were published: all of them and the later half in turns."""
    done = 0
    while not stopping.is_set() and (done < _FEWEST_BACKFILLS or commands.kills_left):
        days = str(spec.late_half if done % 2 else spec.all_days)
        done += rebuild(commands, days).succeeded


def rebuild(commands: KilledCommands, days: str) -> CommandEnd:
    """Bronze, facts and daily revenue of ``days``, computed again from raw."""
    return commands.run("run", BRONZE, FACT, REVENUE, "--version", "as published", "--force", "--days", days)


@dataclass
class Tally:
    """Plays a tally below ``home``, on a broker that runs; ``spark`` is the Connect server of all but the stream."""

    spec: TallySpec
    home: Path
    broker: Broker
    spark: str
    say: Callable[[str], None] = print
    sent: SentCurve = field(default_factory=SentCurve)
    failures: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.settings = Settings.at(self.home / "data")
        self.folder = self.home / "output"
        self.folder.mkdir(parents=True)
        self.random = random.Random(self.spec.seed)
        self.topic = self.broker.new_topic(PARTITIONS)
        self.processes = Processes(self.settings.home)
        self.backfills = self.commands("backfills", self.spec.kills)
        self.campaigns = Campaigns(self.commands("campaign", self.spec.kills), str(self.spec.all_days))
        self.daemon = self.killed_daemon()
        arguments = self.stream_arguments()
        # Java's settings for children that are killed would make the stream slower than a user's.
        variables = {} if self.spec.alone else CHILDREN_OF_TESTS
        self.stream = KilledStream(self.processes, self.folder, self.random, arguments, variables)
        self.stopping = threading.Event()

    @property
    def storage(self) -> Storage:
        return Storage(str(self.settings.lakehouse))

    def commands(self, name: str, kills: int) -> KilledCommands:
        """Each with its own chance: how fast one comes along does not change the moments of another."""
        chance = random.Random(f"{self.spec.seed} {name}")
        return KilledCommands(name, self.processes, self.folder, chance, kills, {"SPARK_REMOTE": self.spark})

    def killed_daemon(self) -> KilledDaemon:
        """Dagster's own processes on this home; its runs compute on the server that the others share."""
        dagster = RealDagster(self.settings, self.processes.environment() | {"SPARK_REMOTE": self.spark})
        tables, chance = (BRONZE, QUARANTINE, FACT, REVENUE), random.Random(f"{self.spec.seed} daemon")
        return KilledDaemon(dagster, tables, self.spec.late_half, chance, self.spec.kills)

    def stream_arguments(self, *more: str) -> tuple[str, ...]:
        source = f"kafka://{self.broker.address}/{self.topic}"
        return ("stream", RAW, "--from", source, "--from-beginning", "--json", *more)

    def play(self) -> TallyReport:
        """Everything; no process that was started runs afterwards."""
        began, helper = time.monotonic(), self.commands("end", 0)
        try:
            self.land_reference_data(helper)
            producer = self.play_events()
            lines = producer.stop().lines
            self.say(f"{lines:,} events are sent; the stream reads to the end")
            if self.spec.alone:
                self.wait_for_raw()
            self.stream.stop(_END_SECONDS)
            self.require(self.last_look().run(*self.stream_arguments("--available-now")))
            wrong = [*self.stream.unexpected, *self.failures, *self.check(producer)]
        finally:
            self.stopping.set()
            self.processes.end()
        return self.report(lines, time.monotonic() - began, wrong)

    def land_reference_data(self, helper: KilledCommands) -> None:
        """Rates of the days before; those of today are built by the stream, as they have landed."""
        days = self.spec.all_days.widened(before=RATES_LEAD_DAYS)
        first_of_week = days.last - timedelta(days=days.last.weekday())
        with landing(self.settings.landing) as writer:
            for day in days.widened(after=2):
                writer.write("fx_rates", day, rates_as_of_another_day(day, day - first_of_week + _RATES_OF))
        self.require(helper.run("run", "+bronze_fx_rates", "--days", str(days)))

    def last_look(self) -> KilledCommands:
        """A stream has a Spark of its own."""
        return KilledCommands("last", self.processes, self.folder, self.random, 0, CHILDREN_OF_TESTS)

    def require(self, done: CommandEnd) -> None:
        if not done.succeeded:
            self.failures.append(f"{' '.join(done.arguments)} ended with {done.status}: {done.problem}")

    # ------------------------------------------------------------- while events come

    def play_events(self) -> LiveProducer:
        self.stream.start()
        producer = start_producer(
            *(self.broker.address, self.topic, self.home / "sent.json"),
            seed=self.spec.seed,
            events_per_second=self.spec.events_per_second,
            partitions=PARTITIONS,
            late_days=self.spec.days,
            start=self.spec.start,
        )
        try:
            self.wait_for_facts(producer)
            self.play_parts(producer)
        except BaseException:
            producer.kill()
            raise
        return producer

    def wait_for_facts(self, producer: LiveProducer) -> None:
        """There is history to rebuild once the stream has filled each day."""
        latest = time.monotonic() + _WARM_UP_SECONDS
        while len(contents(self.storage, [REVENUE], self.spec.all_days)) < self.spec.days:
            assert time.monotonic() < latest, f"no facts within {_WARM_UP_SECONDS:.0f} s: {self.stream.problems}"
            self.look(producer)

    def wait_for_raw(self) -> None:
        """What the stream has not read when it is stopped waits for the start of another process."""
        latest = time.monotonic() + _END_SECONDS
        ends = {number: end for number, end in self.broker.end_offsets(self.topic).items() if end}
        while topic_positions(self.storage, "sales", self.topic).next_offsets != ends:
            assert time.monotonic() < latest, f"not read within {_END_SECONDS:.0f} s: {self.stream.problems}"
            self.stream.watch()
            time.sleep(_LOOK_SECONDS)

    def play_parts(self, producer: LiveProducer) -> None:
        parts = [
            threading.Thread(target=self.guarded, args=(self.campaigns.play, self.stopping)),
            threading.Thread(target=self.guarded, args=(play_backfills, self.backfills, self.spec, self.stopping)),
            threading.Thread(target=self.guarded, args=(self.daemon.play, self.stopping)),
        ]
        parts = [] if self.spec.alone else parts
        for part in parts:
            part.start()
        began = time.monotonic()
        moments = self.moments_of_kills()
        while (passed := time.monotonic() - began) < self.spec.seconds + _EXTRA_SECONDS:
            if passed >= self.spec.seconds and not moments and not any(part.is_alive() for part in parts):
                break
            if moments and passed >= moments[0] and self.stream.has_worked:
                moments.pop(0)
                self.stream.kill()
            self.look(producer)
        self.stopping.set()
        for part in parts:
            part.join(_END_SECONDS)

    def moments_of_kills(self) -> list[float]:
        """One within each of equal parts of the time, in seconds."""
        part = self.spec.seconds / max(1, self.spec.kills)
        return [part * (number + self.random.random()) for number in range(self.spec.kills)]

    def look(self, producer: LiveProducer) -> None:
        assert producer.process.poll() is None, f"the producer ended with {producer.process.returncode}"
        self.sent.add(time.time(), producer.sent.handed_over)
        self.stream.watch()
        time.sleep(_LOOK_SECONDS)

    def guarded(self, part: Callable[..., None], *arguments: Any) -> None:
        """An error of a thread is a finding, and no silent end."""
        try:
            part(*arguments)
        except Exception as error:
            self.failures.append(f"{getattr(part, '__qualname__', part)}: {error!r}")

    # ------------------------------------------------------------------------ the end

    def check(self, producer: LiveProducer) -> Iterator[str]:
        """What the generator says, then what a whole rebuild says, and the generator once more."""
        Publisher(self.storage).recover()
        expected = ExpectedEvents.up_to(producer.spec, producer.tally().lines, PARTITIONS)
        check = TallyCheck(self.storage, expected, self.broker.end_offsets(self.topic), self.spec.all_days)
        yield from check.wrong()
        tables, days = (BRONZE, FACT, REVENUE), self.spec.all_days.widened(after=1)
        before = contents(self.storage, tables, days)
        self.rebuild_whole(days)
        after = contents(self.storage, tables, days)
        for table, day in sorted(before.keys() | after.keys()):
            then, now = before.get((table, day)), after.get((table, day))
            if then != now:
                yield f"{table} {day} was {then}, and a whole rebuild gives {now}"
        yield from (f"after the rebuild: {each}" for each in check.wrong())
        yield from self.not_played()

    def rebuild_whole(self, days: DayRange) -> None:
        """Also the day that is not over."""
        command = [sys.executable, "-m", whole_rebuild.__name__, str(days)]
        environment = self.processes.environment() | {"SPARK_REMOTE": self.spark}
        subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=True, timeout=_END_SECONDS)

    def not_played(self) -> Iterator[str]:
        """A tally that did not play its parts has shown nothing."""
        if self.spec.alone:
            return
        for name, killed in self.kills().items():
            if len(killed) < self.spec.kills:
                yield f"the {name} was killed {len(killed)} times of {self.spec.kills}"
        if not self.campaigns.done:
            yield "no campaign was cut over and undone"
        if not self.daemon.done:
            yield "no backfill of Dagster came to an end"
        if (done := sum(each.succeeded for each in self.backfills.ends)) < _FEWEST_BACKFILLS:
            yield f"{done} range backfills of {_FEWEST_BACKFILLS} came to an end"

    def kills(self) -> dict[str, list[str]]:
        """What was killed when, by what it was."""
        return {
            "stream": self.stream.killed,
            "backfills": self.backfills.killed,
            "campaign": self.campaigns.commands.killed,
            "daemon": self.daemon.killed,
        }

    def delays(self, lines: int, table: str, beside: str) -> list[DelayedEvents]:
        steps = list(visible_rows(self.storage, table, beside))
        return list(delayed(steps, self.sent, lines / max((step.rows for step in steps), default=lines)))

    def report(self, lines: int, seconds: float, wrong: list[str]) -> TallyReport:
        commands = [*self.backfills.ends, *self.campaigns.commands.ends]
        return TallyReport(
            events=lines,
            seconds=seconds,
            sent_seconds=self.sent.moments[-1] - self.sent.moments[0],
            batches=self.stream.batches(),
            kills=self.kills(),
            campaigns=self.campaigns.done,
            backfills=sum(each.succeeded for each in self.backfills.ends) + self.daemon.done,
            compactions=sum(each.kind == "compact" for each in history(self.storage)),
            refused=[
                *(f"{' '.join(each.arguments)}: {each.problem}" for each in commands if not each.succeeded),
                *self.daemon.problems,
            ],
            delays=self.delays(lines, FACT, REVENUE),
            raw_delays=self.delays(lines, RAW, RAW),
            memory=self.stream.most_memory,
            phases=self.campaigns.phases,
            warm=self.sent.moments[0] + _COLD_SECONDS,
            wrong=wrong,
        )


@dataclass(frozen=True)
class TallyReport:
    """What a tally has shown."""

    events: int
    seconds: float
    sent_seconds: float
    batches: list[dict[str, Any]]
    kills: dict[str, list[str]]
    campaigns: int
    backfills: int
    compactions: int
    refused: list[str]
    delays: list[DelayedEvents]
    raw_delays: list[DelayedEvents]
    memory: int
    """The most bytes of the stream with its JVM."""
    phases: list[Phase]
    warm: float
    """From this moment on (seconds since 1970), events are sent to a stream that has run for a while."""
    wrong: list[str]

    @property
    def rate(self) -> float:
        """Events a second that were sent."""
        return self.events / self.sent_seconds

    def delays_by_phase(self, delays: Sequence[DelayedEvents]) -> dict[str, dict[str, float | None]]:
        """In seconds, from sending on: of all events, of parts of the time, and around the cut-overs."""
        cuts = [phase for phase in self.phases if phase.name == "approve"]
        undone = [phase for phase in self.phases if phase.name == "rollback"]
        first, last = (min(p.began for p in self.phases), max(p.ended for p in self.phases)) if self.phases else (0, 0)
        chosen = {
            "all": delays,
            "after the first minute": [each for each in delays if each.at - each.delay >= self.warm],
            "before the cut-over": [each for each in delays if each.at < first or not self.phases],
            "during a cut-over": [each for each in delays if any(p.holds(each.at) for p in cuts)],
            "during an undo": [each for each in delays if any(p.holds(each.at) for p in undone)],
            "after the undo": [each for each in delays if self.phases and each.at > last],
        }
        return {name: {"p50": percentile(of, 0.5), "p99": percentile(of, 0.99)} for name, of in chosen.items()}

    def batch_seconds(self) -> dict[str, float]:
        found = sorted(float(each["seconds"]) for each in self.batches)
        if not found:
            return {}
        return {"median": statistics.median(found), "p99": found[round(0.99 * (len(found) - 1))], "longest": found[-1]}

    def as_json(self) -> dict[str, Any]:
        return {
            "events": self.events,
            "events_per_second": round(self.rate, 1),
            "seconds": round(self.seconds, 1),
            "batches": len(self.batches),
            "batch_seconds": self.batch_seconds(),
            "kills": {name: len(found) for name, found in self.kills.items()},
            "campaigns": self.campaigns,
            "backfills": self.backfills,
            "compactions": self.compactions,
            "delays": self.delays_by_phase(self.delays),
            "raw_delays": self.delays_by_phase(self.raw_delays),
            "memory": self.memory,
            "refused": self.refused,
            "wrong": self.wrong,
        }

    def lines(self) -> Iterator[str]:
        yield f"{self.events:,} events at {self.rate:,.0f} a second, in {len(self.batches)} batches"
        yield f"batches in seconds: {', '.join(f'{name} {value:.1f}' for name, value in self.batch_seconds().items())}"
        yield (
            f"{format_count(self.campaigns, 'campaign')} cut over and undone, "
            f"{format_count(self.backfills, 'range backfill')}, {format_count(self.compactions, 'compaction')}"
        )
        for name, killed in self.kills.items():
            yield f"{name}: killed {len(killed)} times ({'; '.join(killed)})"
        for where, delays in (("raw", self.raw_delays), ("the facts", self.delays)):
            for name, found in self.delays_by_phase(delays).items():
                shown = (f"{share} {'unknown' if each is None else f'{each:.1f} s'}" for share, each in found.items())
                yield f"delay until {where}, {name}: {', '.join(shown)}"
        yield f"most memory of the stream: {format_size(self.memory)}"
        yield from (f"refused: {each}" for each in self.refused)
        yield from self.wrong or ["Every event exactly once in raw, every winner exactly once in the facts."]


def report_progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m backfill_assets_tests.stream.tally")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--events-per-second", type=float, default=2000)
    parser.add_argument(
        "--kills", type=int, default=5, help="of the stream, of backfills, of the daemon and of the campaign, each"
    )
    parser.add_argument("--days", type=int, default=30, help="that late events, backfills and the campaign are of")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the events and of the kills")
    parser.add_argument("--home", type=Path, help="a new folder that is kept, with the output of each process")
    parser.add_argument("--alone", action="store_true", help="only the stream, without kills: its delays")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    kills = 0 if asked.alone else asked.kills
    spec = TallySpec(asked.seconds, asked.events_per_second, kills, asked.seed, asked.days, alone=asked.alone)
    with ExitStack() as stack:
        home = asked.home or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        settings = Settings.from_environment()
        broker = stack.enter_context(running_broker(settings, home / "kafka"))
        server = stack.enter_context(connect_server(Settings.at(home / "spark"), options=SMALL_SPARK))
        report = Tally(spec, home, broker, server.url, report_progress).play()
    shown = json.dumps(report.as_json(), indent=2) if asked.json else "\n".join(report.lines())
    print(f"Seed {asked.seed}.\n{shown}" if not asked.json else shown)
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
