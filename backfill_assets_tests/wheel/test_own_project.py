"""The wheel in an environment of its own: a new project, and one inside what a company has in Dagster already."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from backfill_assets_tests.wheel.project import UV, Project, environment_with_the_wheel

pytestmark = [pytest.mark.long, pytest.mark.story]
DAY = "2026-01-05"
REPORT = "report_orders"
VERSION = """

@DATASET.version(EntriesOfADay, "v2", "With the tax.", DATASET.bronze)
def with_the_tax(entries: DataFrame) -> DataFrame:
    return entries_of_a_day(entries).withColumn("amount", (F.col("amount") * 105 / 100).cast("decimal(28,2)"))
"""
COMPANY = """
import dagster as dg
from backfill_assets.defs.location import backfill_definitions
from shop import datasets


class Spark(dg.ConfigurableResource):
    master: str = "theirs"


@dg.asset
def customers(spark: Spark) -> dg.MaterializeResult:
    return dg.MaterializeResult(metadata={"master": spark.master})


@dg.asset_check(asset=customers)
def customers_are_known() -> dg.AssetCheckResult:
    return dg.AssetCheckResult(passed=True)


defs = dg.Definitions.merge(
    dg.Definitions(
        assets=[customers],
        asset_checks=[customers_are_known],
        jobs=[dg.define_asset_job("nightly", [customers])],
        resources={"spark": Spark()},
        executor=dg.in_process_executor,
    ),
    backfill_definitions(datasets, executor=None),
)
"""


class Shop(Project):
    """One whose dataset is the one that ``init`` writes."""

    def land(self, day: str, name: str, *orders: tuple[str, str]) -> None:
        folder = self.folder / ".data" / "landing" / "orders" / day
        folder.mkdir(parents=True, exist_ok=True)
        moment = f"{day}T10:00:00Z"
        lines = [
            json.dumps({"entry_id": id, "happened_at": moment, "amount": amount, "sent_at": moment})
            for id, amount in orders
        ]
        (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))

    def amount(self) -> str:
        (row,) = self.backfill("show", REPORT, DAY)["sample"]
        return str(row["amount"])

    def is_planned_and_undone(self) -> None:
        """Another version of the logic: the day is staged, published when that is approved, and put back."""
        declared = self.folder / "shop" / "datasets" / "orders.py"
        declared.write_text(declared.read_text() + VERSION)
        plan = self.backfill("plan", REPORT, "--days", DAY)["plan"]
        self("backfill", "run", plan)
        assert self.amount() == "20.00"
        self("backfill", "approve", plan, "--yes")
        assert self.amount() == "21.00"
        self("backfill", "rollback", plan, "--yes")
        assert self.amount() == "20.00"


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of the environment."""
    return environment_with_the_wheel(tmp_path_factory.mktemp("fresh"))


@pytest.mark.timeout(1800)
def test_a_project_of_ones_own_is_built_published_planned_and_undone(fresh: Path, tmp_path: Path) -> None:
    """What ``init`` prints is typed as it is printed; then a second file lands."""
    project = Shop(tmp_path, fresh)
    said = project("backfill", "init", "shop").splitlines()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["shop"]
    typed = "\n".join(line for line in said if line.startswith("  ")).replace("pip install", f"{UV} pip install")
    seen = project("bash", "-euc", typed)
    assert "3 passed" in seen and "12.50" in seen
    project = Shop(tmp_path / "shop", fresh)
    project("dagster", "definitions", "validate")
    project.land(DAY, "b", ("2", "7.50"))
    project("backfill", "run", f"+{REPORT}", "--days", DAY)
    assert project.amount() == "20.00"
    project.is_planned_and_undone()


@pytest.mark.timeout(1800)
def test_a_company_keeps_its_assets_checks_jobs_and_its_resource_spark(fresh: Path, tmp_path: Path) -> None:
    """Its own asset has its own resource; the tables are built by Dagster in the same code location."""
    company = tmp_path / "company"
    company.mkdir()
    (company / "__init__.py").touch()
    (company / "definitions.py").write_text(COMPANY)
    own = '[tool.dagster]\nmodule_name = "company.definitions"\n'
    (tmp_path / "pyproject.toml").write_text(own)
    project = Shop(tmp_path, fresh)
    project(str(UV), "pip", "uninstall", "--quiet", "shop")  # the project of the test before, in the same environment
    assert "Extended: pyproject.toml" in project("backfill", "init", ".", "shop")
    assert (tmp_path / "pyproject.toml").read_text().startswith(own)
    project("backfill", "doctor")
    project("dagster", "definitions", "validate")
    project("dagster", "asset", "materialize", "--select", "customers", "-m", "company.definitions")
    project.land(DAY, "a", ("1", "12.50"), ("2", "7.50"))
    tables = " or ".join(f"key:{table}" for table in ("raw_orders", "bronze_orders", "quarantine_orders", REPORT))
    days = ("--partition-range", f"{DAY}...{DAY}")
    project("dagster", "asset", "materialize", "--select", tables, *days, "-m", "company.definitions")
    assert project.amount() == "20.00"
    project.is_planned_and_undone()
