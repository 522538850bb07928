"""One plan being carried out by one process: what it works with, and how far the campaign is.

Every step can be repeated: it adopts what was staged, and asks the log what was published.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from backfill_assets import clock
from backfill_assets.campaign.course import CampaignState, Move, next_move
from backfill_assets.campaign.look import look, settle
from backfill_assets.campaign.options import Options
from backfill_assets.campaign.published import Ledger
from backfill_assets.campaign.standing import PlanFacts, PlanWord, require_allowed
from backfill_assets.difference.compare import FiguresRead
from backfill_assets.lakehouse.campaign_journal import CampaignStep, JournalEntry, Spent, campaign_of
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.graph import Days, read_by
from backfill_assets.plan.cost import sizes
from backfill_assets.plan.keep import plan_as_kept, rebuilt_steps
from backfill_assets.plan.records import Plan, PlannedStep
from backfill_assets.plan.waves import Wave, ahead_of_turn, daily_days, days_of_wave, waves
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.walk import HeldBack, StepBuilt
from backfill_assets.settings import ApprovalRule, Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class StepTimer:
    _begun: tuple[float, float] | None = field(init=False, default=None)
    _spark: float = field(init=False, default=0.0)

    def timed(self, spark: Callable[[], SparkSession]) -> Callable[[], SparkSession]:
        def start() -> SparkSession:
            asked = clock.seconds()
            session = spark()
            self._spark += clock.seconds() - asked
            return session

        return start

    def begin(self) -> None:
        self._begun = (clock.seconds(), self._spark)

    def end(self, size: int | None) -> Spent | None:
        """Returns None if the step did not begin in this process, or was written down."""
        if self._begun is None:
            return None
        (started, spark), self._begun = self._begun, None
        return Spent(seconds=round(clock.seconds() - started, 3), spark_start=round(self._spark - spark, 3), size=size)


@dataclass
class Staged:
    steps: list[StepBuilt] = field(default_factory=list)
    figures: FiguresRead = field(default_factory=dict)
    said: set[str] = field(default_factory=set)

    @property
    def held_back(self) -> list[HeldBack]:
        return [each for step in self.steps for each in step.held_back]


@dataclass
class CampaignRun:
    """A command, or a Dagster run. ``ui`` may be empty."""

    builder: Builder
    plan: Plan
    run: RunInfo
    progress: Progress
    price_per_core_second: Decimal | None = None
    approval_by: ApprovalRule = ApprovalRule.ANYONE
    ui: str = ""
    ledger: Ledger = field(init=False)
    timer: StepTimer = field(init=False, default_factory=StepTimer)
    staged: Staged = field(init=False, default_factory=Staged)

    @classmethod
    def of_settings(
        cls, settings: Settings, builder: Builder, plan: str, run: RunInfo, progress: Progress, ui: str = ""
    ) -> CampaignRun:
        price = settings.core_hour_price
        per_second = None if price is None else price / 3600
        return cls(builder, plan_as_kept(settings, plan), run, progress, per_second, settings.approval_by, ui)

    def __post_init__(self) -> None:
        lake = self.builder.lake
        self.builder = Builder(replace(lake, spark=self.timer.timed(lake.spark)))
        self.ledger = Ledger(lake.publisher.log, self.campaign)

    # ------------------------------------------------------------------ what it works with

    @property
    def campaign(self) -> str:
        return campaign_of(self.plan.id)

    @property
    def lake(self) -> Lake:
        return self.builder.lake

    @property
    def storage(self) -> Storage:
        return self.lake.storage

    @property
    def catalog(self) -> Catalog:
        return self.lake.catalog

    @property
    def dataset(self) -> str:
        return self.catalog.dataset_of(self.plan.asked.target).name

    @property
    def steps(self) -> list[PlannedStep]:
        return rebuilt_steps(self.plan)

    @property
    def tables(self) -> list[str]:
        return [table for each in self.steps for table in each.tables]

    @property
    def waves(self) -> list[Wave]:
        return waves(daily_days(self.steps) or {day for each in self.steps for day in each.days}, self.options.shares)

    def days_of_wave(self, wave: Wave) -> dict[str, tuple[date, ...]]:
        days = days_of_wave(self.steps, wave)
        return ahead_of_turn(self.steps, days, self._read) if self.plan.ahead else days

    def _read(self, planned: PlannedStep, days: Collection[date]) -> Days:
        """As the plan says which states count that are read as of a day."""
        step = self.catalog.step(planned.name)
        states = {each.table: sorted(map(date.fromisoformat, each.states)) for each in self.plan.as_of if each.states}
        return read_by(step, days, step.version(planned.version), filled=states)

    # ------------------------------------------------------------------ how far it is

    def entries(self) -> list[JournalEntry]:
        return self.ledger.entries()

    @property
    def state(self) -> CampaignState:
        """Read anew on each access."""
        return self.ledger.state()

    @property
    def options(self) -> Options:
        return self.state.options

    def next(self) -> Move:
        window = timedelta(days=self.plan.rollback_window_days)
        return next_move(self.state, [wave.name for wave in self.waves], window, clock.now())

    @property
    def facts(self) -> PlanFacts:
        return look(self.lake.publisher, self.campaign, self.plan)

    def settle(self) -> bool:
        return settle(self.lake.publisher, self.campaign)

    def settle_and_require(self, word: PlanWord) -> None:
        """Finish what a dead process began; raise :class:`InvalidRequest` if ``word`` is not possible then."""
        self.settle()
        require_allowed(word, self.facts)

    # ------------------------------------------------------------------ what it writes

    def write(self, entry: JournalEntry) -> None:
        self.ledger.write(entry, self.run.launched_by)

    def time_spent(self, step: CampaignStep) -> Spent | None:
        return self.timer.end(sizes(self.plan.steps).get(step))
