"""What a process writes down of its deeds, line by line: what it asks for, what it is answered, what it has read.

A line is in the kernel before the call that it tells of, and before the next one is made: kill -9 takes none of them
back. Moments are nanoseconds of the monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from backfill_assets_tests.simulator.history import Key, Kind, Outcome
from backfill_assets_tests.simulator.model import Rows, Wishes

Line = Mapping[str, Any]
WISHES = TypeAdapter(Wishes)


@dataclass
class Notes:
    """The file of one life, which is the only one to write it."""

    file: Path

    def __post_init__(self) -> None:
        self._out = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, what: str, **told: object) -> None:
        line = json.dumps({"what": what, "at": time.monotonic_ns(), **told})
        os.write(self._out, f"{line}\n".encode())

    def asks(
        self,
        process: str,
        kind: Kind,
        publication: str | None = None,
        *,
        pinned: bool = True,
        writes: Mapping[Key, str] | None = None,
        reads: Mapping[Key, str] | None = None,
    ) -> None:
        """What was read is found afterwards, by the request."""
        named = [[table, day, value] for (table, day), value in (writes or {}).items()]
        self.write("asks", kind=kind, publication=publication, pinned=pinned, writes=named)

    def told(self, process: str, outcome: Outcome) -> None:
        self.write("told", outcome=outcome)


def rows_as_json(rows: Mapping[date, Rows]) -> dict[str, dict[str, int]]:
    return {str(day): dict(names) for day, names in rows.items() if names}


def rows_of_json(rows: Mapping[str, Mapping[str, int]]) -> dict[date, Rows]:
    return {date.fromisoformat(day): Counter(names) for day, names in rows.items()}


@dataclass(frozen=True)
class LifeTold:
    """All lines of one life, in their order."""

    actor: str
    number: int
    lines: Sequence[Line]

    @property
    def id(self) -> str:
        return f"{self.actor}/{self.number}"

    @property
    def kind(self) -> str:
        return self.actor.rpartition("-")[0]

    def of(self, what: str) -> Iterator[Line]:
        return (line for line in self.lines if line["what"] == what)


def file_of(folder: Path, actor: str, number: int) -> Path:
    return folder / f"{actor}.{number}.jsonl"


def lives_in(folder: Path) -> list[tuple[str, int, Path]]:
    """Actor, number and file of all who have lived."""
    names = [(*path.stem.rpartition(".")[::2], path) for path in folder.glob("*.jsonl")]
    return sorted((actor, int(number), path) for actor, number, path in names)


def told_in(folder: Path) -> list[LifeTold]:
    return [LifeTold(actor, number, read_lines(path)) for actor, number, path in lives_in(folder)]


def read_lines(file: Path) -> list[Line]:
    return [json.loads(line) for line in file.read_text().splitlines()]
