"""A published transform is edited in place, in a project that ``backfill init`` has written: nothing of it is unseen."""

from __future__ import annotations

import importlib
import json
import linecache
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from backfill_assets.cli import main
from backfill_assets.model import catalog, source_code
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.stories.conftest import TypeOn
from backfill_assets_tests.strategies.landed_sales import land
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGE, REPORT = "corner_shop", "report_orders"
DAYS = ("2026-01-01", "2026-01-02")
RANGE = "2026-01-01..2026-01-02"
SUM = 'F.sum("amount").alias("amount")'


class Shop:
    """The project: its code is edited, and each command reads it anew, as a process of its own does."""

    def __init__(self, folder: Path, backfill: Backfill) -> None:
        self.module = folder / PACKAGE / "datasets" / "orders.py"
        self.backfill = backfill
        self.written = self.module.read_text()

    def edit(self, before: str = "", after: str = "") -> None:
        """Change what was written by ``init``, and nothing else."""
        assert before in self.written
        self.module.write_text(self.written.replace(before, after, 1))
        forget_project()

    def json(self, *words: str) -> Any:
        """What a command answers, however it ends."""
        return json.loads(CliRunner().invoke(main, [*words, "--json"]).stdout)

    def run(self, *more: str, exit_code: int = 0) -> Any:
        return self.backfill("run", REPORT, "--upstream", "--days", RANGE, *more, exit_code=exit_code)

    def says(self) -> Sequence[str]:
        """Who says something of an edit."""
        found = {
            "status": bool(self.json("status").get("logic_edited")),
            "doctor": self.json("doctor")["logic"]["verdict"] != "ok",
            "check": any("another logic" in each for each in self.check()["problems"]),
            "run": bool(self.json("run", REPORT, "--days", RANGE, "--dry-run").get("notes")),
        }
        return [who for who, says in found.items() if says]

    def check(self) -> Any:
        return self.json("dataset", "check", "orders")


def forget_project() -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
        del sys.modules[name]
    for cached in (catalog.load, source_code.module_source):
        cached.cache_clear()
    linecache.clearcache()
    importlib.invalidate_caches()


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession, type_on: TypeOn) -> Iterator[Shop]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr("backfill_assets_tests.workshop.declared", lambda: catalog.load(f"{PACKAGE}.datasets"))
    with pytest.MonkeyPatch.context() as patch:
        assert CliRunner().invoke(main, ["init", PACKAGE]).exit_code == 0
        backfill = type_on(Workshop(tmp_path / "home", lambda: spark))
        patch.setenv("BACKFILL_DATASETS", f"{PACKAGE}.datasets")
        forget_project()
        for day in DAYS:
            entry = {
                "entry_id": day,
                "happened_at": f"{day}T10:00:00Z",
                "amount": "7.50",
                "sent_at": f"{day}T11:00:00Z",
            }
            land(tmp_path / "home" / "landing", "orders", day, "a", [entry, {**entry, "entry_id": "b"}])
        yield Shop(tmp_path, backfill)
    forget_project()


def test_it(shop: Shop) -> None:
    print(shop.run().stdout)
    print(shop.backfill("status").stdout)
    shop.edit(SUM, SUM.replace('"amount").a', '"amount") * 2).a').replace("F.sum", "(F.sum"))
    for words in (
        ["status"],
        ["status", "--json"],
        ["doctor"],
        ["doctor", "--json"],
        ["dataset", "check", "orders"],
        ["run", REPORT, "--days", RANGE],
        ["run", REPORT, "--days", RANGE, "--dry-run", "--json"],
        ["run", REPORT, "--days", RANGE, "--same-rows"],
    ):
        print(words, CliRunner().invoke(main, words).output)
    shop.edit(SUM, '((F.sum("amount") * 2) / 2).cast("decimal(28,2)").alias("amount")')
    for words in (
        ["status"],
        ["run", REPORT, "--days", RANGE, "--same-rows"],
        ["run", REPORT, "--days", RANGE, "--same-rows", "--json"],
        ["status"],
    ):
        print(words, CliRunner().invoke(main, words).output)
