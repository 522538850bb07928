"""A year of tables that goes wrong and is repaired, in a lakehouse in memory: Dagster's part is played beside it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import count

from backfill_assets.days import Cadence, DayRange, TableDay
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.records import DayContent, DayState
from backfill_assets.model.declaration import DayFacts, DayRule, GateFinding, Step
from backfill_assets.model.graph import step_by_table
from backfill_assets.quality.watchdogs import CONTENT
from backfill_assets.state.rolled_back import Rollbacks, Seen
from backfill_assets.upkeep.bounds import RepairBounds, Spending
from backfill_assets.upkeep.failed_checks import FailedWatch, HeldByGates, HeldByStream, NotRun
from backfill_assets.upkeep.heal import Healed, heal
from backfill_assets.upkeep.incidents import Incident, IncidentBook, RepairAttempt, by_days, spent_since
from backfill_assets.upkeep.trouble import RepairContext, RunningStreams, WriteUnderWay, digest_beside
from backfill_assets_tests.plan.world import World
from backfill_assets_tests.simulator.store import SimulatedStorage
from backfill_assets_tests.upkeep.weeks import ALL, STEPS

YEAR, WEEKS = DayRange.parse("2017-01-02..2017-12-31"), DayRange.parse("2017-01-02..2017-01-22")


AGREES = "agrees_with_fact"


@dataclass(frozen=True)
class AgreesWithFact(DayRule):
    """The report adds up to the fact, when both are read again."""

    name_format = AGREES
    dimension = "consistency"
    judged_afresh = True

    @property
    def needs(self) -> Mapping[str, tuple[str, ...]]:
        return {"fact": ()}

    def judge(self, facts: DayFacts) -> GateFinding:
        raise NotImplementedError("A life says itself what its watchdogs see.")


def _compared(step: Step) -> Step:
    tables = tuple(replace(table, rules=(AgreesWithFact(),)) for table in step.tables)
    return replace(step, tables=tables) if step.name in ("revenue", "weekly") else step


COMPARED = tuple(map(_compared, STEPS))
"""Watchdogs of the reports compare them with the fact."""


WITH_RAW = "undo-with-raw"


@dataclass(frozen=True)
class Undone(Rollbacks):
    """One that is named :data:`WITH_RAW` withdrew rows of raw, before inputs of what it has put back changed."""

    def has_changed(self, rollback: str, key: TableDay, observed: Seen) -> bool:
        return rollback == WITH_RAW

    def withdrew(self, rollback: str, keys: Collection[TableDay]) -> bool:
        return rollback == WITH_RAW


@dataclass
class Lakehouse(World):
    """Publications have names, an order and moments; a day's content is a function of what it is made of."""

    sequence: int = 0
    metrics: dict[TableDay, dict[str, int]] = field(default_factory=dict)

    def put(self, table: str, day: date, content: DayContent | None, physical: str) -> None:
        super().put(table, day, content, physical)
        self.sequence += 1
        key = TableDay(table, day)
        if content is not None:
            content = replace(content, metrics=self.metrics.get(key, {}), staged_ms=100)
        self.states[key] = DayState(table, day, f"p{self.sequence}", self.sequence, physical, content)

    def build(self, table: str, day: date) -> None:
        """As a run does: from what there is now."""
        inputs = self._inputs(table, day, "v2")
        checksum = str(int(inputs[:12], 16)) if inputs else str(day.toordinal())
        content = DayContent(rows=1, checksum=checksum, code_version="v2", inputs=inputs)
        self.put(table, day, content, fingerprints.physical([f"{table}/{day}/{self.sequence}"]))


@dataclass
class Life:
    """The year, Dagster, and all that is told. Calls to Dagster are counted with those to the storage."""

    storage: SimulatedStorage
    world: Lakehouse = field(default_factory=lambda: Lakehouse({}, {}, {}, STEPS))
    now: datetime = datetime(2018, 1, 1, tzinfo=UTC)
    bounds: RepairBounds = field(default_factory=RepairBounds)
    steps: Sequence[Step] = COMPARED
    watches: dict[TableDay, FailedWatch] = field(default_factory=dict)
    disagreeing: set[TableDay] = field(default_factory=set)
    """Reports that do not add up to a fact that is as it should be."""
    damaged: dict[TableDay, str] = field(default_factory=dict)
    """Days whose files are wrong, with the publication that brought these files."""
    bad: set[TableDay] = field(default_factory=set)
    """Days that their gates hold back, whatever they are made of."""
    flaky: dict[TableDay, int] = field(default_factory=dict)
    """Days whose next runs die, and how many."""
    gates: dict[TableDay, HeldByGates] = field(default_factory=dict)
    streamed: dict[TableDay, HeldByStream] = field(default_factory=dict)
    """What a stream holds back: its events grow with each look."""
    not_run: dict[TableDay, NotRun] = field(default_factory=dict)
    suspicions: dict[TableDay, dict[str, str]] = field(default_factory=dict)
    plans_of_campaigns: dict[TableDay, str] = field(default_factory=dict)
    launched: dict[str, RepairAttempt] = field(default_factory=dict)
    over: dict[str, str] = field(default_factory=dict)
    proofs: set[str] = field(default_factory=set)
    built: list[TableDay] = field(default_factory=list)
    planned: list[tuple[str, Sequence[date]]] = field(default_factory=list)
    no_plan: str = ""
    published_at: dict[str, datetime] = field(default_factory=dict)

    @classmethod
    def beginning(cls, storage: SimulatedStorage, world: Lakehouse) -> Life:
        copied = Lakehouse(dict(world.states), _copy(world.newest), _copy(world.pinned), STEPS)
        copied.sequence = world.sequence
        life, writes = cls(storage, copied), count()
        storage.held.now_ms = lambda: int(life.now.timestamp() * 1000) + next(writes)
        return life

    # ------------------------------------------------------------------ what Dagster does

    def _call(self) -> None:
        self.storage.held.at("Dagster")

    def launch(self, attempt: RepairAttempt) -> None:
        self._call()
        self.launched.setdefault(attempt.id, attempt)
        self._call()

    def ended(self, attempts: Iterable[RepairAttempt]) -> Mapping[str, str]:
        self._call()
        return {each.id: self.over[each.id] for each in attempts if each.id in self.over}

    def look(self, known: Sequence[Incident]) -> RepairContext:
        self._call()
        streams = RunningStreams((), self.published_at.get)
        busy: dict[str, list[WriteUnderWay]] = {}
        for attempt in (each for id, each in self.launched.items() if id not in self.over):
            # What restores raw is a run of no asset.
            for table, days in attempt.days.items() if not attempt.restores else ():
                busy.setdefault(table, []).append(WriteUnderWay(attempt.id, days))
        return RepairContext(
            self.steps,
            self.world.observed(),
            failed_watches=list(self.watches.values()),
            incidents=by_days(known),
            failed_gates=self.gates,
            held_by_streams=self._held_by_streams(),
            not_run=self.not_run,
            suspicions=self.suspicions,
            rollbacks=Undone(),
            rebuilt_by=self.plans_of_campaigns,
            bounds=self.bounds,
            spending=Spending(self._spent(known)),
            now=self.now,
            streams=streams,
            busy=busy,
        )

    def _held_by_streams(self) -> dict[TableDay, HeldByStream]:
        for key, held in self.streamed.items():
            words = (
                f"{held.events + 1} events reach no table: few_rejected: {held.events + 1} rows, expected at most 20"
            )
            self.streamed[key] = replace(held, words=words, events=held.events + 1)
        return self.streamed

    def _spent(self, known: Sequence[Incident]) -> Decimal:
        if self.bounds.core_seconds is None:
            return Decimal(0)  # Nobody asks, and a week has many that are closed.
        return spent_since((*known, *self.closed()), self.now - timedelta(days=1))

    def verdicts(self, table: str, publications: Mapping[str, str]) -> Mapping[date, bool]:
        self._call()
        days = map(date.fromisoformat, publications if self.proofs else ())
        return {day: TableDay(table, day) not in self.watches for day in days}

    def dataset_of(self, table: str) -> str:
        return "sales"

    def plan(self, incident: Incident) -> str:
        self._call()
        if self.no_plan:
            raise InvalidRequest(self.no_plan)
        self.planned.append((incident.table, incident.days))
        return "plan-1"

    # ------------------------------------------------------------------ time goes on

    def tick(self) -> Healed:
        healed = heal(self.storage, self, self.now)
        self.proofs |= healed.proofs.keys()
        for days in healed.proofs.values():
            self.read_again(TableDay(table, day) for table, dates in days.items() for day in dates)
        return healed

    def run_backfills(self) -> None:
        for id, attempt in self.launched.items():
            if id not in self.over:
                self.over[id] = self._run(attempt)

    def _run(self, attempt: RepairAttempt) -> str:
        """All days of a step or none, as a run does."""
        if attempt.restores:
            return self._restore([TableDay(table, day) for table, days in attempt.days.items() for day in days])
        steps = [step for step in STEPS if step.name in attempt.days]
        for step in steps:
            keys = [TableDay(table, day) for table in step.table_names for day in attempt.days.get(step.name, ())]
            failing = [key for key in keys if key in self.bad]
            for key in failing:
                inputs = fingerprints.input_fingerprint("v2", "", self.world._inputs(key.table, key.day, "v2"))
                self.gates[key] = HeldByGates("rejected_at_most: expected 1 %, observed 30 %", inputs, attempt.id)
            dying = [key for key in keys if self.flaky.get(key)]
            for key in dying:
                self.flaky[key] -= 1
            if failing or dying:
                self.not_run |= dict.fromkeys((key for key in keys if key not in self.gates), NotRun(attempt.id))
                return "failed"
            for key in keys:
                self.world.build(*key)
                self.built.append(key)
                self.gates.pop(key, None)
                self.not_run.pop(key, None)
                self.damaged.pop(key, None)
        return "success"

    def _restore(self, keys: Sequence[TableDay]) -> str:
        """The lost files of raw are put back, unless nothing has their rows."""
        if not self.bad.isdisjoint(keys):
            return "failure"
        for key in keys:
            state = self.world.states[key]
            self.world.sequence += 1
            at = self.world.sequence
            self.world.states[key] = replace(state, publication=f"p{at}", sequence=at)
            self.damaged.pop(key, None)
        return "success"

    def read_again(self, keys: Iterable[TableDay]) -> None:
        """The watchdog looks at what is published now, and at what that is compared with."""
        for key in (each for each in keys if each in self.world.states):
            state, physical = self.world.states[key], self.world.newest[key.table].get(key.day, fingerprints.EMPTY_DAY)
            self.watches.pop(key, None)
            broken, beside = self._broken(key), ""
            if broken == (AGREES,):
                beside = digest_beside(self.world.observed(), ["fact"], self._period(key))
            if broken:
                self.watches[key] = FailedWatch(*key, state.publication, physical, broken, beside=beside)

    def _broken(self, key: TableDay) -> tuple[str, ...]:
        if self.damaged.get(key) == self.world.states[key].publication:
            return (CONTENT,)
        if key in self.disagreeing:
            return (AGREES,)
        if key.table in ("revenue", "weekly") and any(self._is_wrong(TableDay("fact", d)) for d in self._period(key)):
            return (AGREES,)
        return ()

    def _period(self, key: TableDay) -> DayRange:
        return step_by_table(STEPS)[key.table].cadence.period(key.day)

    def _is_wrong(self, key: TableDay) -> bool:
        state = self.world.states.get(key)
        is_foreign = state is not None and self.world.newest[key.table].get(key.day) != state.physical
        return is_foreign or (state is not None and self.damaged.get(key) == state.publication)

    def four_o_clock(self) -> None:
        """The watchdogs read all that is published."""
        self.read_again(list(self.world.states))

    def damage(self, key: TableDay, *, lost: bool = False, broken: str = CONTENT) -> None:
        """The watchdog has seen it."""
        state = self.world.states[key]
        self.damaged[key] = state.publication
        physical = self.world.newest[key.table][key.day]
        self.watches[key] = FailedWatch(*key, state.publication, physical, (broken,), lost=lost)

    def go_on(self, ticks: int = 40, minutes: int = 2) -> None:
        for _ in range(ticks):
            self.tick()
            self.run_backfills()
            self.now += timedelta(minutes=minutes)

    # ------------------------------------------------------------------ what is asked afterwards

    @property
    def book(self) -> IncidentBook:
        return IncidentBook(self.storage)

    def told_of(self, found: Iterable[Incident]) -> dict[str, str]:
        """The stages that were told of each incident, as they came."""
        files = [file for folder in ("due", "delivered") for file in self.storage.files(f"_outbox/{folder}")]
        files.sort(key=lambda file: file.modified_ms)
        keys = [file.path.rpartition("/")[2].removesuffix(".json") for file in files]
        return {
            each.id: " ".join(key.removeprefix(f"{each.id}-") for key in keys if key.startswith(f"{each.id}-"))
            for each in found
        }

    def told(self) -> list[str]:
        return sorted(file.path.rpartition("/")[2] for file in self.storage.files("_outbox/due"))

    def closed(self) -> list[Incident]:
        return self.book.closed_since(datetime(2000, 1, 1, tzinfo=UTC))


def _copy(days: Mapping[str, Mapping[date, str]]) -> dict[str, dict[date, str]]:
    return {table: dict(each) for table, each in days.items()}


def sound(days: DayRange) -> Lakehouse:
    """Everything published from what it is made of."""
    world = Lakehouse({}, {}, {}, STEPS)
    steps = step_by_table(STEPS)
    for table in (*ALL, "weekly"):
        cadence: Cadence = steps[table].cadence
        for day in cadence.starts(days):
            world.build(table, day)
    return world
