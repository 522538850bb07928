"""Checks this machine's clock against the publication log, because files are deleted by age."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise

import pyarrow.compute as pc

from backfill_assets.publication.publisher import Publisher

MOST_QUIET = timedelta(days=8)
"""The longest normal pause: a lakehouse that is published to every week has none that is longer."""


def clock_doubt(publisher: Publisher) -> str:
    """Why the ages of files may be wrong, in words; empty if the log has entries without a long pause until now.

    A clock that is days ahead makes every file old enough to delete. It shows as a pause in the log: before now, or,
    if the machine with that clock has published meanwhile, between two entries. The entry before the weeks that are
    looked at counts: with a clock that is months ahead it is the newest one of the right clock.
    """
    now = publisher.now()
    since = now - timedelta(days=2 * publisher.retention_days)
    files = publisher.log.files()
    moments = set(files.between("at", low=since).read(["at"]).column("at").to_pylist())
    for rows in files.newest_first(["at"]) if moments else ():
        before = pc.max(rows.filter(pc.less(rows.column("at"), since)).column("at")).as_py()
        if before is not None:
            return doubt([before, *sorted(moment for moment in moments if moment >= since)], now)
    return doubt(sorted(moment for moment in moments if moment >= since), now)


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
