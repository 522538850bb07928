"""A format of one's own: what the guide shows, and what a story lands with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from backfill_assets.landing.compressed import first_problem
from backfill_assets.landing.records import batches_of, lines_in


@dataclass(frozen=True)
class FixedWidth:
    """Lines whose columns have a width each, as old systems write them."""

    columns: tuple[tuple[str, int], ...]
    endings: ClassVar[Sequence[str]] = (".txt", ".txt.gz", ".txt.zst")
    of_json: ClassVar[bool] = False

    def first_problem(self, path: Path, fields: Sequence[str]) -> str | None:
        return first_problem(path)

    def records(self, path: Path, fields: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return batches_of(fields, ((number, self._fields(line)) for number, line in lines_in(path)))

    def _fields(self, line: str) -> Mapping[str, str | None] | str:
        texts, left = dict[str, str | None](), line
        for name, width in self.columns:
            texts[name], left = left[:width].strip() or None, left[width:]
        return texts if len(line) == sum(width for _, width in self.columns) else line  # a text is quarantined
