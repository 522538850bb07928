"""The landing folder of a source; a file's time is its last change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from backfill_assets import clock
from backfill_assets.errors import SourceUnreadable
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.landing.zone import LandedFile, files_taken_in
from backfill_assets.model.landed_format import arrival_day_of
from backfill_assets.rebuild.ingest import from_landed_files
from backfill_assets.rebuild.raw_change import RawChange
from backfill_assets.stream.batches import BatchRead, Checkpoint, Reading
from backfill_assets.stream.delays import Received
from backfill_assets.stream.lease import StreamPosition
from backfill_assets.stream.throttle import LIVE_BELOW_SECONDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FileStamp = tuple[int, int] | None
"""Modification time (ns) and size; None if absent."""
_SHOWN_DAYS = 7


@dataclass
class LandingReading(Reading):
    usual_most: ClassVar[int] = 100
    counts_events: ClassVar[bool] = False

    left_out: dict[Path, FileStamp] = field(default_factory=dict)
    _read_files: Counter[date] = field(default_factory=Counter)
    _landed_files: dict[date, int] = field(default_factory=dict)
    _counted_at: dict[date, tuple[FileStamp, ...]] = field(default_factory=dict)
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
        newest = sorted({**self._landed_files, **self._read_files})[-_SHOWN_DAYS:]
        return tuple(
            StreamPosition(partition=str(day), position=self._read_files[day], end=self._landed_files.get(day))
            for day in newest
        )

    def open(self, most: int) -> DataFrame:
        """Spark only names files. Spark's default leaves out old files beside newer ones."""
        self.folder.mkdir(parents=True, exist_ok=True)
        taken_in = files_taken_in(self.lake.storage, self.source.name, self.table.name)
        self._read_files = self._by_day(taken_in)
        self._count_landed(sorted(self._read_files)[-_SHOWN_DAYS:])
        files = self.lake.spark().readStream.format("text").schema("value string")
        return files.options(maxFilesPerTrigger=most, maxFileAge="36500d").load(self.lake.landing.glob(self.source))

    def publish(self, rows: DataFrame, checkpoint: Checkpoint, number: int) -> BatchRead:
        return self.take_in(checkpoint.landed_paths(number))

    def look(self) -> None:
        """Only folders that changed are counted: a day may have 86,400 files."""
        newest = list(self.lake.landing.folders(self.source).items())[-_SHOWN_DAYS:]
        root = self.lake.landing.root
        changed = {day: tuple(file_stamp(root / folder) for folder in folders) for day, folders in newest}
        self._count_landed(day for day, at in changed.items() if self._counted_at.get(day) != at)
        self._counted_at = changed

    def read_again(self) -> BatchRead | None:
        again = self._landed_again()
        return self.take_in(again) if again else None

    def take_in(self, paths: Sequence[Path]) -> BatchRead:
        """A damaged or changed file is read once it has landed again."""
        stamps = [stamp for path in paths if (stamp := file_stamp(path)) is not None]
        wanted = list(dict.fromkeys((*self._landed_again(), *paths)))
        files: list[LandedFile] = []

        def look() -> RawChange | None:
            files[:] = self.new_files(wanted)
            return from_landed_files(self, files) if files else None

        done = self.carry_out(look)
        if done is not None:
            read = Counter(file.arrival_day for file in files)
            self._read_files.update(read)
            self._count_landed(read)
        brought = self.brought(done, size=sum(size for _, size in stamps))
        landed_at = sorted(changed // 1_000_000 for changed, _ in stamps)
        now = clock.now()
        if landed_at and now.timestamp() - landed_at[-1] / 1000 < LIVE_BELOW_SECONDS:
            self._live_since = self._live_since or now
        received = Received.of(brought.events, landed_at) if landed_at and brought.events else None
        return replace(brought, received=received)

    def new_files(self, paths: Sequence[Path]) -> list[LandedFile]:
        main = MainTable.open(self.lake.storage, self.step.name)
        found = []
        for path in (each for each in paths if not self.lake.landing.ignores(each)):
            stamp = file_stamp(path)
            try:
                file = self.lake.landing.file(self.source, path)
                known = (main.transaction(file.position[0]) if main else None) or 0
                if self.lake.landing.is_new(self.source, file, known):
                    _require_bytes(file)
                    found.append(file)
                self.left_out.pop(path, None)
            except SourceUnreadable as problem:
                self.left_out[path] = stamp
                self.progress(f"Warning: {problem.message} It is left out")
        return found

    def _landed_again(self) -> list[Path]:
        """Spark names a file once."""
        return [path for path, stamp in self.left_out.items() if file_stamp(path) not in (None, stamp)]

    def _by_day(self, paths: Iterable[str]) -> Counter[date]:
        return Counter(day for path in paths if (day := arrival_day_of(self.source, path)))

    def _count_landed(self, days: Iterable[date]) -> None:
        if wanted := set(days):
            self._landed_files |= self.lake.landing.count(self.source, wanted)


def _require_bytes(file: LandedFile) -> None:
    """A copy starts empty; what stays empty is for the nightly run."""
    if not file.size:
        raise SourceUnreadable(f"{file.path} has no bytes yet.")


def file_stamp(path: Path) -> FileStamp:
    """A landed file may be removed at any moment."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
