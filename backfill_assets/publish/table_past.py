"""Which publication made which version of a table, by the publication log."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from backfill_assets.lakehouse.delta_log import LogState
from backfill_assets.lakehouse.main_table import Files, of_days
from backfill_assets.lakehouse.records import Outcome, Prepared, TableChange
from backfill_assets.publish.crash_points import COMMITTED, FENCED, RESTORED
from backfill_assets.publish.finish import Mark, files_to_restore
from backfill_assets.publish.log import PublicationLog
from backfill_assets.publish.past import closed_entries, prepared_entries


@dataclass(frozen=True)
class KnownCommit:
    """An aborted publication fenced or restored the table."""

    table: str
    version: int
    prepared: Prepared
    mark: Mark
    outcome: Outcome
    at: datetime

    @property
    def id(self) -> str:
        return self.prepared.publication.id

    @property
    def change(self) -> TableChange:
        return self.prepared.change(self.table)

    def deed(self, active: LogState, transactions: Mapping[str, int]) -> Deed:
        positions = self.change.positions
        if self.outcome == "done":
            after = {position.id: position.after for position in positions}
            target, before = self.prepared.target(self.table), self.prepared.before_files(self.table)
            return Deed(self.id, target, before, {**self.mark.saying(COMMITTED), **after}, self.change.table_schema)
        if self.mark.of_number(transactions.get(self.mark.id)) != COMMITTED:
            return Deed(self.id, {}, {}, self.mark.saying(FENCED))
        now = of_days(active, self.prepared.target(self.table))
        target = files_to_restore(self.prepared, self.table, now)
        complete = len(target) == len(now)
        target = {} if positions and not complete else target
        back = {position.id: position.before or 0 for position in positions if complete}
        return Deed(self.id, target, now, {**self.mark.saying(RESTORED), **back})


@dataclass(frozen=True)
class Deed:
    """Each day's files after (``target``) and before (``active``) a commit."""

    name: str
    target: Files
    active: Files
    transactions: Mapping[str, int]
    schema: str | None = None


def known_commits(log: PublicationLog, table: str, versions: Collection[int] | None = None) -> dict[int, KnownCommit]:
    ends = _ends(log, table)
    wanted = {id: end for id, end in ends.items() if versions is None or end[0] in versions}
    found: dict[int, KnownCommit] = {}
    for entry in prepared_entries(log.files(), publication=wanted):
        version, outcome, at = wanted[entry.publication]
        if version not in found and table in (prepared := entry.prepared).publication.writes:
            mark = Mark.at(prepared, entry.sequence)
            found[version] = KnownCommit(table, version, prepared, mark, outcome, at)
    return {version: found[version] for version in sorted(found)}


def _ends(log: PublicationLog, table: str) -> dict[str, tuple[int, Outcome, datetime]]:
    found: dict[str, tuple[int, Outcome, datetime]] = {}
    last = None
    for entry in reversed(list(closed_entries(log.files(), maps=True, event=("closed", "pinned")))):
        version = entry.versions.get(table)
        if entry.outcome and version is not None and version != last:
            found[entry.publication] = (version, entry.outcome, entry.at)
        last = version
    return found
