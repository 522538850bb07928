"""Several topics into one raw table: one query reads them, and each batch is a publication for each topic with events.

Each topic has positions, ids, gaps and a boundary of its own; of two versions of a key the greater counts, whichever
topic it came by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from backfill_assets import clock
from backfill_assets.stream.batches import BatchRead, Checkpoint, Reading
from backfill_assets.stream.delays import Received
from backfill_assets.stream.lease import StreamPosition
from backfill_assets.stream.sources import Start, planned_ranges
from backfill_assets.stream.topic import TopicReading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def together(starts: Mapping[str, Start]) -> Start:
    """What is told of a start; offsets stay with their topics."""
    reasons = "; ".join(f"{topic} {start.reason}" for topic, start in starts.items())
    return Start({}, any(each.new for each in starts.values()), {}, reasons)


def batch_of(reads: Sequence[BatchRead]) -> BatchRead:
    """The last publication stands for all: readers see its days once all are published."""
    received = [each.received for each in reads if each.received]
    return BatchRead(
        events=sum(each.events for each in reads),
        received=_merged(received),
        publication=next((each.publication for each in reversed(reads) if each.publication), ""),
        days=tuple(sorted({day for each in reads for day in each.days})),
        at=clock.now(),
    )


def _merged(parts: Sequence[Received]) -> Received | None:
    return Received.merged(parts) if len(parts) > 1 else next(iter(parts), None)


@dataclass
class SeveralTopics(Reading):
    usual_most: ClassVar[int] = TopicReading.usual_most
    counts_events: ClassVar[bool] = True
    of_topic: ClassVar[bool] = True

    parts: tuple[TopicReading, ...] = field(kw_only=True)

    @property
    def is_live(self) -> bool:
        return all(each.is_live for each in self.parts)

    @property
    def boundary_text(self) -> str:
        texts = {each.topic.topic: each.boundary_text for each in self.parts}
        return "; ".join(f"{topic} {text}" for topic, text in texts.items() if text)

    @property
    def positions(self) -> tuple[StreamPosition, ...]:
        return tuple(position for each in self.parts for position in each.positions)

    def look(self) -> None:
        for each in self.parts:
            each.look()

    def open(self, most: int) -> DataFrame:
        first, *others = self.parts
        first.open_letters([each.topic.topic for each in self.parts])
        starts = {each.topic.topic: each.begin() for each in self.parts}
        self.start = together(starts)
        beside = {each.topic.topic: starts[each.topic.topic].offsets for each in others}
        return first.broker.stream(starts[first.topic.topic].offsets, most, beside)

    def publish(self, rows: DataFrame, checkpoint: Checkpoint, number: int) -> BatchRead:
        """Each topic's part of the batch is read by itself: a filter on ``rows`` would read all topics each time."""
        done = []
        for each in self.parts:
            end = checkpoint.topic_offsets(number, each.topic.topic)
            if planned := planned_ranges(each.reached, end):
                done.append(each.take(each.broker.read(*planned), end))
        return batch_of(done)

    def explain(self, error: Exception) -> Exception | None:
        return next((why for each in self.parts if (why := each.explain(error)) is not None), None)
