"""The rows of a Parquet file in order, read by DuckDB."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from duckdb.sqltypes import DuckDBPyType

from backfill_assets.judge.engine import database
from backfill_assets.landing.compressed import opened, unreadable
from backfill_assets.landing.parquet_texts import register_texts

_AT_ONCE = 20_000
_PATTERN = re.compile(r"[*?\[]")
_READ = "read_parquet(?, hive_partitioning = false)"


@dataclass(frozen=True)
class Rows:
    """DuckDB's names are case-insensitive, so columns have numbers."""

    names: Sequence[str]
    count: int
    longest_decimal: int
    """Beyond 38 digits DuckDB would read doubles."""
    has_moments_of_96_bits: bool
    connection: duckdb.DuckDBPyConnection
    path: str

    def columns(self) -> Iterator[tuple[str, str, DuckDBPyType]]:
        kinds = self.connection.sql(f"FROM {_READ}", params=[self.path]).types
        for at, (name, kind) in enumerate(zip(self.names, kinds, strict=True)):
            yield name, f"c{at}", kind

    def batches(self, asked: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from self._run(", ".join(asked)).to_arrow_reader(_AT_ONCE)

    def read_all(self) -> None:
        self._run(f"bit_xor(hash({', '.join(f'c{at}' for at in range(len(self.names)))}))").fetchall()

    def _run(self, asked: str) -> duckdb.DuckDBPyConnection:
        numbered = ", ".join(f"c{at}" for at in range(len(self.names)))
        return self.connection.execute(f"SELECT {asked} FROM {_READ} AS read({numbered})", [self.path])  # noqa: S608


@contextmanager
def rows_of(path: Path) -> Iterator[Rows]:
    """Raises :class:`SourceUnreadable` for a file that is gone or damaged, also within the block."""
    with opened(path) as stream, database(threads=1) as connection, _without_pattern(path) as name:
        try:
            file = pq.ParquetFile(stream)
            leaves = [file.schema.column(at) for at in range(len(file.schema))]
            connection.execute("SET preserve_insertion_order = true")
            register_texts(connection)
            yield Rows(
                file.schema_arrow.names,
                file.metadata.num_rows,
                max((leaf.precision for leaf in leaves), default=0),
                any(leaf.physical_type == "INT96" for leaf in leaves),
                connection,
                name,
            )
        except duckdb.OutOfMemoryException:
            raise
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            raise unreadable(path, f"no Parquet, or damaged ({_in_words(error)})") from error


def _in_words(error: Exception) -> str:
    """Leaves out what is quoted, which may be a personal value."""
    return re.split(r"[\"'\n]", str(error))[0].strip(" .:")


@contextmanager
def _without_pattern(path: Path) -> Iterator[str]:
    """DuckDB expands glob characters: such a file is linked."""
    if not _PATTERN.search(str(path)):
        yield str(path)
        return
    with TemporaryDirectory(prefix="backfill-landed-") as folder:
        link = Path(folder) / "rows.parquet"
        link.symlink_to(path.absolute())
        yield str(link)
