"""Dagster's part, in memory: backfills that were launched, how they ended, what a watchdog said. It outlives processes.

Each call is one step, before which somebody else may go on, and its caller may die.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from random import Random

from backfill_assets.days import TableDay
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.log import PublicationLog
from backfill_assets.state.observed import observe_each
from backfill_assets.state.rolled_back import rollbacks
from backfill_assets.upkeep.bounds import RepairBounds, Spending
from backfill_assets.upkeep.failed_checks import FailedWatch, NotRun
from backfill_assets.upkeep.incidents import Incident, IncidentBook, RepairAttempt, by_days, spent_since
from backfill_assets.upkeep.trouble import RepairContext, RunningStreams, WriteUnderWay
from backfill_assets.upkeep.watch import WatchedDay
from backfill_assets_tests.simulator.chain import STEPS

A_DAY = timedelta(days=1)
Days = Mapping[str, Sequence[date]]
BOUNDS = (
    RepairBounds(),
    RepairBounds(),
    RepairBounds(days=6),
    RepairBounds(core_seconds=Decimal("0.05")),
    RepairBounds(attempts=1),
)


@dataclass
class Backfill:
    """A repair that was launched; ``runs`` says whether the process that has taken it up still lives."""

    attempt: RepairAttempt
    runs: Callable[[], bool] | None = None
    ended: str = ""

    @property
    def is_dead(self) -> bool:
        """Its process died, and nobody has said how it ended."""
        return not self.ended and self.runs is not None and not self.runs()


@dataclass
class Orchestrator:
    """What is kept of backfills, proofs and verdicts."""

    bounds: RepairBounds
    backfills: dict[str, Backfill] = field(default_factory=dict)
    verdicts: dict[TableDay, WatchedDay] = field(default_factory=dict)
    """What the watchdog said last of each day."""
    proofs: dict[str, Days] = field(default_factory=dict)
    """Those that were asked for and have not begun, by attempt."""
    begun: set[str] = field(default_factory=set)
    not_run: dict[TableDay, NotRun] = field(default_factory=dict)
    looked_until: int = -1
    """The entry of the log that the nightly watchdog has come to."""
    ticking: Callable[[], bool] = lambda: False
    """Does a process look at the moment? Dagster has one daemon."""

    @classmethod
    def of(cls, seed: int) -> Orchestrator:
        return cls(Random(f"bounds {seed}").choice(BOUNDS))

    def launch(self, attempt: RepairAttempt) -> bool:
        """False for one that was launched before."""
        if attempt.id in self.backfills:
            return False
        self.backfills[attempt.id] = Backfill(attempt)
        return True

    def bury(self) -> None:
        """Runs whose processes died have failed: a daemon sees to it."""
        for each in self.backfills.values():
            if each.is_dead:
                self.end(each, "failed")

    def end(self, backfill: Backfill, how: str, unbuilt: Days | None = None) -> None:
        backfill.ended = how
        days = backfill.attempt.days if unbuilt is None else unbuilt
        for key in (TableDay(table, day) for table, dates in days.items() for day in dates):
            self.not_run[key] = NotRun(backfill.attempt.id)

    def built(self, keys: Iterable[TableDay]) -> None:
        for key in keys:
            self.not_run.pop(key, None)

    def waiting(self) -> Backfill | None:
        """The oldest one that nobody has taken up."""
        return next((each for each in self.backfills.values() if each.runs is None), None)

    def alive(self) -> Iterator[Backfill]:
        return (each for each in self.backfills.values() if not each.ended)

    def ask(self, attempt: str, days: Days) -> None:
        """A run of the watchdog, once for each attempt."""
        if attempt not in self.begun:
            self.proofs.setdefault(attempt, days)

    def next_proof(self) -> Days | None:
        if not self.proofs:
            return None
        attempt = next(iter(self.proofs))
        self.begun.add(attempt)
        return self.proofs.pop(attempt)

    def failed_watches(self) -> list[FailedWatch]:
        return [
            FailedWatch(
                each.table,
                each.day,
                each.publication,
                each.physical,
                tuple(rule.rule for rule in each.rules if not rule.passed),
                lost=each.lost,
                beside=each.beside,
            )
            for each in self.verdicts.values()
            if not each.passed
        ]


@dataclass(frozen=True)
class SimulatedHands:
    """What the package's repairs ask of Dagster. ``at`` is called before each call, ``launched`` after a new launch."""

    storage: Storage
    orchestrator: Orchestrator
    at: Callable[[str], object]
    launched: Callable[[RepairAttempt], object]
    now: Callable[[], datetime]

    def launch(self, attempt: RepairAttempt) -> None:
        self.at("launch a backfill")
        if self.orchestrator.launch(attempt):
            self.launched(attempt)
        self.at("a backfill is launched")

    def ended(self, attempts: Iterable[RepairAttempt]) -> Mapping[str, str]:
        self.at("how backfills ended")
        self.orchestrator.bury()
        known = ((each.id, self.orchestrator.backfills.get(each.id)) for each in attempts)
        return {id: each.ended for id, each in known if each and each.ended}

    def look(self, known: Sequence[Incident]) -> RepairContext:
        """What is under way is read before the lakehouse."""
        self.at("what is under way")
        busy: dict[str, list[WriteUnderWay]] = {}
        for attempt in (each.attempt for each in self.orchestrator.alive()):
            for table, days in attempt.days.items():
                busy.setdefault(table, []).append(WriteUnderWay(attempt.id, days))
        not_run, watches = dict(self.orchestrator.not_run), self.orchestrator.failed_watches()
        observed = observe_each(self.storage, [table for step in STEPS for table in step.table_names])
        log, book = PublicationLog(self.storage), IncidentBook(self.storage)
        now = self.now()

        def published_at(publication: str) -> datetime | None:
            found = log.find_prepared(publication)
            return found[1] if found else None

        return RepairContext(
            observed.with_current(STEPS),
            observed,
            failed_watches=watches,
            incidents=by_days(known),
            bounds=self.orchestrator.bounds,
            spending=Spending(spent_since((*known, *book.closed_since(now - A_DAY)), now - A_DAY)),
            now=now,
            closings=book.closings(),
            not_run=not_run,
            busy=busy,
            rollbacks=rollbacks(self.storage),
            streams=RunningStreams((), published_at),
        )

    def verdicts(self, table: str, publications: Mapping[str, str]) -> Mapping[date, bool]:
        self.at("what the watchdog said")
        keys = {TableDay(table, date.fromisoformat(day)): of for day, of in publications.items()}
        said = {key: self.orchestrator.verdicts.get(key) for key in keys}
        return {key.day: each.passed for key, each in said.items() if each and each.publication == keys[key]}

    def dataset_of(self, table: str) -> str:
        return "chain"

    def plan(self, incident: Incident) -> str:
        self.at("make a plan")
        return f"plan-of-{incident.id}"
