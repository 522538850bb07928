"""The files that touch each day of a table of others. Pure.

A file touches the days between its statistics' (or partition's) least and greatest, else all: a day may seem to have
moved, never the reverse.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import NamedTuple

from backfill_assets.days import DayRange, TableDay
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.records import DayContent, DayState, content_in
from backfill_assets.model.declaration import Step
from backfill_assets.model.external_table import OBSERVED

FILES, BYTES, IDENTITY, VERSION = "external_files", "external_bytes", "external_identity", "external_version"
"""Metrics of a day: its files, its share of their bytes, a hash of which they are, the version that first had them."""
_IDENTITY_DIGITS = 15
_NOTHING_READ = fingerprints.inputs({})


@dataclass(frozen=True, slots=True)
class ExternalFile:
    identity: str
    rows: int
    bytes: int
    touches: DayRange | None
    without_days: bool = False


@dataclass(frozen=True, slots=True)
class DayMadeOf:
    """``rows`` is an upper bound, ``bytes`` a share: a file is read once for all its days of a chunk."""

    files: int = 0
    rows: int = 0
    bytes: int = 0
    identity: int = 0

    def content(self, version: int, read_as: str = "") -> DayContent:
        """The checksum depends on ``read_as``."""
        return DayContent(
            rows=self.rows,
            checksum=str(_number_of(f"{self.identity} {read_as}") if self.files else 0),
            code_version=OBSERVED,
            inputs=_NOTHING_READ,
            metrics=self._metrics(version),
        )

    def renewed(self, known: DayContent, version: int) -> DayContent:
        return replace(known, metrics={**known.metrics, **self._metrics(version)})

    def is_what(self, known: DayContent | None) -> bool:
        return known is not None and known.metrics.get(IDENTITY) == self.identity

    def _metrics(self, version: int) -> Mapping[str, int]:
        return {FILES: self.files, BYTES: self.bytes, IDENTITY: self.identity, VERSION: version}


NO_FILES = DayMadeOf()


def days_made_of(files: Collection[ExternalFile], possible: DayRange) -> dict[date, DayMadeOf]:
    """The days between the first and the last ``possible`` one that a file touches."""
    with_days = [each for each in files if not each.without_days]
    days, of_day = _from_first_to_last(with_days, possible), dict[int, list[_Share]]()
    for file in with_days:
        span = file.touches or days
        share = _Share(file, file.bytes // len(span))
        for ordinal in range(max(span.first, days.first).toordinal(), min(span.last, days.last).toordinal() + 1):
            of_day.setdefault(ordinal, []).append(share)
    return {day: _together(of_day.get(day.toordinal(), ())) for day in days}


def _from_first_to_last(files: Iterable[ExternalFile], possible: DayRange) -> DayRange:
    spans = [each.touches or possible for each in files]
    first = min((each.first for each in spans if each.last >= possible.first), default=possible.first)
    last = max((each.last for each in spans if each.first <= possible.last), default=possible.last)
    return DayRange(max(first, possible.first), min(last, possible.last)) if first <= last else possible


class _Share(NamedTuple):
    file: ExternalFile
    bytes: int


def _together(shares: Collection[_Share]) -> DayMadeOf:
    if not shares:
        return NO_FILES
    identity = _number_of("\n".join(sorted(each.file.identity for each in shares)))
    return DayMadeOf(len(shares), sum(each.file.rows for each in shares), sum(each.bytes for each in shares), identity)


def _number_of(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest()[:_IDENTITY_DIGITS], 16)


@dataclass(frozen=True)
class Moved:
    changed: Mapping[date, DayContent]
    """Readers become stale."""
    renewed: Mapping[date, DayContent]
    """Only files differ; nothing is stale."""

    def __bool__(self) -> bool:
        return bool(self.changed or self.renewed)


NOTHING_MOVED = Moved({}, {})


def moved_days(
    known: Mapping[date, DayContent],
    now: Mapping[date, DayMadeOf],
    version: int,
    touched: Iterable[ExternalFile] | None,
    read_as: str = "",
    *,
    is_another: bool = False,
) -> Moved:
    """Days whose files differ from ``known``.

    ``touched`` have changed rows (None: all). ``is_another`` (created again, or declared otherwise) changes all days
    with files. Known days without files have no rows.
    """
    with_days = [file for file in touched or () if not file.without_days]
    everywhere = touched is None or is_another or any(file.touches is None for file in with_days)
    reached = (
        set[date]().union(*{file.touches for file in with_days if file.touches}) if not everywhere else set[date]()
    )
    changed, renewed = dict[date, DayContent](), dict[date, DayContent]()
    for day in sorted({*known, *now}):
        made, before = now.get(day, NO_FILES), known.get(day)
        if made.is_what(before) and not (is_another and made.files):
            continue
        if before is None or everywhere or day in reached:
            changed[day] = made.content(version, read_as)
        else:
            renewed[day] = made.renewed(before, version)
    return Moved(changed, renewed)


def bytes_of_others(steps: Iterable[Step], states: Mapping[TableDay, DayState]) -> dict[str, dict[date, int]]:
    found: dict[str, dict[date, int]] = {step.name: {} for step in steps if step.external}
    for key in states:
        if key.table in found:
            found[key.table][key.day] = bytes_there(states, key.table, [key.day])
    return found


def bytes_there(states: Mapping[TableDay, DayState], table: str, days: Iterable[date]) -> int:
    contents = (content_in(states, TableDay(table, day)) for day in days)
    return sum(int(each.metrics.get(BYTES) or 0) for each in contents if each)


def possible_days(first: date, newest_commit: date, ahead: int = 1) -> DayRange:
    return DayRange(first, max(first, newest_commit + timedelta(days=ahead)))
