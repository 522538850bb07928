"""Amounts that change places, rows that are lost or doubled on the way: reconciliation notices, nothing is published.

Sums of amounts would not notice a swap, and counts notice neither: every row carries a hash of its content from raw on.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from inspect import unwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from backfill_assets.days import DayRange
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.examples.sample.synthetic import SyntheticSpec
from backfill_assets.landing import landing_files
from backfill_assets.landing.raw_query import raw_rows_to_write
from backfill_assets.model.declaration import Step
from backfill_assets.rebuild.outcome import DaysFailed, RunInfo
from backfill_assets.spark.computed import computed
from backfill_assets_tests.strategies.landed_sales import land, sale
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from pyspark.sql import SparkSession

DAYS = DayRange.parse("2017-03-02..2017-03-03")
NEXT = DAYS.last + timedelta(days=1)
SPEC = SyntheticSpec(days=DAYS, rows_per_day=60, seed=7, defects={"exact_duplicate": 4, "malformed_amount": 4})
Damage = Callable[[DataFrame], DataFrame]


def swapped(rows: DataFrame) -> DataFrame:
    """Half of the rows of each day give their amount to their neighbour, and get its."""
    order = Window.partitionBy("day").orderBy("basket_id", "product_id", "source_line")
    number = F.row_number().over(order) % 4
    amount = F.col("sales_value")
    partner = F.when(number == 1, F.lead(amount).over(order)).when(number == 2, F.lag(amount).over(order))
    return rows.select(*(F.coalesce(partner, amount).alias(n) if n == "sales_value" else n for n in rows.columns))


def swapped_by_the_query(rows: ir.Table) -> ir.Table:
    """The same of landed lines, each of which has the amount of the one before it, and the first that of the last."""
    import ibis

    around = {"group_by": "day", "order_by": ["basket_id", "product_id", "source_line"]}
    before, last = (rows.sales_value.lag().over(**around), rows.sales_value.last().over(group_by="day"))
    return rows.mutate(sales_value=ibis.coalesce(before, last))


def swapped_facts(rows: DataFrame) -> DataFrame:
    return swapped(rows.withColumn("source_line", F.lit(1))).drop("source_line")


def one_lost(rows: DataFrame) -> DataFrame:
    return _numbered(rows).where("number > 1").drop("number")


def one_doubled(rows: DataFrame) -> DataFrame:
    once = _numbered(rows)
    return once.unionByName(once.where("number = 1")).drop("number")


def one_traded(rows: DataFrame) -> DataFrame:
    """One row is lost and another is there twice: as many as before."""
    numbered = _numbered(rows)
    return numbered.where("number != 2").unionByName(numbered.where("number = 1")).drop("number")


def _numbered(rows: DataFrame) -> DataFrame:
    return rows.withColumn("number", F.row_number().over(Window.partitionBy("day").orderBy("transaction_id")))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """A home in which rates, raw and bronze are published."""
    home = tmp_path_factory.mktemp("sound") / "home"
    workshop = Workshop(home, lambda: spark)
    workshop.land_synthetic(SPEC)
    workshop.build_rates(DAYS)
    for table in ("raw_sales", "bronze_sales"):
        workshop.build(table, DAYS)
    return home


@pytest.fixture
def workshop(sound: Path, tmp_path: Path, spark: SparkSession) -> Workshop:
    return Workshop(shutil.copytree(sound, tmp_path / "home"), lambda: spark)


@dataclass(frozen=True)
class Damaged:
    """The transform of a step, and what spoils the rows it gives to its first table."""

    step: Step
    damage: Damage

    def transform(self, inputs: Mapping[str, DataFrame]) -> Mapping[str, DataFrame]:
        made = dict(computed(self.step.version(), inputs))
        made[self.step.name] = self.damage(made[self.step.name]).repartition("day")
        return made


def build_damaged(workshop: Workshop, table: str, damage: Damage, *, name: str = "") -> None:
    """Build ``table`` by its current version with rows spoiled in it; as another version, if it has a ``name``."""
    step = CATALOG.step(table)
    version = replace(step.version(), name=name or step.current, transform=Damaged(step, damage).transform)
    spoiled = replace(step, versions=(version,), current=version.name)
    workshop.builder.build(spoiled, list(DAYS), run=RunInfo("test-run"))


@pytest.mark.parametrize(
    ("table", "damage", "rules"),
    [
        ("bronze_sales", swapped, {"content_intact", "everything_accounted_for"}),
        ("bronze_sales", one_lost, {"everything_accounted_for"}),
        ("bronze_sales", one_doubled, {"everything_accounted_for", "keys_unique"}),
        ("fact_sales_transactions", swapped_facts, {"everything_published", "converted_exactly_amount_eur"}),
        ("fact_sales_transactions", one_traded, {"everything_published", "keys_unique"}),
    ],
)
def test_damage_after_raw_is_noticed(workshop: Workshop, table: str, damage: Damage, rules: set[str]) -> None:
    """On every day, by just the rules that are for it; and what is published stands as it stood."""
    before = workshop.contents()
    with pytest.raises(DaysFailed) as failed:
        build_damaged(workshop, table, damage, name="spoiled")
    found = {day.day: {r.rule for r in day.rules if not r.passed} for day in failed.value.failed if day.table == table}
    assert found == dict.fromkeys(DAYS, rules)
    assert workshop.contents() == before


def test_what_was_held_back_is_never_adopted(workshop: Workshop) -> None:
    """The same step without the damage has the same input fingerprint: it must compute the days, not find them."""
    with pytest.raises(DaysFailed):
        build_damaged(workshop, "fact_sales_transactions", swapped_facts)
    asked = workshop.sessions
    result = workshop.build("fact_sales_transactions", DAYS)
    assert workshop.sessions > asked
    assert all(rule.passed for day in result.days for rule in day.rules)


def test_a_swap_while_raw_is_taken_in_is_noticed(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Raw's own gate recomputes each hash from the text that is staged; the files are then taken in as if untouched."""
    workshop = Workshop(tmp_path, lambda: spark)
    workshop.land_synthetic(SPEC)
    with monkeypatch.context() as patch:
        spoiled = lambda *given: swapped_by_the_query(raw_rows_to_write(*given))  # noqa: E731
        patch.setattr(landing_files, "raw_rows_to_write", spoiled)
        patch.setattr(landing_files, "_query", unwrap(landing_files._query))
        with pytest.raises(DaysFailed) as failed:
            workshop.build("raw_sales", DAYS)
    assert {rule.rule for day in failed.value.failed for rule in day.rules if not rule.passed} == {"content_intact"}
    assert {day.day for day in failed.value.failed} == set(DAYS)
    assert workshop.states("raw_sales") == {}
    assert sum(day.rows for day in workshop.build("raw_sales", DAYS).days) == 124


def test_a_swap_in_published_raw_is_noticed_when_it_is_read(workshop: Workshop, spark: SparkSession) -> None:
    """A foreign writer rewrites raw past the protocol, hashes and all columns as they were but the amounts.

    Builds read what was published and do not see it; once raw is published on top of it, bronze holds those days back.
    """
    rows = swapped(spark.read.format("delta").load(str(workshop.settings.lakehouse / "raw_sales")))
    rows.localCheckpoint().write.format("delta").mode("overwrite").save(str(workshop.settings.lakehouse / "raw_sales"))
    before = workshop.contents()
    assert all(day.reused for day in workshop.build("bronze_sales", DAYS).days)

    land(workshop.settings.landing, "sales", str(NEXT), "late", [sale(transaction_timestamp=f"{NEXT}T10:00:00Z")])
    workshop.build("raw_sales", [NEXT])
    with pytest.raises(DaysFailed) as failed:
        workshop.build("bronze_sales", DAYS)
    assert "content_intact" in {rule.rule for day in failed.value.failed for rule in day.rules if not rule.passed}
    assert workshop.contents()["bronze_sales"] == before["bronze_sales"]
