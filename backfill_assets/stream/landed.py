"""Reads the landing folder of a source, whose files land all day. Their time is that of their last change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from backfill_assets.errors import SourceUnreadable
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.landing.zone import ENDINGS, LandedFile, files_taken_in
from backfill_assets.rebuild.ingest import from_landed_files
from backfill_assets.rebuild.raw_change import RawChange
from backfill_assets.stream.batches import BatchRead, Checkpoint, Reading
from backfill_assets.stream.delays import Received
from backfill_assets.stream.lease import StreamPosition
from backfill_assets.stream.throttle import LIVE_BELOW_SECONDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FileStamp = tuple[int, int] | None
"""When a file was written (ns) and its size; None for one that is not there."""
_SHOWN_FOLDERS = 7
"""Of so many arrival days the positions say how many landed files are read."""


@dataclass
class LandingReading(Reading):
    """Appends landed files, each verified as a landed day's files are."""

    usual_most: ClassVar[int] = 100
    counts_events: ClassVar[bool] = False

    left_out: dict[Path, FileStamp] = field(default_factory=dict)
    """Files that could not be read, as they were then."""
    _read_files: Counter[str] = field(default_factory=Counter)
    """How many landed files raw has read, by the folder of their arrival day."""
    _landed_files: dict[str, int] = field(default_factory=dict)
    """How many there were in the newest folders, when they were last read from."""
    _counted_at: dict[Path, int] = field(default_factory=dict)
    """When the newest folders had changed last as they were counted."""
    _live_since: datetime | None = None

    @property
    def folder(self) -> Path:
        return self.lake.landing.root / self.source.name

    @property
    def is_live(self) -> bool:
        return self._live_since is not None

    @property
    def boundary_text(self) -> str:
        return f"files that landed until {self._live_since:%Y-%m-%d %H:%M:%S}Z" if self._live_since else ""

    @property
    def positions(self) -> tuple[StreamPosition, ...]:
        newest = sorted({**self._landed_files, **self._read_files})[-_SHOWN_FOLDERS:]
        return tuple(
            StreamPosition(partition=day, position=self._read_files[day], end=self._landed_files.get(day))
            for day in newest
        )

    def open(self, most: int) -> DataFrame:
        """The rows of a file are read by its name later. By itself Spark leaves out old files beside newer ones."""
        self.folder.mkdir(parents=True, exist_ok=True)
        taken_in = files_taken_in(self.lake.storage, self.source.name, self.table.name)
        self._read_files = Counter(Path(path).parent.name for path in taken_in)
        self._count_landed(sorted(self._read_files)[-_SHOWN_FOLDERS:])
        files = self.lake.spark().readStream.format("text").schema("value string")
        names = f"*{{{','.join(ENDINGS)}}}"
        return files.options(maxFilesPerTrigger=most, maxFileAge="36500d").load(f"{self.folder}/*/{names}")

    def publish(self, rows: DataFrame, checkpoint: Checkpoint, number: int) -> BatchRead:
        return self.take_in(checkpoint.landed_paths(number))

    def look(self) -> None:
        """A folder that nothing landed in since is not counted again: one of a day may have 86,400 files."""
        newest = sorted(path for path in self.folder.iterdir() if path.is_dir())[-_SHOWN_FOLDERS:]
        changed = {path: stamp[0] for path in newest if (stamp := file_stamp(path))}
        self._count_landed(path.name for path, at in changed.items() if self._counted_at.get(path) != at)
        self._counted_at = changed

    def read_again(self) -> BatchRead | None:
        again = self._landed_again()
        return self.take_in(again) if again else None

    def take_in(self, paths: Sequence[Path]) -> BatchRead:
        """Publish the rows of those files that raw has not read.

        A damaged or changed file is reported and left out: it is read with the next batch after it has landed again.
        """
        stamps = [stamp for path in paths if (stamp := file_stamp(path)) is not None]
        wanted = list(dict.fromkeys((*self._landed_again(), *paths)))
        files: list[LandedFile] = []

        def look() -> RawChange | None:
            files[:] = self.new_files(wanted)
            return from_landed_files(self, files) if files else None

        done = self.carry_out(look)
        if done is not None:
            read = Counter(Path(file.path).parent.name for file in files)
            self._read_files.update(read)
            self._count_landed(read)
        brought = self.brought(done, size=sum(size for _, size in stamps))
        landed_at = sorted(changed // 1_000_000 for changed, _ in stamps)
        now = self.lake.publisher.now()
        if landed_at and now.timestamp() - landed_at[-1] / 1000 < LIVE_BELOW_SECONDS:
            self._live_since = self._live_since or now
        received = Received.of(brought.events, landed_at) if landed_at and brought.events else None
        return replace(brought, received=received)

    def new_files(self, paths: Sequence[Path]) -> list[LandedFile]:
        """Those of ``paths`` that raw has not read; what is wrong with another one is reported."""
        main = MainTable.open(self.lake.storage, self.step.name)
        found = []
        for path in (each for each in paths if not self.lake.landing.ignores(each)):
            stamp = file_stamp(path)
            try:
                file = self.lake.landing.file(self.source.name, path)
                if self.lake.landing.is_new(file, (main.transaction(file.position[0]) if main else None) or 0):
                    _require_bytes(file)
                    found.append(file)
                self.left_out.pop(path, None)
            except SourceUnreadable as problem:
                self.left_out[path] = stamp
                self.progress(f"Warning: {problem.message} It is left out")
        return found

    def _landed_again(self) -> list[Path]:
        """Files that were left out and have changed since: Spark names a file once."""
        return [path for path, stamp in self.left_out.items() if file_stamp(path) not in (None, stamp)]

    def _count_landed(self, days: Iterable[str]) -> None:
        for day in days:
            names = (path.name for path in (self.folder / day).glob("*"))
            self._landed_files[day] = sum(1 for name in names if name.endswith(ENDINGS))


def _require_bytes(file: LandedFile) -> None:
    """A copy begins with no bytes, which would count as the whole file. One that stays so is for the nightly run."""
    if not file.size:
        raise SourceUnreadable(f"{file.path} has no bytes yet.")


def file_stamp(path: Path) -> FileStamp:
    """A landed file may be removed at any moment."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
