"""Raw rows' days, as raw's code version. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache

INGEST = "v1"
ON_ARRIVAL_DAY = "on_arrival_day"
"""Metric: rows that name an impossible day."""
AHEAD_OF_ARRIVAL = "ahead_of_arrival"
"""Metric: rows that arrived before their day."""
_ANY = "any day"
IN_UTC = "UTC"
"""Older code versions name no zone."""
_WRITTEN = re.compile(rf"{INGEST} from ({_ANY}|[0-9-]+), ([0-9]+) ahead(?:, days of ([\w/+-]+))?", re.ASCII)
_BETWEEN = "; "
_ANEW = "all "
"""Prefix: a refresh placed all rows again."""
IMPLAUSIBLE = "is no plausible day"


@dataclass(frozen=True)
class Placement:
    """Possible event days. Rows with others stay on their arrival day, flagged."""

    earliest_day: date | None
    days_ahead: int
    event_zone: str = IN_UTC

    @property
    def code_version(self) -> str:
        clocks = "" if self.event_zone == IN_UTC else f", days of {self.event_zone}"
        return f"{INGEST} from {self.earliest_day or _ANY}, {self.days_ahead} ahead{clocks}"

    @property
    def of_all_rows(self) -> str:
        """For rows appended where all others were placed again."""
        return f"{_ANEW}{self.code_version}"

    def concerns(self, day: date, code_version: str, metrics: Mapping[str, object]) -> bool:
        """Whether rows might be placed or flagged otherwise than recorded."""
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
    """For rows of ``other`` appended to a day of ``one``."""
    if other.startswith(_ANEW):
        return other.removeprefix(_ANEW)
    known = filter(None, (*one.split(_BETWEEN), *other.split(_BETWEEN)))
    return _BETWEEN.join(dict.fromkeys(known))


def recorded_placement(code_version: str) -> Placement:
    return _recorded(code_version.removeprefix(_ANEW))[0]


def is_ingestion(code_version: str) -> bool:
    return all(map(_WRITTEN.fullmatch, code_version.split(_BETWEEN)))


_UNRECORDED = Placement(date(2000, 1, 1), 1)


@cache
def _recorded(code_version: str) -> tuple[Placement, bool]:
    found = _WRITTEN.fullmatch(code_version)
    if found is None:
        return _UNRECORDED, False
    earliest = None if found[1] == _ANY else date.fromisoformat(found[1])
    return Placement(earliest, int(found[2]), found[3] or IN_UTC), True
