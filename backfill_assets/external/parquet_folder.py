"""Parquet files of others, without history: a version digests names, sizes and times; a day's files are compared before
and after reading.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cached_property, lru_cache
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_type

from backfill_assets.days import DayRange, day_or_none
from backfill_assets.errors import InvalidRequest, LakehouseUnusable
from backfill_assets.external.files import DayMadeOf, ExternalFile, days_made_of
from backfill_assets.external.table_version import TableVersion, day_in
from backfill_assets.lakehouse.records import DayContent
from backfill_assets.lakehouse.storage import Storage, StoredFile
from backfill_assets.model.external_table import ExternalTable

_ENDING = ".parquet"
_HIDDEN = ("_", ".")
_DIGITS = 13
_FOOTERS_KEPT = 20_000
_KINDS = ("date", "timestamp", "timestamp_ntz", "string")


@dataclass(frozen=True)
class ParquetFolderOfOthers:
    """With subfolders, such as ``order_date=2025-01-01``."""

    external: ExternalTable

    @cached_property
    def storage(self) -> Storage:
        return Storage(self.external.location.rstrip("/"))

    @property
    def spark_uri(self) -> str:
        return self.storage.spark_uri()

    @cached_property
    def _listed(self) -> list[StoredFile]:
        """Cached: a look's answers are about the same files."""
        found = [each for each in self.storage.files("", recursive=True) if each.path.endswith(_ENDING)]
        if any("_delta_log" in each.path.split("/") for each in found) or self.storage.exists("_delta_log"):
            raise InvalidRequest(
                f"{self.external.name}: {self.external.location} is a Delta table.",
                hint='Leave out written="parquet": files that no version of it names any more are no rows.',
            )
        return sorted(
            (each for each in found if not any(part.startswith(_HIDDEN) for part in each.path.split("/"))),
            key=lambda each: each.path,
        )

    def newest(self) -> int:
        """Raises :class:`LakehouseUnusable` without a file."""
        if not self._listed:
            raise LakehouseUnusable(
                f"{self.external.name}: there is no file *{_ENDING} in {self.external.location}.",
                hint="Correct the location of the ExternalTable, or look whether its storage is mounted.",
            )
        told = "\n".join(map(_identity, self._listed))
        return int(hashlib.sha256(told.encode()).hexdigest()[:_DIGITS], 16)

    def id_at(self, version: int) -> str:
        return "files"

    def at(self, version: int) -> TableVersion:
        """The current state, whatever the ``version``."""
        footers = dict(zip(self._listed, self.storage.each(self._footer, self._listed), strict=True))
        files = tuple(self._file(stored, footer) for stored, footer in footers.items())
        newest = footers[max(self._listed, key=lambda each: each.modified_ms)].schema.to_arrow_schema()
        types = {name: _type(newest.field(name).type) for name in newest.names}
        types |= {name: "string" for name in _of_path(self._listed[-1].path) if name not in types}
        return TableVersion("files", self.newest(), files, types)

    def since(self, version: int, newest: int) -> tuple[TableVersion, None]:
        """Files' changed rows are unknown."""
        return self.at(newest), None

    def history(self, version: int) -> str:
        return "the files that are there; it has no history"

    def committed_on(self, version: int) -> date | None:
        newest = max(each.modified_ms for each in self._listed)
        return datetime.fromtimestamp(newest / 1000, UTC).date()

    def is_worth_a_record(self, known: int, newest: int) -> bool:
        """A digest that moves no day is not recorded."""
        return False

    def paths_of(self, days: Mapping[date, DayContent]) -> list[str]:
        """For Spark. Raises :class:`LakehouseUnusable` for other files than observed."""
        wanted = DayRange(min(days), max(days))
        files = self.at(self.newest()).files
        now = days_made_of(files, wanted)
        if moved := [day for day, content in days.items() if not now.get(day, DayMadeOf()).is_what(content)]:
            raise LakehouseUnusable(
                f"{self.external.name} {moved[0]} is made of other files than when it was looked at.",
                hint="Nothing was published. Others write into the folder: run again, which looks at it anew.",
            )
        touching = (each for each in files if not each.without_days and _touches(each, days))
        return [self.storage.spark_uri(each.identity.rpartition(" ")[0].rpartition(" ")[0]) for each in touching]

    def type_of_day(self) -> T.DataType:
        stored = self._listed[-1]
        if any(name.lower() == self.external.day.lower() for name in _of_path(stored.path)):
            return T.StringType()
        schema = self._footer(stored).schema.to_arrow_schema()
        (name,) = (each for each in schema.names if each.lower() == self.external.day.lower())
        return from_arrow_type(schema.field(name).type)

    # ------------------------------------------------------------------ the days of a file

    def _footer(self, stored: StoredFile) -> pq.FileMetaData:
        return _footer_of(self.storage.root, stored)

    def _file(self, stored: StoredFile, footer: pq.FileMetaData) -> ExternalFile:
        touches, without = self._days(stored, footer)
        return ExternalFile(_identity(stored), footer.num_rows, stored.size, touches, without)

    def _days(self, stored: StoredFile, footer: pq.FileMetaData) -> tuple[DayRange | None, bool]:
        """The days by path or statistics, if known; whether no row has a day."""
        of_path = {name.lower(): value for name, value in _of_path(stored.path).items()}
        if (value := of_path.get(self.external.day.lower())) is not None:
            day = day_or_none(value[:10])
            return (None, True) if day is None else (DayRange.of(day), False)
        schema = footer.schema.to_arrow_schema()
        name = next((each for each in schema.names if each.lower() == self.external.day.lower()), "")
        if not name or _type(schema.field(name).type) not in _KINDS:
            raise InvalidRequest(
                f"{self.external.name}: the column {self.external.day!r} cannot say the day of a row: "
                f"{'it is no date, moment or text' if name else 'it is not'} in {stored.path}.",
                hint=f"Name a column that does: {', '.join(schema.names)}.",
            )
        return self._between(footer, footer.schema.names.index(name), _type(schema.field(name).type))

    def _between(self, footer: pq.FileMetaData, column: int, kind: str) -> tuple[DayRange | None, bool]:
        ends: list[date] = []
        for group in range(footer.num_row_groups):
            told = footer.row_group(group).column(column).statistics
            if told is not None and told.null_count == footer.row_group(group).num_rows:
                continue
            if told is None or not told.has_min_max:
                return None, False
            days = [day_in(_text(end), kind, self.external.event_zone) for end in (told.min, told.max)]
            if None in days:
                return None, False
            ends += [day for day in days if day is not None]
        return (DayRange(min(ends), max(ends)), False) if ends else (None, True)


@lru_cache(maxsize=_FOOTERS_KEPT)
def _footer_of(root: str, stored: StoredFile) -> pq.FileMetaData:
    return Storage(root).parquet_footer(stored.path)


def _touches(file: ExternalFile, days: Collection[date]) -> bool:
    return file.touches is None or any(day in file.touches for day in days)


def _identity(stored: StoredFile) -> str:
    """A replaced file has another size or time."""
    return f"{stored.path} {stored.size} {stored.modified_ms}"


def _of_path(path: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in path.split("/")[:-1])
    return {name: unquote(value) for name, equals, value in pairs if equals}


def _text(end: Any) -> str:
    if isinstance(end, datetime):
        return (end if end.tzinfo else end.replace(tzinfo=UTC)).isoformat()
    return end.decode(errors="replace") if isinstance(end, bytes) else str(end)


def _type(kind: Any) -> str:
    try:
        return str(from_arrow_type(kind, prefer_timestamp_ntz=True).simpleString())
    except Exception:
        return str(kind)
