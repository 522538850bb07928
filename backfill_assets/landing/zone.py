"""The landing zone: where sources leave files, by arrival day.

``<root>/<source>/<YYYY-MM-DD>/<name>.jsonl.gz``, or as format and file names say. Names that start with ``.`` or ``_``,
or end in ``.tmp`` or ``.part``, are ignored; others out of place are reported.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Literal

from backfill_assets.errors import InvalidRequest, SourceUnreadable
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.compressed import opened
from backfill_assets.landing.records import format_of
from backfill_assets.model.arrival_days import FileNames, folder_day
from backfill_assets.model.declaration import Source
from backfill_assets.model.landed_format import arrival_day_of, declared_files
from backfill_assets.text import format_first

DayDelivery = Literal["missing", "empty", "landed"]

_SOURCE = re.compile(r"[a-z][a-z0-9_]*")
_MOST_NAMED = 5


def position_id(source: str, path: str) -> str:
    return f"landed:{source}:{path}"


@dataclass(frozen=True, order=True)
class LandedFile:
    """A file as listed; ``path`` is relative, ``size`` in bytes."""

    source: str
    arrival_day: date
    path: str
    size: int
    content_hash: str

    @property
    def position(self) -> tuple[str, int]:
        return position_id(self.source, self.path), int(self.content_hash[:16], 16) >> 1


@dataclass(frozen=True)
class LandingZone:
    """Lists and checks files; never writes. Raises :class:`SourceUnreadable` with the path."""

    root: Path

    def files(self, source: Source, days: Iterable[date]) -> tuple[LandedFile, ...]:
        """Files by day and path, hashed now."""
        places = self._places(source)
        return tuple(
            self._landed_file(source, day, path)
            for day in sorted(set(days) & places.keys())
            for path in self._data_files(source, places[day])
        )

    def file(self, source: Source, path: Path) -> LandedFile:
        folder = self._source_folder(source)
        above = path.parent if declared_files(source) else path.parent.parent
        if folder is not None and above.resolve() == folder.resolve():
            inside = self._inside(folder / path.relative_to(above))
            if (day := arrival_day_of(source, self._relative(inside))) is not None:
                return self._landed_file(source, day, inside)
        raise SourceUnreadable(f"{path} is not in the folder of a day of {source.name}.")

    def ignores(self, path: Path) -> bool:
        return not (_is_visible(path.name) and _is_visible(path.parent.name))

    def strays(self, source: Source, days: Iterable[date] | None = None) -> tuple[str, ...]:
        folder = self._source_folder(source)
        if folder is None:
            return ()
        places = self._places(source)
        of_days = {path for found in places.values() for path in found}
        wanted = places.keys() if days is None else places.keys() & set(days)
        astray = [Path(entry.path) for entry in _visible(folder) if Path(entry.path) not in of_days]
        for place in (place for day in sorted(wanted) for place in places[day] if not declared_files(source)):
            astray += (Path(entry.path) for entry in _visible(place) if not _is_data(source, entry))
        return tuple(map(self._relative, astray))

    def days(self, source: Source) -> tuple[date, ...]:
        return tuple(sorted(self._places(source)))

    def folders(self, source: Source) -> dict[date, tuple[str, ...]]:
        """Folders by arrival day; the source's own if file names have the day."""
        if self._source_folder(source) is None:
            return {}
        places = self._places(source)
        if declared_files(source):
            return dict.fromkeys(sorted(places), (source.name,))
        return {day: tuple(map(self._relative, places[day])) for day in sorted(places)}

    def paths(self, source: Source) -> dict[date, tuple[str, ...]]:
        if self._source_folder(source) is None:
            return {}
        places = self._places(source)
        return {day: tuple(map(self._relative, self._data_files(source, places[day]))) for day in sorted(places)}

    def deliveries(self, source: Source, days: Iterable[date]) -> dict[date, DayDelivery]:
        """``missing`` without a folder or named file, ``empty`` without files in the folder."""
        places = self._places(source)
        return {day: self._delivery(source, places.get(day)) for day in days}

    def _delivery(self, source: Source, places: Sequence[Path] | None) -> DayDelivery:
        if places is None:
            return "missing"
        return "landed" if self._data_files(source, places) else "empty"

    def count(self, source: Source, days: Iterable[date]) -> dict[date, int]:
        places = self._places(source)
        return {day: len(self._data_files(source, places.get(day, ()))) for day in days}

    def glob(self, source: Source) -> str:
        """A Hadoop pattern for a superset."""
        folder = self.root / source.name
        if declared_files(source):
            return f"{folder}/{FileNames(declared_files(source)).glob}"
        return f"{folder}/*/*{{{','.join(format_of(source).endings)}}}"

    def example(self, source: Source) -> str:
        if declared_files(source):
            return f"{source.name}/{declared_files(source)}"
        return f"{source.name}/YYYY-MM-DD/NAME{format_of(source).endings[0]}"

    def locate(self, path: str) -> Path:
        return self._inside(self.root / path)

    def landed_at(self, path: str) -> datetime:
        try:
            return datetime.fromtimestamp(self.locate(path).stat().st_mtime, UTC)
        except OSError as error:
            raise SourceUnreadable(f"{path} cannot be read: {error.strerror}.") from error

    def verify_unchanged(self, file: LandedFile) -> None:
        if _size_and_sha256(self.locate(file.path))[1] != file.content_hash:
            raise changed_file(file)

    def verify_readable(self, source: Source, path: str) -> None:
        """Raise, with the byte, for damage that the format knows; a plain file that was cut off looks whole."""
        problem = format_of(source).first_problem(self.locate(path), source.value_fields)
        if problem:
            raise SourceUnreadable(
                f"{path}: {problem}.",
                hint="Nothing of it was read. Land the whole file again, or move it out of the landing zone.",
            )

    def is_new(self, source: Source, file: LandedFile, taken_in: int) -> bool:
        """``taken_in`` is raw's source position, or 0. Raises for a changed file, and for a damaged new one."""
        if taken_in not in (0, file.position[1]):
            raise changed_file(file)
        if not taken_in:
            self.verify_readable(source, file.path)
        return not taken_in

    def _source_folder(self, source: Source) -> Path | None:
        if not _SOURCE.fullmatch(source.name):
            raise InvalidRequest(f"{source.name!r} is not the name of a source.", hint="For example: sales, fx_rates.")
        folder = self._inside(self.root / source.name)
        return folder if folder.is_dir() else None

    def _places(self, source: Source) -> dict[date, list[Path]]:
        folder = self._source_folder(source)
        if folder is None:
            raise SourceUnreadable(
                f"The landing zone {self.root} has no folder {source.name!r}.",
                hint="Point --landing at the right place, or land files there. Rows of a topic are read by"
                f" backfill stream: what is made of them begins with bronze_{source.name}+.",
            )
        found: dict[date, list[Path]] = {}
        for entry in _visible(folder):
            if (day := _day_of(source, entry)) is not None:
                found.setdefault(day, []).append(self._require_inside(entry))
        return found

    def _data_files(self, source: Source, places: Sequence[Path]) -> list[Path]:
        if declared_files(source):
            return list(places)
        entries = (entry for folder in places for entry in _visible(folder))
        return [self._require_inside(entry) for entry in entries if _is_data(source, entry)]

    def _landed_file(self, source: Source, day: date, path: Path) -> LandedFile:
        return LandedFile(source.name, day, self._relative(path), *_size_and_sha256(path))

    def _relative(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def _require_inside(self, entry: os.DirEntry[str]) -> Path:
        path = Path(entry.path)
        return self._inside(path) if entry.is_symlink() else path

    def _inside(self, path: Path) -> Path:
        if not path.resolve().is_relative_to(self.root.resolve()):
            raise SourceUnreadable(
                f"{self._relative(path)} is a link that leads out of the landing zone.",
                hint="Copy the file into the landing zone.",
            )
        if path.is_symlink() and not path.exists():
            raise SourceUnreadable(f"{self._relative(path)} is a link to nothing.", hint="Remove the link.")
        return path


def changed_file(file: LandedFile) -> SourceUnreadable:
    return SourceUnreadable(
        f"{file.path} changed after it was read.",
        hint="Put it back as it was, and land corrections as a new file. If the source corrected what it had "
        f"delivered, read it again: backfill raw refresh raw_{file.source} {file.arrival_day}",
    )


def no_file_of(source: Source) -> str:
    if declared_files(source):
        return f"no file of the form {declared_files(source)}"
    return f"no {format_of(source).endings[0]} file in the folder of a day"


def raise_together(table: str, problems: Sequence[SourceUnreadable]) -> None:
    if len(problems) == 1:
        raise problems[0]
    if problems:
        hints = dict.fromkeys(problem.hint for problem in problems if problem.hint)
        raise SourceUnreadable(
            f"{table}: {len(problems)} problems with what landed:\n  " + "\n  ".join(each.message for each in problems),
            hint=" ".join(hints),
        )


def first_paths(paths: Sequence[str]) -> str:
    return format_first(paths, _MOST_NAMED)


def _visible(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        seen = [entry for entry in entries if _is_visible(entry.name)]
    return sorted(seen, key=lambda entry: entry.name)


def _is_visible(name: str) -> bool:
    return not name.startswith((".", "_")) and not name.endswith((".tmp", ".part"))


def _day_of(source: Source, entry: os.DirEntry[str]) -> date | None:
    if declared_files(source):
        return FileNames(declared_files(source)).day_of(entry.name) if _is_data(source, entry) else None
    day = folder_day(entry.name)
    return day if day is not None and (entry.is_dir() or entry.is_symlink()) else None


def _is_data(source: Source, entry: os.DirEntry[str]) -> bool:
    return entry.name.endswith(tuple(format_of(source).endings)) and (entry.is_file() or entry.is_symlink())


def _size_and_sha256(path: Path) -> tuple[int, str]:
    with opened(path) as stream:
        return os.fstat(stream.fileno()).st_size, hashlib.file_digest(stream, "sha256").hexdigest()


@dataclass(frozen=True)
class LandedDay:
    """``bytes`` of waiting files."""

    files: tuple[str, ...]
    waiting: tuple[str, ...] = ()
    bytes: int = 0
    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    contents: str = ""


@dataclass(frozen=True)
class LandedSource:
    """``problem`` says why it is unknown."""

    days: Mapping[date, LandedDay] = field(default_factory=dict)
    problem: str = ""

    def waiting(self, days: Collection[date]) -> dict[date, int]:
        return {day: len(found.waiting) for day, found in self.days.items() if day in days and found.waiting}


def landed_source(zone: LandingZone, storage: Storage, source: Source, table: str) -> LandedSource:
    try:
        return LandedSource(_by_day(zone, storage, source, table))
    except SourceUnreadable as error:
        return LandedSource(problem=str(error))


def landed_days(
    zone: LandingZone, storage: Storage, source: Source, table: str, days: Collection[date]
) -> dict[date, LandedDay]:
    return {
        day: replace(found, bytes=sum((zone.root / path).stat().st_size for path in found.waiting))
        for day, found in _by_day(zone, storage, source, table).items()
        if day in days
    }


def _by_day(zone: LandingZone, storage: Storage, source: Source, table: str) -> dict[date, LandedDay]:
    listed, taken = zone.paths(source), files_taken_in(storage, source.name, table)
    return {day: LandedDay(files, tuple(path for path in files if path not in taken)) for day, files in listed.items()}


def files_taken_in(storage: Storage, source: str, table: str) -> frozenset[str]:
    return frozenset(path for path, content in file_positions(storage, source, table).items() if content)


def file_positions(storage: Storage, source: str, table: str) -> dict[str, int]:
    """0: a rollback or an abort returned the file."""
    main = MainTable.open(storage, table)
    return landed_positions(source, main.transactions()) if main else {}


def landed_positions(source: str, transactions: Mapping[str, int]) -> dict[str, int]:
    prefix = position_id(source, "")
    return {id.removeprefix(prefix): content for id, content in transactions.items() if id.startswith(prefix)}
