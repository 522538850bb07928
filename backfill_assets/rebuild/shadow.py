"""Stages the steps of a campaign on its own timelines: each step reads what the ones before it have staged.

Nothing is published, and readers of main see nothing of it. Done again, it keeps every day that is staged from just
the inputs there are now, and computes only those that moved: that is how a killed campaign goes on, and how days that
main has moved under are staged again before a cut-over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.records import HELD_BACK, logical_of
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import CAMPAIGN, Timeline, newest_days
from backfill_assets.model.declaration import RuleOutcome, Step, Version
from backfill_assets.model.graph import missing_inputs
from backfill_assets.publication.publisher import Publisher
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.overlay import NOTHING_STAGED, OverlaidDay, Overlay
from backfill_assets.rebuild.replace import ReplaceBuild
from backfill_assets.rebuild.stage import StagedTableDay

_LONGEST_ERROR = 300


@dataclass(frozen=True)
class ShadowStep:
    """The days of one step that a campaign rebuilds, and by which version of its logic."""

    step: Step
    version: Version
    days: tuple[date, ...]


@dataclass(frozen=True)
class HeldBack:
    """A day that is not staged for publishing, and why: its gates, a day it is computed from, or an error."""

    table: str
    day: date
    rules: tuple[RuleOutcome, ...] = ()
    because_of: str = ""
    error: str = ""

    @property
    def why(self) -> str:
        gates = "; ".join(
            "; ".join([f"{rule.rule}: {rule.observed}, expected {rule.expected}", *rule.details]) for rule in self.rules
        )
        return self.error or self.because_of or gates


@dataclass(frozen=True)
class ShadowedStep:
    """What became of the days of one step. ``build`` holds what a cut-over publishes."""

    build: ReplaceBuild
    staged: tuple[date, ...]
    unchanged: tuple[date, ...]
    held_back: tuple[HeldBack, ...]


def shadow(
    lake: Lake, campaign: str, steps: Sequence[ShadowStep], run: RunInfo, progress: Progress
) -> list[ShadowedStep]:
    """Stage ``steps``, which are in build order. A day that fails its gates is held back with all that reads it.

    So is a day that cannot be computed at all: the range is halved until it stands alone. A dirty tree is refused with
    :class:`PublicationRefused` if the settings say so.
    """
    _require_name(campaign)
    lake.require_clean_tree()
    overlay = NOTHING_STAGED
    out: dict[str, frozenset[date]] = {}
    shadowed = []
    for each in steps:
        done = shadow_step(lake, campaign, each, run, progress, overlay, out)
        for table in done.build.tables:
            overlay = overlay.with_days(table, staged_days(done.build, table))
            out[table] = frozenset(held.day for held in done.held_back)
        shadowed.append(done)
    return shadowed


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


def staged_by(done: Sequence[ShadowedStep]) -> StagedDays:
    """Just what a cut-over of ``done`` publishes."""
    overlay = NOTHING_STAGED
    failed: dict[str, frozenset[date]] = {}
    unchanged: dict[str, frozenset[date]] = {}
    left_out: dict[str, frozenset[date]] = {}
    for each in done:
        held_back = {held.day for held in each.held_back}
        for table in each.build.tables:
            overlay = overlay.with_days(table, staged_days(each.build, table))
            failed[table] = frozenset(held.day for held in each.held_back if held.table == table and held.rules)
            unchanged[table] = frozenset(each.unchanged) - held_back
            left_out[table] = frozenset(held_back - failed[table])
    return StagedDays(overlay, failed, unchanged, left_out)


def sides_of(done: Sequence[ShadowedStep]) -> dict[TableDay, tuple[str, str]]:
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

    Which of the other days stay as they are is for
    :func:`~backfill_assets.rebuild.shadow.with_days_that_stay` to say.
    """
    overlay = NOTHING_STAGED
    failed: dict[str, frozenset[date]] = {}
    for table in tables:
        newest = newest_days(storage, table, campaign)
        judged = [(day, timeline, staged.verdict) for day, (timeline, staged) in newest.items() if staged.verdict]
        passed = [(day, timeline, each.content) for day, timeline, each in judged if each.passed]
        ready = [(day, OverlaidDay(timeline, content)) for day, timeline, content in passed if content]
        overlay = overlay.with_days(table, ready)
        failed[table] = frozenset(day for day, _, each in judged if not each.passed)
    return StagedDays(overlay, failed)


def shadow_step(
    lake: Lake,
    campaign: str,
    wanted: ShadowStep,
    run: RunInfo,
    progress: Progress,
    overlay: Overlay,
    out: Mapping[str, frozenset[date]],
) -> ShadowedStep:
    """Stage one step on the timelines of ``campaign`` (its name, or the id of a named timeline).

    Its inputs are read through ``overlay``. ``out`` are the days, by table, that are held back already.
    """
    blocked = decide.days_reading(wanted.step, wanted.version, wanted.days, out)
    build = ReplaceBuild(
        lake, wanted.step, wanted.version, run, force=False, progress=progress, overlay=overlay, campaign=campaign
    )
    todo = [day for day in wanted.days if day not in blocked]
    broken = isolate_failing_days(build.stage, todo, is_day_failure, progress)
    failed = {day: held for day, held in build.staged.items() if not all(staged.passed for staged in held)}
    for day in (*failed, *broken):
        build.staged.pop(day, None)
    return ShadowedStep(
        build=build,
        staged=tuple(sorted(build.staged)),
        unchanged=tuple(sorted(build.reused)),
        held_back=(
            *_hold_back_failed(failed),
            *_hold_back_broken(wanted, broken),
            *_hold_back_blocked(wanted, blocked, out),
        ),
    )


_SERVER_GONE = {"SparkConnectGrpcException", "RetriesExceeded"}


def is_day_failure(error: Exception) -> bool:
    """True if a computation failed. A server that is gone, a refused request or a full disk is no failure of days."""
    return isinstance(error, PySparkException | Py4JJavaError) and type(error).__name__ not in _SERVER_GONE


def _hold_back_broken(wanted: ShadowStep, broken: Mapping[date, Exception]) -> Iterable[HeldBack]:
    for day, error in broken.items():
        yield HeldBack(wanted.step.name, day, error=str(error).strip().splitlines()[0][:_LONGEST_ERROR])


def _hold_back_failed(failed: Mapping[date, Sequence[StagedTableDay]]) -> Iterable[HeldBack]:
    for held in failed.values():
        for staged in held:
            broken = tuple(rule for rule in staged.rules if rule.holds_back)
            if broken:
                yield HeldBack(staged.table, staged.day, broken)


def _hold_back_blocked(
    wanted: ShadowStep, blocked: set[date], out: Mapping[str, frozenset[date]]
) -> Iterable[HeldBack]:
    for day in sorted(blocked):
        reads = decide.read_days(wanted.step, wanted.version, [day])
        cause = next(f"{table} {d}" for table, days in reads.items() for d in days if d in out.get(table, ()))
        yield HeldBack(wanted.step.name, day, because_of=cause)


def staged_days(build: ReplaceBuild, table: str) -> list[tuple[date, OverlaidDay]]:
    """What ``build`` has staged of ``table``, for those that read it before it is published."""
    return [
        (day, OverlaidDay(_timeline(build.lake.storage, held), held.content))
        for day, staged in build.staged.items()
        for held in staged
        if held.table == table
    ]


def _timeline(storage: Storage, held: StagedTableDay) -> Timeline | None:
    """The timeline with the rows of a staged day; None if it has no rows."""
    return Timeline.holding(storage, held.table, held.files[0].path) if held.files else None


def _require_name(campaign: str) -> None:
    if not campaign.startswith(CAMPAIGN):
        raise InvalidRequest(f"{campaign!r} does not name a campaign.", hint=f"Its name begins with {CAMPAIGN}.")


# ------------------------------------------------------------------ days that stay as they are


def with_days_that_stay(publisher: Publisher, steps: Sequence[ShadowStep], staged: StagedDays) -> StagedDays:
    """``staged`` with the days of ``steps``, which are in build order, that stay as they are, and why.

    Such a day looks like one whose turn has not come: neither is on a timeline. The decision that staging makes divides
    them, so it is made here again.
    A day that reads one whose turn has not come waits as well: what it will read is not known yet. What was staged of a
    day that a cut-over leaves out does not count as staged: its other table failed, or what it reads is held back.
    """
    overlay = staged.overlay
    unchanged: dict[str, frozenset[date]] = {}
    left_out: dict[str, frozenset[date]] = {}
    out: dict[str, frozenset[date]] = {}
    waiting: dict[str, frozenset[date]] = {}
    for each in steps:
        names = [table.name for table in each.step.tables]
        failed = {day for name in names for day in staged.failed.get(name, ())}
        blocked = decide.days_reading(each.step, each.version, each.days, out)
        held = failed | blocked
        overlay = overlay.without_days(names, held)
        absent = [day for day in each.days if day not in held and not _is_staged(overlay, names, day)]
        open_days = sorted({*absent} - decide.days_reading(each.step, each.version, absent, waiting))
        same, incomplete = _decide(publisher, each, names, open_days, overlay)
        held |= incomplete
        for name in names:
            unchanged[name] = frozenset(same)
            left_out[name] = frozenset(held - staged.failed.get(name, frozenset()))
            out[name] = frozenset(held)
            waiting[name] = frozenset(absent) - frozenset(same) - frozenset(held)
    return replace(staged, overlay=overlay, unchanged=unchanged, left_out=left_out)


def _decide(
    publisher: Publisher, wanted: ShadowStep, names: Sequence[str], days: Sequence[date], overlay: Overlay
) -> tuple[set[date], set[date]]:
    """The days that are published from just what they would be built from, and those that lack an input."""
    if not days:
        return set(), set()
    step, version = wanted.step, wanted.version
    pin = overlay.over(publisher.pin(writes=dict.fromkeys(names, days), reads=decide.read_days(step, version, days)))
    inputs = decide.wanted(step, version, days, {name: read.days for name, read in pin.inputs.items()})
    incomplete = set(missing_inputs(step, version, days, decide.published_days(pin.states)))
    same = {day for day in days if decide.unchanged(names, day, inputs[day], pin.states, pin.expected)}
    return same - incomplete, incomplete


def _is_staged(overlay: Overlay, names: Collection[str], day: date) -> bool:
    return all(day in _days_of(overlay.days, name) for name in names)


def _days_of(days: Mapping[str, Mapping[date, object]], table: str) -> Mapping[date, object]:
    return days.get(table, {})


# ------------------------------------------------------------------ days that cannot be computed

_MOST_BAD_DAYS = 3
"""With more bad days than this, the logic or the engine is broken, and further attempts would only take time."""


def isolate_failing_days(
    attempt: Callable[[Sequence[date]], None],
    days: Sequence[date],
    is_about_days: Callable[[Exception], bool],
    report: Callable[[str], None],
) -> dict[date, Exception]:
    """Run ``attempt`` over ``days``, in halves where it fails; returns the days that fail alone, with their errors.

    An error that ``is_about_days`` denies is raised at once, and so is the first one when every day of a range
    fails or more than three days do.
    """
    bad: dict[date, Exception] = {}
    pending = [tuple(days)] if days else []
    first: Exception | None = None
    while pending:
        part = pending.pop()
        try:
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
            if len(bad) > _MOST_BAD_DAYS or (bad and len(bad) == len(days)):
                raise first from None
    return dict(sorted(bad.items()))
