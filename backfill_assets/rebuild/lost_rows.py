"""Finds out from logs what a day of raw lost with its files, and where the same rows still are. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.records import Prepared
from backfill_assets.landing.zone import LandedFile
from backfill_assets.model.declaration import Metrics, Source
from backfill_assets.text import format_count, format_first

EVENTS, _MOST_NAMED = "kafka:", 5
Parts = Mapping[str, Sequence[AddedFile]]
"""By compacted file, the files that it replaced."""


@dataclass(frozen=True)
class LostDay:
    day: date
    recorded: Mapping[str, str]
    """Figures that the restored day must have; empty after a foreign write."""
    lost: tuple[AddedFile, ...]
    held: tuple[AddedFile, ...] = ()
    """Readable files with its rows: its own, and those that a compaction replaced."""
    absent: tuple[AddedFile, ...] = ()
    """Files whose rows are in no other file of the table."""
    landed: Mapping[LandedFile, Source] = field(default_factory=dict)
    """Landed files that may have these rows, with the source as declared then."""
    problems: tuple[str, ...] = ()

    def refusal(self, found: Metrics) -> str:
        """Empty if ``found`` are the recorded figures."""
        if self.recorded and all(str(found.get(name)) == known for name, known in self.recorded.items()):
            return ""
        lacking = int(self.recorded.get("rows", 0)) - int(str(found.get("rows", 0)))
        differs = "what can be read again are other rows than were published"
        why = f"{format_count(lacking, 'row')} of them are nowhere else" if lacking > 0 else differs
        files = format_first([file.path for file in self.lost], _MOST_NAMED)
        reasons = "; ".join([why, *self.problems] if self.recorded else self.problems)
        return f"{self.day} has lost {format_count(count_rows(self.lost), 'row')} with {files}: {reasons}"


def count_rows(files: Iterable[AddedFile]) -> int:
    return sum(file.rows for file in files)


def parts_of(made: Iterable[Prepared], table: str, day: date) -> Parts:
    """Only of compactions that wrote one file for ``day``."""
    found: dict[str, Sequence[AddedFile]] = {}
    for each in (each for each in made if each.publication.kind == "compact"):
        before, after = each.before_files(table).get(day, {}), each.target(table).get(day, {})
        if len(new := after.keys() - before.keys()) == 1:
            found[new.pop()] = [file for path, file in before.items() if path not in after]
    return found


def with_parts(file: AddedFile, parts: Parts, is_lost: Callable[[AddedFile], bool]) -> list[AddedFile]:
    """``file``, or if lost, what it was compacted from, recursively."""
    if file.path not in parts or not is_lost(file):
        return [file]
    return [each for part in parts[file.path] for each in with_parts(part, parts, is_lost)]


def may_hold(file: AddedFile, place: str) -> bool:
    """True without statistics."""
    found = json.loads(file.stats)
    least, greatest, nulls = (found.get(of, {}).get("source_file") for of in ("minValues", "maxValues", "nullCount"))
    return nulls != file.rows and (least is None or greatest is None or least <= place <= greatest)


def place_of(position: str) -> str:
    """The ``source_file`` of rows from a position: a landed file or a partition of a topic."""
    kind, _, rest = position.split(":", 2)
    return rest if kind == "landed" else f"{EVENTS}{rest.replace(':', '/', 1)}"
