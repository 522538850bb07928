"""A stream's sources, and offsets of a topic: where to start, what is new, what was lost. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from backfill_assets.errors import InvalidRequest, SourceUnreadable
from backfill_assets.state.stream_positions import TopicIds, TopicPositions
from backfill_assets.text import format_count

_ADDRESS = re.compile(r"(?i:kafka)://(?P<servers>[^/]*)(?:/(?P<topic>.*))?", re.DOTALL)
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SERVER = re.compile(r"(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\]):\d{1,5}")
LANDING = "landing"
_EXAMPLE = "Write --from landing, or --from kafka://HOST:PORT/TOPIC."


@dataclass(frozen=True)
class KafkaTopic:
    """``servers`` is ``host:port``, comma-separated."""

    servers: str
    topic: str

    def __str__(self) -> str:
        return f"kafka://{self.servers}/{self.topic}"


@dataclass(frozen=True)
class KafkaTopics:
    """Several topics of one cluster, read into one table."""

    servers: str
    names: tuple[str, ...]

    @property
    def topics(self) -> tuple[KafkaTopic, ...]:
        return tuple(KafkaTopic(self.servers, name) for name in self.names)

    def __str__(self) -> str:
        return f"kafka://{self.servers}/{','.join(self.names)}"


@dataclass(frozen=True)
class LandingFolder:
    def __str__(self) -> str:
        return LANDING


StreamSource = KafkaTopic | KafkaTopics | LandingFolder


def parse_source(text: str) -> StreamSource:
    """``landing`` or ``kafka://host:port[,host:port]/topic[,topic]``; else raises :class:`InvalidRequest`.

    User, password and options belong in the file that ``BACKFILL_KAFKA_PROPERTIES`` names.
    """
    if text == LANDING:
        return LandingFolder()
    if "@" in text or "?" in text:
        raise InvalidRequest(
            "The address of a broker holds no user, no password and no options.",
            hint="Put them into a file of Kafka client properties, and name it in BACKFILL_KAFKA_PROPERTIES.",
        )
    address = _ADDRESS.fullmatch(text)
    if address is None:
        raise InvalidRequest(f"{text!r} is no source of a stream.", hint=_EXAMPLE)
    servers, names = address["servers"], (address["topic"] or "").split(",")
    if not all(map(_SERVER.fullmatch, servers.split(","))) or not all(map(_TOPIC.fullmatch, names)):
        raise InvalidRequest(f"{text!r} names no brokers with their ports and one topic.", hint=_EXAMPLE)
    if len(set(names)) < len(names):
        raise InvalidRequest(f"{text!r} names a topic twice.", hint="Name each topic once.")
    return KafkaTopic(servers, names[0]) if len(names) == 1 else KafkaTopics(servers, tuple(names))


Offsets = Mapping[int, int]


@dataclass(frozen=True, order=True)
class OffsetRange:
    """``end`` is exclusive; an offset may have no event."""

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
    """The oldest offset kept, and the one after the newest, by partition."""

    oldest: Offsets
    end: Offsets
    ids: TopicIds


@dataclass(frozen=True)
class Start:
    offsets: Offsets
    new: bool
    boundary: Offsets
    """Events before, from ``offsets`` on, are history."""
    reason: str


def start_of(known: TopicPositions, kept: TopicOffsets, history: Offsets | None) -> Start:
    """Start at raw's positions; a new stream at ``history`` if given, else now.

    A partition added later begins at its beginning; :func:`require_not_shorter` refuses a missing one.
    """
    if known.begun:
        offsets = {**dict.fromkeys(kept.end, 0), **known.next_offsets}
        return Start(offsets, False, known.boundary, "goes on where raw ends")
    if history is not None:
        offsets = {partition: max(history.get(partition, 0), oldest) for partition, oldest in kept.oldest.items()}
        return Start(offsets, True, dict(kept.end), "begins with its history")
    return Start(dict(kept.end), True, dict(kept.end), "begins with what comes from now on")


def known_topic(known: TopicPositions, source: KafkaTopic, ids: TopicIds, *, new_topic: bool) -> TopicPositions:
    """Raises :class:`SourceUnreadable` for another topic than the one read; ``new_topic`` starts without positions."""
    if not known.begun or known.ids == ids:
        return known
    if not new_topic:
        raise another_topic(source, known.ids, ids)
    return known.next_topic()


def another_topic(source: KafkaTopic, read: TopicIds | None, found: TopicIds) -> SourceUnreadable:
    return SourceUnreadable(
        f"{source} is another topic than the one that raw has read: it is {found}, and that was {read}. The topic was"
        " deleted and created again, or this is another cluster.",
        hint="Nothing was read of it. Name the right broker; or read it from its first event on, as another topic of"
        " that name: --new-topic",
    )


def lost_ranges(start: Offsets, oldest: Offsets) -> list[OffsetRange]:
    return [
        OffsetRange(partition, start[partition], first)
        for partition, first in sorted(oldest.items())
        if start.get(partition, first) < first
    ]


def require_not_shorter(source: KafkaTopic, start: Offsets, end: Offsets) -> None:
    """Raises :class:`SourceUnreadable` if the topic has fewer events than were read."""
    ahead = [partition for partition, offset in sorted(start.items()) if offset > end.get(partition, 0)]
    if ahead:
        partition = ahead[0]
        raise SourceUnreadable(
            f"{source}: partition {partition} ends at offset {end.get(partition, 0):,}, and raw has read up to"
            f" {start[partition]:,}. The broker has lost events.",
            hint="Nothing was read. Bring the events back, or give those that come a topic of another name.",
        )


def lost_events(source: KafkaTopic, lost: Sequence[OffsetRange]) -> SourceUnreadable:
    offsets = sum(each.offsets for each in lost)
    ranges = "; ".join(map(str, lost))
    return SourceUnreadable(
        f"{source} has deleted {format_count(offsets, 'offset')} that raw has not read: {ranges}.",
        hint="Bring them back from the source, or go on without them and have that recorded: --accept-gap",
    )


def new_ranges(planned: Sequence[OffsetRange], known: Offsets) -> list[OffsetRange]:
    """What raw has not read. Raises :class:`SourceUnreadable` for a gap: its events would be lost."""
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
    spans = (OffsetRange(partition, start.get(partition, 0), last) for partition, last in sorted(end.items()))
    return [each for each in spans if each.offsets > 0]
