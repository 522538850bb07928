"""A build lets a campaign that cuts over its days pass, publishes on top of it, and never waits for ever."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pytest

from backfill_assets import clock
from backfill_assets.days import TableDay
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.records import DayContent
from backfill_assets.lakehouse.timelines import GateVerdict
from backfill_assets.publish.holds import HOLD_SECONDS, HeldDays, put_hold
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets_tests.played_lake import lake_of
from backfill_assets_tests.small_lakehouse import SmallLakehouse

pytestmark = pytest.mark.protocol
DAY = date(2017, 3, 1)
STEP = CATALOG.step("bronze_sales")


class Waiting:
    """A day of bronze that an earlier run has staged, so that building it starts no Spark. Sleeping passes time."""

    def __init__(self, root: Path) -> None:
        self.small = SmallLakehouse(root / "lakehouse")
        self.small.publish("raw", {"raw_sales": {DAY: [1]}})
        self.small.publish("old", {table.name: {DAY: [0]} for table in STEP.tables})
        self.held: HeldDays | None = None
        self.messages: list[str] = []
        self.lake = lake_of(self.small)
        self.small.time.at_sleep = self.at_sleep
        for table in STEP.tables:
            self._stage(table.name)

    @property
    def slept(self) -> float:
        return sum(self.small.time.slept)

    def at_sleep(self) -> None:
        if self.held is not None and self.slept >= 3:
            self.held.release()

    def build(self) -> str:
        built = Builder(self.lake).build(STEP, [DAY], run=RunInfo("a-run"), progress=self.messages.append)
        return built.publications[0]

    def _stage(self, table: str) -> None:
        read = {"raw_sales": {DAY: fingerprints.logical(1, 1)}}
        version, inputs = STEP.version(None).name, fingerprints.inputs(read)
        staged_as = fingerprints.input_fingerprint(version, "", inputs)
        timeline = self.small.stage("20170401t000000-earlier", table, {DAY: [1]}, {DAY: staged_as})
        content = DayContent(rows=1, checksum="1", code_version=version, inputs=inputs)
        timeline.judge({DAY: GateVerdict(input_fingerprint=staged_as, passed=True, content=content)})
        timeline.open()


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[Waiting]:
    found = Waiting(tmp_path)
    with clock.use(found.small.time):
        yield found


def test_without_a_hold_there_is_no_wait(waiting: Waiting) -> None:
    """A hold on other days, or on other tables, is none of its business."""
    put_hold(waiting.small.storage, "campaign-x", {"bronze_sales": [date(2017, 3, 2)]})
    waiting.build()
    assert waiting.slept == 0


def test_it_publishes_as_soon_as_the_hold_is_released(waiting: Waiting) -> None:
    """After three seconds here, and says for whom it waited."""
    days = {"quarantine_sales": [DAY]}
    waiting.held = put_hold(waiting.small.storage, "campaign-x", days)
    publication = waiting.build()
    assert waiting.slept == 3
    assert any("waiting for plan-x" in message for message in waiting.messages)
    assert waiting.lake.states(STEP)[TableDay("bronze_sales", DAY)].publication == publication


def test_the_hold_of_a_dead_cut_over_ends_by_itself(waiting: Waiting) -> None:
    """Nothing waits for a dead process longer than its limit."""
    put_hold(waiting.small.storage, "campaign-x", {"bronze_sales": [DAY]})
    waiting.build()
    assert timedelta(seconds=waiting.slept) == pytest.approx(timedelta(seconds=HOLD_SECONDS), abs=timedelta(seconds=1))
