"""Grows the days that gained rows in all tables that follow raw. All of it is of one thread."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

from backfill_assets import clock
from backfill_assets.days import TableDay
from backfill_assets.errors import BackfillError
from backfill_assets.lakehouse.records import DayState, InputRead, content_in, is_of_stream
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.quarantine import count_reasons
from backfill_assets.landing.release import release_command
from backfill_assets.model.declaration import Step
from backfill_assets.publish.log import PublicationLog
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.follow import FollowBuild, Followed
from backfill_assets.rebuild.growing import InputMemory, following
from backfill_assets.rebuild.ingest import ArrivalBuild
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.main_build import MainBuild
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.step_look import StepRequest
from backfill_assets.rebuild.walk import HeldBack, first_line, is_day_failure
from backfill_assets.stream.batches import HOLD_SECONDS, stream_name
from backfill_assets.stream.lease import HeldEvents, still_held
from backfill_assets.text import format_count, format_ranges

_PAUSE = timedelta(seconds=60)


@dataclass(frozen=True)
class _Broken:
    until: datetime
    why: str


@dataclass
class Follower:
    """``pending`` days wait for the next following, or a minute."""

    lake: Lake
    raw: Step
    run: RunInfo
    progress: Progress
    report: Callable[[str], None]
    pending: set[date] = field(default_factory=set)
    memory: InputMemory = field(default_factory=InputMemory)
    batches: int = 0
    not_compacted: dict[str, datetime] = field(default_factory=dict)
    _broken: dict[date, _Broken] = field(default_factory=dict)
    _reported: dict[date, str] = field(default_factory=dict)
    _asked: dict[date, str] = field(default_factory=dict)
    _supplied: dict[date, int] = field(default_factory=dict)
    held: dict[date, HeldEvents] = field(default_factory=dict)
    read: InputRead | None = None
    """What of raw the last following was made of."""

    @property
    def steps(self) -> list[Step]:
        return following(self.lake.with_current(self.lake.catalog.steps), self.raw.name)

    def catch_up(self) -> None:
        steps = self.steps
        days = find_days_behind(self.lake.publisher.log, self.raw.name, steps[0]) if steps else set()
        if days:
            self.progress(f"{format_count(len(days), 'day')} that fell behind: built first")
        self.follow(days)

    def follow(self, days: Collection[date]) -> None:
        """Each reason is reported once; a failing day is not tried with every batch."""
        self.pending |= set(days) - self._left_to_people(days)
        steps, now = self.steps, clock.now()
        due = sorted(day for day in self.pending if day not in self._broken or self._broken[day].until <= now)
        self.read = None
        if not steps or not due:
            return
        try:
            self._bring_reference_data(steps, due, now.date())
            done = self._following(steps, now.date()).publish(due)
            broken = {each.day: each.error for each in done.held_back if each.error}
        except BackfillError as error:
            self._report(dict.fromkeys(self.pending, error.message))
            return
        except Exception as error:
            if not is_day_failure(error):
                raise
            done, broken = Followed(""), dict.fromkeys(due, first_line(error))
        self.read = done.read.get(self.raw.name)
        self._settle(due, done, broken, now)

    def _left_to_people(self, days: Collection[date]) -> set[date]:
        if self.raw.lateness is None or self.raw.lateness.beyond != "ask":
            return set()
        log = self.lake.publisher.log
        states = log.day_states(log.head(), {self.raw.name})
        contents = {day: content_in(states, TableDay(self.raw.name, day)) for day in days}
        whys = {day: self.raw.lateness.asks(content.metrics) for day, content in contents.items() if content}
        for day in sorted(day for day, why in whys.items() if why and self._asked.get(day) != why):
            self.report(f"{day} is left to a person: {whys[day]}")
            self._asked[day] = whys[day]
        return {day for day, why in whys.items() if why}

    def _following(self, steps: Sequence[Step], today: date) -> FollowBuild:
        return FollowBuild(
            *(self.lake, steps, self.run, self.progress, self.memory),
            name=f"stream-{steps[-1].name}",
            open_days=frozenset({today - timedelta(days=1), today}),
            transaction=stream_name(self.raw.name),
            hold_seconds=HOLD_SECONDS,
        )

    def forget(self) -> None:
        """After an error, input files are looked up in the log again."""
        self.memory = InputMemory()

    def _bring_reference_data(self, steps: Sequence[Step], due: Sequence[date], today: date) -> None:
        """Looks once a day; for an open day each hour."""
        new = {day for day in due if self._supplied.get(day, 0) < self._hour(day, today)}
        if new:
            _ReferenceData(self.lake, tuple(steps), self.run, self.progress).build(new)
            self._supplied |= {day: self._hour(day, today) for day in new}

    def _hour(self, day: date, today: date) -> int:
        return int(clock.now().timestamp()) // 3600 if (today - day).days <= 1 else 1

    def _settle(self, due: Sequence[date], done: Followed, broken: Mapping[date, str], now: datetime) -> None:
        # In build order: what is held back because of another day is reported for that one.
        held = {each.day: _why_held(each) for each in reversed(done.held_back)}
        waiting = {day: each for day, each in self._broken.items() if day not in due}
        waiting |= {day: _Broken(now + _PAUSE, f"it cannot be computed: {why}") for day, why in broken.items()}
        if broken:
            self.forget()
        self._broken = waiting
        self.pending = {*done.left, *waiting}
        self._note_held(set(due) - self.pending - held.keys(), done.held_back)
        closed = {day: f"it is {why}" for day, why in done.closed.items()}
        self._report({**held, **done.left, **closed, **{day: each.why for day, each in waiting.items()}})

    # ------------------------------------------------------------------ what gates hold back

    def take_over(self, held: Iterable[HeldEvents]) -> None:
        tables = {name for step in self.steps for name in step.table_names}
        self.held = {each.day: each for each in held if each.table in tables}

    def _note_held(self, followed: Collection[date], held_back: Iterable[HeldBack]) -> None:
        self.held = {day: held for day, held in self.held.items() if day not in followed}
        since = {(each.table, each.day): each.since for each in self.held.values()}
        by_gates = {each.day: each for each in held_back if each.rules and not each.error}
        for day, each in by_gates.items():
            began = since.get((each.table, day), clock.now())
            self.held[day] = _held_events(self.lake.storage, each, began, self._version_tried(each))
        self.see_held()

    def _version_tried(self, held: HeldBack) -> str:
        (step,) = (step for step in self.steps if held.table in step.table_names)
        log = self.lake.publisher.log
        content = content_in(log.day_states(log.head(), {held.table}), TableDay(held.table, held.day))
        return content.code_version if content else step.current

    def see_held(self) -> None:
        if self.held:
            log = self.lake.publisher.log
            states = log.day_states(log.head(), {self.raw.name, *(held.table for held in self.held.values())})
            held = still_held(self.held.values(), self.raw.name, states)
            self.held = {each.day: each for each in held}

    def _report(self, reasons: dict[date, str]) -> None:
        news: dict[str, list[date]] = {}
        for day, reason in reasons.items():
            if self._reported.get(day) != reason:
                news.setdefault(reason, []).append(day)
        self._reported = reasons
        for reason, days in news.items():
            self.report(f"{format_ranges(days)} will follow later: {reason}")


def _held_events(storage: Storage, held: HeldBack, since: datetime, version: str) -> HeldEvents:
    return HeldEvents(
        table=held.table,
        day=held.day,
        rule=", ".join(rule.rule for rule in held.rules),
        why=held.why,
        events=0,
        since=since,
        version=version,
        rejected=sum(file.rows for file in held.rejects),
        reasons=dict(count_reasons(storage, [file.path for file in held.rejects]).most_common()),
        do=release_command(held.table, held.day, held.rules),
    )


def _why_held(held: HeldBack) -> str:
    command = release_command(held.table, held.day, held.rules)
    return f"{held.table} is held back: {held.why}" + (f". To publish it without them: {command}" if command else "")


@dataclass(frozen=True)
class _ReferenceData:
    lake: Lake
    steps: tuple[Step, ...]
    run: RunInfo
    progress: Progress

    def build(self, days: Collection[date]) -> None:
        """Also for today: what lands later makes its facts stale."""
        for table, wanted in self._missing(days).items():
            (step,) = self.lake.with_current([self.lake.catalog.step(table)])
            (raw,) = (self.lake.catalog.step(read.table) for read in step.version().reads[:1])
            landed = self._landed(raw, wanted)
            if raw.source is None or not landed:
                continue
            ArrivalBuild(self.lake, raw, self.run, self.progress).run_days(landed)
            MainBuild(self.lake, StepRequest(step, landed), self.run, self.progress).publish()

    def _missing(self, days: Iterable[date]) -> dict[str, list[date]]:
        own = {name for step in self.steps for name in step.table_names}
        read_of: dict[str, set[date]] = {}
        for step in self.steps:
            for read in step.version().reads[1:]:
                if read.table not in own:
                    periods = (step.cadence.period(day) for day in days)
                    read_of.setdefault(read.table, set()).update(day for period in periods for day in read.days(period))
        states = self.lake.publisher.log.day_states(self.lake.publisher.log.head(), set(read_of))
        return {
            table: [day for day in sorted(found) if TableDay(table, day) not in states]
            for table, found in read_of.items()
        }

    def _landed(self, raw: Step, days: Collection[date]) -> list[date]:
        landing = self.lake.landing
        if raw.source is None or not landing.paths(raw.source):
            return []
        found = landing.deliveries(raw.source, days)
        return [day for day in days if found[day] == "landed"]


# ------------------------------------------------------------------ days that follow later than they should


def find_days_behind(log: PublicationLog, raw: str, refined: Step) -> set[date]:
    return days_behind(raw, refined, log.day_states(log.head(), {raw, *refined.table_names}))


def days_behind(raw: str, refined: Step, states: Mapping[TableDay, DayState]) -> set[date]:
    """Days built from other raw rows than now, and unbuilt ones whose last rows came by a stream: others are history,
    or were put back.
    """
    behind = set()
    for (table, day), state in states.items():
        if table != raw or state.content is None:
            continue
        built = states.get(TableDay(refined.name, day))
        if built is None or built.content is None:
            if state.content.rows and is_of_stream(state.origin.rows_by):
                behind.add(day)
        elif built.content.inputs != _inputs(refined, day, raw, state):
            behind.add(day)
    return behind


def _inputs(refined: Step, day: date, raw: str, state: DayState) -> str:
    logicals = {raw: {day: state.content.logical if state.content else ""}}
    return decide.wanted(refined, refined.version(), [day], logicals)[day].inputs
