"""Range backfills that Dagster's daemon carries out beside a stream; the daemon is killed with -9 and started again.

A kill takes the daemon alone: runs that it has launched go on in the code server, as they do where people work.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import dagster as dg
from dagster._core.execution.backfill import BulkActionStatus

from backfill_assets.days import DayRange
from backfill_assets.defs.specs import FORCE_TAG, VERSION_TAG
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets_tests.stories.real_dagster import RealDagster

_LOOK_SECONDS = 1.0
_ENDED = (BulkActionStatus.COMPLETED_SUCCESS, BulkActionStatus.COMPLETED_FAILED, BulkActionStatus.FAILED)


@dataclass
class KilledDaemon:
    """Launches range backfills of ``tables``, one after another, by processes of Dagster that run on one home.

    ``seconds`` is the longest stretch between two kills.
    """

    dagster: RealDagster
    tables: Sequence[str]
    days: DayRange
    random: random.Random
    kills: int
    seconds: float = 20.0
    killed: list[str] = field(default_factory=list)
    done: int = 0
    problems: list[str] = field(default_factory=list)
    """Backfills that did not succeed: beside a campaign, days may be held."""

    def play(self, stopping: threading.Event) -> None:
        """At least one backfill to its end, and more until all kills were made."""
        with self.dagster.processes(), dg.DagsterInstance.from_config(str(self.dagster.home)) as instance:
            while not stopping.is_set() and (not self.done or len(self.killed) < self.kills):
                self.play_one(instance, stopping)

    def play_one(self, instance: dg.DagsterInstance, stopping: threading.Event) -> None:
        tags = {FORCE_TAG: "tally", VERSION_TAG: AS_PUBLISHED}
        backfill, began = self.dagster.backfill(self.tables, [str(day) for day in self.days], tags), time.monotonic()
        next_kill = self.moment_of_kill()
        while not stopping.is_set():
            found = instance.get_backfill(backfill)
            if found is not None and found.status in _ENDED:
                succeeded = found.status is BulkActionStatus.COMPLETED_SUCCESS
                self.done += succeeded
                self.problems += [] if succeeded else [f"Dagster's backfill {backfill} ended as {found.status.value}"]
                return
            if len(self.killed) < self.kills and time.monotonic() >= next_kill:
                self.dagster.kill_daemon()
                self.killed.append(f"the daemon after {time.monotonic() - began:.1f} s of a backfill")
                self.dagster.start()
                next_kill = self.moment_of_kill()
            stopping.wait(_LOOK_SECONDS)

    def moment_of_kill(self) -> float:
        return time.monotonic() + self.random.uniform(0.2, 1.0) * self.seconds
