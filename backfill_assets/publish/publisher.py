"""The publication protocol: prepare, finish, close. A process that meets an open entry finishes it; none waits.

The entry to it. ``prepare`` is where it refuses, ``finish`` where it commits.

The steps survived an exhaustive exploration of two to three actors with crashes; ``docs/architecture.md`` says what
breaks when a rule is dropped, and a committed mutant per rule shows that a test notices.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date

from deltalake.exceptions import DeltaError

from backfill_assets.errors import BackfillError
from backfill_assets.lakehouse.records import Outcome, Publication
from backfill_assets.lakehouse.retry import warn
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.publish.pinned import Pin, capture
from backfill_assets.publish.prepare import Conflict, Preparation

__all__ = ["Conflict", "CrashPoint", "Pin", "Published", "Publisher"]


@dataclass(frozen=True)
class Published:
    """A publication that is in the tables; ``versions`` are the commits it made."""

    publication: str
    versions: Mapping[str, int]


class Publisher(Preparation):
    """Brings staged days into main, and undoes it. Safe with any number of other publishers, alive or dead."""

    def pin(
        self,
        writes: Mapping[str, Iterable[date]],
        reads: Mapping[str, Iterable[date]],
        exact: Iterable[str] = (),
        also: Iterable[str] = (),
    ) -> Pin:
        """Capture the expected state of the days to write and the versions of the days to read.

        Inputs are read at the version of the last closed entry, so that a half-published table is never read.
        ``exact`` inputs may not even gain rows until publishing; of tables in ``also`` only the states are wanted.
        """
        self.log.begin()  # A lakehouse that cannot be written is refused before anything is computed.
        return capture(self.log, self.storage, writes, reads, frozenset(exact), also)

    def publish(self, publication: Publication) -> Published | Conflict:
        """Prepare, commit to each table, close. Refused days come back as :class:`Conflict`; nothing is half done.

        An id is used for one attempt: publishing it again gives the outcome that the log has for it, so what was
        :class:`Conflict` because it was aborted needs a new one. Raises :class:`PublicationRefused` if the staged rows
        can never be published (schema, partition).
        """
        moved = self.prepare(publication)
        return self._result(publication, self.finish(publication.id)) if moved is None else moved

    def recover(self, tables: Collection[str] = ()) -> dict[str, Outcome]:
        """Finish every open entry: what a new process does first, and all that recovery is.

        An entry that cannot be finished is named and left open; it is an error only if it writes one of ``tables``.
        """
        outcomes: dict[str, Outcome] = {}
        for publication, entry in self.log.head().state.open.items():
            try:
                outcomes[publication] = self.finish(publication)
            except (BackfillError, DeltaError, OSError) as error:
                if entry.writes & set(tables):
                    raise
                warn(
                    f"{publication} is open and cannot be finished, so its tables ({', '.join(sorted(entry.writes))})"
                    f" wait; others go on. {error}"
                )
        return outcomes

    def _result(self, publication: Publication, outcome: Outcome) -> Published | Conflict:
        if outcome == "done":
            versions = self.log.versions_of(publication.id)
            return Published(publication.id, {table: versions[table] for table in publication.writes})
        days = {change.table: frozenset(day.day for day in change.days) for change in publication.tables}
        reason = f"another writer changed the table while {publication.id} was under way, so it was aborted"
        return Conflict(days=days, reasons=(reason,))
