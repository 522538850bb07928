"""Which days have moved because a stream brought rows to them, and for no other reason."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from datetime import date

import pyarrow.compute as pc

from backfill_assets.days import TableDay
from backfill_assets.lakehouse.records import is_of_stream
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publication_log.files import among, equal
from backfill_assets.publication_log.log import PublicationLog, utc_now


def moved_by_streams(storage: Storage, since: int, days: Collection[TableDay]) -> frozenset[TableDay]:
    """Those of ``days`` that were published after log entry ``since``, and by streams alone.

    Compactions move nothing and do not count. Reads the log's columns of these days, never data.
    """
    tables, dates = {each.table for each in days}, {str(each.day) for each in days}
    if not days:
        return frozenset()
    files = PublicationLog(storage, utc_now).files().between("sequence", since + 1)
    found = equal(
        files.holding("table", tables).holding("day", dates).read(["event", "kind", "publication", "table", "day"]),
        event="published",
    )
    rows = among(found.filter(pc.greater(found.column("sequence"), since)), "table", tables)
    streamed: defaultdict[TableDay, bool] = defaultdict(lambda: True)
    for row in among(rows, "day", dates).to_pylist():
        if row["kind"] != "compact":
            streamed[TableDay(row["table"], date.fromisoformat(row["day"]))] &= is_of_stream(row["publication"])
    return frozenset(each for each in days if streamed.get(each))
