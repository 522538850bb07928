"""What starts no JVM: a run with nothing to do, publishing and rolling back, statuses of ten years, Dagster's share."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec

from backfill_assets import clock
from backfill_assets.campaign.rollback import roll_back
from backfill_assets_tests.small_lakehouse import SmallLakehouse
from benchmarks.backfill import long_history
from benchmarks.backfill.data import CACHE, TABLES, Data
from benchmarks.backfill.report import Goal, Line, figure, seconds
from benchmarks.backfill.timed import Timed, timed

MANY_DAYS = 3_000
_TABLES = ("raw", "bronze", "fact", "report")
_Asked = ParamSpec("_Asked")


def unchanged(data: Data, rounds: int) -> list[Line]:
    """``backfill run`` over days that are published from just these inputs: the whole process."""
    data.run(*TABLES, "--days", data.range, name="unchanged-first")
    runs = [data.run(*TABLES, "--days", data.range, name="unchanged") for _ in range(rounds)]
    return [seconds(f"backfill run, nothing changed, {len(data.days)} days", runs, Goal(3), note=_jvm(runs))]


def publishing(data: Data, rounds: int) -> list[Line]:
    """Publishing and rolling back all days of four tables; then the same with ten times the rows in every file."""
    return [line for rows in (100, 1000) for line in _publishing(data, rounds, rows)]


def _publishing(data: Data, rounds: int, rows: int) -> list[Line]:
    content = {table: {day: range(rows) for day in data.days} for table in _TABLES}
    publish, back = [], []
    with tempfile.TemporaryDirectory() as folder:
        lake = SmallLakehouse(Path(folder))
        lake.publish("before", content)
        with clock.use(lake.time):
            for number in range(rounds):
                request = lake.request(f"p{number}", content)
                publish.append(_elapsed(lake.publisher.publish, request))
                back.append(_elapsed(roll_back, lake.publisher, f"p{number}", id=f"r{number}", steps=()))
    what = f"{len(data.days)} days of 4 tables, {rows:,} rows a day"
    return [figure(f"publish {what}", publish, "s", Goal(1)), figure(f"roll back {what}", back, "s", Goal(1))]


def status(_: Data, rounds: int) -> list[Line]:
    """``backfill status`` over generated logs of 20 tables and 73,000 days: the whole process."""
    with tempfile.TemporaryDirectory() as folder:
        module = "benchmarks.backfill.ten_years"
        timed([sys.executable, "-m", module, "write", folder], {}, CACHE / "logs" / "ten-years.log")
        command = [sys.executable, "-m", module, "status", folder]
        runs = [timed(command, {"BACKFILL_LAKEHOUSE": folder}, CACHE / "logs" / "status.log") for _ in range(rounds)]
    return [seconds("backfill status, 10 years x 20 tables", runs, Goal(2), note=_jvm(runs))]


def memory(data: Data, rounds: int) -> list[Line]:
    """The greatest memory of what needs no JVM, over the days of ``data`` and over 3,000: each a process of its own."""
    lines = []
    for what in long_history.COMMANDS:
        few, many = ([_over_history(what, days) for _ in range(rounds)] for days in (len(data.days), MANY_DAYS))
        ratio = [round(b.peak_mib / a.peak_mib, 3) for a, b in zip(few, many, strict=True)]
        note = f"{few[0].peak_mib} and {many[0].peak_mib} MiB; {few[0].seconds:.1f} and {many[0].seconds:.1f} s"
        days = f"{MANY_DAYS:,} days / {len(data.days)}"
        lines.append(figure(f"{what} of 4 tables, {days}: memory", ratio, "ratio", Goal(1.1), note))
    return lines


def _over_history(what: str, days: int) -> Timed:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.backfill.long_history"]
        log, environment = CACHE / "logs" / f"long-history-{what}.log", {"BACKFILL_LAKEHOUSE": folder}
        timed([*command, "write", folder, str(days)], {}, log)
        return timed([*command, what, folder, str(days)], environment, log)


def dagster_share(data: Data, rounds: int) -> list[Line]:
    """What Dagster adds to a run of four tables: its steps, materializations and gates, over a builder without work."""
    days = (str(data.days.first), str(data.days.last))
    command = [sys.executable, "-m", "benchmarks.backfill.dagster_events", *days]
    runs = [timed(command, {}, CACHE / "logs" / "dagster.log") for _ in range(rounds)]
    told = [json.loads(run.output.splitlines()[-1]) for run in runs]
    cpu = statistics.median(each["cpu_seconds"] for each in told)
    what = f"Dagster's own share, {len(data.days)} days x 4 tables"
    return [figure(what, [each["seconds"] for each in told], "s", Goal(12), f"CPU {cpu:.1f} s")]


def _jvm(runs: list[Timed]) -> str:
    return "a JVM was started" if any(run.jvm for run in runs) else "no JVM"


def _elapsed(work: Callable[_Asked, object], *args: _Asked.args, **named: _Asked.kwargs) -> float:
    started = time.perf_counter()
    work(*args, **named)
    return round(time.perf_counter() - started, 3)
