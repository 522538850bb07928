"""One attempt to go forward: on the timeline itself, or on another one that is made of it when the days are computed.

The other timeline is written once, with its computed days: a process that is killed or refused leaves no name taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from backfill_assets.lakehouse.named_timelines import (
    NamedTimeline,
    change_timeline,
    create_timeline,
    require_free_name,
)
from backfill_assets.publication.publisher import Publisher
from backfill_assets.timeline.forward import Forwarded
from backfill_assets.timeline.rewind import copied_timeline

GoForward = Callable[[NamedTimeline], Forwarded]
"""Computes the days of a timeline, which is not written by that."""


def attempt_forward(
    publisher: Publisher, timeline: NamedTimeline, other: str | None, by: str, change: str, go: GoForward
) -> Forwarded:
    """Go forward from ``timeline``, on itself or as ``other``, and write what became of it.

    Raises :class:`InvalidRequest` if ``other`` is taken, before anything is computed; and :class:`PublicationRefused`
    if another process has changed the timeline meanwhile.
    """
    if other is None:
        done = go(timeline)
        return replace(done, timeline=change_timeline(publisher.storage, done.timeline, change, publisher.now()))
    require_free_name(publisher.storage, other, publisher.now())
    done = go(copied_timeline(timeline, other, by, publisher.now()))
    made = done.timeline.model_copy(update={"change": change, "changed_at": publisher.now()})
    return replace(done, timeline=create_timeline(publisher.storage, made))
