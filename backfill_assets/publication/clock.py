"""Checks this machine's clock against the publication log, because files are deleted by age."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from backfill_assets.lakehouse.arrow_dataset import arrow_dataset
from backfill_assets.publication.publisher import Publisher
from backfill_assets.publication_log.log import LOG_TABLE

MOST_QUIET = timedelta(days=8)
"""The longest normal pause: a lakehouse that is published to every week has none that is longer."""


def clock_doubt(publisher: Publisher) -> str:
    """Why the ages of files may be wrong, in words; empty if the log has entries without a long pause until now.

    A clock that is days ahead makes every file old enough to delete. It shows as a pause in the log: before now, or,
    if the machine with that clock has published meanwhile, between two entries.
    """
    now = publisher.now()
    since = now - timedelta(days=2 * publisher.retention_days)
    chosen = pc.field("at") >= pa.scalar(since)
    moments = arrow_dataset(publisher.storage, LOG_TABLE).to_table(columns=["at"], filter=chosen).column("at")
    return doubt(sorted(set(moments.to_pylist())), now)


def doubt(entries: Sequence[datetime], now: datetime) -> str:
    """Why the clock may be wrong; empty if ``entries``, oldest first, have no long pause between them and until now."""
    if not entries:
        return f"the clock says {now:%Y-%m-%d %H:%M}Z, and the publication log has no entry of the weeks before"
    pauses = [(*pair, "the next entry of the publication log") for pair in pairwise(entries)]
    for before, after, until in (*pauses, (entries[-1], now, "now")):
        if after - before > MOST_QUIET:
            return (
                f"{(after - before).days} days lie between {before:%Y-%m-%d %H:%M}Z and {until} "
                f"({after:%Y-%m-%d %H:%M}Z): a clock may have been ahead"
            )
    return ""
