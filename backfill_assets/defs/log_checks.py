"""Checks that the publication log alone decides: no rows are read, and no run evaluates them.

The sensor ``dagster_shows_what_is`` evaluates them for each day that has ended, once it is published again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from functools import partial

from backfill_assets.defs.checks import AS_DECLARED, AS_USUAL
from backfill_assets.model import drift
from backfill_assets.model.declaration import RuleOutcome, Step, Table
from backfill_assets.quality import as_usual
from backfill_assets.quality.as_usual import DaysMetrics

LogJudge = Callable[[DaysMetrics, date], RuleOutcome | None]
"""The verdict on a day of a table, from what was measured of its published days; None if there is nothing to say."""


def log_judges(table: Table, step: Step) -> Mapping[str, LogJudge]:
    """By the name of its check, who judges a day of ``table``, which is one of ``step``."""
    found: dict[str, LogJudge] = {}
    if table.unusual_beyond is not None:
        found[AS_USUAL] = partial(as_usual.judge, table, step)
    if table.typed and step.source:
        found[AS_DECLARED] = partial(drift.judge, step.source)
    return found
