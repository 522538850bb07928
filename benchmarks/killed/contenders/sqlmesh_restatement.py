"""SQLMesh on PostgreSQL, which also keeps its state: ``plan`` restates the fact, and with it the reports that read it.

Readers take one transaction over the views that it publishes. Runs in the environment of ``peers.txt``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.killed.contract import FIRST, LAST, ROWS, TABLES, Held, commits, held, main, replaces

_MODEL = """MODEL (
  name shop.{name},
  kind INCREMENTAL_BY_TIME_RANGE (time_column day),
  start '{first}', end '{last}', cron '@daily'
);
SELECT day, tag FROM {source} WHERE day BETWEEN @start_date AND @end_date
"""
_SOURCES = {"fact": "landed.sales", "daily_report": "shop.fact", "store_report": "shop.fact"}


class SqlMesh:
    """``home`` is also where PostgreSQL listens, at a socket."""

    def __init__(self, home: Path) -> None:
        self.home, self.project = home, home / "project"
        psycopg2 = import_module("psycopg2")
        self.db: Any = psycopg2.connect(host=str(home), user="postgres", dbname="postgres")
        self.db.set_session(isolation_level="REPEATABLE READ", autocommit=False)

    def set_up(self) -> None:
        self._write_project()
        self._execute("CREATE SCHEMA landed")
        days = f"generate_series(date '{FIRST}', date '{LAST}', '1 day') d, generate_series(1, {ROWS})"
        self._execute(f"CREATE TABLE landed.sales AS SELECT d::date AS day, 'setup'::text AS tag FROM {days}")  # noqa: S608
        self._context().plan(auto_apply=True, no_prompts=True, skip_tests=True)

    def reads(self) -> Mapping[str, Callable[[], Held]]:
        return {"pinned": self._read}

    def rewrite(self, tag: str) -> None:
        """The source has other rows at once; then the plan is made and carried out."""
        context = self._context()
        self._execute(f"UPDATE landed.sales SET tag = '{tag}'")  # noqa: S608 our own words
        replaces(self._read())
        commits()
        days = {"start": str(FIRST), "end": str(LAST)}
        context.plan(restate_models=["shop.fact"], auto_apply=True, no_prompts=True, skip_tests=True, **days)

    def routine(self) -> None:
        """``sqlmesh run``, as its scheduler calls it."""
        self._context().run()

    def litter(self) -> int:
        """Rows are PostgreSQL's."""
        return 0

    def _read(self) -> Held:
        with self.db, self.db.cursor() as cursor:
            counted = []
            for table in TABLES:
                cursor.execute(f"SELECT day, tag, count(*) FROM shop.{table} GROUP BY 1, 2")  # noqa: S608
                counted += [(table, *row) for row in cursor.fetchall()]
        return held(counted)

    def _execute(self, statement: str) -> None:
        with self.db, self.db.cursor() as cursor:
            cursor.execute(statement)

    def _context(self) -> Any:
        return import_module("sqlmesh").Context(paths=[str(self.project)])

    def _write_project(self) -> None:
        (self.project / "models").mkdir(parents=True)
        where = {"type": "postgres", "host": str(self.home), "user": "postgres", "password": "", "port": 5432}
        connection = {**where, "database": "postgres"}
        config = {
            "gateways": {"shop": {"connection": connection, "state_connection": connection}},
            "model_defaults": {"dialect": "postgres", "start": str(FIRST)},
            "disable_anonymized_analytics": True,
        }
        (self.project / "config.yaml").write_text(json.dumps(config))
        for name, source in _SOURCES.items():
            text = _MODEL.format(name=name, source=source, first=FIRST, last=LAST)
            (self.project / "models" / f"{name}.sql").write_text(text)


if __name__ == "__main__":
    main(SqlMesh)
