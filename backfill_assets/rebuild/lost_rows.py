"""What a day of raw has lost with its files, and where the same rows are: by what the logs say of each file. Pure."""

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
"""By the path of a file that a compaction has written, the files that it has replaced: they have the same rows."""


@dataclass(frozen=True)
class LostDay:
    """A day of raw with files that are gone or damaged, and what is left of their rows."""

    day: date
    recorded: Mapping[str, str]
    """What it held, and is to hold again; empty if others have written to it."""
    lost: tuple[AddedFile, ...]
    held: tuple[AddedFile, ...] = ()
    """Files with rows of it that can be read: its own, and those that a compaction has replaced."""
    absent: tuple[AddedFile, ...] = ()
    """Files whose rows no other file of the table has."""
    landed: Mapping[LandedFile, Source] = field(default_factory=dict)
    """Landed files that may have these rows, each with its source as it was declared when raw read it."""
    problems: tuple[str, ...] = ()
    """Why some of these rows can hardly be had again."""

    def refusal(self, found: Metrics) -> str:
        """Why it is not put back, in words; empty if ``found``, of all rows that were read again, is what it held."""
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
    """Of the compactions among ``made`` that have written one file of ``day``: which files it replaces."""
    found: dict[str, Sequence[AddedFile]] = {}
    for each in (each for each in made if each.publication.kind == "compact"):
        before, after = each.before_files(table).get(day, {}), each.target(table).get(day, {})
        if len(new := after.keys() - before.keys()) == 1:
            found[new.pop()] = [file for path, file in before.items() if path not in after]
    return found


def with_parts(file: AddedFile, parts: Parts, is_lost: Callable[[AddedFile], bool]) -> list[AddedFile]:
    """``file``; or if it is lost, what a compaction has made it of, and of these the lost ones in the same way."""
    if file.path not in parts or not is_lost(file):
        return [file]
    return [each for part in parts[file.path] for each in with_parts(part, parts, is_lost)]


def may_hold(file: AddedFile, place: str) -> bool:
    """Whether there can be rows in ``file`` whose ``source_file`` is ``place``; yes, of a file without statistics."""
    found = json.loads(file.stats)
    least, greatest, nulls = (found.get(of, {}).get("source_file") for of in ("minValues", "maxValues", "nullCount"))
    return nulls != file.rows and (least is None or greatest is None or least <= place <= greatest)


def place_of(position: str) -> str:
    """What ``source_file`` is of rows that were read from a position: a landed file, or a partition of a topic."""
    kind, _, rest = position.split(":", 2)
    return rest if kind == "landed" else f"{EVENTS}{rest.replace(':', '/', 1)}"
