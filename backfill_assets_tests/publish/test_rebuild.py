"""The log under a platform's maintenance: OPTIMIZE, VACUUM and clean-up of its table take time, and no entry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from backfill_assets import clock
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.days import TableDay
from backfill_assets.lakehouse.records import DayState, Notice, Publication
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.publish.files import ENTRIES
from backfill_assets.publish.log import LOG_TABLE, PROPERTIES, HeadState
from backfill_assets.publish.publisher import Published
from backfill_assets_tests.death import Died
from backfill_assets_tests.protocol.lake import D1, D2, Lake, dying_at


def _optimise_and_vacuum(lake: Lake, *, full: bool) -> None:
    """As if a week lay between the two: everything that OPTIMIZE replaced is deleted, by list or by log."""
    lake.table(LOG_TABLE).optimize.compact()
    lake.table(LOG_TABLE).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False, full=full)


def _forget_old_commits(lake: Lake) -> None:
    """Weeks of commits of others and an engine's clean-up of the Delta log: a checkpoint stays, and their commits."""
    lake.table(LOG_TABLE).alter.set_table_properties({"delta.checkpointInterval": "20"})
    table = lake.table(LOG_TABLE)
    table.create_checkpoint()
    for version in range(table.version()):
        (lake.root / LOG_TABLE / "_delta_log" / f"{version:020d}.json").unlink(missing_ok=True)


@dataclass
class History:
    lake: Lake
    state: HeadState
    days: Mapping[TableDay, DayState]
    request: Publication
    """Of the one that died."""


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    """Two closed publications (one with a notice that is due), an aborted one, and one that died half way."""
    lake = Lake(tmp_path_factory.mktemp("begun") / "lakehouse")
    with clock.use(lake.time):
        lake.publish("p1", {"t": {D1: ["a"]}, "u": {D1: ["b"]}})
        told = lake.request("p2", {"u": {D1: ["c"]}}).model_copy(update={"notice": Notice(title="c is there")})
        assert isinstance(lake.publisher().publish(told), Published)
        lake.die(CrashPoint.TABLE_COMMITTED, lake.request("p3", {"t": {D2: ["x"]}, "u": {D2: ["y"]}}))
        lake.foreign_rows("u", {D2: ["foreign"]})
        assert lake.publisher().recover() == {"p3": "aborted"}
        request = lake.request("p4", {"t": {D1: ["d"]}})
        lake.die(CrashPoint.PREPARED, request)
        log = lake.publisher().log
        yield History(lake, lake.head, log.day_states(log.head()), request)


@pytest.fixture
def some(begun: History, tmp_path: Path) -> Iterator[History]:
    found = replace(begun, lake=begun.lake.copy(tmp_path / "lakehouse"))
    with clock.use(found.lake.time):
        yield found


@pytest.mark.parametrize("full", [True, False])
def test_optimize_and_vacuum_of_the_log_are_survived(some: History, full: bool) -> None:
    """A platform maintains all tables: what the head names is read through the table when its file is gone.

    A vacuum by list does not reach it: engines pass over folders that begin with an underscore.
    """
    lake = some.lake
    _optimise_and_vacuum(lake, full=full)
    if full:
        named = [*some.state.since, *(entry.file for entry in some.state.open.values())]
        assert not lake.storage.missing(named) and all(file.startswith(ENTRIES) for file in some.state.since)
    log = lake.publisher().log
    assert (log.head().state, log.day_states(log.head())) == (some.state, some.days)
    assert isinstance(lake.publisher().publish(some.request), Published)
    assert roll_back(lake.publisher(), "p4", id="back", steps=()).versions
    assert lake.rows("t") == {D1: ["a"]}


def test_the_head_is_rebuilt_from_the_rows(some: History) -> None:
    """Weeks at rest with commits of others, and a clean-up: the commit that carried the head is gone."""
    lake, state = some.lake, some.state
    _forget_old_commits(lake)
    log = lake.publisher().log
    found = log.head().state
    assert found.open.keys() == state.open.keys()
    assert (found.versions, found.outcomes, found.due.keys()) == (state.versions, state.outcomes, state.due.keys())
    assert found.promised == state.promised
    assert log.day_states(log.head()) == some.days
    assert isinstance(lake.publisher().publish(some.request), Published)
    assert log.head().state.index, "the next publication writes the index that the rebuilt head only names"
    assert not lake.storage.missing([log.head().state.index])
    assert lake.day("t", D1).publication == "p4"


def test_an_abort_that_was_decided_is_in_the_rebuilt_head(lake: Lake) -> None:
    """A head without it would carry the publication forward that others are taking back."""
    lake.publish("p1", {"t": {D1: ["a"]}, "u": {D1: ["b"]}})
    lake.die(CrashPoint.TABLE_COMMITTED, lake.request("p2", {"t": {D1: ["x"]}, "u": {D1: ["y"]}}))
    lake.foreign_rows("u", {D1: ["foreign"]})
    with pytest.raises(Died):
        lake.publisher(dying_at(CrashPoint.ABORT_DECIDED)).recover()
    _forget_old_commits(lake)
    assert lake.head.open["p2"].aborting
    assert lake.publisher().recover() == {"p2": "aborted"}
    assert lake.rows("t") == {D1: ["a"]}


def test_open_intents_are_in_the_rebuilt_head(lake: Lake) -> None:
    """A publication that adopts a file which is being deleted would name a file that is not there."""
    lake.publish("p1", {"t": {D1: ["a"]}})
    log = lake.publisher().log
    head = log.head()
    rows = [{"event": "reclaiming", "publication": "intent", "table": "t", "detail": "t/x.parquet"}]
    assert log.append(head, rows, lambda file: head.state.model_copy(update={"reclaiming": {"intent": file}}))
    _forget_old_commits(lake)
    (file,) = log.head().state.reclaiming.values()
    assert log.reclaim_paths(file) == ["t/x.parquet"]


def test_a_log_keeps_what_it_needs_for_good_also_one_that_was_begun_without(lake: Lake) -> None:
    """The properties are set where they are missing, and the commit that sets them carries the head."""
    lake.publish("p1", {"t": {D1: ["a"]}})
    table = lake.table(LOG_TABLE)
    assert PROPERTIES.items() <= table.metadata().configuration.items()
    table.alter.set_table_properties(
        {"delta.logRetentionDuration": "interval 30 days", "delta.enableExpiredLogCleanup": "true"}
    )
    lake.publish("p2", {"t": {D1: ["b"]}})
    assert PROPERTIES.items() <= lake.table(LOG_TABLE).metadata().configuration.items()
    lake.clock += timedelta(days=60)
    DeltaTable(lake.storage.uri(LOG_TABLE)).cleanup_metadata()
    assert lake.head.outcomes == {"p1": "done", "p2": "done"}
