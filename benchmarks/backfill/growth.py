"""Four times the days: does it take four times as long, and no more memory?"""

from __future__ import annotations

from benchmarks.backfill.data import TABLES, Data, generated
from benchmarks.backfill.report import Goal, Line, figure, seconds


def growth(data: Data, rounds: int) -> list[Line]:
    """The days of ``data`` and four times as many with as many rows each, in turn."""
    long = generated(4 * len(data.days), data.rows_per_day)
    for each in (data, long):
        each.run(*TABLES, "--days", each.range, name="growth-first")
    few, many = [], []
    for _ in range(rounds):
        few.append(data.run(*TABLES, "--days", data.range, "--force", name="growth"))
        many.append(long.run(*TABLES, "--days", long.range, "--force", name="growth-long"))
    times = [round(b.seconds / a.seconds, 3) for a, b in zip(few, many, strict=True)]
    memory = [round(b.peak_mib / a.peak_mib, 3) for a, b in zip(few, many, strict=True)]
    what = f"{len(long.days)} days / {len(data.days)} days"
    return [
        seconds(f"{len(data.days)} days of {data.rows_per_day:,} rows", few),
        seconds(f"{len(long.days)} days of {data.rows_per_day:,} rows", many),
        figure(f"{what}, time", times, "ratio", Goal(4.2)),
        figure(f"{what}, peak memory of the largest process", memory, "ratio", Goal(1.1)),
    ]
