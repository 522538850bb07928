"""Which days a person has rolled back, also when compactions and undone undos came after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import cache

from backfill_assets.lakehouse.records import Kind, Prepared
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.log import PublicationLog

MOVES_FILES: tuple[Kind, ...] = ("rollback", "compact")
"""The kinds of publications that compute nothing: what they bring was made by an earlier one."""


@dataclass(frozen=True)
class FileMove:
    """A rollback or a compaction, and when it was prepared."""

    kind: Kind
    at: datetime


def find_nothing(_publication: str) -> Prepared | None:
    """A log that has no publication in full."""
    return None


@dataclass(frozen=True)
class Rollbacks:
    """Answers for each day whether a rollback stands. ``find`` reads a publication in full from the log."""

    moves: Mapping[str, FileMove] = field(default_factory=dict)
    """Every rollback and compaction, by publication."""
    find: Callable[[str], Prepared | None] = find_nothing

    def of(self, table: str, day: date, publication: str) -> str:
        """The rollback by which a person put the day back that ``publication`` left; empty if none stands.

        A compaction changes nothing about it. Undoing a rollback brings back what that had taken away, so the day is
        again as the publication before the rollback left it. One that only follows an undo was staged, and not put
        back.
        """
        while publication in self.moves:
            prepared = self.find(publication)
            moved_back = prepared
            if self.moves[publication].kind == "rollback":
                moved_back = self.find(prepared.publication.provenance.undoes) if prepared else None
                if moved_back is None:
                    return publication
                if moved_back.publication.kind not in MOVES_FILES:
                    return publication if moved_back.before_of(table, day) else ""
            before = moved_back.before_of(table, day) if moved_back else None
            publication = before.publication if before else ""
        return ""

    def at(self, rollback: str) -> datetime:
        return self.moves[rollback].at.astimezone(UTC)


def rollbacks(storage: Storage) -> Rollbacks:
    """Read the rollbacks and compactions from the log's columns; single ones in full only when a day is asked for."""
    log = PublicationLog(storage)
    rows = log.files().rows(["publication", "at"], event="prepared", kind=MOVES_FILES)

    @cache
    def find(publication: str) -> Prepared | None:
        found = log.find_prepared(publication) if publication else None
        return found[0] if found else None

    return Rollbacks({row["publication"]: FileMove(row["kind"], row["at"]) for row in rows.to_pylist()}, find)
