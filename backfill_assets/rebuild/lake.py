"""What every build works with: lakehouse, landing zone, and Spark when needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets import clock
from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest
from backfill_assets.external.observe import observe_tables, tables_of_others
from backfill_assets.lakehouse.records import DayState, Environment
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.landing.token_key import require_token_key
from backfill_assets.landing.zone import LandingZone
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.current_versions import Switches, with_current
from backfill_assets.model.declaration import Step
from backfill_assets.publish.closed_days import Declared
from backfill_assets.publish.holds import LONGEST_WAIT_SECONDS, DaysOf, wait_for_holds
from backfill_assets.publish.publisher import Publisher
from backfill_assets.rebuild.environment import git_commit, require_clean_tree

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Lake:
    """``spark`` is called only when a day has to be computed."""

    catalog: Catalog
    storage: Storage
    publisher: Publisher
    landing: LandingZone
    spark: Callable[[], SparkSession]
    token_key_file: str
    refuse_dirty_tree: bool = False

    def __post_init__(self) -> None:
        self.publisher.declared = Declared.of(self.catalog.steps)

    def of_another_thread(self) -> Lake:
        """Delta handles, and what was read of the log, are of one thread."""
        own = Publisher(self.storage, retention_days=self.publisher.retention_days, reached=self.publisher.reached)
        return replace(self, publisher=own)

    def wait_for_holds(self, days: DaysOf, progress: Progress, seconds: float = LONGEST_WAIT_SECONDS) -> None:
        wait_for_holds(self.storage, "", days, progress=progress, longest=seconds)

    def require_clean_tree(self) -> None:
        """Raise :class:`PublicationRefused` if it is dirty and the settings refuse that."""
        require_clean_tree(git_commit(self.catalog.folder), refuse=self.refuse_dirty_tree)

    def switches(self) -> Switches:
        return self.publisher.log.head().state.switches

    def with_current(self, steps: Iterable[Step]) -> tuple[Step, ...]:
        return with_current(steps, self.switches())

    def may_adopt(self, made_with: Environment | None) -> bool:
        """False for days from a dirty tree, if the settings refuse it."""
        return not (self.refuse_dirty_tree and made_with is not None and made_with.dirty)

    def new_id(self, what: str) -> str:
        """Unique: letters, digits and dashes, sorted by time."""
        name = what.replace("_", "-").replace(" ", "-")
        return f"{clock.now():%Y%m%dt%H%M%S}-{name}-{clock.token(4)}"

    def look_at_tables_of_others(self, steps: Iterable[Step]) -> None:
        """Requires the token key for personal columns."""
        others = tables_of_others(steps, self.catalog.datasets)
        observe_tables(self.publisher, others)
        if any(external.personal for external, _ in others):
            require_token_key(self.storage, Path(self.token_key_file), self.catalog.tables_of_tokens)

    def timelines(self, step: Step, campaign: str = "") -> dict[str, Timeline]:
        """New open timelines, by table of ``step``. A later run may reuse their days; those of a ``campaign`` only that
        campaign.
        """
        name = f"{campaign}-{self.new_id(step.name)}" if campaign else self.new_id(step.name)
        found = {table.name: Timeline(self.storage, table.name, name) for table in step.tables}
        for timeline in found.values():
            timeline.open()
        return found

    def require_ended(self, step: Step, days: Iterable[date]) -> None:
        today = clock.today()
        late = sorted(day for day in days if day >= today)
        if late:
            raise InvalidRequest(
                f"{step.name}: {late[0]} has not ended yet; today is {today} in UTC.",
                hint="End the range with yesterday at the latest.",
            )

    def states(self, step: Step) -> dict[TableDay, DayState]:
        log = self.publisher.log
        return log.day_states(log.head(), {table.name for table in step.tables})


# ------------------------------------------------------------------ what a run waits for

SILENT_SECONDS = 60.0
WAITING = "Waiting: "
"""Prefix of reports that commands print in logs too."""


@contextmanager
def waiting(progress: Callable[[str], None], what: str) -> Iterator[None]:
    """Report every :data:`SILENT_SECONDS` ``what`` the block waits for. ``progress`` runs in another thread: the block
    must not report. Its error is raised at the end.
    """
    ended = threading.Event()
    with ThreadPoolExecutor(1, thread_name_prefix="waiting") as pool:
        watcher = pool.submit(_report, progress, what, ended)
        try:
            yield
        finally:
            ended.set()
    watcher.result()


def _report(progress: Callable[[str], None], what: str, ended: threading.Event) -> None:
    started = clock.seconds()
    while not ended.wait(SILENT_SECONDS):
        progress(f"{WAITING}{what}, {clock.seconds() - started:.0f} s so far")
