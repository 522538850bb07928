"""JSON lines, the default format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from backfill_assets.landing.compressed import COMPRESSIONS, content_of, first_problem
from backfill_assets.landing.line_reader import lines_of, readable


@dataclass(frozen=True)
class JsonLines:
    """A line that is not UTF-8 becomes base64, which is no JSON object."""

    endings: ClassVar[Sequence[str]] = (
        *(f"{kind}{compression}" for kind in (".jsonl", ".ndjson", ".json") for compression in COMPRESSIONS),
        *(".jsonl", ".ndjson"),
    )
    """Plain ``.json`` is left out: it is often one value over many lines."""
    of_json: ClassVar[bool] = True

    def first_problem(self, path: Path, fields: Sequence[str]) -> str | None:
        return first_problem(path)

    def records(self, path: Path, fields: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for lines in lines_of(content_of(path)):
            yield pa.record_batch([lines["number"], readable(lines["value"])], ["number", "value"])
