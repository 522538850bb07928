"""A published transform is edited in place, in a project that ``backfill init`` has written: it is seen everywhere."""

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

DOUBLED = '(F.sum("amount") * 2).cast("decimal(28,2)").alias("amount")'
OTHERWISE = '((F.sum("amount") * 2) / 2).cast("decimal(28,2)").alias("amount")'
UNHARMFUL = (
    ("(entries: DataFrame) -> DataFrame:\n    return entries.", "(rows: DataFrame) -> DataFrame:\n    return rows."),
    ("return rows.groupBy", "# By day.\n    return rows.groupBy"),
    (f", {SUM})", f",\n        {SUM},\n    )"),
    ("from pyspark.sql import functions as F", "import pyspark.sql.functions as F"),
)


class Shop:
    """The project: its code is edited, and each command reads it anew, as a process of its own does."""

    def __init__(self, folder: Path, backfill: Backfill) -> None:
        self.module = folder / PACKAGE / "datasets" / "orders.py"
        self.backfill = backfill
        self.written = self.module.read_text()

    def edit(self, *changes: tuple[str, str]) -> None:
        """Change what was written by ``init``, and nothing else."""
        text = self.written
        for before, after in changes:
            assert before in text
            text = text.replace(before, after, 1)
        self.module.write_text(text)
        forget_project()

    def json(self, *words: str) -> Any:
        """What a command answers, however it ends."""
        return json.loads(CliRunner().invoke(main, [*words, "--json"]).stdout)

    def run(self, *more: str, exit_code: int = 0) -> Any:
        return self.backfill("run", f"+{REPORT}", "--days", RANGE, *more, exit_code=exit_code)

    def says(self) -> Sequence[str]:
        """Who says something of an edit."""
        found = {
            "status": "another logic" in str(self.json("status")),
            "doctor": self.json("doctor")["logic"]["verdict"] != "ok",
            "check": any("another logic" in each for each in self.check()["problems"]),
            "run": "another logic" in str(self.json("run", REPORT, "--days", RANGE, "--dry-run")),
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
        assert CliRunner().invoke(main, ["init", ".", PACKAGE]).exit_code == 0
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


def test_an_edit_in_place_is_said_everywhere_and_a_run_that_would_mix_is_refused(shop: Shop) -> None:
    """Readers never see a day of the other logic; a proof on published days, or a new version, goes on."""
    shop.run()
    assert shop.check()["problems"] == []
    shop.edit(*UNHARMFUL)
    assert shop.says() == []
    shop.edit((SUM, DOUBLED))
    assert shop.says() == ["status", "doctor", "check", "run"]
    assert shop.backfill.statuses()[REPORT] == {"logic edited": [RANGE]}
    (line,) = shop.json("status")["notes"]
    assert line["text"].startswith(f"{REPORT} {RANGE} (2 days): made with another logic than v1 has now")
    assert "(entries_of_a_day changed)" in line["text"] and "declare the change as a new version" in line["do"]
    newest = shop.backfill.lakehouse.publisher.log.head().version
    refused = shop.run(exit_code=1).stderr
    assert "Days of both would have one version; nothing was built." in refused and "--same-rows" in refused
    unequal = shop.run("--same-rows", exit_code=1).stderr
    assert f"v1 gives other rows than it did; nothing was published:\n{REPORT} {DAYS[0]}: " in unequal
    assert "total_amount 15.00 -> 30.00" in unequal
    assert shop.backfill.lakehouse.publisher.log.head().version == newest
    shop.edit((SUM, OTHERWISE))
    (proof,) = shop.json("run", REPORT, "--days", DAYS[0], "--same-rows")["same_rows"]
    assert proof == f"{REPORT}: v1 gives the same rows as it did (1 rows of {DAYS[0]})"
    assert shop.says() == [] and shop.backfill.statuses()[REPORT] == {"fresh": [RANGE]}
    shop.edit((SUM, SUM.replace('"amount"', 'F.expr("amount + 0 * rand()")', 1)))
    asked = [each for each in shop.check()["problems"] if "rand() in SQL" in each]
    assert len(asked) == 1 and asked[0].startswith(f"{PACKAGE}/datasets/orders.py:")
