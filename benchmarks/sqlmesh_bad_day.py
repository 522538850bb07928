"""One bad day of ninety on SQLMesh: what readers see, what the reports say, and what SQLMesh says afterwards.

Run with the peers' interpreter, ``.cache/bench/venv/bin/python benchmarks/sqlmesh_bad_day.py``; ``--batch-size 90``
restates all days at once. SQLMesh's engine is DuckDB here: which intervals it restates, where it audits and what it
remembers is decided above the engine. Every step but the making of the source is SQLMesh's own command.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from datetime import date, timedelta
from pathlib import Path

import duckdb

FIRST, DAYS = date(2017, 3, 1), 90
LAST = FIRST + timedelta(days=DAYS - 1)
BAD_DAY = date(2017, 4, 10)
REPORTS = {
    "daily_revenue": "SELECT day, sum(amount) AS amount FROM shop.fact WHERE {days} GROUP BY day",
    "store_revenue": "SELECT day, store, sum(amount) AS amount FROM shop.fact WHERE {days} GROUP BY day, store",
    "best_sale": "SELECT day, max(amount) AS amount FROM shop.fact WHERE {days} GROUP BY day",
}
_MODEL = """MODEL (
  name shop.{name},
  kind INCREMENTAL_BY_TIME_RANGE (time_column day, batch_size {batch}),
  start '{first}', end '{last}', cron '@daily'{audits}
);
{query}
"""
_DAYS = "day BETWEEN @start_date AND @end_date"


def write_project(project: Path, batch: int) -> None:
    """A fact with an audit that stops a negative amount, and three reports that read it."""
    (project / "models").mkdir()
    connection = {"type": "duckdb", "database": str(project / "warehouse.db"), "concurrent_tasks": 1}
    state = {"type": "duckdb", "database": str(project / "state.db")}
    config = {
        "gateways": {"shop": {"connection": connection, "state_connection": state}},
        "model_defaults": {"dialect": "duckdb", "start": str(FIRST)},
        "disable_anonymized_analytics": True,
    }
    (project / "config.yaml").write_text(json.dumps(config))
    fact = f"SELECT day, store, amount FROM landed.sales WHERE {_DAYS}"  # noqa: S608 our own words
    _write_model(project, "fact", fact, batch, ",\n  audits (accepted_range(column := amount, min_v := 0))")
    for name, query in REPORTS.items():
        _write_model(project, name, query.format(days=_DAYS), batch)


def _write_model(project: Path, name: str, query: str, batch: int, audits: str = "") -> None:
    text = _MODEL.format(name=name, batch=batch, first=FIRST, last=LAST, audits=audits, query=query)
    (project / "models" / f"{name}.sql").write_text(text)


def land(project: Path, amount: int, *, bad: bool) -> None:
    """Two sales a day of ``amount``; on the bad day also one that must not be published."""
    with duckdb.connect(str(project / "warehouse.db")) as db:
        db.execute("CREATE SCHEMA IF NOT EXISTS landed")
        db.execute("CREATE OR REPLACE TABLE landed.sales (day DATE, store VARCHAR, amount BIGINT)")
        rows = [(FIRST + timedelta(days=n), store, amount) for n in range(DAYS) for store in ("a", "b")]
        db.executemany("INSERT INTO landed.sales VALUES (?, ?, ?)", rows + ([(BAD_DAY, "a", -1)] if bad else []))


def sqlmesh(project: Path, *words: str) -> tuple[int, str]:
    """The exit code of a command of SQLMesh, and what it said."""
    command = [str(Path(sys.executable).with_name("sqlmesh")), "-p", str(project), *words]
    environment = {**os.environ, "SQLMESH__DISABLE_ANONYMIZED_ANALYTICS": "true", "NO_COLOR": "1"}
    done = subprocess.run(command, env=environment, cwd=project, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def fact_days(project: Path, old: int, new: int) -> dict[str, list[date]]:
    """The days of the fact by what a reader finds on them."""
    with duckdb.connect(str(project / "warehouse.db"), read_only=True) as db:
        found = db.execute(
            "SELECT day, list(amount ORDER BY amount) FROM shop.fact GROUP BY day ORDER BY day"
        ).fetchall()
    named = {(old, old): "old rows", (new, new): "new rows"}
    days: dict[str, list[date]] = {}
    for day, amounts in found:
        days.setdefault(named.get(tuple(amounts), "the row that failed its audit"), []).append(day)
    return days


def disagreeing(project: Path) -> dict[str, int]:
    """On how many days each report differs from what its own query gives on the fact as it is."""
    with duckdb.connect(str(project / "warehouse.db"), read_only=True) as db:
        return {
            name: db.execute(
                f"SELECT count(DISTINCT day) FROM ((SELECT * FROM shop.{name} EXCEPT ({query.format(days='true')})) "  # noqa: S608
                f"UNION ALL (({query.format(days='true')}) EXCEPT SELECT * FROM shop.{name}))"
            ).fetchall()[0][0]
            for name, query in REPORTS.items()
        }


def ranges(days: list[date]) -> str:
    """Days as ``A..B``, when they follow each other."""
    parts: list[list[date]] = []
    for day in days:
        if parts and day - parts[-1][-1] == timedelta(days=1):
            parts[-1].append(day)
        else:
            parts.append([day])
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}..{part[-1]} ({len(part)})" for part in parts)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=1)
    batch = parser.parse_args().batch_size
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        write_project(project, batch)
        land(project, 10, bad=False)
        code, said = sqlmesh(project, "plan", "--auto-apply", "--no-prompts", "--skip-tests")
        if code:
            raise SystemExit(said)
        land(project, 11, bad=True)
        asked = ("--restate-model", "shop.fact", "--start", str(FIRST), "--end", str(LAST))
        code, said = sqlmesh(project, "plan", "--auto-apply", "--no-prompts", "--skip-tests", *asked)
        print(f"90 days restated, batch_size {batch}, the bad one is {BAD_DAY}: exit code {code}")
        print(_indented(said, "FAILED", "❌", "ailed", "kipped", "Error"))
        for what, days in fact_days(project, 10, 11).items():
            print(f"  shop.fact shows {what} on {ranges(days)}")
        print(f"  days on which a report disagrees with the fact: {disagreeing(project)}")
        for words in (("plan", "--auto-apply", "--no-prompts", "--skip-tests"), ("run",)):
            code, said = sqlmesh(project, *words)
            print(f"sqlmesh {words[0]}, afterwards: exit code {code}\n{_indented(said)}")
        for what, days in fact_days(project, 10, 11).items():
            print(f"  shop.fact shows {what} on {ranges(days)}")
        print(f"  days on which a report disagrees with the fact: {disagreeing(project)}")


def _indented(said: str, *words: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    chosen = [line for line in lines if not words or any(word in line for word in words)]
    return "\n".join(f"    {line[:160]}" for line in chosen[:12])


if __name__ == "__main__":
    main()
