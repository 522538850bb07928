"""A fact with a past: taken over whole, mended in part, put back, and still the very files of its first writer."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.days import DayRange
from backfill_assets.lakehouse.records import DayState
from backfill_assets_tests.cli.command import backfill, types, work_with
from backfill_assets_tests.declared import declare
from backfill_assets_tests.stories.adopted_orders import (
    BROKEN,
    FACT,
    HISTORY,
    LANDED,
    ORDERS,
    files_of,
    land_days,
    land_late,
    write_history,
)
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def shop(workshop: Workshop, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """Its fact lies outside of the lakehouse; nothing has been published yet."""
    declare(monkeypatch, ORDERS.dataset())
    work_with(monkeypatch, workshop)
    monkeypatch.setenv("BACKFILL_HOME", str(workshop.settings.home))
    write_history(spark, tmp_path / "theirs" / "orders")
    return workshop


def test_a_fact_is_taken_over_mended_and_put_back(
    shop: Workshop, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs, lakehouse = tmp_path / "theirs" / "orders", shop.settings.lakehouse
    before = files_of(tmp_path / "theirs", "orders")
    refused = types("adopt", FACT, theirs, "--dry-run")
    assert "wrote to it within 24 hours" in refused["refused"][0]["why"]
    assert "BACKFILL_WRITERS=stopped" in backfill("adopt", FACT, theirs, exit_code=1).output
    monkeypatch.setenv("BACKFILL_WRITERS", "stopped")
    foreseen = types("adopt", FACT, theirs, "--dry-run")
    assert foreseen["days"] == len(HISTORY) and theirs.exists() and not lakehouse.exists()
    assert {row["gate"]: row["which_days"] for row in foreseen["breaks"]} == {"contract_holds": [str(BROKEN)]}

    types("adopt", FACT, theirs)
    assert not theirs.exists() and files_of(lakehouse) == before
    assert _statuses() == {"fresh": len(HISTORY)}
    shown = types("show", FACT, BROKEN)
    assert shown["code"] == "adopted" and shown["metrics"]["adopted_breaks"] == 1
    assert "Computed by: adopted." in backfill("show", FACT, BROKEN).output
    (made,) = types("history", FACT)["publications"]
    assert (made["kind"], made["code"]) == ("adopt", "adopted") and str(theirs) in made["reason"]
    assert [(row["days"], row["what_they_break"]) for row in types("status", FACT)["adopted"]] == [
        (len(HISTORY) - 1, ""),
        (1, "contract_holds"),
    ]

    land_days(shop.settings.landing, LANDED)
    for table in ("raw_orders", "bronze_orders"):
        shop.build(table, LANDED)
    assert _statuses() == {"fresh": len(HISTORY)}, "what it may be made of comes and goes"
    assert all(day.reused for day in shop.build(FACT, LANDED).days), "a run keeps adopted days"

    plan = types("plan", FACT, "--days", LANDED)["plan"]
    backfill("run", plan)
    assert files_of(lakehouse) == before
    changed = types("diff", plan)
    assert changed
    done = types("approve", plan, "--yes")
    after = files_of(lakehouse)
    assert {day: after[day] for day in after if day not in LANDED} == {
        day: before[day] for day in before if day not in LANDED
    }
    assert all(set(after[day]).isdisjoint(before[day]) for day in LANDED)
    assert done and _codes(shop) == {"adopted", "v2"}
    assert spark.read.format("delta").load(str(lakehouse / FACT)).count() == 2 * len(HISTORY), "any reader"

    land_late(shop.settings.landing, LANDED.first, LANDED.last)
    for table in ("raw_orders", "bronze_orders"):
        shop.build(table, LANDED)
    assert _statuses() == {"fresh": len(HISTORY) - 1, "stale: input changed": 1}
    shop.build(FACT, [LANDED.first])
    rows = shop.read(FACT)
    assert f"{LANDED.first}-9" in set(rows["order_id"])

    types("rollback", plan, "--yes")
    assert files_of(lakehouse) == before, "also on the day that gained a row since"
    assert _statuses() == {"fresh": len(HISTORY)} and _codes(shop) == {"adopted"}

    types("adopt", "--release", FACT, theirs)
    assert not (lakehouse / FACT).exists() and files_of(tmp_path / "theirs", "orders") == before
    assert "was given back by" in backfill("status", FACT, exit_code=1).output
    assert "was given back by" in backfill("run", FACT, "--days", LANDED.last, "--force", exit_code=1).output
    types("adopt", FACT, theirs)
    assert _statuses() == {"fresh": len(HISTORY)} and files_of(lakehouse) == before


FEW = DayRange(HISTORY.first, HISTORY.first + timedelta(days=2))
IN_THE_WAY: Mapping[str, tuple[Mapping[str, str], Sequence[str], Sequence[str]]] = {
    "deletion vectors": (
        {"delta.enableDeletionVectors": "true"},
        ["DELETE FROM {} WHERE order_id = '2025-12-02-1'"],
        ["ALTER TABLE {} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')", "REORG TABLE {} APPLY (PURGE)"],
    ),
    "row tracking": (
        {"delta.enableRowTracking": "true"},
        [],
        ["ALTER TABLE {} DROP FEATURE rowTracking", "ALTER TABLE {} DROP FEATURE domainMetadata"],
    ),
    "a constraint": (
        {},
        ["ALTER TABLE {} ADD CONSTRAINT positive CHECK (amount > -9)"],
        ["ALTER TABLE {} DROP CONSTRAINT positive"],
    ),
    "a column that must not be null": (
        {"not null": "order_id"},
        [],
        ["ALTER TABLE {} ALTER COLUMN order_id DROP NOT NULL"],
    ),
}


@pytest.fixture(scope="module")
def landed_home(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """The home of what the fact can be made of."""
    workshop = Workshop(tmp_path_factory.mktemp("landed") / "home", lambda: spark)
    land_days(workshop.settings.landing, FEW)
    with pytest.MonkeyPatch.context() as patch:
        declare(patch, ORDERS.dataset())
        for table in ("raw_orders", "bronze_orders"):
            workshop.build(table, FEW)
    return workshop.settings.home


@pytest.mark.parametrize("what", IN_THE_WAY)
def test_what_is_in_the_way_goes_by_the_command_that_is_named(
    landed_home: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Each as Spark carries it out; then the table is taken over, and a rebuilt day is published into it."""
    declare(monkeypatch, ORDERS.dataset())
    workshop = Workshop(shutil.copytree(landed_home, tmp_path / "home"), lambda: spark)
    work_with(monkeypatch, workshop)
    monkeypatch.setenv("BACKFILL_HOME", str(workshop.settings.home))
    monkeypatch.setenv("BACKFILL_WRITERS", "stopped")
    properties, made_by, removed_by = IN_THE_WAY[what]
    theirs = tmp_path / "orders"
    write_history(spark, theirs, FEW, **properties)
    for statement in made_by:
        spark.sql(statement.format(f"delta.`{theirs}`"))
    said = backfill("adopt", FACT, theirs, exit_code=1).output
    for statement in removed_by:
        assert statement.format("...").removeprefix("ALTER TABLE ... ") in said
        spark.sql(statement.format(f"delta.`{theirs}`"))
    types("adopt", FACT, theirs)
    workshop.build(FACT, [FEW.first], force=True)
    assert _codes(workshop) == {"adopted", "v2"}
    rows = spark.read.format("delta").load(str(workshop.settings.lakehouse / FACT)).count()
    assert rows == 2 * len(FEW) - (what == "deletion vectors")


def _statuses() -> dict[str, int]:
    return {row["status"]: row["days"] for row in types("status", FACT)["tables"] if row["table"] == FACT}


def _codes(shop: Workshop) -> set[str]:
    states: list[DayState] = list(shop.states(FACT).values())
    return {state.content.code_version for state in states if state.content}
