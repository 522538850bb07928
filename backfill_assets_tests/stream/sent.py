"""What a producer has sent so far: kept in a file as it goes, so that a kill of the producer does not lose it."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import takewhile
from pathlib import Path

from backfill_assets.examples.sample.live import LiveEvent, LiveSpec, live_events
from backfill_assets_tests.examples.sample.live_tally import LiveTally, version_of


@dataclass(frozen=True)
class Sent:
    """``handed_over`` events are the most that can be in the topic; those ``acknowledged``, by partition, are in it.

    A partition has its events in order, each once: ``acknowledged`` are the first ones of it.
    """

    handed_over: int
    acknowledged: tuple[int, ...]
    is_complete: bool

    @classmethod
    def read(cls, file: Path) -> Sent:
        """What the file says; a producer that has not written yet has sent nothing."""
        if not file.exists():
            return cls(0, (), is_complete=False)
        found = json.loads(file.read_text())
        return cls(found["handed_over"], tuple(found["acknowledged"]), found["is_complete"])

    def write(self, file: Path) -> None:
        """Whole or not at all."""
        unfinished = file.with_suffix(".part")
        unfinished.write_text(json.dumps(asdict(self)))
        unfinished.replace(file)


def partition_of(event: LiveEvent, partitions: int) -> int:
    """All versions of a transaction go to one partition; a line that cannot be read goes to one by its number."""
    key = version.transaction_id.encode() if (version := version_of(event)) else str(event.number).encode()
    return zlib.crc32(key) % partitions


def tally_in_topic(spec: LiveSpec, ends: Mapping[int, int]) -> LiveTally:
    """Of the events of a topic that holds only them: ``ends`` are the end offsets of all its partitions."""
    return LiveTally(_first_of_each(spec, [ends[partition] for partition in sorted(ends)]))


def _first_of_each(spec: LiveSpec, ends: Sequence[int]) -> Iterator[LiveEvent]:
    left = list(ends)
    for event in takewhile(lambda _: any(left), live_events(spec)):
        partition = partition_of(event, len(left))
        if left[partition]:
            left[partition] -= 1
            yield event
