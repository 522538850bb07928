"""Writes landed files: gzipped JSON lines by arrival day, reproducible to the byte.

Files appear whole, by renaming. A run that fails, or would change an existing file, leaves nothing.
"""

from __future__ import annotations

import filecmp
import gzip
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from backfill_assets.errors import InvalidRequest, LakehouseUnusable


@dataclass(frozen=True)
class LandedCounts:
    written: int
    already_there: int
    lines: dict[str, int]


@dataclass
class LandingWriter:
    root: Path
    staging: Path
    lines: dict[str, int] = field(default_factory=dict)
    staged: list[str] = field(default_factory=list)
    counts: LandedCounts = LandedCounts(0, 0, {})

    def write(self, source: str, day: date, lines: Sequence[str], name: str | None = None) -> str:
        """Staged; of zero rows without lines. ``name`` is for a day's second file."""
        path = landed_path(source, day, name)
        target = self.staging / path
        target.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{line}\n" for line in lines)
        target.write_bytes(gzip.compress(text.encode(), compresslevel=1, mtime=0))
        self.lines[source] = self.lines.get(source, 0) + len(lines)
        self.staged.append(path)
        return path

    def move_into_place(self) -> None:
        """Raises :class:`InvalidRequest`, before the first rename, for an existing file with other content."""
        new = [path for path in self.staged if not (self.root / path).exists()]
        for path in sorted(set(self.staged) - set(new)):
            self._demand_equal(path)
        for path in new:
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.staging / path).replace(self.root / path)
        self.counts = LandedCounts(len(new), len(self.staged) - len(new), dict(self.lines))

    def _demand_equal(self, path: str) -> None:
        if not filecmp.cmp(self.staging / path, self.root / path, shallow=False):
            raise InvalidRequest(
                f"{self.root / path} is already there with other content; nothing was written.",
                hint="Landed files are final. Choose another --landing, or remove that landing zone first.",
            )


@contextmanager
def landing(root: Path) -> Iterator[LandingWriter]:
    """Files appear only if the block ends well."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".sample-", dir=root) as folder:
            writer = LandingWriter(root, Path(folder))
            yield writer
            writer.move_into_place()
    except OSError as error:
        raise LakehouseUnusable(
            f"The landing zone {root} cannot be written: {error.strerror}.",
            hint="Choose another --landing, make the folder writable, or free space on its disk.",
        ) from error


def landed_path(source: str, day: date, name: str | None = None) -> str:
    return f"{source}/{day}/{name or source}-{day}.jsonl.gz"


def line(values: Mapping[str, str | None]) -> str:
    return json.dumps(values, separators=(",", ":"), ensure_ascii=False)
