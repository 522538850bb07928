"""The contest: 90 days recomputed from raw by this project, by hand, by SQLMesh and by DuckDB."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from benchmarks.backfill import peers
from benchmarks.backfill.contest import Contender, Result, contest
from benchmarks.backfill.data import CACHE, TABLES, Data
from benchmarks.backfill.report import Goal, Line, ratios, seconds
from benchmarks.backfill.timed import Timed, timed
from benchmarks.backfill.totals import delta_tables

OURS, BY_HAND, BY_DAY, SQLMESH, DUCKDB = "this project", "hand-written", "hand-written day by day", "SQLMesh", "DuckDB"
CHECKED, AUDITED = "hand-written with checks", "SQLMesh with audits"


def ours(data: Data, environment: Mapping[str, str] | None = None) -> Contender:
    """``backfill run --force``: staged, judged by every gate, and published, table by table.

    A shared server has done the same before, as it has for the others: what is unchanged would not be computed.
    """

    def run(*words: str) -> Timed:
        return data.run(*TABLES, "--days", data.range, *words, name="ours", environment=environment)

    def force() -> Timed:
        return run("--force")

    return Contender(OURS, force, lambda: delta_tables(data.lakehouse), prepare=force if environment else run)


def by_hand(
    data: Data, environment: Mapping[str, str] | None = None, *, by_day: bool = False, checked: bool = False
) -> Contender:
    """The same four tables in plain PySpark with ``replaceWhere``; no staging, and checks only if it is ``checked``."""
    name = BY_DAY if by_day else CHECKED if checked else BY_HAND
    target = data.home / {BY_DAY: "by-day", CHECKED: "checked", BY_HAND: "by-hand"}[name]

    def run() -> Timed:
        return timed(
            [
                *(sys.executable, "-m", "benchmarks.backfill.contenders.handwritten"),
                *(str(data.lakehouse), str(target), str(data.days.first), str(data.days.last)),
                *(["--by-day"] if by_day else []),
                *(["--checked"] if checked else []),
            ],
            {"BACKFILL_HOME": str(data.home), **(environment or {})},
            CACHE / "logs" / f"{target.name}.log",
        )

    prepare = (lambda: None) if by_day else run
    return Contender(name, run, lambda: delta_tables(target), prepare, most_rounds=1 if by_day else 100)


def rebuild(data: Data, rounds: int) -> list[Line]:
    """Whole processes, embedded and cold: what a person who types the command waits for."""
    contenders = [ours(data), by_hand(data), by_hand(data, by_day=True), peers.sqlmesh(data), peers.duckdb(data)]
    found = contest(contenders, data.days, rounds)
    runs = found.runs
    lines = [seconds(f"{name}: {data.range} from raw", timed) for name, timed in runs.items()]
    lines += ratios("staged, judged, published / hand-written", runs[OURS], runs[BY_HAND], Goal(1.15))
    lines += ratios("hand-written day by day / this project", runs[BY_DAY], runs[OURS], Goal(6, at_least=True))
    if SQLMESH in runs:
        lines += ratios("this project, cold / SQLMesh", runs[OURS], runs[SQLMESH], Goal(0.9))
    if DUCKDB in runs:
        lines += ratios("this project / DuckDB", runs[OURS], runs[DUCKDB])
    return [*lines, *_absent(found)]


def with_checks(data: Data, rounds: int) -> list[Line]:
    """Beside those that check what they write, too: by the queries that an engineer would write."""
    contenders = [ours(data), by_hand(data, checked=True), peers.sqlmesh(data, audited=True)]
    found = contest(contenders, data.days, rounds)
    runs = found.runs
    lines = [seconds(f"{name}: {data.range} from raw, checked", timed) for name, timed in runs.items()]
    if CHECKED in runs:
        lines += ratios("this project / hand-written with the same checks", runs[OURS], runs[CHECKED], Goal(0.75))
    if AUDITED in runs:
        lines += ratios("this project / SQLMesh with the same audits", runs[OURS], runs[AUDITED], Goal(0.6))
    return [*lines, *_absent(found)]


def more_rows(data: Data, rounds: int) -> list[Line]:
    """The price of safety where a day has four times the rows."""
    runs = contest([ours(data), by_hand(data)], data.days, rounds).runs
    what = f"staged, judged, published / hand-written, {data.rows_per_day:,} rows a day"
    return ratios(what, runs[OURS], runs[BY_HAND], Goal(1.05))


def _absent(found: Result) -> list[Line]:
    return [Line(f"{name} could not be run", 0, "", note=why.splitlines()[-1]) for name, why in found.absent.items()]
