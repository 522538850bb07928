"""What commands print that start Spark, without it: each finds what is stated here, and shows it as it would."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import date, timedelta
from typing import Any
from unittest import mock

from backfill_assets.difference.find import last_difference
from backfill_assets.landing.zone import LandedFile
from backfill_assets.model.declaration import Step
from backfill_assets.rebuild.changed_files import ArrivalFiles
from backfill_assets.rebuild.outcome import BuildResult, BuiltDay
from backfill_assets.rebuild.refresh import RefreshResult
from backfill_assets.text import pluralize

FIRST = date(2017, 3, 1)
NEXT, LAST = FIRST + timedelta(days=1), FIRST + timedelta(days=2)
_PUBLICATIONS = {
    "raw_sales": "20170601t120100-raw-sales-1a2b3c4d",
    "fact_sales_transactions": "20170601t120300-fact-sales-transactions-3c4d5e6f",
}
"""As they are in the lakehouse, so that they have short ids."""


def _build(_: object, step: Step, days: Sequence[date], **asked: Any) -> BuildResult:
    """Every day but the last is computed; a bronze table sets a row of each aside."""
    asked["progress"](f"{step.name}: {len(days)}/{len(days)} {pluralize(step.cadence.noun)} staged, ETA 0 s")
    publication = _PUBLICATIONS.get(step.name, "20170601t120330-fact-daily-revenue-7a8b9cad")
    built = [
        BuiltDay(
            table=table.name,
            day=day,
            rows=1000 + day.day,
            checksum="7",
            publication=publication,
            table_version=2,
            code_version="v1",
            reused=day == days[-1] and len(days) > 1,
            input_fingerprint="x",
            seconds=1.5,
        )
        for table in step.tables
        for day in days
    ]
    return BuildResult(tuple(built), (publication,))


_FILES = (
    ArrivalFiles(
        FIRST,
        unchanged=(LandedFile("sales", FIRST, "sales/2017-03-01/a.jsonl.gz", 100, "1"),),
        changed=(LandedFile("sales", FIRST, "sales/2017-03-01/b.jsonl.gz", 100, "2"),),
        gone=("sales/2017-03-01/c.jsonl.gz",),
    ),
)


_ROWS = {FIRST: (12, 3), NEXT: (0, 1)}


_PATCHES: tuple[tuple[str, object], ...] = (
    ("cli.foreground.foreground_spark", mock.MagicMock()),
    ("rebuild.builder.Builder.build", _build),
    ("difference.find.find_difference", lambda lake, plan, *_, **known: last_difference(lake.storage, plan.id)),
    ("rebuild.builder.Builder.preview_refresh", lambda *_: RefreshResult(_FILES, _ROWS, dry_run=True)),
    ("rebuild.builder.Builder.refresh", lambda *_, **__: RefreshResult(_FILES, _ROWS, _PUBLICATIONS["raw_sales"])),
)


@contextmanager
def without_spark() -> Iterator[None]:
    """Commands find what is stated here."""
    with ExitStack() as stack:
        for name, instead in _PATCHES:
            stack.enter_context(mock.patch(f"backfill_assets.{name}", instead))
        yield
