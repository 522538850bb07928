"""New timelines on a base of one's choice: what is published, a moment before, or what another timeline shows."""

from __future__ import annotations

from datetime import datetime

from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.named_timelines import NamedTimeline, TimelineBase, timeline_called
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.published.moments import find_moment, held_days, is_version
from backfill_assets.timeline.rewind import copied_timeline, new_timeline, require_files

_MAIN = "main"


def timeline_based_on(storage: Storage, base: str, name: str, by: str, now: datetime) -> NamedTimeline:
    """A timeline without days of its own, whose days read through to ``base``: main, a publication or a time in UTC.

    With the name of a timeline as ``base`` it has that one's days and base. It is not written yet. Raises
    :class:`InvalidRequest` for what names no state, :class:`PublicationRefused` when files of that state are gone, with
    the earliest moment of each table that can be had.
    """
    if base == _MAIN:
        return new_timeline(storage, name, by, now)
    if (other := timeline_called(storage, base, now)) is not None:
        return copied_timeline(other, name, by, now)
    if is_version(base):
        raise InvalidRequest(
            f"{base} is a version of one table, and a base is a state of all of them.",
            hint="Name a publication (backfill history), a time in UTC, or another timeline.",
        )
    moment = find_moment(storage, base, "")
    require_files(storage, held_days(moment.snapshot, moment.snapshot.versions), moment.text)
    found = TimelineBase(sequence=moment.snapshot.sequence, versions=moment.snapshot.versions)
    change = f"created at {moment.text}"
    return new_timeline(storage, name, by, now).model_copy(update={"base": found, "change": change})
