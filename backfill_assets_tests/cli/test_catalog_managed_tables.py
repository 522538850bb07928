"""A catalog-managed table among ours: each command names it and says what to do, and the other tables go on."""

from __future__ import annotations

from datetime import date

import pytest

from backfill_assets.lakehouse.catalog_managed import CatalogManaged
from backfill_assets.publish.log import LOG_TABLE
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.protocol.foreign import give_to_catalog

TABLE, DAY = "fact_daily_revenue", date(2017, 3, 1)


def _says_it(words: str, feature: str, table: str = TABLE) -> bool:
    said = f"{table} cannot be read: it is a catalog-managed table (table feature {feature})"
    return said in words and f"ALTER TABLE {table} DROP FEATURE {feature}" in words


@pytest.fixture
def known(backfill: Backfill, monkeypatch: pytest.MonkeyPatch) -> Backfill:
    monkeypatch.setenv("BACKFILL_ROLLBACK_WINDOW_DAYS", "100000")
    backfill.lakehouse.publish("first", {"fact_sales_transactions": {DAY: [1]}, TABLE: {DAY: [1]}})
    return backfill


@pytest.mark.parametrize("feature", ["catalogManaged", "catalogOwned-preview"])
def test_commands_name_it_and_show_the_others(known: Backfill, feature: str) -> None:
    """Nothing is published to it, and no file of its log is called lost: its commits are with the catalog."""
    give_to_catalog(known.lakehouse.storage, TABLE, feature)
    told = known("status")
    assert _says_it(told.stdout, feature) and "fact_sales_transactions" in told.stdout
    for typed in (
        f"status {TABLE}",
        f"show {TABLE} {DAY}",
        f"plan {TABLE} --days {DAY}",
        f"run {TABLE} --days {DAY}",
        f"run {TABLE} --days {DAY} --dry-run",
        f"maintain --mend {TABLE} --yes",
        "rollback first --yes",
    ):
        refused = known(*typed.split(), exit_code=1)
        assert _says_it(refused.stdout + refused.stderr, feature), typed
    with pytest.raises(CatalogManaged):
        known.lakehouse.publish("second", {TABLE: {DAY: [2]}})


def test_the_publication_log_is_refused_as_well(known: Backfill) -> None:
    give_to_catalog(known.lakehouse.storage, LOG_TABLE, "catalogManaged")
    assert _says_it(known("history", exit_code=1).stderr, "catalogManaged", LOG_TABLE)
