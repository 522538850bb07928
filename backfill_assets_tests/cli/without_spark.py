"""What commands print that start Spark, without it: each finds what is stated here, and shows it as it would."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import date, timedelta
from typing import Any
from unittest import mock

from backfill_assets.answers.machine import MachineFinding
from backfill_assets.examples.lab import collision
from backfill_assets.examples.lab.hazard import Hazard, SourceReads, TableCount, WayCounts
from backfill_assets.lakehouse.named_timelines import NamedTimeline
from backfill_assets.lakehouse.records import DayContent, Environment
from backfill_assets.landing.declaration_trial import BrokenGate, CheckedFile, RejectReason
from backfill_assets.landing.zone import LandedFile
from backfill_assets.model.declaration import RuleOutcome, Step
from backfill_assets.rebuild.changed_files import ArrivalFiles
from backfill_assets.rebuild.outcome import BuildResult, BuiltDay
from backfill_assets.rebuild.refresh import RefreshResult, RowCounts
from backfill_assets.rebuild.reproduce import Reproduced, Reproduction
from backfill_assets.stream.delays import describe_batch
from backfill_assets.stream.run import StreamEvent
from backfill_assets.text import pluralize
from backfill_assets.timeline.forward import Forwarded, ForwardedStep

FIRST = date(2017, 3, 1)
NEXT, LAST = FIRST + timedelta(days=1), FIRST + timedelta(days=2)
FINDINGS = (
    MachineFinding("Java", "ok", "Java 17, /usr/bin/java"),
    MachineFinding(
        "memory", "warn", "3.0 GiB usable, 2g of it for Spark", "Give it 4 GiB, or run fewer steps at once."
    ),
    MachineFinding("landed sales", "ok", "3 days in /srv/landing/sales: 2017-03-01..2017-03-03"),
    MachineFinding("token key", "fail", "There is no token key at /srv/token.key.", "Bring it: docs/operations.md"),
)
_SECONDS = 1.5
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
            seconds=_SECONDS,
        )
        for table in step.tables
        for day in days
    ]
    return BuildResult(tuple(built), (publication,))


def _reproduce(_: object, publication: str, progress: Callable[[str], None]) -> Reproduction:
    """One day comes out equal, one different, and of one the inputs are gone."""
    progress("fact_sales_transactions: staged again, 3/3 days, ETA 0 s")
    content = DayContent(rows=2, checksum="7", code_version="v1", inputs="", metrics={"rows": 2})
    other = replace(content, rows=3, checksum="9")
    table = "fact_sales_transactions"
    days = (
        Reproduced(table, FIRST, content, content),
        Reproduced(table, NEXT, content, other),
        Reproduced(table, LAST, content, reason="files of bronze_sales at version 1 are gone"),
    )
    then = Environment(git_commit="1" * 40, packages="aaaa", spark="4.0.0", java="17")
    return Reproduction(days, (then,), then.model_copy(update={"java": "21"}))


_FILES = (
    ArrivalFiles(
        FIRST,
        unchanged=(LandedFile("sales", FIRST, "sales/2017-03-01/a.jsonl.gz", 100, "1"),),
        changed=(LandedFile("sales", FIRST, "sales/2017-03-01/b.jsonl.gz", 100, "2"),),
        gone=("sales/2017-03-01/c.jsonl.gz",),
    ),
)


def _preview_refresh(*_: object) -> tuple[Sequence[ArrivalFiles], RowCounts]:
    return _FILES, {(FIRST, FIRST): (12, 3), (FIRST, NEXT): (0, 1)}


def _refresh(*_: object, **__: object) -> RefreshResult:
    return RefreshResult(_FILES, {FIRST: (12, 3), NEXT: (0, 1)}, _PUBLICATIONS["raw_sales"], 2)


def _check_file(*_: object) -> CheckedFile:
    quantity = RejectReason("quantity is not a bigint", 2, "'many'", "sales/2017-03-01/a.jsonl.gz", 17)
    gate = RuleOutcome("rejected", "validity", False, "2 of 10 rows", "at most 10 %", "Correct the type of quantity.")
    return CheckedFile(
        "sales/2017-03-01/a.jsonl.gz", True, 10, 2, (quantity,), (BrokenGate("bronze_sales", FIRST, gate),)
    )


def _play(*_: object) -> Iterator[Hazard]:
    """A plain way loses rows, and this project none."""
    sound, lossy = (TableCount("sales", 100 - lost, lost, 0) for lost in (0, 12))
    reads = SourceReads(4, 4096, 2)
    yield Hazard(
        collision.TEXT,
        (
            WayCounts("replaceWhere", False, 100, (lossy,), _SECONDS, 900, reads, days_computed=3),
            WayCounts("this project", True, 100, (sound,), 2 * _SECONDS, 910, reads, days_computed=3),
        ),
    )


def _run_stream(_: object, __: object, ___: object, ____: object, report: Callable[[StreamEvent], None]) -> None:
    report(StreamEvent("started", "sales begins at the end of the topic, because raw_sales is new", {"partitions": 2}))
    text = describe_batch(1, 250, _SECONDS, {}, "")
    report(StreamEvent("batch", text, {"batch": 1, "events": 250, "seconds": _SECONDS}))
    report(StreamEvent("waiting", "Waiting: nothing has arrived"))


def _forwarded(_: object, timeline: NamedTimeline, *__: object) -> Forwarded:
    steps = (
        ForwardedStep("bronze_sales", "v1", kept=(FIRST,), from_main=(NEXT, LAST)),
        ForwardedStep("fact_sales_transactions", "v2", kept=(FIRST,), staged=(NEXT, LAST)),
    )
    return Forwarded(timeline, steps)


_PATCHES: tuple[tuple[str, object], ...] = (
    *((f"{where}.foreground_spark", mock.MagicMock()) for where in ("cli.foreground", "examples.commands.lab")),
    ("rebuild.builder.Builder.build", _build),
    ("rebuild.builder.Builder.reproduce", _reproduce),
    ("rebuild.builder.Builder.preview_refresh", _preview_refresh),
    ("rebuild.builder.Builder.refresh", _refresh),
    ("answers.declaration.prepare_for_few_rows", lambda _: None),
    ("answers.declaration.schema_problems", lambda *_: []),
    ("answers.declaration.check_file", _check_file),
    ("examples.lab.play.play", _play),
    ("stream.run.run_stream", _run_stream),
    ("timeline.attempts.attempt_forward", _forwarded),
    ("answers.machine.examine", lambda *_: list(FINDINGS)),
)


@contextmanager
def without_spark() -> Iterator[None]:
    """Commands find what is stated here."""
    with ExitStack() as stack:
        for name, instead in _PATCHES:
            stack.enter_context(mock.patch(f"backfill_assets.{name}", instead))
        yield
