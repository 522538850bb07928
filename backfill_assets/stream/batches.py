"""A source of a stream, and its micro-batches: what each one read, and what it brought into raw."""

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
"""A stream waits no longer than this for others that hold its days."""


def stream_name(raw: str) -> str:
    """What the publications of the stream into ``raw`` are named after, and the Delta transaction that they share."""
    return f"stream-{raw}"


@dataclass(frozen=True)
class BatchRead:
    """What one micro-batch read, and what it brought into raw."""

    events: int = 0
    received: Received | None = None
    """When their source received the events; None if that is not known."""
    bytes: int = 0
    """Of landed files, as they lie on disk; 0 for a topic."""
    publication: str = ""
    """Empty if raw had it all."""
    days: tuple[date, ...] = ()
    """That gained rows, or markers of newer versions on other days."""
    at: datetime | None = None
    """When readers had them in raw."""

    @property
    def delays(self) -> Delays | None:
        """Until the events were in raw."""
        return self.received.delays(self.at) if self.received and self.at else None


class CheckpointGone(Exception):
    """What Spark had planned cannot be read: the folder was emptied, or is gone."""


@dataclass(frozen=True)
class Checkpoint:
    """The folder in which Spark plans the micro-batches of one query, before each of them runs.

    It begins empty: a query starts where raw ends. It is a cache, and a query that has lost it is started again. The
    files are read as they are in Spark 4.2: a line with the version of the format, then JSON. What is not there raises
    :class:`CheckpointGone`.
    """

    folder: Path

    @property
    def is_there(self) -> bool:
        """Spark writes its metadata first, and deletes them never."""
        return (self.folder / "metadata").exists()

    def topic_offsets(self, batch: int, topic: str) -> Offsets:
        """By partition, the offset after the last event of ``batch``."""
        ends: dict[str, int] = self._source_offset(batch)[topic]
        return {int(partition): end for partition, end in ends.items()}

    def landed_paths(self, batch: int) -> list[Path]:
        """The files that Spark found for ``batch``, in its order."""
        last = int(self._source_offset(batch)["logOffset"])
        before = int(self._source_offset(batch - 1)["logOffset"]) if batch else -1
        log = self.folder / "sources" / "0"
        found: dict[str, int] = {}
        for number in range(before + 1, last + 1):
            name = log / str(number)
            # Every tenth file of Spark's log holds all before it too.
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
    """Reads one source into raw. Its publications share a name and a transaction."""

    usual_most: ClassVar[int]
    """Files, or events, that a micro-batch reads at most unless another number is asked for."""
    counts_events: ClassVar[bool]
    """Whether the most of a batch is a number of events, so that a rate can bound it."""
    first: bool = True
    """Until the first batch is published: what a killed stream has staged may be used."""
    start: Start | None = None
    """Where it started to read, of a source with offsets."""

    def __post_init__(self) -> None:
        self.name = self.transaction = stream_name(self.step.name)
        self.hold_seconds = HOLD_SECONDS

    def adopted(self, change: RawChange) -> StagedChange | None:
        """Looked for once: that is a look at each open timeline."""
        return super().adopted(change) if self.first else None

    @property
    @abstractmethod
    def is_live(self) -> bool:
        """Whether the history of the source is read, so that what comes now is read."""

    @property
    @abstractmethod
    def boundary_text(self) -> str:
        """Where history ended and live reading began, in words."""

    @property
    @abstractmethod
    def positions(self) -> tuple[StreamPosition, ...]:
        """How far each partition of the source is read, since the source was opened."""

    @abstractmethod
    def open(self, most: int) -> DataFrame:
        """What Spark is to read from where raw ends, ``most`` of it in a batch.

        Raises :class:`SourceUnreadable` if it cannot be read from there.
        """

    @abstractmethod
    def publish(self, rows: DataFrame, checkpoint: Checkpoint, number: int) -> BatchRead:
        """Publish micro-batch ``number`` of the query."""

    def look(self) -> None:
        """See what the source has by now, which :attr:`positions` then say. Called every few seconds."""

    def read_again(self) -> BatchRead | None:
        """Read what could not be read before, and may be by now; None if there is none. Called each idle minute."""
        return None

    def explain(self, error: Exception) -> Exception | None:
        """What an error of Spark says about the source; None if it is about something else."""
        return None

    def brought(self, done: StagedChange | None, received: Received | None = None, size: int = 0) -> BatchRead:
        """What ``done`` brought. Rows that a killed stream had staged are counted, and have no moment."""
        if done is None:
            return BatchRead(bytes=size)
        self.first = False
        rows = sum(int(str(staged.content.metrics["received"])) for staged in done.days.values())
        events = received.events if received else rows
        return BatchRead(events, received, size, done.publication, tuple(sorted(done.days)), clock.now())
