"""Decides which offsets a stream reads: from where it starts, what of a micro-batch is new, and what was lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from backfill_assets.errors import SourceUnreadable
from backfill_assets.published.stream_positions import TopicIds, TopicPositions
from backfill_assets.stream.sources import KafkaTopic
from backfill_assets.text import format_count

Offsets = Mapping[int, int]
"""An offset by partition: the next one to read, or the one after the last."""


@dataclass(frozen=True, order=True)
class OffsetRange:
    """The events of one partition from ``first`` up to, and without, ``end``; an offset may have none."""

    partition: int
    first: int
    end: int

    @property
    def offsets(self) -> int:
        return self.end - self.first

    def __str__(self) -> str:
        return f"partition {self.partition}, offsets {self.first:,} to {self.end - 1:,}"


@dataclass(frozen=True)
class TopicOffsets:
    """What the broker has of a topic, by partition: the oldest offset that it kept, and the one after the newest."""

    oldest: Offsets
    end: Offsets
    ids: TopicIds


@dataclass(frozen=True)
class Start:
    """Where a stream starts to read, by partition. ``new`` is true if this is written down first."""

    offsets: Offsets
    new: bool
    boundary: Offsets
    """Where what is live begins: the events before it, from ``offsets`` on, are history."""
    reason: str


def start_of(known: TopicPositions, kept: TopicOffsets, history: Offsets | None) -> Start:
    """From where to read: the positions that raw has; for a stream that begins, ``history`` if it is wanted, or now.

    A partition that was added to the topic after the stream began is read from its beginning. One that was read and
    is not there any more keeps its position, which :func:`require_not_shorter` refuses.
    """
    if known.begun:
        offsets = {**dict.fromkeys(kept.end, 0), **known.next_offsets}
        return Start(offsets, False, known.boundary, "goes on where raw ends")
    if history is not None:
        offsets = {partition: max(history.get(partition, 0), oldest) for partition, oldest in kept.oldest.items()}
        return Start(offsets, True, dict(kept.end), "begins with its history")
    return Start(dict(kept.end), True, dict(kept.end), "begins with what comes from now on")


def known_topic(known: TopicPositions, source: KafkaTopic, ids: TopicIds, *, new_topic: bool) -> TopicPositions:
    """The positions of the topic with ``ids``: those that are ``known``, or none if it is a ``new_topic`` of that name.

    Raises :class:`SourceUnreadable` if it is another topic than the one that was read, and that is not asked for.
    """
    if not known.begun or known.ids == ids:
        return known
    if not new_topic:
        raise another_topic(source, known.ids, ids)
    return known.next_topic()


def another_topic(source: KafkaTopic, read: TopicIds | None, found: TopicIds) -> SourceUnreadable:
    """The error for a topic that is not the one that was ``read``; its offsets say nothing of the other's."""
    return SourceUnreadable(
        f"{source} is another topic than the one that raw has read: it is {found}, and that was {read}. The topic was"
        " deleted and created again, or this is another cluster.",
        hint="Nothing was read of it. Name the right broker; or read it from its first event on, as another topic of"
        " that name: --new-topic",
    )


def lost_ranges(start: Offsets, oldest: Offsets) -> list[OffsetRange]:
    """What the broker has deleted and the stream has not read."""
    return [
        OffsetRange(partition, start[partition], first)
        for partition, first in sorted(oldest.items())
        if start.get(partition, first) < first
    ]


def require_not_shorter(source: KafkaTopic, start: Offsets, end: Offsets) -> None:
    """Raise :class:`SourceUnreadable` if the topic has fewer events than were read."""
    ahead = [partition for partition, offset in sorted(start.items()) if offset > end.get(partition, 0)]
    if ahead:
        partition = ahead[0]
        raise SourceUnreadable(
            f"{source}: partition {partition} ends at offset {end.get(partition, 0):,}, and raw has read up to"
            f" {start[partition]:,}. The broker has lost events.",
            hint="Nothing was read. Bring the events back, or give those that come a topic of another name.",
        )


def lost_events(source: KafkaTopic, lost: Sequence[OffsetRange]) -> SourceUnreadable:
    """The error for events that the broker deleted before they were read; some offsets may have had none."""
    offsets = sum(each.offsets for each in lost)
    ranges = "; ".join(map(str, lost))
    return SourceUnreadable(
        f"{source} has deleted {format_count(offsets, 'offset')} that raw has not read: {ranges}.",
        hint="Bring them back from the source, or go on without them and have that recorded: --accept-gap",
    )


def new_ranges(planned: Sequence[OffsetRange], known: Offsets) -> list[OffsetRange]:
    """The part of a micro-batch that raw has not read; empty for one that was published before.

    Raises :class:`SourceUnreadable` if the micro-batch begins after the position: events in between would be lost.
    """
    ranges = []
    for each in planned:
        position = known.get(each.partition, 0)
        if position < each.first:
            raise SourceUnreadable(
                f"Raw has read partition {each.partition} up to offset {position:,}, and the next events that came are"
                f" from {each.first:,} on: a publication was rolled back, or another stream has read them.",
                hint="Start the stream again: it reads from where raw ends.",
            )
        if position < each.end:
            ranges.append(OffsetRange(each.partition, position, each.end))
    return ranges


def planned_ranges(start: Offsets, end: Offsets) -> list[OffsetRange]:
    """The events between two sets of offsets, by partition."""
    spans = (OffsetRange(partition, start.get(partition, 0), last) for partition, last in sorted(end.items()))
    return [each for each in spans if each.offsets > 0]
