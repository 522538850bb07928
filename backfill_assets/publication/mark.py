"""The mark that a publication leaves in each of its tables: a Delta transaction, looked up before every commit.

A publication has a transaction of its own, named by its id. A stream would leave 8,640 a day in each table, for good:
Delta forgets old ones only by a rule that would forget source positions too. So its publications share one. Its number
grows with the entry of the log that a publication was prepared by. An open entry locks its tables, so a greater number
than ours is of a publication that was prepared after ours was closed.
"""

from __future__ import annotations

from dataclasses import dataclass

from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.records import Prepared
from backfill_assets.publication.crash_points import COMMITTED
from backfill_assets.publication_log.log import OpenEntry, entry_sequence

PASSED = COMMITTED + 100
"""A later publication was committed to the table: ours is closed, and the log knows how it ended."""
_STATES = 4


@dataclass(frozen=True)
class Mark:
    """A transaction's id, and what its number counts from; 0 for one that a publication has for itself."""

    id: str
    base: int

    @classmethod
    def of(cls, prepared: Prepared, entry: OpenEntry) -> Mark:
        publication = prepared.publication
        if not publication.transaction:
            return cls(publication.id, 0)
        return cls(publication.transaction, _STATES * entry_sequence(entry.file))

    def read(self, main: MainTable) -> int | None:
        """What the publication did to this version of a table, or :data:`PASSED`; None if it did nothing yet."""
        number = main.transaction(self.id)
        if number is None or number < self.base:
            return None
        return PASSED if self.base and number >= self.base + _STATES else number - self.base

    def saying(self, state: int) -> dict[str, int]:
        """The transaction of a commit that does ``state`` to a table."""
        return {self.id: self.base + state}
