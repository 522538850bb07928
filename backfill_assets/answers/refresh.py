"""What a source has corrected since its files were read, and what raw gains and loses by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from backfill_assets.landing.zone import LandedFile
from backfill_assets.rebuild.changed_files import ArrivalFiles
from backfill_assets.rebuild.refresh import RefreshResult, RowCounts
from backfill_assets.report.answer import Answer, Days, Fact, Grid, Id, Line, Worded


@dataclass(frozen=True)
class FoundRefresh:
    """Files by arrival day, and rows that are added and deleted by event day."""

    files: Sequence[ArrivalFiles]
    rows: Mapping[date, tuple[int, int]]
    publication: str = ""
    """Empty if nothing was published."""
    dry_run: bool = False

    @classmethod
    def previewed(cls, files: Sequence[ArrivalFiles], counts: RowCounts) -> FoundRefresh:
        rows: dict[date, tuple[int, int]] = {}
        for (_, day), (added, deleted) in sorted(counts.items(), key=lambda each: each[0][1]):
            before = rows.get(day, (0, 0))
            rows[day] = before[0] + added, before[1] + deleted
        return cls(files, rows, dry_run=True)

    @classmethod
    def done(cls, result: RefreshResult) -> FoundRefresh:
        return cls(result.files, result.rows, result.publication)


def refresh_answer(found: FoundRefresh) -> Answer:
    """Files that differ, the days whose rows change, and what to do about what is computed from them."""
    files = Grid("files", ("arrival day", "unchanged", "changed", "gone", "new"), [*map(_files, found.files)])
    rows = Grid("rows", ("event day", "added", "deleted"), [(day, *counts) for day, counts in found.rows.items()])
    publication = Fact("publication", Id(found.publication))
    if not (found.publication or (found.dry_run and (found.rows or any(each.differs for each in found.files)))):
        return Answer(parts=(files, rows, Line("Raw has just what the source has: nothing was appended."), publication))
    if found.dry_run:
        return Answer(parts=(files, rows, Line("Nothing was done: --dry-run."), publication))
    stale = Fact("stale now", Days.of(found.rows))
    return Answer(
        parts=(files, rows, publication, stale), next=("backfill status", f"backfill rollback {found.publication}")
    )


def _files(found: ArrivalFiles) -> Sequence[object]:
    kinds: Sequence[Sequence[LandedFile | str]] = (found.unchanged, found.changed, found.gone, found.new)
    return found.day, *map(_paths, kinds)


def _paths(files: Sequence[LandedFile | str]) -> Worded:
    return Worded([each if isinstance(each, str) else each.path for each in files], f"{len(files):,}")
