"""An answer with a part of each kind."""

from __future__ import annotations

from datetime import date, timedelta

from backfill_assets.report.answer import Answer, Chart, Days, Fact, Grid, Id, Line, Tone, Toned, size

PUBLICATION = "20170601t101500-fact-sales-transactions-1a2b3c4d"
FIRST = date(2017, 3, 1)
DAYS = Days.of(FIRST + timedelta(days=2 * n) for n in range(9))
TABLE = Grid(
    "tables",
    ("table", "status", "rows", "publication", "which days"),
    [
        ("fact", Toned("stale", Tone.WARN), 12_345, Id(PUBLICATION), DAYS),
        ("fact", Toned("fresh", Tone.GOOD), None, Id(PUBLICATION), Days()),
        ("raw", "fresh", 0, Id(PUBLICATION), Days.of([FIRST])),
    ],
    groups=("table",),
)
ANSWER = Answer(
    "State",
    (Fact("rows", 12_345), Fact("read", size(3_145_728)), Line("It is stale.", Tone.WARN, "backfill run fact"), TABLE),
    sections=(Answer("Why <it> is so", (Chart("revenue", "<svg></svg>", "It rises."),), name="why", folded=True),),
    next=("backfill plan fact", "backfill diff"),
    links={"its page": "/assets/fact"},
)
