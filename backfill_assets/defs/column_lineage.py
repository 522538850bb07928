"""The origin of every column as Dagster shows it."""

from __future__ import annotations

from collections.abc import Callable

import dagster as dg

from backfill_assets.model.declaration import Step, Table
from backfill_assets.model.lineage import column_lineage

LINEAGE = "dagster/column_lineage"


def lineage_metadata(step: Step, table_named: Callable[[str], Table]) -> dict[str, dict[str, dg.MetadataValue]]:
    """Metadata for a materialization of each table of ``step``; none for raw tables, whose columns come from files."""
    found: dict[str, dict[str, dg.MetadataValue]] = {}
    for table in step.tables:
        origins = column_lineage(step, table, table_named)
        deps = {
            column: [dg.TableColumnDep(dg.AssetKey(origin.table), origin.column) for origin in columns]
            for column, columns in origins.items()
        }
        shown = dg.MetadataValue.column_lineage(dg.TableColumnLineage(deps_by_column=deps))
        found[table.name] = {LINEAGE: shown} if deps else {}
    return found
