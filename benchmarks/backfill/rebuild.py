"""The contest: 90 days by this project, by hand, by SQLMesh and by DuckDB, from raw or from what has landed."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

from benchmarks.backfill import peers
from benchmarks.backfill.contenders import wide
from benchmarks.backfill.contest import Contender, Result, contest
from benchmarks.backfill.data import CACHE, TABLES, Data, copied, only_landed
from benchmarks.backfill.report import Goal, Line, ratios, seconds
from benchmarks.backfill.timed import Timed, timed
from benchmarks.backfill.totals import FROM_LANDED, REBUILT, delta_tables

OURS, BY_HAND, BY_DAY, SQLMESH, DUCKDB = "this project", "hand-written", "hand-written day by day", "SQLMesh", "DuckDB"
CHECKED, AUDITED = "hand-written with checks", "SQLMesh with audits"

TAKEN_IN = "taken-in"
"""What a lakehouse is called that takes landed files in, and the log of it."""


def ours(
    data: Data,
    environment: Mapping[str, str] | None = None,
    tables: Sequence[str] = TABLES,
    all_of: Sequence[str] = REBUILT,
) -> Contender:
    """``backfill run --force``: staged, judged by every gate, and published, table by table.

    ``tables`` are what is asked for, ``all_of`` those that come of it. A shared server has done the same before, as it
    has for the others: what is unchanged would not be computed.
    """

    def run(*words: str) -> Timed:
        return data.run(*tables, "--days", data.range, *words, name="ours", environment=environment)

    def force() -> Timed:
        return run("--force")

    return Contender(OURS, force, lambda: delta_tables(data.lakehouse, all_of), prepare=force if environment else run)


def ours_from_landed(data: Data) -> Contender:
    """``backfill run`` in a lakehouse that has read no file of sales yet: a new one in each round."""

    def run() -> Timed:
        fresh = copied(data, TAKEN_IN)
        return fresh.run("raw_sales", *TABLES, "--days", data.range, name=TAKEN_IN)

    return Contender(OURS, run, lambda: delta_tables(replace(data, name=TAKEN_IN).lakehouse, FROM_LANDED))


def by_hand(
    data: Data,
    environment: Mapping[str, str] | None = None,
    *,
    by_day: bool = False,
    checked: bool = False,
    landed: bool = False,
    is_wide: bool = False,
) -> Contender:
    """The same tables in plain PySpark with ``replaceWhere``; no staging, and checks only if it is ``checked``."""
    name = BY_DAY if by_day else CHECKED if checked else BY_HAND
    target = data.home / {BY_DAY: "by-day", CHECKED: "checked", BY_HAND: "by-hand"}[name]

    def run() -> Timed:
        if landed:
            shutil.rmtree(target, ignore_errors=True)
        return timed(
            [
                *(sys.executable, "-m", "benchmarks.backfill.contenders.handwritten"),
                *(str(data.lakehouse), str(target), str(data.days.first), str(data.days.last)),
                *(["--by-day"] if by_day else []),
                *(["--checked"] if checked else []),
                *(["--landed", str(data.home)] if landed else []),
                *(["--wide"] if is_wide else []),
            ],
            {"BACKFILL_HOME": str(data.home), **(environment or {})},
            CACHE / "logs" / f"{target.name}.log",
        )

    prepare = (lambda: None) if by_day or landed else run
    tables = tuple(wide.TABLES) if is_wide else FROM_LANDED if landed else REBUILT
    return Contender(name, run, lambda: delta_tables(target, tables), prepare, most_rounds=1 if by_day else 100)


def rebuild(data: Data, rounds: int) -> list[Line]:
    """Whole processes, embedded and cold: what a person who types the command waits for."""
    contenders = [ours(data), by_hand(data), by_hand(data, by_day=True), peers.sqlmesh(data), peers.duckdb(data)]
    found = contest(contenders, data.days, rounds)
    by_day = ratios("hand-written day by day / this project", found.runs[BY_DAY], found.runs[OURS])
    return [*_beside(found, f"{data.range} from raw", Goal(1.15), Goal(0.9)), *by_day]


def landed(data: Data, rounds: int) -> list[Line]:
    """The same from landed lines into empty tables: raw, which reads and places each line, is the dearest of them."""
    start = only_landed(data)
    peers_of_it = [by_hand(start, landed=True), peers.sqlmesh(start, landed=True), peers.duckdb(start, landed=True)]
    found = contest([ours_from_landed(start), *peers_of_it], data.days, rounds)
    shutil.rmtree(replace(start, name=TAKEN_IN).home)
    return _beside(found, f"{data.range} from landed files")


def skewed(data: Data, rounds: int) -> list[Line]:
    """From raw, where one day has ten times the rows of another."""
    contenders = [ours(data), by_hand(data), peers.sqlmesh(data), peers.duckdb(data)]
    return _beside(contest(contenders, data.days, rounds), f"{data.range} from raw, one day with ten times the rows")


def many_columns(data: Data, rounds: int) -> list[Line]:
    """From raw, where a row has 40 columns: bronze and what is set aside of it."""
    own = ours(data, tables=[wide.BRONZE_TABLE], all_of=list(wide.TABLES))
    others = [by_hand(data, is_wide=True), peers.sqlmesh(data, is_wide=True), peers.duckdb(data, is_wide=True)]
    found = contest([own, *others], data.days, rounds)
    return _beside(found, f"{data.range} from raw, {wide.COLUMNS} columns")


def _beside(found: Result, what: str, by_hand: Goal | None = None, sqlmesh: Goal | None = None) -> list[Line]:
    """The seconds of all, and this project's beside those of each other one."""
    runs = found.runs
    lines = [seconds(f"{name}: {what}", timed) for name, timed in runs.items()]
    for name, goal in ((BY_HAND, by_hand), (SQLMESH, sqlmesh), (DUCKDB, None)):
        if name in runs:
            lines += ratios(f"this project / {name}: {what}", runs[OURS], runs[name], goal)
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
