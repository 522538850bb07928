"""A backfill whose runs fail is canceled as the UI does it, and told once, wherever a process dies."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from backfill_assets.defs import under_way as module
from backfill_assets.defs.dagster_internals import (
    BACKFILL_ID_TAG,
    WILL_RETRY_TAG,
    BulkActionStatus,
    PartitionBackfill,
)
from backfill_assets.defs.under_way import trip_backfills
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.catalog import Catalog
from backfill_assets.publish.outbox import due_notices
from backfill_assets.publish.publisher import Publisher
from backfill_assets.settings import Settings
from backfill_assets_tests.death import Died
from backfill_assets_tests.defs.small_dataset import SMALL, TABLES

pytestmark = pytest.mark.protocol
ID, OTHER = "abcdefgh", "ijklmnop"


@pytest.fixture
def backfill(tmp_path: Path) -> Any:
    settings = Settings.from_environment({"BACKFILL_HOME": str(tmp_path), "BACKFILL_BREAKER": "errors=50%"})
    return SimpleNamespace(settings=settings, storage=Storage(str(settings.lakehouse)), catalog=Catalog.of([SMALL]))


def launched(instance: dg.DagsterInstance, id: str, table: str, *outcomes: str, **tags: str) -> None:
    """A backfill of ``table`` and its runs."""
    instance.add_backfill(
        PartitionBackfill(
            backfill_id=id,
            status=BulkActionStatus.REQUESTED,
            from_failure=False,
            tags={},
            backfill_timestamp=time.time(),
            asset_selection=[dg.AssetKey(table)],
        )
    )
    for outcome in outcomes:
        run = instance.create_run_for_job(dg.GraphDefinition("j").to_job(), tags={BACKFILL_ID_TAG: id, **tags})
        instance.report_run_failed(run) if outcome == "failed" else instance.report_run_canceled(run)


def status(instance: dg.DagsterInstance, id: str) -> BulkActionStatus:
    found = instance.get_backfill(id)
    assert found is not None
    return found.status


def told(backfill: Any) -> list[tuple[str, str]]:
    return [(each.key, each.notice.dataset) for each in due_notices(Publisher(backfill.storage))]


def test_one_whose_runs_fail_is_canceled_and_told_once(dagster_instance: dg.DagsterInstance, backfill: Any) -> None:
    """Those of another code location are left alone, and so is what fails less often, or is started again."""
    launched(dagster_instance, ID, TABLES[0], *["failed"] * 3)
    launched(dagster_instance, OTHER, "of_another_location", *["failed"] * 3)
    launched(dagster_instance, "few", TABLES[0], "failed", "failed", "canceled")
    launched(dagster_instance, "again", TABLES[0], *["failed"] * 3, **{WILL_RETRY_TAG: "true"})
    (line,) = trip_backfills(dagster_instance, backfill)
    assert line == (f"The backfill {ID} was stopped by a limit: 3 of 3 runs failed, and at most 50 % may.")
    assert trip_backfills(dagster_instance, backfill) == []
    assert status(dagster_instance, ID) is BulkActionStatus.CANCELING
    assert {status(dagster_instance, id) for id in (OTHER, "few", "again")} == {BulkActionStatus.REQUESTED}
    assert told(backfill) == [(f"backfill-{ID}-stopped", SMALL.name)]


def test_a_process_that_dies_between_telling_and_canceling_is_followed_by_one_that_cancels(
    dagster_instance: dg.DagsterInstance, backfill: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched(dagster_instance, ID, TABLES[0], *["failed"] * 3)

    def die(*_: object) -> None:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(module, "_cancel", die)
        with pytest.raises(Died):
            trip_backfills(dagster_instance, backfill)
    assert len(told(backfill)) == 1 and status(dagster_instance, ID) is BulkActionStatus.REQUESTED
    trip_backfills(dagster_instance, backfill)
    assert len(told(backfill)) == 1 and status(dagster_instance, ID) is BulkActionStatus.CANCELING
