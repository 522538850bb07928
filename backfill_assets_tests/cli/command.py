"""Runs ``backfill`` as a person would, on a small lakehouse."""

from __future__ import annotations

import importlib
import json
import os
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from backfill_assets.cli import main
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.rebuild import decide
from backfill_assets_tests.small_lakehouse import SmallLakehouse
from backfill_assets_tests.strategies.landed_sales import land
from backfill_assets_tests.workshop import Workshop

_COMPUTING = ("foreground", "campaigns", "verbs.diff", "verbs.raw", "verbs.run", "verbs.stream")
"""The modules of commands that ask for a builder."""


def work_with(monkeypatch: pytest.MonkeyPatch, workshop: Workshop) -> None:
    """Commands of this process compute as ``workshop`` does now, and so with the Spark session of the tests.

    Every module is imported before the first is changed:
    one that were imported later would take the changed name for its own, and keep it after the test.
    """
    for module in [importlib.import_module(f"backfill_assets.cli.{name}") for name in _COMPUTING]:
        monkeypatch.setattr(module, "foreground_builder", lambda *_: nullcontext(workshop.builder))


def built_once(build: Callable[[Backfill], object]) -> Callable[..., Backfill]:
    """A fixture: each test begins with a copy of what ``build`` has made, once for all of its module."""
    made: list[Backfill] = []

    @pytest.fixture
    def copied(backfill: Backfill, tmp_path_factory: pytest.TempPathFactory) -> Backfill:
        if not made:
            with pytest.MonkeyPatch.context() as patch:
                made.append(Backfill(tmp_path_factory.mktemp("built"), patch))
                build(made[0])
        return backfill.begin_as(made[0])

    return copied


def backfill(*words: object, exit_code: int = 0) -> Result:
    """What a person types, on the home that the environment has."""
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == exit_code, (result.output, result.exception)
    return result


def types(*words: object, exit_code: int = 0) -> Any:
    """The same, and what it answers as JSON."""
    return json.loads(backfill(*words, "--json", exit_code=exit_code).stdout)


class Backfill:
    """The command, with a home of its own; ``lakehouse`` is what it works on."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for variable in [name for name in os.environ if name.startswith(("BACKFILL_", "SPARK_REMOTE"))]:
            monkeypatch.delenv(variable)
        monkeypatch.setenv("BACKFILL_HOME", str(home))
        self.home = home
        self.lakehouse = SmallLakehouse(home / "lakehouse")

    def begin_as(self, built: Backfill) -> Backfill:
        """With a copy of what is in another's home, and the clock of its log."""
        shutil.copytree(built.home, self.home, dirs_exist_ok=True)
        self.lakehouse.minutes = built.lakehouse.minutes
        return self

    def __call__(self, *arguments: object, exit_code: int = 0) -> Result:
        return backfill(*arguments, exit_code=exit_code)

    def json(self, *arguments: object, exit_code: int = 0) -> Any:
        return types(*arguments, exit_code=exit_code)

    def ids(self, table: str) -> list[int]:
        """Those that main has in ``table``."""
        return sorted(self.lakehouse.newest(table).to_pyarrow_table().column("id").to_pylist())

    def publish_bronze(self, id: str, day: date, row: int, code: str = "v1") -> None:
        """One row, computed from one row of raw with the same number."""
        step = CATALOG.step("bronze_sales")
        inputs = decide.wanted(step, step.version(), [day], {"raw_sales": {day: f"1:{row}"}})[day].inputs
        rows = {table.name: {day: [row]} for table in step.tables}
        self.lakehouse.publish(id, rows, code=code, inputs={day: inputs})

    def land_a_sunday(self) -> None:
        """A sale of a Sunday has landed, and Friday's rates, which count for it: a plan can go on from the sources."""
        zone = self.home / "landing"
        rate = {"currency": "USD", "rate_day": "2017-03-03", "rate": "1.05", "updated_at": "2017-03-03T15:00:00Z"}
        for day, rates in (("2017-03-03", [rate]), ("2017-03-04", []), ("2017-03-05", [])):
            land(zone, "fx_rates", day, "rates", rates)
        sale = {"store_id": "1", "transaction_timestamp": "2017-03-05T10:00:00Z"}
        land(zone, "sales", "2017-03-05", "sales", [sale])

    def status_by_day(self, table: str, *arguments: object) -> dict[str, str]:
        """What ``status`` says of each day of one table."""
        return {row["day"]: row["status"] for row in self.json("status", table, *arguments)[table]["days"]}

    def statuses(self, *arguments: object) -> dict[str, dict[str, list[str]]]:
        """What ``status`` says: the ranges of days of each table, by status."""
        found: dict[str, dict[str, list[str]]] = {}
        for row in self.json("status", *arguments)["tables"]:
            found.setdefault(row["table"], {})[row["status"]] = row["which_days"]
        return found
