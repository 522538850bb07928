"""All tables as of one closed entry of the publication log, for questions about several tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from backfill_assets.days import DayRange
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publication_log.log import PublicationLog, anything_published
from backfill_assets.publication_log.pinned import pinned_versions
from backfill_assets.published.reading import PublishedTable

BEFORE_ANYTHING = -1


@dataclass(frozen=True)
class Snapshot:
    """``sequence`` is the log entry that everything is pinned to; ``versions`` has its Delta version by table."""

    storage: Storage
    sequence: int
    versions: Mapping[str, int]

    @classmethod
    def newest(cls, storage: Storage) -> Snapshot:
        """The newest snapshot; empty for a lakehouse without a log, which this does not create."""
        if not anything_published(storage):
            return cls(storage, BEFORE_ANYTHING, {})
        log = PublicationLog(storage)
        head = log.head()
        return cls(storage, head.version, pinned_versions(log, head, head.state.versions))

    def table(self, name: str) -> PublishedTable | None:
        """None if nothing was published to it yet."""
        version = self.versions.get(name)
        return None if version is None else PublishedTable(name, self.storage.uri(name), version, self.storage)

    def rows(
        self,
        table: str,
        days: DayRange | None = None,
        chosen: pc.Expression | None = None,
        columns: list[str] | None = None,
    ) -> pa.Table | None:
        """The rows of ``days`` (of all days) that fulfil ``chosen``; files of other days stay closed."""
        published = self.table(table)
        if published is None:
            return None
        conditions = [each for each in (in_days(days), chosen) if each is not None]
        wanted = None
        for condition in conditions:
            wanted = condition if wanted is None else wanted & condition
        return published.dataset().to_table(columns=columns, filter=wanted)


def in_days(days: DayRange | None) -> pc.Expression | None:
    return None if days is None else (pc.field("day") >= days.first) & (pc.field("day") <= days.last)
