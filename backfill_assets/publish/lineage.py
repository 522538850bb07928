"""What each day of a publication was computed from and with, as the publication log keeps it for audits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime

import pyarrow.compute as pc

from backfill_assets.days import TableDay
from backfill_assets.lakehouse.records import DayLineage
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.log import PublicationLog
from backfill_assets.publish.rows import PREPARING_DAY

Lineages = Mapping[TableDay, DayLineage]
"""By table and day."""


def lineages(storage: Storage, publications: Iterable[str]) -> dict[tuple[str, datetime], Lineages]:
    """The lineages of the days of ``publications``, by the id and the moment it was prepared.

    A day that was not computed has none, and neither have publications from before it was recorded.
    """
    columns = ["at", "table", "day", "detail"]
    rows = PublicationLog(storage).files().rows(columns, event=PREPARING_DAY, publication=publications)
    rows = rows.filter(pc.is_valid(rows.column("detail")))
    lineage_of: dict[tuple[str, datetime], dict[TableDay, DayLineage]] = {}
    for row in rows.to_pylist():
        days = lineage_of.setdefault((row["publication"], row["at"]), {})
        days[TableDay(row["table"], date.fromisoformat(row["day"]))] = DayLineage.model_validate_json(row["detail"])
    return dict(lineage_of)
