"""How long publishing, rolling back and reading the log take: 90 days of four tables, and a log that grows.

Run with ``.venv/bin/python benchmarks/publication.py``. No JVM; the tables hold one row a day, because publishing
does not depend on the size of the data. Prints medians in milliseconds.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

from rich.console import Console
from rich.table import Table

from backfill_assets import clock
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.days import DayRange
from backfill_assets_tests.small_lakehouse import SmallLakehouse

DAYS = list(DayRange(date(2017, 3, 1), date(2017, 5, 29)))
TABLES = ("raw", "bronze", "fact", "report")
ROUNDS = 7


def milliseconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


def main() -> None:
    rows = Table("what", "median ms", "least", "most")
    with tempfile.TemporaryDirectory() as folder:
        lake = SmallLakehouse(Path(folder))
        content = {table: {day: [1] for day in DAYS} for table in TABLES}
        with clock.use(lake.time):
            publish = [_publish(lake, f"p{n}", content) for n in range(ROUNDS)]
            back = [milliseconds(lambda: roll_back(lake.publisher, f"p{ROUNDS - 1}", id="back", steps=()))]
        _row(rows, "publish 90 days of 4 tables", publish)
        _row(rows, "roll back 90 days of 4 tables", back)
        for entries in (20, 500, 2000):
            _grow(lake, entries)
            head = [milliseconds(lake.publisher.log.head) for _ in range(ROUNDS)]
            _row(rows, f"read the head of a log of {lake.publisher.log.head().version:,} entries", head)
    Console().print(rows)


def _publish(lake: SmallLakehouse, name: str, content: dict[str, dict[date, list[int]]]) -> float:
    """Staging by delta-rs is not counted: only the protocol is."""
    request = lake.request(name, content)
    return milliseconds(lambda: lake.publisher.publish(request))


def _grow(lake: SmallLakehouse, entries: int) -> None:
    while lake.publisher.log.head().version < entries:
        lake.publish(f"g{lake.publisher.log.head().version}", {"small": {DAYS[0]: [1]}})


def _row(rows: Table, what: str, times: list[float]) -> None:
    rows.add_row(what, f"{statistics.median(times):.0f}", f"{min(times):.0f}", f"{max(times):.0f}")


if __name__ == "__main__":
    main()
