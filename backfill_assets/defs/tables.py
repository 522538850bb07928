"""Tables in Dagster's metadata. Dagster reads the columns from the rows, and fails where there are none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import dagster as dg


def metadata_table(
    columns: Mapping[str, str], rows: Iterable[Mapping[str, str | int | float | bool]]
) -> dg.MetadataValue:
    """A table of ``rows`` with ``columns``: the type of each (``string``, ``int``, ``float``, ``bool``), by name."""
    schema = dg.TableSchema(columns=[dg.TableColumn(name, kind) for name, kind in columns.items()])
    return dg.MetadataValue.table(records=[dg.TableRecord(dict(row)) for row in rows], schema=schema)
