"""The event log of ``dagster.yaml`` stores what Dagster's own stores, a batch in one transaction."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.events import EngineEventData
from dagster._core.utils import make_new_run_id

from backfill_assets.cli.dev.dagster_home import dagster_home
from backfill_assets.defs import dagster_internals as event_log
from backfill_assets.defs.dagster_internals import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
    EVENT_BATCH_SIZE,
    LocalEventLog,
)
from backfill_assets.defs.location import code_location
from backfill_assets.settings import Settings
from backfill_assets_tests.defs.fake_builder import FakeBuilder, fake_resources
from backfill_assets_tests.defs.small_dataset import SMALL_CATALOG

FIRST = date(2017, 3, 1)
FACT, REVENUE = "fact_sales_transactions", "fact_daily_revenue"
_OWN_TO_A_RUN = re.compile(r'[0-9a-f]{8}-[0-9a-f-]{27}|\d+(\.\d+)?(e-\d+)?(m?s\b)?|(?<="log_key": ")[a-z]+')
"""Durations with their unit: a step takes milliseconds or, on a slow machine, seconds."""


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """With the repository's own ``dagster.yaml``."""
    with dg.DagsterInstance.from_config(str(dagster_home(Settings.at(tmp_path)))) as found:
        yield found


def materialize(instance: dg.DagsterInstance, failing: Mapping[str, list[date]]) -> dg.ExecuteInProcessResult:
    location = code_location(SMALL_CATALOG, fake_resources(FakeBuilder(failing=failing)))
    last = FIRST + timedelta(days=1)
    tags = {ASSET_PARTITION_RANGE_START_TAG: str(FIRST), ASSET_PARTITION_RANGE_END_TAG: str(last)}
    job = location.resolve_implicit_global_asset_job_def()
    selection = [dg.AssetKey(FACT), dg.AssetKey(REVENUE)]
    return job.execute_in_process(instance=instance, tags=tags, asset_selection=selection, raise_on_error=False)


def stored(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all tables of the index and of the run, without what differs from run to run."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for path in sorted(folder.rglob("*.db")):
        if path.name in ("runs.db", "schedules.db"):
            continue
        which = "index" if path.name == "index.db" else "run"
        with sqlite3.connect(path) as connection:
            names = connection.execute("select name from sqlite_master where type = 'table'").fetchall()
            for (table,) in names:
                rows = connection.execute(f'select * from "{table}"').fetchall()  # noqa: S608
                found[f"{which}.{table}"] = sorted(tuple(_alike(value) for value in row) for row in rows)
    return found


def _alike(value: Any) -> str:
    return _OWN_TO_A_RUN.sub("", str(value))


def test_the_same_rows_are_stored_as_by_dagsters_own_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a table that passes, and of one whose gate fails."""
    failing = {REVENUE: [FIRST]}
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    with dg.DagsterInstance.from_config(str(tmp_path / "plain")) as plain:
        assert not materialize(plain, failing).success
    monkeypatch.setenv(EVENT_BATCH_SIZE, "1000")
    with dg.DagsterInstance.from_config(str(dagster_home(Settings.at(tmp_path / "own")))) as own:
        assert isinstance(own.event_log_storage, LocalEventLog)
        assert not materialize(own, failing).success
    kept, upstream = stored(tmp_path / "own"), stored(tmp_path / "plain")
    assert kept.keys() == upstream.keys()
    assert len(kept["index.event_logs"]) > 10
    assert len(kept["index.asset_check_executions"]) == len(upstream["index.asset_check_executions"]) > 0
    for table, rows in upstream.items():
        assert [row for row in rows if "ENGINE_EVENT" not in str(row)] == [
            row for row in kept[table] if "ENGINE_EVENT" not in str(row)
        ], table


def test_dagsters_own_log_reads_what_was_stored(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    assert materialize(instance, {}).success
    with dg.DagsterInstance.from_ref(instance.get_ref()) as again:
        assert isinstance(again.event_log_storage, LocalEventLog), "as handed to a run"
    base = instance.event_log_storage._base_dir  # type: ignore[attr-defined]
    home = Path(base).parents[1]
    (home / "dagster.yaml").write_text(f"storage: {{sqlite: {{base_dir: {json.dumps(str(Path(base).parents[1]))}}}}}\n")
    with dg.DagsterInstance.from_config(str(home)) as plain:
        assert type(plain.event_log_storage) is not type(instance.event_log_storage)
        assert plain.get_materialized_partitions(dg.AssetKey(FACT)) == {str(FIRST + timedelta(n)) for n in range(2)}


def test_a_batch_that_fails_leaves_nothing_behind(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, log = _started(instance), instance.event_log_storage
    entries = [each.event_log_entry for each in instance.get_records_for_run(run.run_id).records]
    before = len(entries)
    stored_so_far = 0

    def store(event: dg.EventLogEntry) -> None:
        nonlocal stored_so_far
        stored_so_far += 1
        if stored_so_far == 2:
            raise OSError("the disk is full")
        type(log).store_event(log, event)

    monkeypatch.setattr(log, "store_event", store)
    with pytest.raises(OSError, match="the disk is full"):
        log.store_event_batch([entries[0], entries[0]])
    monkeypatch.undo()
    assert len(instance.get_records_for_run(run.run_id).records) == before
    log.store_event_batch([entries[0], entries[0]])
    assert len(instance.get_records_for_run(run.run_id).records) == before + 2


def _started(instance: dg.DagsterInstance) -> dg.DagsterRun:
    run = instance.add_run(dg.DagsterRun(job_name="played", run_id=make_new_run_id()))
    instance.report_engine_event("Began.", run, EngineEventData.in_process(1))
    return run


def test_events_come_in_batches_unless_the_environment_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EVENT_BATCH_SIZE, "7")
    event_log.batch_events()
    assert os.environ[EVENT_BATCH_SIZE] == "7"
    monkeypatch.delenv(EVENT_BATCH_SIZE)
    event_log.batch_events()
    assert os.environ[EVENT_BATCH_SIZE] == "1000"
