"""On which days raw rows are put, as the code version of raw, and which raw days another declaration concerns. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache

INGEST = "v1"
"""The version of the ingestion."""
ON_ARRIVAL_DAY = "on_arrival_day"
"""The metric of raw that counts rows that name a day that is not possible: they are on the day they arrived."""
AHEAD_OF_ARRIVAL = "ahead_of_arrival"
"""The metric of raw that counts rows that arrived before their day."""
_ANY = "any day"
IN_UTC = "UTC"
"""The zone of event days that needs no word in a code version: there was no other one before."""
_WRITTEN = re.compile(rf"{INGEST} from ({_ANY}|[0-9-]+), ([0-9]+) ahead(?:, days of ([\w/+-]+))?", re.ASCII)
_BETWEEN = "; "
_ANEW = "all "
"""Begins the code version of what a refresh appends to a day after it has looked at all rows of the day."""
IMPLAUSIBLE = "is no plausible day"
"""How the reason of a rejected row ends that is on the day it arrived, though it names a day."""


@dataclass(frozen=True)
class Placement:
    """Which event days are possible. A row with another one stays on the day it arrived, flagged."""

    earliest_day: date | None
    """None for a source that is in no dataset: no day is too early."""
    days_ahead: int
    """How far an event day may lie after the arrival day."""
    event_zone: str = IN_UTC
    """The time zone in which a moment is on a day."""

    @property
    def code_version(self) -> str:
        """The ingestion by this placement, as it is recorded with every raw day."""
        clocks = "" if self.event_zone == IN_UTC else f", days of {self.event_zone}"
        return f"{INGEST} from {self.earliest_day or _ANY}, {self.days_ahead} ahead{clocks}"

    @property
    def of_all_rows(self) -> str:
        """The code version of rows that are appended to a day of which all other rows were put on their days anew."""
        return f"{_ANEW}{self.code_version}"

    def concerns(self, day: date, code_version: str, metrics: Mapping[str, object]) -> bool:
        """Whether rows of a raw day might lie elsewhere, or be flagged otherwise, had they been put there by this.

        ``code_version`` and ``metrics`` are what was recorded with the day. Days without such rows stay fresh: another
        declaration does not concern them.
        """
        recorded = map(_recorded, code_version.split(_BETWEEN))
        return any(self._concerns(day, was, metrics if measured else {}) for was, measured in recorded)

    def _concerns(self, day: date, was: Placement, metrics: Mapping[str, object]) -> bool:
        earlier = later = False
        if self.earliest_day and was.earliest_day:
            earlier = self.earliest_day < was.earliest_day
            later = was.earliest_day <= day < self.earliest_day
        wider, closer = self.days_ahead > was.days_ahead, self.days_ahead < was.days_ahead
        if self.event_zone != was.event_zone:
            return metrics.get("received") != 0
        freed = (earlier or wider) and metrics.get(ON_ARRIVAL_DAY) != 0
        return freed or later or (closer and metrics.get(AHEAD_OF_ARRIVAL) != 0)


def both(one: str, other: str) -> str:
    """The code version of a day with rows of ``one`` after rows of ``other`` were appended."""
    if other.startswith(_ANEW):
        return other.removeprefix(_ANEW)
    known = filter(None, (*one.split(_BETWEEN), *other.split(_BETWEEN)))
    return _BETWEEN.join(dict.fromkeys(known))


def recorded_placement(code_version: str) -> Placement:
    """By which rows were put on their days that were taken in at once, with this code version."""
    return _recorded(code_version.removeprefix(_ANEW))[0]


def is_ingestion(code_version: str) -> bool:
    """True for the code version of a raw day, which names no version of a step's logic."""
    return all(map(_WRITTEN.fullmatch, code_version.split(_BETWEEN)))


_UNRECORDED = Placement(date(2000, 1, 1), 1)
"""The placement of every source before days recorded theirs."""


@cache
def _recorded(code_version: str) -> tuple[Placement, bool]:
    """The placement in a code version, and whether the metrics that go with it were recorded."""
    found = _WRITTEN.fullmatch(code_version)
    if found is None:
        return _UNRECORDED, False
    earliest = None if found[1] == _ANY else date.fromisoformat(found[1])
    return Placement(earliest, int(found[2]), found[3] or IN_UTC), True
