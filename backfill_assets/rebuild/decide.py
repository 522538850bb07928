"""Pure decisions of a build: what each day needs, and how days are cut into chunks."""

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
"""Bounds what a killed run repeats, and reports progress."""
AS_PUBLISHED = "as published"
"""In place of a version's name: the version that each day was published with."""


@dataclass(frozen=True)
class InputFingerprint:
    """Fingerprints of the inputs alone, and of inputs, code and parameters together."""

    inputs: str
    input_fingerprint: str


Logicals = Mapping[str, Mapping[date, str]]


def wanted(step: Step, version: Version, days: Sequence[date], logicals: Logicals) -> dict[date, InputFingerprint]:
    """The input fingerprint of every day; of inputs read as of a day, it has only the day that counts."""
    filled = filled_days([step], logicals)
    return {day: _wanted(made_of(step, version, day, filled), version, logicals) for day in days}


def _wanted(made: Mapping[str, DayRange], version: Version, logicals: Logicals) -> InputFingerprint:
    inputs = fingerprints.inputs({table: {d: logicals[table][d] for d in days} for table, days in made.items()})
    return InputFingerprint(inputs, fingerprints.input_fingerprint(version.name, "", inputs))


def filled_days(steps: Iterable[Step], logicals: Logicals) -> Filled:
    """Days with rows of what ``steps`` read as of a day, by ``logicals``."""
    return {
        table: sorted(day for day, each in logicals[table].items() if fingerprints.has_rows(each))
        for table in tables_as_of(steps)
        if table in logicals
    }


class Decision(enum.StrEnum):
    BLOCKED = "blocked"
    """An input day is held back or was never published."""
    KEEP = "keep"
    """The place has it from these inputs by this version."""
    TAKE = "take"
    """Made from these inputs elsewhere: files are reused by name."""
    GROW = "grow"
    """Only what new raw rows change is computed."""
    COMPUTE = "compute"


Stays = Literal["held back", "left out", "unchanged", "not staged"]
Contents = Sequence[DayContent | None]
"""One for each table of a step; None if unknown or never published."""


def decide(
    wanted: str, shown: Contents, offered: Contents = (), *, forced: bool, blocked: bool, grows: bool = False
) -> Decision:
    """Days are reused only if made from ``wanted``, an input fingerprint. ``grows``: inputs only gained known raw rows,
    and :func:`why_whole` finds no reason.
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
    """Why a published day cannot be extended by ``version``, or empty. ``files`` is None if they moved since the pin;
    all ``measured`` metrics must be known.
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
    logical: str
    files: frozenset[str]


def gained_files(
    made_of: Callable[[str], bool], earlier: Iterable[EarlierState], now: frozenset[str]
) -> frozenset[str] | None:
    """Files added since a day was built, if all of that state are still there; None if unknown. ``made_of`` tells by
    logical fingerprint.
    """
    for state in earlier:
        if made_of(state.logical) and state.files <= now:
            return now - state.files
    return None


def made_from(wanted: str, contents: Contents) -> bool:
    return bool(contents) and all(each is not None and each.input_fingerprint == wanted for each in contents)


def rolled_back(days: Iterable[TableDay], states: Mapping[TableDay, DayState]) -> dict[TableDay, str]:
    """The rollback that published each day, if one did."""
    by = {key: states[key].origin.rolled_back_by for key in days if key in states}
    return {key: rollback for key, rollback in by.items() if rollback}


def read_days(step: Step, version: Version, days: Sequence[date], filled: Filled = NOT_KNOWN) -> dict[str, list[date]]:
    return {table: sorted(found) for table, found in read_by(step, days, version, filled=filled).items()}


def all_read_days(
    step: Step, parts: Iterable[tuple[Version, Sequence[date]]], filled: Filled = NOT_KNOWN
) -> dict[str, set[date]]:
    return all_days(read_by(step, days, version, filled=filled) for version, days in parts)


def by_version(versions: Mapping[date, Version]) -> list[tuple[Version, list[date]]]:
    found: dict[str, tuple[Version, list[date]]] = {}
    for day in sorted(versions):
        found.setdefault(versions[day].name, (versions[day], []))[1].append(day)
    return [found[name] for name in sorted(found)]


def days_reading(
    step: Step, version: Version, days: Sequence[date], moved: Mapping[str, frozenset[date]], filled: Filled = NOT_KNOWN
) -> set[date]:
    return reading(step, moved, version, filled).intersection(days)


@dataclass(frozen=True)
class PeriodDays:
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
    """Published days of the period that starts on ``day``; None if no input may be partial."""
    partial = [read for read in version.reads if read.partial]
    if not partial:
        return None
    period = step.cadence.period(day)
    never = fingerprints.NEVER_PUBLISHED
    there = (d for d in period if all(logicals[read.table].get(d, never) != never for read in partial))
    return PeriodDays(period, tuple(there))


def inputs_published(missing: Sequence[str]) -> RuleOutcome:
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
    return by_table(key for key, state in states.items() if state.content is not None)


def versions_as_published(step: Step, days: Sequence[date], states: Mapping[TableDay, DayState]) -> dict[date, str]:
    """Each published day's version, else the current one. Raises :class:`InvalidRequest` for one not declared any
    more.
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
    """Days with the name of their version, if it is not declared any more."""
    declared = {version.name for version in step.versions}
    return {day: version for day, version in _versions(step, days, states).items() if version not in declared}


def _versions(step: Step, days: Iterable[date], states: Mapping[TableDay, DayState]) -> dict[date, str]:
    found = {day: published_version(step, day, states) for day in days}
    return {day: step.current if version is None or version == ADOPTED else version for day, version in found.items()}


def chunks(
    days: Sequence[date], bytes_of_day: int, budget: int = _CHUNK_BYTES, *, newest_first: bool = False
) -> list[list[date]]:
    """Bounds memory by the input of a chunk. ``days`` ascend, and so do those of a chunk."""
    length = max(1, min(_MOST_DAYS, budget // max(1, bytes_of_day)))
    if newest_first:
        return [list(days[max(0, end - length) : end]) for end in range(len(days), 0, -length)]
    return [list(days[start : start + length]) for start in range(0, len(days), length)]


def eta(done: int, total: int, seconds: float) -> timedelta:
    return timedelta(seconds=round(seconds / max(1, done) * (total - done)))


def days_so_far(what: str, done: int, total: int, seconds: float) -> str:
    """Like ``bronze_sales: read again, 30/90 days, ETA 4 s``."""
    return f"{what}, {done:,}/{total:,} days, ETA {eta(done, total, seconds).seconds} s"
