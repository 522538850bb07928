"""The one walk through steps in build order: each step reads what the ones before it have put in the place.

A campaign, a timeline, a look at either: all are walked here. Nothing is published, and readers of main see nothing of
it. Walked again, every day that is there from just the inputs there are now is kept or taken, and only those that moved
are computed: so a killed process goes on, and so days that main has moved under are staged again before a cut-over.
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
from backfill_assets.rebuild.step_look import StepLook, StepRequest

_LONGEST_ERROR = 300


@dataclass(frozen=True)
class HeldBack:
    """A day that is not staged for publishing, and why: its gates, a day it is computed from, or an error."""

    table: str
    day: date
    rules: tuple[RuleOutcome, ...] = ()
    because_of: str = ""
    error: str = ""
    rejects: tuple[AddedFile, ...] = ()
    """The files of rejected rows that were staged with the day, of a step that rejects rows."""

    @property
    def why(self) -> str:
        gates = "; ".join(
            "; ".join([f"{rule.rule}: {rule.observed}, expected {rule.expected}", *rule.details]) for rule in self.rules
        )
        return self.error or self.because_of or gates


@dataclass(frozen=True)
class StepBuilt:
    """What became of the days of one step. ``build`` holds what a cut-over publishes."""

    build: StepBuild
    kept: tuple[date, ...]
    """As the place shows them already, from these inputs by this version."""
    from_main: tuple[date, ...]
    """Main has them from just these inputs by this version: its files are used by name."""
    staged: tuple[date, ...]
    """Computed, or grown by what they gained: ``build`` knows which."""
    held_back: tuple[HeldBack, ...] = ()
    records: DayRecords = field(default_factory=dict)
    """What the tables hold on the days that are other than the place showed."""
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
        """Of the step's table, on all days that were asked for and are not held back."""
        contents = (self.build.content(TableDay(self.step, day)) for day in (*self.kept, *self.from_main, *self.staged))
        return sum(each.rows for each in contents if each is not None)

    def __str__(self) -> str:
        counts = f"{len(self.staged):,} staged, {len(self.from_main):,} from main, {len(self.kept):,} unchanged"
        grown = f" ({len(self.build.grown):,} grown)" if self.build.grown else ""
        return f"{self.step}: {counts}{grown}, in {self.seconds:.1f} s"


def request_of(done: Iterable[StepBuilt], id: str) -> Publication | None:
    """All that was staged, to be published together; None if that is nothing."""
    requests = [each.build.request() for each in done if each.build.staged]
    if not requests:
        return None
    tables = tuple(change for request in requests for change in request.tables)
    inputs = tuple(read for request in requests for read in request.inputs if read.days)
    return requests[0].model_copy(update={"id": id, "tables": tables, "inputs": inputs})


@dataclass
class Walk:
    """Goes from step to step in ``place``, and lays what each has given over it."""

    lake: Lake
    place: Place
    run: RunInfo
    progress: Progress
    holds_back: bool = True
    """A day that fails its gates is held back with all that reads it, and so is one that cannot be computed at all: the
    range is halved until it stands alone. Otherwise the step fails: none of its days count, the good ones stay staged.
    """
    growing: Growing | None = None
    """Where days grow with what they gained."""
    watch: Callable[[Sequence[StepBuilt]], None] | None = None
    """Called with what is built so far, after each step and within it: what it raises ends the walk."""
    out: dict[str, frozenset[date]] = field(default_factory=dict)
    """The days that are held back, by table."""
    done: list[StepBuilt] = field(default_factory=list)

    def take(self, asked: StepRequest) -> StepBuilt:
        """Stage the days of one step; raises :class:`DaysFailed` where a walk does not hold back."""
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
        """Show the step that is under way as if it ended here."""
        failed = _failed_days(build)
        good = replace(build, staged={day: held for day, held in build.staged.items() if day not in failed})
        if self.watch:
            self.watch([*self.done, StepBuilt.of(good, tuple(_hold_back_failed(build, failed)), seconds=0.0)])

    def forget(self, days: Collection[date]) -> None:
        """Take ``days`` out of all steps that were walked through: they stay as they were."""
        tables = [table for done in self.done for table in done.build.tables]
        self.place = replace(self.place, overlay=self.place.overlay.without_days(tables, days))
        for done in self.done:
            done.build.forget(days)
            done.build.place = self.place
        self.done = [StepBuilt.of(done.build, done.held_back, done.seconds) for done in self.done]

    @property
    def changed(self) -> DayRecords:
        """The days that are other than the place showed when the walk began."""
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
        """Stage ``days``; those that cannot be computed are found by halves, with their errors."""
        try:
            if days:
                build.stage(days)
        except Exception as error:
            if not is_day_failure(error):
                raise
            # Days that a timeline has as they are prove nothing about the logic.
            tried = [day for day in days if self.place.is_campaign or day not in build.kept]
            most = len(tried) if self.growing else _MOST_BAD_DAYS
            return isolate_failing_days(build.stage, tried, is_day_failure, self.progress, failed=error, most=most)
        return {}

    def _blocked_days(self, asked: StepRequest) -> set[date]:
        """The days that read one that is held back, by any version that they may go by."""
        filled = self.filled(asked.step)
        return {
            day
            for version in asked.versions
            for day in decide.days_reading(asked.step, version, asked.days, self.out, filled)
        }

    def filled(self, step: Step) -> Filled:
        """The days with rows of what ``step`` reads as of a day, as the place shows them."""
        tables, log = tables_as_of([step]), self.lake.publisher.log
        return self.place.filled([step], log.day_states(log.head(), tables)) if tables else NOT_KNOWN

    def look(self, asked: StepRequest) -> tuple[StepBuild, StepLook]:
        """What would be done with the days of one step. The caller says what lies over main for the steps after it."""
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
    """Stage the ``steps`` of a campaign, which are in build order, on its own timelines.

    A day that fails its gates is held back with all that reads it. A dirty tree is refused with
    :class:`PublicationRefused` if the settings say so. ``watch`` may end it before all is computed.
    """
    if not campaign.startswith(CAMPAIGN):
        raise InvalidRequest(f"{campaign!r} does not name a campaign.", hint=f"Its name begins with {CAMPAIGN}.")
    lake.require_clean_tree()
    lake.look_at_tables_of_others(each.step for each in steps)
    walk = Walk(lake, Place(campaign), run, progress, watch=watch)
    return [walk.take(each) for each in steps]


@dataclass(frozen=True)
class StagedDays:
    """What publishing a campaign would bring, and by table the days that it would leave as they are, and why."""

    overlay: Overlay
    failed: Mapping[str, frozenset[date]]
    """They failed their gates."""
    unchanged: Mapping[str, frozenset[date]] = field(default_factory=dict)
    """Nothing that they are computed from changes: main holds already what would be computed."""
    left_out: Mapping[str, frozenset[date]] = field(default_factory=dict)
    """They read a day that is held back, or could not be computed."""

    def why_it_stays(self, table: str, day: date) -> Stays:
        """Of a day that nothing is staged of."""
        reasons: tuple[tuple[Stays, Mapping[str, frozenset[date]]], ...] = (
            ("held back", self.failed),
            ("left out", self.left_out),
            ("unchanged", self.unchanged),
        )
        return next((why for why, days in reasons if day in days.get(table, ())), "not staged")


def staged_by(done: Sequence[StepBuilt]) -> StagedDays:
    """Just what a cut-over of ``done`` publishes."""
    overlay = NOTHING_LAID
    failed: dict[str, frozenset[date]] = {}
    unchanged: dict[str, frozenset[date]] = {}
    left_out: dict[str, frozenset[date]] = {}
    for each in done:
        overlay = overlay.with_records(each.records)
        held_back = {held.day for held in each.held_back}
        for table in each.build.tables:
            failed[table] = frozenset(held.day for held in each.held_back if held.table == table and held.rules)
            unchanged[table] = frozenset(each.kept) - held_back
            left_out[table] = frozenset(held_back - failed[table])
    return StagedDays(overlay, failed, unchanged, left_out)


def sides_of(done: Sequence[StepBuilt]) -> dict[TableDay, tuple[str, str]]:
    """Of each day that a cut-over of ``done`` publishes: what compare-and-swap expects in main, and what is staged."""
    sides = {TableDay(held.table, held.day): HELD_BACK for each in done for held in each.held_back if held.rules}
    for staged in (staged for each in done for held in each.build.staged.values() for staged in held):
        key = TableDay(staged.table, staged.day)
        expected = fingerprints.physical(staged.pin.expected[key].files)
        published = logical_of(staged.pin.states.get(key), expected)
        sides[key] = (published, staged.content.logical)
    return sides


def days_staged_in(storage: Storage, campaign: str, tables: Sequence[str]) -> StagedDays:
    """What ``campaign`` has staged, from its timelines alone, for those who stage nothing themselves.

    Which of the other days stay as they are is for :func:`with_days_that_stay` to say.
    """
    overlay = NOTHING_LAID
    failed: dict[str, frozenset[date]] = {}
    for table in tables:
        staged = newest_days(storage, table, campaign).values()
        overlay = overlay.with_days(table, (each.record for each in staged if each.record))
        failed[table] = frozenset(each.day for each in staged if each.verdict and not each.verdict.passed)
    return StagedDays(overlay, failed)


def with_days_that_stay(lake: Lake, steps: Sequence[StepRequest], staged: StagedDays) -> StagedDays:
    """``staged`` with the days of ``steps``, which are in build order, that stay as they are, and why.

    Such a day looks like one whose turn has not come: neither is on a timeline. The decision that staging makes divides
    them, so it is made here again.
    A day that reads one whose turn has not come waits as well: what it will read is not known yet. What was staged of a
    day that a cut-over leaves out does not count as staged: its other table failed, or what it reads is held back.
    """
    walk = Walk(lake, Place(overlay=staged.overlay), RunInfo(""), lambda _: None)
    unchanged: dict[str, frozenset[date]] = {}
    left_out: dict[str, frozenset[date]] = {}
    waiting: dict[str, frozenset[date]] = {}
    for each in steps:
        names, overlay = each.step.table_names, walk.place.overlay
        failed = {day for name in names for day in staged.failed.get(name, ())}
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
        unchanged |= dict.fromkeys(names, same)
        left_out |= {name: frozenset(held - staged.failed.get(name, frozenset())) for name in names}
        walk.out |= dict.fromkeys(names, frozenset(held))
        waiting |= dict.fromkeys(names, frozenset(absent) - same - held)
    return replace(staged, overlay=walk.place.overlay, unchanged=unchanged, left_out=left_out)


_SERVER_GONE = {"SparkConnectGrpcException", "RetriesExceeded"}


def is_day_failure(error: Exception) -> bool:
    """True if a computation failed. A server that is gone, a refused request or a full disk is no failure of days."""
    if not isinstance(error, PySparkException | Py4JJavaError) or type(error).__name__ in _SERVER_GONE:
        return False
    return full_disk("", error) is None


def first_line(error: Exception) -> str:
    """What an error of Spark's says, without its plans and traces."""
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
"""With more bad days than this, the logic or the engine is broken, and further attempts would only take time.

A stream has no such limit: the days that can be computed follow, however many others wait.
"""


def isolate_failing_days(
    attempt: Callable[[Sequence[date]], None],
    days: Sequence[date],
    is_about_days: Callable[[Exception], bool],
    report: Callable[[str], None],
    failed: Exception | None = None,
    most: int = _MOST_BAD_DAYS,
) -> dict[date, Exception]:
    """Run ``attempt`` over ``days``, in halves where it fails; returns the days that fail alone, with their errors.

    ``failed`` is the error of an attempt over all of them that was made before. An error that ``is_about_days``
    denies is raised at once, and so is the first one when every day of a range fails or more than ``most`` days do.
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
