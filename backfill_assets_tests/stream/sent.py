"""What a producer has sent so far: kept in a file as it goes, so that a kill of the producer does not lose it."""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path

from backfill_assets.examples.sample.live import LiveEvent
from backfill_assets_tests.examples.sample.live_tally import version_of


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
