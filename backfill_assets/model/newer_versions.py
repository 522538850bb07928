"""Which supersession markers a key's versions need. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from typing import NamedTuple

Moment = int | str | Decimal
"""Compares like its version's type; one type per key."""


class Copy(NamedTuple):
    at: Moment
    hash: int
    day: date


@dataclass(frozen=True)
class VersionRow:
    """A version, a marker, or a deletion of either."""

    at: Moment
    hash: int
    day: date
    belongs_to: date
    marker: bool = False
    deleted: bool = False
    written: tuple[str | None, ...] | None = None

    @property
    def copy(self) -> Copy:
        return Copy(self.at, self.hash, self.belongs_to if self.marker else self.day)


@dataclass(frozen=True)
class DueMarker:
    day: date
    version: VersionRow


def due_markers(versions: Sequence[VersionRow], window_days: int) -> list[DueMarker]:
    """Markers lacking on a day: for every version greater by (at, hash) than one there, at most ``window_days`` away;
    deletions, where that version was taken back.
    """
    left = Counter(version for version in versions if not version.deleted)
    left.subtract(replace(version, deleted=False) for version in versions if version.deleted)
    standing = [version for version, count in left.items() if count > 0]
    taken_back = {version.copy for version in versions if version.deleted and not version.marker}
    known = {(version.copy, version.day) for version in standing if version.marker}
    received = [version for version in standing if not version.marker]
    oldest = _oldest_by_day(received)
    lacking = (
        DueMarker(day, newer)
        for newer in received
        for day, older in oldest.items()
        if 1 <= abs((day - newer.day).days) <= window_days and older < _age(newer) and (newer.copy, day) not in known
    )
    return [*lacking, *_obsolete(left, taken_back - {version.copy for version in received})]


def _oldest_by_day(received: Iterable[VersionRow]) -> dict[date, tuple[Moment, int]]:
    oldest: dict[date, tuple[Moment, int]] = {}
    for version in received:
        oldest[version.day] = min(oldest.get(version.day, _age(version)), _age(version))
    return oldest


def _age(version: VersionRow) -> tuple[Moment, int]:
    return version.at, version.hash


def _obsolete(left: Counter[VersionRow], gone: set[Copy]) -> Iterator[DueMarker]:
    for version, count in left.items():
        if version.marker and version.copy in gone:
            yield from [DueMarker(version.day, version)] * count
