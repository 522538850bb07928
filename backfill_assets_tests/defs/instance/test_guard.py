"""A Dagster instance over two lakehouses would be wrong about both."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.defs.instance.guard import require_own_lakehouse
from backfill_assets.errors import LakehouseUnusable
from backfill_assets.lakehouse.storage import Storage
from backfill_assets_tests.small_lakehouse import SmallLakehouse

pytestmark = pytest.mark.story


@pytest.fixture
def first(tmp_path: Path) -> Storage:
    root = tmp_path / "first"
    SmallLakehouse(root).publish("p1", {"bronze_sales": {date(2017, 3, 1): [1]}})
    return Storage(str(root))


def test_the_first_lakehouse_is_remembered_and_another_refused(
    first: Storage, tmp_path: Path, dagster_instance: dg.DagsterInstance
) -> None:
    """Without a word, days of the one would be shown as materialized in the other."""
    require_own_lakehouse(dagster_instance, first)
    require_own_lakehouse(dagster_instance, first)
    with pytest.raises(LakehouseUnusable, match="is about the lakehouse") as error:
        require_own_lakehouse(dagster_instance, Storage(str(tmp_path / "second")))
    assert "DAGSTER_HOME" in str(error.value.hint)


def test_a_lakehouse_that_was_moved_is_followed(
    first: Storage, tmp_path: Path, dagster_instance: dg.DagsterInstance
) -> None:
    """The old place is not read any more; its history is that of the new one."""
    require_own_lakehouse(dagster_instance, first)
    moved = Storage(str(tmp_path / "moved"))
    shutil.move(first.root, moved.root)
    require_own_lakehouse(dagster_instance, moved)
    require_own_lakehouse(dagster_instance, moved)
