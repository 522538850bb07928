"""Which markers the versions of one key make necessary: ``judge/keys.py`` reads the versions. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from typing import NamedTuple

Moment = int | str | Decimal
"""The version that a row says it has, in a form that compares as its type does; all those of a key are of one type."""


class Copy(NamedTuple):
    """What a version and its marker have in common: when, which content, and on which day the version is."""

    at: Moment
    hash: int
    day: date


@dataclass(frozen=True)
class VersionRow:
    """One raw row of a key: a version that was received, a marker of one, or the deletion of either."""

    at: Moment
    hash: int
    day: date
    belongs_to: date
    """Of a marker, the day of the version that it stands for; else ``day``."""
    marker: bool = False
    deleted: bool = False
    written: tuple[str | None, ...] | None = None
    """The key of a marker as it was written."""

    @property
    def copy(self) -> Copy:
        return Copy(self.at, self.hash, self.belongs_to if self.marker else self.day)


@dataclass(frozen=True)
class DueMarker:
    """A marker to be written on ``day`` for a version of another day, or the deletion of an obsolete one."""

    day: date
    version: VersionRow


def due_markers(versions: Sequence[VersionRow], window_days: int) -> list[DueMarker]:
    """The markers that ``versions`` of one key lack, and the deletions of those whose version was taken back.

    A day needs a marker for every version that is greater by (at, hash) than one of its own, and is at most
    ``window_days`` away.
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
    """A day loses against a version if its oldest one does; each version is compared with days, and not with all."""
    oldest: dict[date, tuple[Moment, int]] = {}
    for version in received:
        oldest[version.day] = min(oldest.get(version.day, _age(version)), _age(version))
    return oldest


def _age(version: VersionRow) -> tuple[Moment, int]:
    """What versions are compared by."""
    return version.at, version.hash


def _obsolete(left: Counter[VersionRow], gone: set[Copy]) -> Iterator[DueMarker]:
    """The markers of versions that are ``gone``, each as often as it is there."""
    for version, count in left.items():
        if version.marker and version.copy in gone:
            yield from [DueMarker(version.day, version)] * count
