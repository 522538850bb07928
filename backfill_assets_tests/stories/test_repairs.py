"""With only Dagster's daemon running: what is wrong is found and put right once, however often the daemon is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.execution.backfill import BulkActionStatus

from backfill_assets.days import DayRange
from backfill_assets.model.graph import build_order
from backfill_assets.state.observed import observe
from backfill_assets.state.status import day_statuses
from backfill_assets_tests.defs.small_chain import publish_chain
from backfill_assets_tests.defs.small_dataset import SMALL, TABLES
from backfill_assets_tests.protocol.audit import log_rows
from backfill_assets_tests.small_lakehouse import SmallLakehouse
from backfill_assets_tests.stories import repairing_location
from backfill_assets_tests.stories.repairing_location import AFTER, BEFORE, HALT, HALTED, IN, LAKEHOUSE

OVERWRITTEN = date(2017, 3, 11)
LATE = {date(2017, 3, day): rows for day, rows in ((1, 9), (2, 9), (4, 8), (5, 8), (7, 8), (8, 8))}
SALES = ("bronze_sales", "quarantine_sales", "fact_sales_transactions", "fact_daily_revenue")
_DAGSTER = """
telemetry: {enabled: false}
run_coordinator:
  module: dagster._core.run_coordinator
  class: QueuedRunCoordinator
  config: {dequeue_interval_seconds: 1}
"""


class Repairs:
    """A home with a lakehouse and a Dagster, and the daemon that is started and killed on it."""

    def __init__(self, home: Path, instance: dg.DagsterInstance) -> None:
        self.home, self.instance = home, instance
        self.lakehouse = SmallLakehouse(home / LAKEHOUSE)

    @contextmanager
    def daemon(self, halt: str = "") -> Iterator[None]:
        """In a session of its own, all of which is killed -9 at the end, as if the power had failed."""
        (self.home / HALTED).unlink(missing_ok=True)
        (self.home / HALT).write_text(halt)
        command = [
            sys.executable,
            "-m",
            "backfill_assets.defs.dagster_internals",
            "daemon",
            "run",
            "-m",
            repairing_location.__name__,
        ]
        environment = os.environ | {"REPAIRING_HOME": str(self.home)}
        with (self.home / "daemon.log").open("a") as log:
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def wait_for(self, what: Callable[[], bool]) -> None:
        until = time.monotonic() + 180
        while not what():
            assert time.monotonic() < until, (self.home / "daemon.log").read_text()[-3000:]
            time.sleep(0.5)

    def kill_daemon_at(self, moment: str) -> None:
        with self.daemon(halt=moment):
            self.wait_for((self.home / HALTED).exists)

    def let_it_work(self) -> None:
        with self.daemon():
            self.wait_for(lambda: self.is_right() and not self.under_way())
            ended = len(self.instance.get_backfills())
            time.sleep(12)  # two more ticks, in which nothing may be launched
            assert len(self.instance.get_backfills()) == ended

    def is_right(self) -> bool:
        statuses = day_statuses(build_order(SMALL.steps), observe(self.lakehouse.storage, TABLES))
        return {status for days in statuses.values() for status in days.values()} == {None}

    def under_way(self) -> bool:
        return any(each.status is BulkActionStatus.REQUESTED for each in self.instance.get_backfills())

    def titles(self) -> list[str]:
        return [str(backfill.title) for backfill in self.instance.get_backfills()][::-1]

    def published_since(self, sequence: int) -> dict[str, set[date]]:
        """The days of each table that were published after that entry of the log."""
        found: dict[str, set[date]] = {}
        for row in log_rows(self.lakehouse.publisher.log, "published"):
            if row["sequence"] > sequence:
                found.setdefault(row["table"], set()).add(date.fromisoformat(row["day"]))
        return found

    def head(self) -> int:
        return self.lakehouse.publisher.log.head().version


@pytest.fixture
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repairs]:
    (tmp_path / "dagster.yaml").write_text(_DAGSTER)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    with dg.DagsterInstance.get() as instance:
        found = Repairs(tmp_path, instance)
        publish_chain(found.lakehouse, "history", list(DayRange.parse("2017-03-01..2017-03-12")))
        yield found


@pytest.mark.long
@pytest.mark.timeout(900)
def test_overwritten_days_and_late_rows_are_put_right_once_each(story: Repairs) -> None:
    """A foreign write into a fact, then 50 late rows over 6 days; killed before, in and after the sensor's tick."""
    assert story.is_right()
    story.lakehouse.write_past_the_protocol("fact_sales_transactions", OVERWRITTEN, [77])
    before = story.head()
    story.kill_daemon_at(BEFORE)
    story.kill_daemon_at(IN)
    assert story.titles() == []
    story.kill_daemon_at(AFTER)
    assert len(story.titles()) == 1
    story.let_it_work()
    assert story.titles() == [f"Repair: fact_sales_transactions {OVERWRITTEN}: foreign write"]
    assert story.published_since(before) == {"fact_sales_transactions": {OVERWRITTEN}}

    late = {day: list(range(100, 100 + rows)) for day, rows in LATE.items()}
    story.lakehouse.publish("late", {"raw_sales": late}, mode="append")
    assert sum(LATE.values()) == 50
    before = story.head()
    story.kill_daemon_at(IN)
    story.kill_daemon_at(AFTER)
    story.let_it_work()
    assert len(story.titles()) == 2
    assert story.titles()[1] == "Repair: bronze_sales, 6 days of 2017-03-01..2017-03-08: late rows"
    assert story.published_since(before) == {table: set(LATE) for table in SALES}
    outcomes = Counter(backfill.status for backfill in story.instance.get_backfills())
    assert outcomes == {BulkActionStatus.COMPLETED_SUCCESS: 2}
