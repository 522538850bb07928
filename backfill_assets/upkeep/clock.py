"""How far this machine's clock is believed: files are deleted by age, and a clock that is ahead makes all of them old.

A clock that jumps shows as a long step in the publication log, and a quiet lakehouse as well. Either way the step is
not counted: what is deleted is as old as it has to be by the time that the log bears out.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from backfill_assets.publish.files import LogFiles
from backfill_assets.publish.publisher import Publisher

MOST_QUIET = timedelta(days=8)
"""The longest normal pause: a lakehouse that is published to every week has none that is longer."""
_WINDOWS = 2
"""For a window after a jump, files from before it look too old. As long again, a store with a clock of its own dates
files from after it by the right time."""
_NOTHING = timedelta()


def believed_now(publisher: Publisher, *, clock_checked: bool = False) -> datetime:
    """Now, less the long steps in the publication log; the clock's own time if a person has checked it."""
    now = publisher.now()
    if clock_checked:
        return now
    window = timedelta(days=max(publisher.retention_days, *map(int, publisher.log.head().state.promised), 0))
    return now - not_borne_out(_newest_first(publisher.log.files(), now - _WINDOWS * window), now, _WINDOWS * window)


def not_borne_out(newest_first: Iterable[datetime], now: datetime, look_back: timedelta) -> timedelta:
    """The long steps from the entries of the log until ``now``, as far as ``look_back`` before what is believed.

    Of machines that take turns, one of which is ahead, the steps forward and back cancel out for those that are right:
    what counts is the most that is missing since one of the entries.
    """
    later, missing, most = now, _NOTHING, _NOTHING
    for at in newest_first:
        if abs(later - at) > MOST_QUIET:
            missing += later - at
            most = max(most, missing)
        if at < now - most - look_back:
            break
        later = at
    return most


def _newest_first(files: LogFiles, since: datetime) -> list[datetime]:
    """When the entries of the log were made, in its order.

    Of a file in which no long step has room, its bounds are enough, and of one from before ``since``: it is not read.
    """
    found: list[tuple[int, datetime]] = []
    for number, (low, high, newest) in enumerate(files.spans()):
        if low and high and newest is not None and (high < since or high - low <= MOST_QUIET):
            found += [(newest, low), (newest, high)]
        else:
            rows = files.only(files.paths[number : number + 1]).read(["sequence", "at"])
            found += zip(rows.column("sequence").to_pylist(), rows.column("at").to_pylist(), strict=True)
    return [at for _, at in sorted(found, reverse=True)]
