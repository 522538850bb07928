"""What a publication means by its own words, and what was there before it by the tables that it was committed to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from backfill_assets.lakehouse.records import Publication
from backfill_assets_tests.simulator.history import Key, Operation
from backfill_assets_tests.simulator.judges.tables import TableJudge
from backfill_assets_tests.simulator.model import NOTHING, RowsOfTables, Wish, Wishes


def wished(
    publication: Publication,
    rows: RowsOfTables,
    inputs: RowsOfTables | None = None,
    looked_at: Mapping[str, int] | None = None,
) -> Wishes:
    """What it would mean, were it done."""
    tables = {
        change.table: Wish(
            mode=change.mode,
            rows={day.day: rows[change.table][day.day] for day in change.days},
            files={day.day: frozenset(add.path for add in day.adds) for day in change.days},
            expected={} if change.mode == "append" else {d.day: frozenset(d.expected.files) for d in change.days},
            positions={p.id: (p.before or 0, p.after) for p in change.positions},
        )
        for change in publication.tables
    }
    return Wishes(
        publication.kind,
        tables,
        inputs=inputs or {},
        exact=any(read.exact for read in publication.inputs),
        switches={step: (switch.former, switch.version) for step, switch in publication.switches.items()},
        looked_at=looked_at or {},
    )


def decided_on(tables: Mapping[str, TableJudge], publication: Publication) -> dict[Key, str]:
    """The publication that each of its days showed when it was staged, which compare-and-swap has to find there.

    A day without files is left out: who knows nothing of publications may fill and empty it, and nobody can tell.
    """
    found: dict[Key, str] = {}
    for change in (each for each in publication.tables if each.mode == "replace"):
        for day in change.days:
            was, files = day.expected.publication, frozenset(day.expected.files)
            seen = (days.get(day.day, NOTHING) for days in tables[change.table].days)
            if files and any(image.files == files and image.value == was for image in seen):
                found[change.table, str(day.day)] = was
    return found


def with_replaced(operation: Operation, tables: Mapping[str, TableJudge]) -> Operation:
    """With what a publication replaced, as far as it came, read from its commits."""
    commits = [(name, judge.commits.get(operation.publication or "")) for name, judge in tables.items()]
    before: dict[Key, str | None] = {
        (table, str(day)): image.value
        for table, commit in commits
        for day, image in (commit.before if commit else {}).items()
    }
    return replace(operation, replaced={**operation.replaced, **before})
