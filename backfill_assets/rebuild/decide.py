"""Pure decisions of a build: which days need no work, and how the rest is cut into chunks."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal

from backfill_assets.days import DayRange, TableDay, all_days, by_table
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.records import DayContent, DayState
from backfill_assets.model.declaration import ADOPTED, RuleOutcome, Step, Version
from backfill_assets.model.graph import NOT_KNOWN, Filled, made_of, read_by, reading, tables_as_of
from backfill_assets.state.status import published_version
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
    """The input fingerprint of every day, from the logical fingerprints of the tables that ``version`` reads.

    Of what is read as of a day it is made of the one day that counts.
    """
    filled = filled_days([step], logicals)
    return {day: _wanted(made_of(step, version, day, filled), version, logicals) for day in days}


def _wanted(made: Mapping[str, DayRange], version: Version, logicals: Logicals) -> InputFingerprint:
    inputs = fingerprints.inputs({table: {d: logicals[table][d] for d in days} for table, days in made.items()})
    return InputFingerprint(inputs, fingerprints.input_fingerprint(version.name, "", inputs))


def filled_days(steps: Iterable[Step], logicals: Logicals) -> Filled:
    """The days with rows of the tables that ``steps`` read as of a day, as far as they are in ``logicals``."""
    return {
        table: sorted(day for day, each in logicals[table].items() if fingerprints.has_rows(each))
        for table in tables_as_of(steps)
        if table in logicals
    }


class Decision(enum.StrEnum):
    """What is done with a day of a step, all of its tables together."""

    BLOCKED = "blocked"
    """An input day is held back, or was never published."""
    KEEP = "keep"
    """The place shows it already, from just these inputs by this version."""
    TAKE = "take"
    """It was made of just these inputs elsewhere: its files are used by name."""
    GROW = "grow"
    """The place shows it from the same inputs with fewer raw rows: only what the new ones change is computed."""
    COMPUTE = "compute"


Stays = Literal["held back", "left out", "unchanged", "not staged"]
"""Why a day of a campaign stays as it is."""
Contents = Sequence[DayContent | None]
"""What a day holds in each table of a step; None where that is not known, or never was published."""


def decide(
    wanted: str, shown: Contents, offered: Contents = (), *, forced: bool, blocked: bool, grows: bool = False
) -> Decision:
    """``wanted`` is the input fingerprint that the day would have if it were computed from what the place shows.

    One rule for all that is kept or taken: it was made of just that. That it looks the same is never asked. ``grows``
    says that its inputs only gained raw rows, that these are known, and that nothing tells :func:`why_whole`.
    """
    if blocked:
        return Decision.BLOCKED
    if forced:
        return Decision.COMPUTE
    if made_from(wanted, shown):
        return Decision.KEEP
    if made_from(wanted, offered):
        return Decision.TAKE
    return Decision.GROW if grows else Decision.COMPUTE


def why_whole(state: DayState | None, files: Iterable[str] | None, version: Version, measured: Iterable[str]) -> str:
    """Why a published day of a table cannot grow by ``version``; empty if it can, as far as the day itself shows.

    ``files`` are those that it has, None where they are other ones than were pinned. ``measured`` are the metrics that
    change with its rows: each must be known.
    """
    if files is None:
        return "it is being published to"
    if state is None or state.content is None:
        return "it was never published"
    if state.physical != fingerprints.physical(files):
        return "it has a foreign write"
    content = state.content
    if (content.code_version, content.parameters) != (version.name, ""):
        return f"it was published with {content.code_version} {content.parameters}".rstrip()
    known = {"rows", "checksum", *(name for name, value in content.metrics.items() if value is not None)}
    unknown = [name for name in measured if name not in known]
    return f"{unknown[0]} was not measured when it was published" if unknown else ""


@dataclass(frozen=True)
class EarlierState:
    """What a day of an input held once: its logical fingerprint, and the files that it had then."""

    logical: str
    files: frozenset[str]


def gained_files(
    made_of: Callable[[str], bool], earlier: Iterable[EarlierState], now: frozenset[str]
) -> frozenset[str] | None:
    """The files of ``now`` that an input day gained since a day was built from it; None if that is not known.

    ``made_of`` says of a logical fingerprint whether the day was built from an input day that had it. All files that
    this had then must still be there: what is left is new.
    """
    for state in earlier:
        if made_of(state.logical) and state.files <= now:
            return now - state.files
    return None


def made_from(wanted: str, contents: Contents) -> bool:
    """Was every table of the step made from just the inputs, and by the version, of the fingerprint ``wanted``?"""
    return bool(contents) and all(each is not None and each.input_fingerprint == wanted for each in contents)


def rolled_back(days: Iterable[TableDay], states: Mapping[TableDay, DayState]) -> dict[TableDay, str]:
    """The rollback that stands on each of ``days``, of those that a person rolled back."""
    by = {key: states[key].origin.rolled_back_by for key in days if key in states}
    return {key: rollback for key, rollback in by.items() if rollback}


def read_days(step: Step, version: Version, days: Sequence[date], filled: Filled = NOT_KNOWN) -> dict[str, list[date]]:
    """The days of every input table that building ``days`` reads, sorted."""
    return {table: sorted(found) for table, found in read_by(step, days, version, filled=filled).items()}


def all_read_days(
    step: Step, parts: Iterable[tuple[Version, Sequence[date]]], filled: Filled = NOT_KNOWN
) -> dict[str, set[date]]:
    """The days of every input table that building days by several versions reads."""
    return all_days(read_by(step, days, version, filled=filled) for version, days in parts)


def by_version(versions: Mapping[date, Version]) -> list[tuple[Version, list[date]]]:
    """The days of each version, both in order."""
    found: dict[str, tuple[Version, list[date]]] = {}
    for day in sorted(versions):
        found.setdefault(versions[day].name, (versions[day], []))[1].append(day)
    return [found[name] for name in sorted(found)]


def days_reading(
    step: Step, version: Version, days: Sequence[date], moved: Mapping[str, frozenset[date]], filled: Filled = NOT_KNOWN
) -> set[date]:
    """Those of ``days`` that read one of the ``moved`` input days."""
    return reading(step, moved, version, filled).intersection(days)


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
    return by_table(key for key, state in states.items() if state.content is not None)


def versions_as_published(step: Step, days: Sequence[date], states: Mapping[TableDay, DayState]) -> dict[date, str]:
    """The version that builds each day as it was published; the current one for a day that is not published.

    Raises :class:`InvalidRequest` for days whose version is not declared any more.
    """
    if gone := undeclared(step, days, states):
        first, last = min(gone), max(gone)
        raise InvalidRequest(
            f"{step.name} {first} was published with {gone[first]}, which is not declared any more"
            f" ({format_count(len(gone), 'day')} in all).",
            hint=f"Declare {gone[first]} again, or build the days with {step.current} if that is to count: "
            f"backfill run {step.name}+ --days {first}..{last}",
        )
    return _versions(step, days, states)


def undeclared(step: Step, days: Iterable[date], states: Mapping[TableDay, DayState]) -> dict[date, str]:
    """The days whose version is not declared any more, with its name."""
    declared = {version.name for version in step.versions}
    return {day: version for day, version in _versions(step, days, states).items() if version not in declared}


def _versions(step: Step, days: Iterable[date], states: Mapping[TableDay, DayState]) -> dict[date, str]:
    found = {day: published_version(step, day, states) for day in days}
    return {day: step.current if version is None or version == ADOPTED else version for day, version in found.items()}


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
