"""Finds the publication that computed each day of a publication: an undo and a compaction only move files."""

from __future__ import annotations

from dataclasses import dataclass, field

from backfill_assets.lakehouse.publication import Before, DayChange, DayContent, Prepared
from backfill_assets.lakehouse.publication_log import PublicationLog


@dataclass(frozen=True)
class Origin:
    """A day of a table as a publication has it, and the publication that computed it, or took its rows in."""

    table: str
    day: str
    content: DayContent | None
    made_by: Prepared | None
    """None for a day that nothing computed; ``reason`` says why."""
    reason: str = ""

    @property
    def withdrawn(self) -> bool:
        """Does the publication leave nothing of the day, as if it had never been published?"""
        return self.made_by is None and not self.reason


def origins(log: PublicationLog, prepared: Prepared) -> list[Origin]:
    """The origin of every day of ``prepared``, in its order."""
    found = _Origins(log)
    return [found.of(prepared, change.table, day) for change in prepared.publication.tables for day in change.days]


@dataclass
class _Origins:
    """Follows days back through the log; each publication is read once."""

    log: PublicationLog
    known: dict[str, Prepared | None] = field(default_factory=dict)
    changes: dict[tuple[str, str], dict[str, DayChange]] = field(default_factory=dict)

    def of(self, prepared: Prepared, table: str, day: DayChange) -> Origin:
        if day.content is None:
            reason = "somebody who bypassed the log wrote it" if day.adds else ""
            return Origin(table, day.day, None, None, reason)
        made_by = self.maker(prepared, table, day)
        if isinstance(made_by, str):
            return Origin(table, day.day, day.content, None, made_by)
        if made_by is not prepared and made_by.publication.kind == "append":
            reason = f"its rows were taken in by several publications, the last one {made_by.publication.id}"
            return Origin(table, day.day, day.content, None, reason)
        return Origin(table, day.day, day.content, made_by)

    def maker(self, prepared: Prepared, table: str, day: DayChange) -> Prepared | str:
        """The publication whose result the day is; in words why there is none to be found."""
        before = self.moved(prepared, table, day)
        if before is None:
            return prepared
        earlier = self.find(before.publication)
        if earlier is None:
            return f"the publication log does not say which publication brought what {prepared.publication.id} moved"
        return self.maker(earlier, table, self.change(earlier, table, day.day))

    def moved(self, prepared: Prepared, table: str, day: DayChange) -> Before | None:
        """The state that ``prepared`` gave the day without computing it; None if it computed it."""
        publication = prepared.publication
        if publication.kind == "compact":
            return prepared.before[table][day.day]
        if publication.kind != "rollback":
            return None
        undone = self.find(publication.provenance.undoes)
        if undone is None:
            return Before()
        before = undone.before[table][day.day]
        # An undo stages days again that moved since: these have files of their own.
        return before if (day.adds, day.content) == (before.files, before.content) else None

    def find(self, publication: str) -> Prepared | None:
        if publication not in self.known:
            found = self.log.find_prepared(publication) if publication else None
            self.known[publication] = found[0] if found else None
        return self.known[publication]

    def change(self, prepared: Prepared, table: str, day: str) -> DayChange:
        key = (prepared.publication.id, table)
        if key not in self.changes:
            self.changes[key] = {each.day: each for each in prepared.change(table).days}
        return self.changes[key][day]
