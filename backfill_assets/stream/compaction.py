"""Keeps the days of a stream in few files: what a batch leaves behind is put together beside the stream."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import date, datetime, timedelta

import pyarrow as pa
from deltalake.exceptions import DeltaError

from backfill_assets.errors import BackfillError
from backfill_assets.publication.compact import compact_small_files
from backfill_assets.publication.publisher import Published
from backfill_assets.rebuild.lake import Lake, provenance
from backfill_assets.rebuild.outcome import RunInfo

_PAUSE = timedelta(hours=1)
"""A table of which a file is damaged or missing is not tried with every batch: each attempt leaves files behind."""


def compact_days(
    lake: Lake,
    tables: Iterable[str],
    days: Collection[date],
    run: RunInfo,
    transaction: str,
    report: Callable[[str], None],
    paused: dict[str, datetime],
) -> set[str]:
    """Put together the small files of ``days`` where there are many, and return the tables in which that was done.

    One look at each table if there is nothing to do. What another writer is changing is left for the next batch.
    ``transaction`` is the one that the publications of the stream share. A table that fails is reported, and ``paused``
    until a moment: its rows are published, and stay as they are.
    """
    done, now = set(), lake.publisher.now()
    made_by = provenance(run, "").model_copy(update={"reason": "small files of a stream"})
    for table in (each for each in tables if paused.get(each, now) <= now):
        try:
            outcome = compact_small_files(lake.publisher, table, days, provenance=made_by, transaction=transaction)
            done |= {table} if isinstance(outcome, Published) else set()
        except BackfillError as error:
            report(f"{table} is not compacted now: {error.message}")
        except (DeltaError, OSError, pa.ArrowException) as error:
            paused[table] = now + _PAUSE
            report(f"Warning: {table} is not compacted for an hour: {error}")
    return done
