"""A stream's source and micro-batches: what each read, and brought into raw."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote, urlsplit

from backfill_assets import clock
from backfill_assets.rebuild.raw_change import RawChange, RawWriter, StagedChange
from backfill_assets.stream.delays import Delays, Received
from backfill_assets.stream.lease import StreamPosition
from backfill_assets.stream.sources import Offsets, Start

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HOLD_SECONDS = 5.0


def stream_name(raw: str) -> str:
    return f"stream-{raw}"


@dataclass(frozen=True)
class BatchRead:
    events: int = 0
    received: Received | None = None
    bytes: int = 0
    publication: str = ""
    days: tuple[date, ...] = ()
    """Days that gained rows, or markers of newer versions on other days."""
    at: datetime | None = None

    @property
    def delays(self) -> Delays | None:
        return self.received.delays(self.at) if self.received and self.at else None


class CheckpointGone(Exception):
    pass


@dataclass(frozen=True)
class Checkpoint:
    """Spark's checkpoint of a query, as Spark 4.2 writes it: a version line, then JSON.

    Only a cache: a query starts with an empty one, where raw ends. Raises :class:`CheckpointGone`.
    """

    folder: Path

    @property
    def is_there(self) -> bool:
        return (self.folder / "metadata").exists()

    def topic_offsets(self, batch: int, topic: str) -> Offsets:
        """The offset after the last event of ``batch``, by partition."""
        ends: dict[str, int] = self._source_offset(batch)[topic]
        return {int(partition): end for partition, end in ends.items()}

    def landed_paths(self, batch: int) -> list[Path]:
        last = int(self._source_offset(batch)["logOffset"])
        before = int(self._source_offset(batch - 1)["logOffset"]) if batch else -1
        log = self.folder / "sources" / "0"
        found: dict[str, int] = {}
        for number in range(before + 1, last + 1):
            name = log / str(number)
            # Every tenth file of Spark's log also has everything before it.
            lines = _text(name if name.exists() else name.with_name(f"{number}.compact")).splitlines()[1:]
            entries = (json.loads(line) for line in lines)
            found |= {entry["path"]: number for entry in entries if before < entry["batchId"] <= last}
        return [Path(unquote(urlsplit(path).path)) for path in found]

    def _source_offset(self, batch: int) -> dict[str, Any]:
        lines = _text(self.folder / "offsets" / str(batch)).splitlines()
        offset: dict[str, Any] = json.loads(lines[-1])
        return offset


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except FileNotFoundError as error:
        raise CheckpointGone(f"{file} is gone") from error


@dataclass
class Reading(RawWriter, ABC):
    usual_most: ClassVar[int]
    counts_events: ClassVar[bool]
    first: bool = True
    """Until a batch is published, what a killed stream has staged may be adopted."""
    start: Start | None = None

    def __post_init__(self) -> None:
        self.name = self.transaction = stream_name(self.step.name)
        self.hold_seconds = HOLD_SECONDS

    def adopted(self, change: RawChange) -> StagedChange | None:
        """Only before the first batch: it looks at each open timeline."""
        return super().adopted(change) if self.first else None

    @property
    @abstractmethod
    def is_live(self) -> bool:
        pass

    @property
    @abstractmethod
    def boundary_text(self) -> str:
        pass

    @property
    @abstractmethod
    def positions(self) -> tuple[StreamPosition, ...]:
        pass

    @abstractmethod
    def open(self, most: int) -> DataFrame:
        """Rows from where raw ends, ``most`` a batch. Raises :class:`SourceUnreadable`."""

    @abstractmethod
    def publish(self, rows: DataFrame, checkpoint: Checkpoint, number: int) -> BatchRead:
        pass

    def look(self) -> None:
        pass

    def read_again(self) -> BatchRead | None:
        """Called each idle minute, to retry what could not be read."""
        return None

    def explain(self, error: Exception) -> Exception | None:
        return None

    def brought(self, done: StagedChange | None, received: Received | None = None, size: int = 0) -> BatchRead:
        """Rows that a killed stream had staged have no time of receipt."""
        if done is None:
            return BatchRead(bytes=size)
        self.first = False
        rows = sum(int(str(staged.content.metrics["received"])) for staged in done.days.values())
        events = received.events if received else rows
        return BatchRead(events, received, size, done.publication, tuple(sorted(done.days)), clock.now())
