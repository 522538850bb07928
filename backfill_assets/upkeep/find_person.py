"""Where rows of a person are, in every file below the lakehouse: main, timelines, before-images, logs, quarantine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import and_, or_
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.blank_lines import lines_with
from backfill_assets.landing.quarantine import Rejects
from backfill_assets.landing.trace import BETWEEN, PERSONAL, landed_keys
from backfill_assets.landing.zone import LandingZone
from backfill_assets.model.catalog import Catalog
from backfill_assets.rebuild.erase import Place, Whose, in_places
from backfill_assets.state.view import View

_ROWS_AT_ONCE = 1 << 16
_PLACE = ("source_file", "source_line")
_OF_TOKEN = 32
"""Characters that are enough to know one; older logs have so many in their statistics."""
_SHORTEST = 6
"""A shorter key is found everywhere."""


@dataclass(frozen=True)
class DataSubject:
    """A key of a bronze table, ``@`` standing for a personal value; or ``@`` alone: all rows with that value."""

    key: str
    value: str = field(default="", repr=False)
    token: str = field(default="", repr=False)

    @property
    def typed(self) -> str:
        """The key with the token in place."""
        return BETWEEN.join(self.token if part == PERSONAL else part for part in self.key.split(BETWEEN))

    @property
    def everywhere(self) -> bool:
        return self.key == PERSONAL

    @property
    def texts(self) -> tuple[str, ...]:
        """What no log and no document may have afterwards; other rows may have parts of a key."""
        if self.everywhere:
            return self.value, self.token[:_OF_TOKEN]
        parts = self.key.split(BETWEEN)
        return (self.key,) if len(parts) == 1 and len(self.key) >= _SHORTEST and not self.value else ()


def whose(view: View, landing: LandingZone, origin: Rejects, person: DataSubject) -> Whose:
    """Rows of a raw table: those with the token, and those of nobody that name the value elsewhere, as in a line that
    could not be read: raw has another token there, and the landed line is asked.
    """
    if not person.everywhere:
        return Whose(landed_keys(origin, person.typed))
    tokens = [pc.field(origin.source.column_of(name)) for name in origin.source.personal_fields]
    if not tokens:
        return Whose()
    of_nobody = reduce(and_, (token.is_null() for token in tokens))
    named = of_nobody & pc.match_substring(pc.field("rescued"), person.token)
    rows = reduce(or_, (token == person.token for token in tokens), named)
    return Whose(rows, frozenset(_unreadable(view, landing, origin, person.value, of_nobody)))


def _unreadable(
    view: View, landing: LandingZone, origin: Rejects, value: str, of_nobody: pc.Expression
) -> Iterator[Place]:
    odd = of_nobody & (pc.field("unparsed_line").is_valid() | pc.field("rescued").is_valid())
    rows = view.rows(origin.raw, None, odd, list(_PLACE))
    lines: dict[str, set[int]] = {}
    for row in [] if rows is None else rows.to_pylist():
        if row["source_file"] is not None:
            lines.setdefault(row["source_file"], set()).add(row["source_line"])
    for file, numbers in sorted(lines.items()):
        path = _landed(landing, file)
        if path is not None:
            yield from ((file, number) for number in lines_with(path, value) if number in numbers)


def _landed(landing: LandingZone, file: str) -> Path | None:
    if file.startswith("kafka:"):
        return None
    path = landing.locate(file)
    return path if path.is_file() else None


# ------------------------------------------------------------------ data files


@dataclass(frozen=True)
class Search:
    """``raw`` says which rows of each raw table are meant."""

    storage: Storage
    catalog: Catalog
    person: DataSubject
    origins: Sequence[Rejects]
    raw: Mapping[str, Whose]
    places: frozenset[Place]

    def files(self) -> dict[str, set[str]]:
        """Data files with such rows, by table, below the root: active or not."""
        found = {}
        for table in self.tables():
            paths = [
                file.path
                for file in self.storage.files(table, recursive=True)
                if file.path.endswith(".parquet") and "/_delta_log/" not in file.path
            ]
            hits = {path for path in paths if self._holds(table, path)}
            if hits:
                found[table] = hits
        return found

    def tables(self) -> list[str]:
        """The raw tables and all that is computed from them; for a personal value all, as others have it too."""
        if self.person.everywhere:
            return sorted(table.name for table in self.catalog.tables)
        reached = set(self.raw)
        for step in self.catalog.steps:
            read = {read.table for version in step.versions for read in version.reads}
            if reached & (read | set(step.table_names)):
                reached |= set(step.table_names)
        return sorted(reached)

    def _holds(self, table: str, path: str) -> bool:
        names = [each for each in self.storage.parquet_footer(path).schema.to_arrow_schema().names if each != "day"]
        batches = self.storage.parquet_batches(path, _ROWS_AT_ONCE, names)
        return any(pc.any(self._hits(table, pa.Table.from_batches([batch]))).as_py() for batch in batches)

    def _hits(self, table: str, rows: pa.Table) -> pa.Array:
        if table in self.raw:
            return self.raw[table].among(rows)
        hit = pa.chunked_array([pa.repeat(False, len(rows))])
        if set(_PLACE) <= set(rows.column_names) and self.places:
            hit = pc.or_(hit, in_places(rows, self.places))
        for condition in self._conditions(rows):
            hit = pc.or_(hit, pc.fill_null(condition, False))
        return hit

    def _conditions(self, rows: pa.Table) -> Iterator[pa.ChunkedArray]:
        if self.person.everywhere:
            for name in rows.column_names:
                if pa.types.is_string(rows.schema.field(name).type):
                    yield pc.match_substring(rows[name], self.person.token)
            return
        for origin in self.origins:
            texts = self.person.typed.split(BETWEEN)
            if len(texts) == len(origin.key) and set(origin.key) <= set(rows.column_names):
                hit = pa.chunked_array([pa.repeat(True, len(rows))])
                for name, text in zip(origin.key, texts, strict=True):
                    hit = pc.and_(hit, _equal(rows[name], text))
                yield hit


def _equal(values: pa.ChunkedArray, text: str) -> pa.ChunkedArray:
    try:
        return pc.equal(values, pa.scalar(text).cast(values.type))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.chunked_array([pa.repeat(False, len(values))])


# ------------------------------------------------------------------ texts


def files_with(storage: Storage, texts: Iterable[str]) -> list[str]:
    """Files of logs and documents in which one of ``texts`` stands, below the root; data files are not read."""
    wanted = [text for text in texts if text]
    pattern = re.compile("|".join(map(re.escape, wanted)).encode()) if wanted else None
    return sorted(
        file.path for file in storage.files("", recursive=True) if pattern and _has(storage, file.path, pattern)
    )


def _has(storage: Storage, path: str, pattern: re.Pattern[bytes]) -> bool:
    if not path.endswith(".parquet"):
        return pattern.search(storage.read_bytes(path)) is not None
    if "/_delta_log/" not in path and not path.startswith("_"):
        return False
    return any(_found(column, pattern.pattern.decode()) for column in storage.read_parquet(path).columns)


def _found(column: pa.ChunkedArray | pa.Array, pattern: str) -> bool:
    kind = column.type
    if pa.types.is_struct(kind):
        whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        return any(_found(each, pattern) for each in whole.flatten())
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        return re.search(pattern, repr(column.to_pylist())) is not None
    if not pa.types.is_string(kind):
        return False
    return bool(pc.any(pc.match_substring_regex(column, pattern)).as_py())


def documents_with(folder: Path, texts: Iterable[str]) -> Iterator[str]:
    """Files of a folder beside the lakehouse, such as Dagster's storage."""
    wanted = [text.encode() for text in texts if text]
    for path in sorted(folder.rglob("*")) if wanted and folder.is_dir() else ():
        if path.is_file() and any(text in path.read_bytes() for text in wanted):
            yield str(path)


def landed_with(landing: LandingZone, origins: Sequence[Rejects], person: DataSubject) -> Iterator[str]:
    """Places in landed files where the value still stands."""
    if not person.everywhere:
        return
    for origin in origins:
        for paths in landing.paths(origin.source).values():
            for path in paths:
                for line in lines_with(landing.locate(path), person.value):
                    yield f"{path}:{line}"


def active_files(storage: Storage, tables: Iterable[str]) -> dict[str, dict[str, str]]:
    """Days by path below the root, of the files that main names, by table."""
    found = {}
    for table in tables:
        main = MainTable.open(storage, table)
        if main is not None:
            found[table] = {f"{table}/{path}": file.day for path, file in main.state().active.items()}
    return found
