"""How many SELECTs over two tables are answered beside publications, that none of them is torn, and what the file of
views costs a publication.

Run with ``.venv/bin/python benchmarks/selects.py`` (1,000 publications, or what eight minutes give). No JVM. A process
publishes a day of two tables with 90 days, whose sums belong together; others read meanwhile, by ``backfill sql``'s
query and by the file of views.
"""

from __future__ import annotations

import multiprocessing
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from datetime import date
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, TypeAlias
from unittest import mock

from rich.console import Console
from rich.table import Table

from backfill_assets import clock
from backfill_assets.days import DayRange
from backfill_assets.publish import readers_file
from backfill_assets.publish.log import PublicationLog
from backfill_assets.publish.readers_file import FILE, keep_readers_file
from backfill_assets.sql.moments import Moments
from backfill_assets.sql.query import select
from backfill_assets_tests.small_lakehouse import SmallLakehouse

DAYS = list(DayRange(date(2017, 3, 1), date(2017, 5, 29)))
FACT, REVENUE = "fact", "revenue"
ROUNDS = 40
STEP, MOST_SECONDS = 10, 480
Answers: TypeAlias = "multiprocessing.Queue[tuple[str, int, int, int]]"
SUMS = "SELECT (SELECT sum(id) FROM fact), (SELECT sum(id) FROM revenue)"


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def by_query(lake: SmallLakehouse) -> tuple[int, int]:
    with select(Moments(lake.storage), SUMS) as found:
        (row,) = found.rows.read_all().to_pylist()
    one, other = map(int, row.values())
    return one, other


def by_file(lake: SmallLakehouse) -> tuple[int, int]:
    import duckdb

    with duckdb.connect() as connection:
        connection.execute((Path(lake.storage.root) / FILE).read_text())
        one, other = map(int, connection.execute(SUMS).fetchall()[0])
    return one, other


def read_on(root: Path, read: Callable[[SmallLakehouse], tuple[int, int]], done: Event, answers: Answers) -> None:
    lake, count, torn, seen = SmallLakehouse(root), 0, 0, set()
    while not done.is_set():
        one, other = read(lake)
        count, torn = count + 1, torn + (other != 10 * one)
        seen.add(one)
    answers.put((read.__name__, count, torn, len(seen)))


def publish(lake: SmallLakehouse, numbers: Iterable[int]) -> list[float]:
    """CPU milliseconds of each publication; staging is not counted."""
    used = []
    for number in numbers:
        day = DAYS[number % len(DAYS)]
        request = lake.request(f"p{number}", {FACT: {day: [number]}, REVENUE: {day: [10 * number]}})
        before = cpu_seconds()
        lake.publish_request(request)
        used.append((cpu_seconds() - before) * 1000)
    return used


def cost_of_the_file(lake: SmallLakehouse) -> tuple[list[float], list[float]]:
    """CPU milliseconds of publications, and of the part of each that writes the file of views."""
    renew, used = readers_file.renew, list[float]()

    def measured(*arguments: Any) -> None:
        before = cpu_seconds()
        renew(*arguments)
        used.append((cpu_seconds() - before) * 1000)

    with mock.patch.object(readers_file, "renew", measured):
        return publish(lake, range(10, 10 + ROUNDS)), used


def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lake = SmallLakehouse(Path(folder))
        with clock.use(lake.time):
            lake.publish("first", {FACT: {day: [1] for day in DAYS}, REVENUE: {day: [10] for day in DAYS}})
            publish(lake, range(10))
            keep_readers_file(PublicationLog(lake.storage))
            whole, of_file = cost_of_the_file(lake)
            done = multiprocessing.Event()
            answers: Answers = multiprocessing.Queue()
            readers = [
                multiprocessing.Process(target=read_on, args=(Path(folder), read, done, answers), daemon=True)
                for read in (by_query, by_file)
            ]
            for reader in readers:
                reader.start()
            started = time.perf_counter()
            beside = 0
            while beside < count and time.perf_counter() - started < MOST_SECONDS:
                publish(lake, range(1_000 + beside, 1_000 + beside + STEP))
                beside += STEP
            took = time.perf_counter() - started
            done.set()
            found = [answers.get() for _ in readers]
            for reader in readers:
                reader.join()
    rows = Table("what", "figure")
    rows.add_row("CPU of a publication, median ms", f"{statistics.median(whole):.1f}")
    rows.add_row("of it, the file of views", f"{statistics.median(of_file):.1f}")
    rows.add_row(f"{beside:,} publications, s", f"{took:.0f}")
    for name, asked, torn, states in found:
        rows.add_row(f"SELECTs {name.replace('_', ' ')} beside them", f"{asked:,} = {asked / took:.1f} a second")
        rows.add_row("of them torn; states seen", f"{torn}; {states:,}")
    Console().print(rows)


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)
