"""Stages steps in build order on a place; each reads what the ones before it staged. Publishes nothing.

A repeated walk computes only days whose inputs have changed: a killed process resumes, and moved days are staged again
before a cut-over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from backfill_assets import clock
from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.disk import full_disk
from backfill_assets.lakehouse.records import HELD_BACK, DayRecords, Publication, logical_of
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import CAMPAIGN, newest_days
from backfill_assets.model.declaration import RuleOutcome, Step
from backfill_assets.model.graph import NOT_KNOWN, Filled, tables_as_of
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.decide import Decision, Stays
from backfill_assets.rebuild.growing import Growing
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.outcome import RunInfo, refuse_failed
from backfill_assets.rebuild.place import NOTHING_LAID, Overlay, Place
from backfill_assets.rebuild.stage import StagedTableDay
from backfill_assets.rebuild.step_build import StepBuild
from backfill_assets.rebuild.step_look import StepDecision, StepRequest

_LONGEST_ERROR = 300


@dataclass(frozen=True)
class HeldBack:
    """A day that is not staged for publishing, because of its gates, a day that it reads, or an error."""

    table: str
    day: date
    rules: tuple[RuleOutcome, ...] = ()
    because_of: str = ""
    error: str = ""
    rejects: tuple[AddedFile, ...] = ()

    @property
    def why(self) -> str:
        gates = "; ".join(
            "; ".join([f"{rule.rule}: {rule.observed}, expected {rule.expected}", *rule.details]) for rule in self.rules
        )
        return self.error or self.because_of or gates


@dataclass(frozen=True)
class StepBuilt:
    """``build`` holds what a cut-over publishes."""

    build: StepBuild
    kept: tuple[date, ...]
    """The place has them from these inputs already."""
    from_main: tuple[date, ...]
    """Main has them: files are reused by name."""
    staged: tuple[date, ...]
    held_back: tuple[HeldBack, ...] = ()
    records: DayRecords = field(default_factory=dict)
    seconds: float = 0.0

    @classmethod
    def of(cls, build: StepBuild, held_back: tuple[HeldBack, ...], seconds: float) -> StepBuilt:
        kept, from_main, staged = (tuple(sorted(days)) for days in (build.kept, build.from_main, build.staged))
        return cls(build, kept, from_main, staged, held_back, build.records(), seconds)

    @property
    def step(self) -> str:
        return self.build.step.name

    @property
    def version(self) -> str:
        return self.build.version.name

    @property
    def rows(self) -> int:
        """Rows of the step's table on all requested days that are not held back."""
        contents = (self.build.content(TableDay(self.step, day)) for day in (*self.kept, *self.from_main, *self.staged))
        return sum(each.rows for each in contents if each is not None)

    def __str__(self) -> str:
        counts = f"{len(self.staged):,} staged, {len(self.from_main):,} from main, {len(self.kept):,} unchanged"
        grown = f" ({len(self.build.grown):,} grown)" if self.build.grown else ""
        return f"{self.step}: {counts}{grown}, in {self.seconds:.1f} s"


def request_of(done: Iterable[StepBuilt], id: str) -> Publication | None:
    requests = [each.build.request() for each in done if each.build.staged]
    if not requests:
        return None
    tables = tuple(change for request in requests for change in request.tables)
    inputs = tuple(read for request in requests for read in request.inputs if read.days)
    return requests[0].model_copy(update={"id": id, "tables": tables, "inputs": inputs})


@dataclass
class Walk:
    lake: Lake
    place: Place
    run: RunInfo
    progress: Progress
    holds_back: bool = True
    """Hold back days that fail or cannot be computed, and all that read them; otherwise one fails the step."""
    growing: Growing | None = None
    watch: Callable[[Sequence[StepBuilt]], None] | None = None
    """Called with the results so far, after each step and within it; an error ends the walk."""
    out: dict[str, frozenset[date]] = field(default_factory=dict)
    done: list[StepBuilt] = field(default_factory=list)

    def take(self, asked: StepRequest) -> StepBuilt:
        """Raises :class:`DaysFailed` unless ``holds_back``."""
        began = clock.seconds()
        build = StepBuild(self.lake, asked, self.run, self.progress, self.place, self.growing)
        build.after_chunk = self._watch_chunk if self.watch else None
        held_back = self._stage_good_days(build) if self.holds_back else self._stage_all_days(build)
        done = StepBuilt.of(build, held_back, round(clock.seconds() - began, 1))
        self.place = self.place.over(done.records)
        self.out |= dict.fromkeys(build.tables, frozenset(held.day for held in held_back))
        self.done.append(done)
        if self.watch:
            self.watch(self.done)
        return done

    def _watch_chunk(self, build: StepBuild) -> None:
        failed = _failed_days(build)
        good = replace(build, staged={day: held for day, held in build.staged.items() if day not in failed})
        if self.watch:
            self.watch([*self.done, StepBuilt.of(good, tuple(_hold_back_failed(build, failed)), seconds=0.0)])

    def forget(self, days: Collection[date]) -> None:
        """Leave ``days`` out of all results so far: they stay as published."""
        tables = [table for done in self.done for table in done.build.tables]
        self.place = replace(self.place, overlay=self.place.overlay.without_days(tables, days))
        for done in self.done:
            done.build.forget(days)
            done.build.place = self.place
        self.done = [StepBuilt.of(done.build, done.held_back, done.seconds) for done in self.done]

    @property
    def changed(self) -> DayRecords:
        found = NOTHING_LAID
        for done in self.done:
            found = found.with_records(done.records)
        return found.days

    def _stage_all_days(self, build: StepBuild) -> tuple[HeldBack, ...]:
        build.stage(build.asked.days)
        refuse_failed(build.staged)
        return ()

    def _stage_good_days(self, build: StepBuild) -> tuple[HeldBack, ...]:
        asked = build.asked
        blocked = self._blocked_days(asked)
        todo = [day for day in asked.days if day not in blocked]
        paused = self.growing.paused(asked.step, todo) if self.growing else {}
        broken = self._stage_all_that_can_be(build, [day for day in todo if day not in paused])
        failed = _failed_days(build)
        build.forget((*failed, *broken))
        if self.growing:
            self.growing.pause(asked.step, {day: held[0].seconds for day, held in failed.items() if day in build.whole})
        return (
            *_hold_back_failed(build, failed),
            *(HeldBack(asked.step.name, day, because_of=why) for day, why in paused.items()),
            *(HeldBack(asked.step.name, day, error=first_line(error)) for day, error in broken.items()),
            *_hold_back_blocked(asked, blocked, self.out),
        )

    def _stage_all_that_can_be(self, build: StepBuild, days: Sequence[date]) -> Mapping[date, Exception]:
        try:
            if days:
                build.stage(days)
        except Exception as error:
            if not is_day_failure(error):
                raise
            # Days that a timeline kept prove nothing about the logic.
            tried = [day for day in days if self.place.is_campaign or day not in build.kept]
            most = len(tried) if self.growing else _MOST_BAD_DAYS
            return isolate_failing_days(build.stage, tried, is_day_failure, self.progress, failed=error, most=most)
        return {}

    def _blocked_days(self, asked: StepRequest) -> set[date]:
        filled = self.filled(asked.step)
        return {
            day
            for version in asked.versions
            for day in decide.days_reading(asked.step, version, asked.days, self.out, filled)
        }

    def filled(self, step: Step) -> Filled:
        tables, log = tables_as_of([step]), self.lake.publisher.log
        return self.place.filled([step], log.day_states(log.head(), tables)) if tables else NOT_KNOWN

    def look(self, asked: StepRequest) -> tuple[StepBuild, StepDecision]:
        """What staging would do; the caller lays results over the place for later steps."""
        build = StepBuild(self.lake, asked, self.run, self.progress, self.place)
        return build, build.look(asked.days, blocked=self._blocked_days(asked))


def shadow(
    lake: Lake,
    campaign: str,
    steps: Sequence[StepRequest],
    run: RunInfo,
    progress: Progress,
    watch: Callable[[Sequence[StepBuilt]], None] | None = None,
) -> list[StepBuilt]:
    """Stage a campaign's ``steps``, in build order, on its own timelines. Raises :class:`PublicationRefused` for a
    dirty tree; an error of ``watch`` ends the walk.
    """
    if not campaign.startswith(CAMPAIGN):
        raise InvalidRequest(f"{campaign!r} does not name a campaign.", hint=f"Its name begins with {CAMPAIGN}.")
    lake.require_clean_tree()
    lake.look_at_tables_of_others(each.step for each in steps)
    walk = Walk(lake, Place(campaign), run, progress, watch=watch)
    return [walk.take(each) for each in steps]


@dataclass(frozen=True)
class StagedDays:
    overlay: Overlay
    stays: Mapping[str, Mapping[date, Stays]] = field(default_factory=dict)
    """Days that stay as main has them, by table, and why."""

    def why_it_stays(self, table: str, day: date) -> Stays:
        return self.stays.get(table, {}).get(day, "not staged")

    def failed(self, table: str) -> set[date]:
        return {day for day, why in self.stays.get(table, {}).items() if why == "held back"}


def _stays(
    unchanged: Collection[date] = (), left_out: Collection[date] = (), failed: Collection[date] = ()
) -> dict[date, Stays]:
    """``unchanged``: main has them from the same inputs already. ``left_out``: they read a day that is held back, or
    could not be computed.
    """
    why: list[tuple[Collection[date], Stays]] = [
        (unchanged, "unchanged"),
        (left_out, "left out"),
        (failed, "held back"),
    ]
    return {day: stays for days, stays in why for day in days}


def staged_by(done: Sequence[StepBuilt]) -> StagedDays:
    overlay, stays = NOTHING_LAID, dict[str, Mapping[date, Stays]]()
    for each in done:
        overlay = overlay.with_records(each.records)
        out = {held.day for held in each.held_back}
        for table in each.build.tables:
            failed = {held.day for held in each.held_back if held.table == table and held.rules}
            stays[table] = _stays(each.kept, out, failed)
    return StagedDays(overlay, stays)


def sides_of(done: Sequence[StepBuilt]) -> dict[TableDay, tuple[str, str]]:
    """By day: the fingerprint that compare-and-swap expects in main, and the staged one."""
    sides = {TableDay(held.table, held.day): HELD_BACK for each in done for held in each.held_back if held.rules}
    for staged in (staged for each in done for held in each.build.staged.values() for staged in held):
        key = TableDay(staged.table, staged.day)
        expected = fingerprints.physical(staged.pin.expected[key].files)
        published = logical_of(staged.pin.states.get(key), expected)
        sides[key] = (published, staged.content.logical)
    return sides


def days_staged_in(storage: Storage, campaign: str, tables: Sequence[str]) -> StagedDays:
    """What the timelines of ``campaign`` hold, for readers that stage nothing."""
    overlay, stays = NOTHING_LAID, dict[str, Mapping[date, Stays]]()
    for table in tables:
        staged = newest_days(storage, table, campaign).values()
        overlay = overlay.with_days(table, (each.record for each in staged if each.record))
        stays[table] = _stays(failed=[each.day for each in staged if each.verdict and not each.verdict.passed])
    return StagedDays(overlay, stays)


def with_days_that_stay(lake: Lake, steps: Sequence[StepRequest], staged: StagedDays) -> StagedDays:
    """Add which days of ``steps``, in build order, stay as they are, and why.

    A day that stays and one not staged yet look alike, as no timeline lists them: the decision of staging tells. Days
    that read an unstaged one are undecided. Staged days that the cut-over leaves out do not count as staged.
    """
    walk = Walk(lake, Place(overlay=staged.overlay), RunInfo(""), lambda _: None)
    stays = dict(staged.stays)
    waiting: dict[str, frozenset[date]] = {}
    for each in steps:
        names, overlay = each.step.table_names, walk.place.overlay
        failed = {day for name in names for day in staged.failed(name)}
        filled = walk.filled(each.step)
        held = failed | decide.days_reading(each.step, each.named, each.days, walk.out, filled)
        on_timeline = {day for day in each.days if all(overlay.record(name, day) for name in names)}
        absent = [day for day in each.days if day not in held | on_timeline]
        walk.place = Place(overlay=overlay.without_days(names, held))
        waits = decide.days_reading(each.step, each.named, absent, waiting, filled)
        open_days = [day for day in absent if day not in waits]
        decided = walk.look(replace(each, days=open_days))[1].decided if open_days else {}
        held |= {day for day, decision in decided.items() if decision is Decision.BLOCKED}
        same = frozenset(day for day, decision in decided.items() if decision is Decision.KEEP)
        stays |= {name: _stays(same, held, staged.failed(name)) for name in names}
        walk.out |= dict.fromkeys(names, frozenset(held))
        waiting |= dict.fromkeys(names, frozenset(absent) - same - held)
    return StagedDays(walk.place.overlay, stays)


_SERVER_GONE = {"SparkConnectGrpcException", "RetriesExceeded"}


def is_day_failure(error: Exception) -> bool:
    """False if the server is gone, the request was refused or the disk is full."""
    if not isinstance(error, PySparkException | Py4JJavaError) or type(error).__name__ in _SERVER_GONE:
        return False
    return full_disk("", error) is None


def first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:_LONGEST_ERROR]


def _failed_days(build: StepBuild) -> dict[date, list[StagedTableDay]]:
    return {day: held for day, held in build.staged.items() if not all(staged.passed for staged in held)}


def _hold_back_failed(build: StepBuild, failed: Mapping[date, Sequence[StagedTableDay]]) -> Iterable[HeldBack]:
    quarantines = {table.name for table in build.asked.step.tables if table.layer == "quarantine"}
    for held in failed.values():
        rejects = tuple(file.below(each.table) for each in held if each.table in quarantines for file in each.files)
        for staged in held:
            if broken := tuple(rule for rule in staged.rules if rule.holds_back):
                yield HeldBack(staged.table, staged.day, broken, rejects=rejects)


def _hold_back_blocked(
    asked: StepRequest, blocked: set[date], out: Mapping[str, frozenset[date]]
) -> Iterable[HeldBack]:
    for day in sorted(blocked):
        reads = (read for version in asked.versions for read in decide.read_days(asked.step, version, [day]).items())
        cause = next(f"{table} {d}" for table, days in reads for d in days if d in out.get(table, ()))
        yield HeldBack(asked.step.name, day, because_of=cause)


# ------------------------------------------------------------------ days that cannot be computed

_MOST_BAD_DAYS = 3
"""Above this the logic or the engine is broken. A stream has no such limit."""


def isolate_failing_days(
    attempt: Callable[[Sequence[date]], None],
    days: Sequence[date],
    is_about_days: Callable[[Exception], bool],
    report: Callable[[str], None],
    failed: Exception | None = None,
    most: int = _MOST_BAD_DAYS,
) -> dict[date, Exception]:
    """Bisect ``days`` where ``attempt`` fails; returns those that fail alone, with errors. ``failed`` is an earlier
    attempt's over all. An error that is not ``is_about_days`` is raised at once, the first one if all or more than
    ``most`` days fail.
    """
    bad: dict[date, Exception] = {}
    pending = [tuple(days)] if days else []
    first: Exception | None = None
    while pending:
        part = pending.pop()
        try:
            if failed is not None:
                error, failed = failed, None
                raise error
            attempt(part)
        except Exception as error:
            if not is_about_days(error):
                raise
            first = first or error
            if len(part) == 1:
                bad[part[0]] = error
            else:
                half = len(part) // 2
                report(f"{part[0]}..{part[-1]} failed: trying {part[0]}..{part[half - 1]} and the rest by themselves")
                pending += [part[half:], part[:half]]
            if len(bad) > most or (bad and len(bad) == len(days)):
                raise first from None
    return dict(sorted(bad.items()))
