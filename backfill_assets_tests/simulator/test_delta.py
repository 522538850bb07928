"""Delta in memory beside delta-rs: the same publications leave logs in which the package reads the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from deltalake import CommitProperties
from deltalake.exceptions import CommitFailedError

from backfill_assets import clock
from backfill_assets.lakehouse.delta_log import newest_version, open_table, read_log, read_transactions, removed_files
from backfill_assets.lakehouse.records import Position, Publication
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.files import LOG_TABLE
from backfill_assets.publish.publisher import Published, Publisher
from backfill_assets_tests.simulator.delta import in_memory
from backfill_assets_tests.simulator.staging import DAYS, Names, change, rows_at, stage
from backfill_assets_tests.simulator.store import LAKES, Files, SimulatedStorage

pytestmark = pytest.mark.protocol
ROUNDS = 22
"""So many that logs and tables have checkpoints, from which they are read."""


def _publish(storage: Storage) -> None:
    """Days are replaced, appended to with a position, and gain a column at the end."""
    publisher = Publisher(storage)
    for number in range(ROUNDS):
        rows: dict[date, Names] = {DAYS[number % 3]: (f"row {number}",), DAYS[(number + 1) % 3]: ()}
        pin = publisher.pin({"fact": rows}, {})
        made = change(stage(storage, "fact", f"p-{number}", rows, number // (ROUNDS - 1)), rows, pin)
        assert isinstance(publisher.publish(Publication(id=f"p-{number}", kind="replace", tables=(made,))), Published)
        position = Position(id="source", before=number or None, after=number + 1)
        more: dict[date, Names] = {DAYS[0]: (f"raw {number}",)}
        added = change(stage(storage, "raw", f"a-{number}", more), more, mode="append", positions=(position,))
        assert isinstance(publisher.publish(Publication(id=f"a-{number}", kind="append", tables=(added,))), Published)


def _read(storage: Storage) -> dict[str, Any]:
    """All that is asked of tables and of the log, without names that are drawn."""
    log = Publisher(storage).log
    head, found = log.head(), dict[str, Any]()
    for table in ("fact", "raw"):
        newest = newest_version(storage, table) or 0
        versions = range(newest - 3, newest + 1)
        found[table] = {
            "rows": [rows_at(storage, table, version) for version in versions],
            "files": [sorted(read_log(storage, table, version).active) for version in versions],
            "removed": sorted(removed_files(storage, table, newest)),
            "transactions": read_transactions(storage, table, newest),
            "by handle": {id: open_table(storage, table).transaction_version(id) for id in ("p-3", "source", "none")},
            "schema": open_table(storage, table, newest).schema().to_json(),
            "properties": dict(open_table(storage, table).metadata().configuration),
            "partitions": open_table(storage, table).metadata().partition_columns,
        }
    found["head"] = head.version, head.state.versions, head.state.outcomes, len(head.state.since)
    found["days"] = {key: (each.publication, each.physical) for key, each in log.day_states(head).items()}
    found["ids"] = [log.closed_at(f"p-{number}") for number in range(ROUNDS)]
    found["adds"] = len(open_table(storage, LOG_TABLE).get_add_actions(flatten=True)) if storage.is_folder else 0
    return found


@contextmanager
def _simulated() -> Iterator[SimulatedStorage]:
    LAKES["/beside"] = Files(now_ms=lambda: int(clock.now().timestamp() * 1000))
    with in_memory():
        yield SimulatedStorage("/beside")
    del LAKES["/beside"]


def test_the_package_reads_the_same_after_the_same_publications(tmp_path: Path) -> None:
    _publish(Storage(str(tmp_path)))
    wanted = _read(Storage(str(tmp_path)))
    with _simulated() as storage:
        _publish(storage)
        found = _read(storage)
        for what in wanted:
            assert found[what] == wanted[what], what


@pytest.mark.parametrize("simulated", [False, True])
def test_a_commit_to_a_version_that_has_moved_is_refused(tmp_path: Path, simulated: bool) -> None:
    """By whichever of two handles comes second."""
    if simulated:
        with _simulated() as storage:
            _refuses(storage)
    else:
        _refuses(Storage(str(tmp_path)))


def _refuses(storage: Storage) -> None:
    publisher = Publisher(storage)
    publisher.log.begin()
    first, second = (publisher.log.head() for _ in range(2))
    row = {"event": "waiting", "publication": "p"}
    assert publisher.log.append(first, [row], lambda _: first.state)
    assert second.handle.version() == 0
    assert not publisher.log.append(second, [row], lambda _: second.state)
    handle = open_table(storage, LOG_TABLE, 0)
    with pytest.raises(CommitFailedError):
        handle.alter.set_table_properties(
            {"delta.appendOnly": "false"}, commit_properties=CommitProperties(max_commit_retries=0)
        )
