"""Pure decisions of a build: which days need no work, and how the rest is cut into chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from backfill_assets.days import DayRange, TableDay
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.records import DayState, Expected
from backfill_assets.model.declaration import RuleOutcome, Step, Version
from backfill_assets.model.graph import read_by, reading
from backfill_assets.published.readers import published_version
from backfill_assets.published.rolled_back import Rollbacks
from backfill_assets.text import format_count, format_first, format_ranges

_CHUNK_BYTES = 512 * 1024 * 1024
_MOST_DAYS = 45
"""A chunk ends at least this often, so that progress is seen and a killed run has little to repeat."""
AS_PUBLISHED = "as published"
"""In place of a version's name: build each day with the version that it was published with."""


@dataclass(frozen=True)
class InputFingerprint:
    """What a day would be built from now: fingerprints of its inputs, and of inputs, code and parameters together."""

    inputs: str
    input_fingerprint: str


Logicals = Mapping[str, Mapping[date, str]]
"""The logical fingerprint of input days, by table and day."""


def wanted(step: Step, version: Version, days: Sequence[date], logicals: Logicals) -> dict[date, InputFingerprint]:
    """The input fingerprint of every day, from the logical fingerprints of the tables that ``version`` reads."""
    return {day: _wanted(version, step.cadence.period(day), logicals) for day in days}


def _wanted(version: Version, period: DayRange, logicals: Logicals) -> InputFingerprint:
    reads = {read.table: {d: logicals[read.table][d] for d in read.days(period)} for read in version.reads}
    inputs = fingerprints.inputs(reads)
    return InputFingerprint(inputs, fingerprints.input_fingerprint(version.name, "", inputs))


def unchanged(
    tables: Sequence[str],
    day: date,
    wanted: InputFingerprint,
    states: Mapping[TableDay, DayState],
    expected: Mapping[TableDay, Expected],
) -> bool:
    """Is every table of the step already published for ``day`` from just these inputs, and untouched since?"""
    for table in tables:
        state = states.get(TableDay(table, day))
        if state is None or state.content is None:
            return False
        if state.content.input_fingerprint != wanted.input_fingerprint:
            return False
        if state.physical != fingerprints.physical(expected[TableDay(table, day)].files):
            return False
    return True


def rolled_back(
    days: Iterable[TableDay],
    states: Mapping[TableDay, DayState],
    rollbacks: Callable[[], Rollbacks],
) -> dict[TableDay, str]:
    """The rollback by which each of ``days`` (table and day) is as it is, of those that a person rolled back.

    ``rollbacks`` reads the log, so it is called only when it matters.
    """
    last = {key: states[key].publication for key in days if key in states}
    known = rollbacks() if last else Rollbacks()
    by = {key: known.of(key.table, key.day, publication) for key, publication in last.items()}
    return {key: rollback for key, rollback in by.items() if rollback}


def read_days(step: Step, version: Version, days: Sequence[date]) -> dict[str, list[date]]:
    """The days of every input table that building ``days`` reads, sorted."""
    return {table: sorted(found) for table, found in read_by(step, days, version).items()}


def days_reading(step: Step, version: Version, days: Sequence[date], moved: Mapping[str, frozenset[date]]) -> set[date]:
    """Those of ``days`` that read one of the ``moved`` input days."""
    return reading(step, moved, version).intersection(days)


@dataclass(frozen=True)
class PeriodDays:
    """How much of a period that is read in part there is."""

    period: DayRange
    published: tuple[date, ...]

    @property
    def complete(self) -> bool:
        return len(self.published) == len(self.period)

    def __str__(self) -> str:
        absent = set(self.period) - set(self.published)
        missing = f"; not published: {format_ranges(absent)}" if absent else ""
        return f"{len(self.published)} of {len(self.period)} days{missing}"


def period_days(step: Step, version: Version, day: date, logicals: Logicals) -> PeriodDays | None:
    """What there is of the period that starts on ``day``; None for a step that reads nothing in part."""
    partial = [read for read in version.reads if read.partial]
    if not partial:
        return None
    period = step.cadence.period(day)
    never = fingerprints.NEVER_PUBLISHED
    there = (d for d in period if all(logicals[read.table].get(d, never) != never for read in partial))
    return PeriodDays(period, tuple(there))


def inputs_published(missing: Sequence[str]) -> RuleOutcome:
    """The outcome for a day that cannot be built because of ``missing`` input days."""
    named = format_first(missing, 3)
    return RuleOutcome(
        rule="inputs_published",
        dimension="completeness",
        passed=False,
        observed=f"{named} never published",
        expected="every input day published, if only as an empty day",
        next_step="Build the missing input days first, or launch the range over the whole chain. If they lie before "
        "the first day that has landed, this day cannot be built.",
    )


def published_days(states: Mapping[TableDay, DayState]) -> dict[str, set[date]]:
    """The days that are published, by table."""
    found: dict[str, set[date]] = {}
    for (table, day), state in states.items():
        if state.content is not None:
            found.setdefault(table, set()).add(day)
    return found


def versions_as_published(step: Step, days: Sequence[date], states: Mapping[TableDay, DayState]) -> dict[date, str]:
    """The version that builds each day as it was published; the current one for a day that is not published.

    Raises :class:`InvalidRequest` for days whose version is not declared any more.
    """
    version_of = {day: published_version(step, day, states) or step.current for day in days}
    declared = {version.name for version in step.versions}
    gone = sorted(day for day, version in version_of.items() if version not in declared)
    if gone:
        version = version_of[gone[0]]
        raise InvalidRequest(
            f"{step.name} {gone[0]} was published with {version}, which is not declared any more"
            f" ({format_count(len(gone), 'day')} in all).",
            hint=f"Declare {version} again, or build the days with {step.current} if that is to count: "
            f"backfill run {step.name} --downstream --days {gone[0]}..{gone[-1]}",
        )
    return version_of


def chunks(days: Sequence[date], bytes_of_day: int, budget: int = _CHUNK_BYTES) -> list[list[date]]:
    """Cut ``days`` into chunks whose input fits ``budget`` bytes: memory stays flat however long the range is."""
    length = max(1, min(_MOST_DAYS, budget // max(1, bytes_of_day)))
    return [list(days[start : start + length]) for start in range(0, len(days), length)]


def eta(done: int, total: int, seconds: float) -> timedelta:
    """Time left if the remaining days take as long as those that are done."""
    return timedelta(seconds=round(seconds / max(1, done) * (total - done)))


def days_so_far(what: str, done: int, total: int, seconds: float) -> str:
    """``bronze_sales: read again, 30/90 days, ETA 4 s``"""
    return f"{what}, {done:,}/{total:,} days, ETA {eta(done, total, seconds).seconds} s"
