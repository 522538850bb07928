"""Carries a campaign through its nine steps, one move at a time, and writes results to the journal.

Every step can be repeated: after a kill, the next process adopts what was staged, and looks up on the publication log
what was published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from backfill_assets import clock
from backfill_assets.campaign.approval import Approvers
from backfill_assets.campaign.breaker import computed_seconds, held_back_lines, input_of, judge, staged_contents
from backfill_assets.campaign.course import (
    CampaignState,
    Move,
    approved_by,
    is_published,
    next_move,
    state_of,
)
from backfill_assets.campaign.look import held_back_days, look, settle
from backfill_assets.campaign.notice import limit_reached
from backfill_assets.campaign.options import Options
from backfill_assets.campaign.published import CampaignPublication, all_entries, published_by
from backfill_assets.campaign.standing import PlanFacts, PlanWord, require_allowed
from backfill_assets.difference.compare import FiguresRead, complete
from backfill_assets.difference.find import declared_of, find_difference
from backfill_assets.difference.letter import difference_answer
from backfill_assets.difference.verdict import Difference
from backfill_assets.errors import CampaignStopped, InvalidRequest
from backfill_assets.lakehouse import campaign_journal as journal
from backfill_assets.lakehouse.campaign_journal import HELPS, CampaignStep, JournalEntry, Spent, campaign_of
from backfill_assets.lakehouse.plans import open_plan
from backfill_assets.lakehouse.records import DayContent
from backfill_assets.limits import Exceeded, Limits
from backfill_assets.model.catalog import Catalog
from backfill_assets.plan.cost import sizes, step_line
from backfill_assets.plan.keep import plan_as_kept, planned_by, rebuilt_steps, shadow_steps
from backfill_assets.plan.records import Plan, PlannedStep, as_ranges
from backfill_assets.plan.waves import Wave, daily_days, days_of_wave, waves
from backfill_assets.publish.outbox import announce
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.lake import Progress
from backfill_assets.rebuild.outcome import ADOPTED, FLAGGED, RunInfo
from backfill_assets.rebuild.walk import HeldBack, StepBuilt, shadow, staged_by
from backfill_assets.report.markdown import markdown
from backfill_assets.settings import ApprovalRule, Settings
from backfill_assets.state.observed import LogView, observe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

StepReport = dict[str, Any]
Held = dict[str, dict[date, DayContent]]
"""Contents of days by table."""


@dataclass
class CampaignRun:
    """One plan being carried out by this process: a command, or a Dagster run."""

    builder: Builder
    plan: Plan
    run: RunInfo
    progress: Progress
    price_per_core_second: Decimal | None = None
    approval_by: ApprovalRule = ApprovalRule.ANYONE
    ui: str = ""
    """May be empty."""
    shadowed: list[StepBuilt] = field(default_factory=list)
    """Result of the last wave or shadow step in this process."""
    read: FiguresRead = field(default_factory=dict)
    """Figures read from rows, since they had not been measured."""
    known_entries: Mapping[int, JournalEntry] = field(default_factory=dict)
    known_log: int = -1
    """Newest log entry when the log was last read."""
    published: Sequence[CampaignPublication] = ()
    cut: set[str] = field(default_factory=set)
    """Lines about cut periods that were already printed."""
    spark_seconds: float = 0.0
    begun: tuple[float, float] | None = None
    """``clock.seconds`` and ``spark_seconds`` at the start of the current step."""

    @classmethod
    def of_settings(
        cls, settings: Settings, builder: Builder, plan: str, run: RunInfo, progress: Progress, ui: str = ""
    ) -> CampaignRun:
        price = settings.core_hour_price
        per_second = None if price is None else price / 3600
        return cls(builder, plan_as_kept(settings, plan), run, progress, per_second, settings.approval_by, ui)

    def __post_init__(self) -> None:
        self.builder = Builder(replace(self.builder.lake, spark=self._with_timer(self.builder.lake.spark)))

    def _with_timer(self, spark: Callable[[], SparkSession]) -> Callable[[], SparkSession]:
        def start() -> SparkSession:
            asked = clock.seconds()
            session = spark()
            self.spark_seconds += clock.seconds() - asked
            return session

        return start

    @property
    def campaign(self) -> str:
        return campaign_of(self.plan.id)

    @property
    def catalog(self) -> Catalog:
        return self.builder.lake.catalog

    @property
    def dataset(self) -> str:
        return self.catalog.dataset_of(self.plan.asked.target).name

    @property
    def state(self) -> CampaignState:
        """Read anew on each access: other processes write to the journal too."""
        return state_of(self.campaign, self.entries())

    @property
    def options(self) -> Options:
        return self.state.options

    @property
    def steps(self) -> list[PlannedStep]:
        """Steps that are staged; raw is ingested before."""
        return rebuilt_steps(self.plan)

    @property
    def waves(self) -> list[Wave]:
        return waves(daily_days(self.steps) or {day for each in self.steps for day in each.days}, self.options.shares)

    def settle(self) -> bool:
        return settle(self.builder.lake.publisher, self.campaign)

    @property
    def facts(self) -> PlanFacts:
        return look(self.builder.lake.publisher, self.campaign, self.plan)

    def require(self, word: PlanWord) -> None:
        """Raise :class:`InvalidRequest` if ``word`` is not possible now. Finishes what a dead process began."""
        self.settle()
        require_allowed(word, self.facts)

    def start(self, options: Options) -> None:
        """Start, or resume what was stopped or rolled back.

        Raises :class:`InvalidRequest` for a limit on money without a price, for waves or limits other than the plan's,
        and if nothing is to be staged.
        """
        options.require_as_planned(self.plan)
        if not any(each.days or each.source_files for each in self.plan.steps):
            hint = (
                f"backfill status {self.plan.asked.target} shows them. To rebuild them all the same: plan with --force."
            )
            raise InvalidRequest(f"{self.plan.id} has nothing to rebuild: every day of it is fresh.", hint=hint)
        if options.limits.money is not None and self.price_per_core_second is None:
            hint = "Set BACKFILL_CORE_HOUR_PRICE, or limit seconds instead."
            raise InvalidRequest("Money cannot be limited: the price of a core hour is not set.", hint=hint)
        self.settle()
        found, report = self.state, {**options.to_report(), **self.run.person.to_report()}
        require_allowed(PlanWord.RUN, self.facts)
        kind: journal.Kind = "resumed" if found.started else "started"
        self.write(JournalEntry(kind=kind, report=report, at=clock.now(), again=bool(found.rolled_back)))
        # A rollback or giving up has closed the plan, and ANNOUNCE, which opens plans, is not repeated.
        if CampaignStep.ANNOUNCE in (taken_up := self.state).done and not is_published(taken_up):
            open_plan(self.builder.lake.storage, self.plan.id)

    def approve(self, *, without_held_back: bool = False, seen: Difference | None = None) -> None:
        """``seen``: by default the difference that VALIDATE reported.

        Raises like :meth:`require` and :meth:`require_approvable`.
        """
        self.require(PlanWord.APPROVE)
        self.require_approvable(without_held_back=without_held_back, seen=seen)
        report: StepReport = {"fingerprint": seen.fingerprint if seen else self.validation.get("fingerprint", "")}
        report |= self.run.person.to_report()
        if self.plan.terms.approvals > 1:
            report["needed"] = self.plan.terms.approvals
        if without_held_back:
            report["without_held_back"] = True
        self.write(JournalEntry(kind="approved", at=clock.now(), reason=self.plan.id, report=report))

    def require_approvable(self, *, without_held_back: bool = False, seen: Difference | None = None) -> None:
        """Raise :class:`InvalidRequest` if the person may not approve, or the difference is not as expected.

        Also for days held back, unless ``without_held_back``.
        """
        self._require_approver()
        if seen is not None and seen.unmet:
            unmet = seen.unmet[0].expectation
            raise InvalidRequest(f"{self.plan.id} is not as expected: {unmet}.", hint=self.plan_again)
        held = self.validation.get("held_back", ())
        if held and not without_held_back:
            more = f", and {len(held) - 1} more" if len(held) > 1 else ""
            hint = f"Fix them, then: backfill run {self.plan.id}. Or publish the others: --without-held-back."
            raise InvalidRequest(f"Days of {self.plan.id} are held back: {held[0]}{more}.", hint=hint)

    def _require_approver(self) -> None:
        approvers = self.approvers
        if reason := approvers.why_not(self.run.person):
            who = str(self.run.person or self.run.launched_by or "an unknown person")
            raise InvalidRequest(f"{self.plan.id} cannot be approved by {who}: {reason}.", hint=approvers.hint)

    @property
    def approvers(self) -> Approvers:
        planner, terms = planned_by(self.builder.lake.storage, self.plan.id), self.plan.terms
        return Approvers(self.approval_by, planner, self.state.started_by, terms.approvers, terms.approvals)

    @property
    def approved_by(self) -> str:
        return approved_by(self.state)

    @property
    def validation(self) -> Mapping[str, Any]:
        validated = self.state.done.get(CampaignStep.VALIDATE)
        return validated.report if validated else {}

    @property
    def approved_difference(self) -> str:
        """A fingerprint; empty if the approval named none."""
        approved = self.state.approved
        return (approved.fingerprint or "") if approved else ""

    def withdraw_approval(self, reason: str, report: StepReport, exceeded: Exceeded | None = None) -> CampaignStopped:
        """The caller raises the returned error."""
        step, spent = CampaignStep.CUT_OVER, self.time_spent(CampaignStep.CUT_OVER)
        self.write(JournalEntry(kind="withdrawn", step=step, reason=reason, report=report, at=clock.now(), spent=spent))
        id = self.plan.id
        hint = (
            f"Look at it: backfill status {id}. Then approve it again: backfill approve {id}. "
            f"Or give it up: backfill timeline delete {id}"
        )
        if exceeded is not None:
            give_up = f"Or give it up: backfill timeline delete {id}"
            hint = f"Look at it: backfill status {id}. {self.allow_more(exceeded)}. {give_up}"
        return CampaignStopped(f"{self.plan.id} waits for approval again. Nothing was published. {reason}", hint=hint)

    def next(self) -> Move:
        window = timedelta(days=self.plan.rollback_window_days)
        return next_move(self.state, [wave.name for wave in self.waves], window, clock.now())

    def write(self, entry: JournalEntry) -> None:
        known = {"by": self.run.launched_by, "log": self.known_log}
        journal.write(self.builder.lake.storage, self.campaign, entry.model_copy(update=known))

    def record_step(self, step: CampaignStep, report: StepReport) -> StepReport:
        spent = self.time_spent(step)
        self.write(JournalEntry(kind="step", step=step, report=report, at=clock.now(), spent=spent))
        if spent is not None:
            self.progress(step_line(self.plan, step, self.entries()))
        return report

    def stop(
        self, step: CampaignStep, reason: str, hint: str = "", report: StepReport | None = None
    ) -> CampaignStopped:
        """The caller raises the returned error. ``hint`` is kept in the journal for later commands."""
        spent, helps = self.time_spent(step), {HELPS: hint} if hint else {}
        entry = JournalEntry(
            kind="stopped", step=step, reason=reason, report={**(report or {}), **helps}, at=clock.now()
        )
        self.write(entry.model_copy(update={"spent": spent}))
        before = "" if CampaignStep.CUT_OVER in self.state.done else "Nothing was published. "
        found = hint or f"Fix the cause, then: backfill run {self.plan.id}"
        return CampaignStopped(f"{self.plan.id} was stopped at {step.value}: {reason}", hint=f"{before}{found}")

    def require_within_limits(
        self, step: CampaignStep, done: Sequence[StepBuilt], where: str = "", days: int = 0
    ) -> list[Exceeded]:
        """Stop at ``step`` if a limit is exceeded; returns the warnings. Each is announced once.

        ``days``: how many are to be tried. Shares are of all of these: it stops once untried days cannot bring a share
        back within its limit, and no sooner.
        """
        found = self.judge_limits(done, self.options.limits, days)
        for each in found:
            attempt = f".{len(self.entries())}" if each.stops else ""
            key = f"{self.campaign}.{each.limit}-{each.allowed:f}{attempt}"
            announce(self.builder.lake.storage, key, limit_reached(self.plan, each, self.dataset))
        if stops := [each for each in found if each.stops]:
            hint = f"Fix the cause, then: backfill run {self.plan.id}. {self.allow_more(stops[0])}"
            reason = f"{where}{stops[0].sentence}{_first_cause(stops[0], done)}"
            raise self.stop(step, reason, hint, shadow_report(done))
        return found

    def allow_more(self, exceeded: Exceeded) -> str:
        if self.plan.terms.limits:
            return "Or allow more in the file of the plan, and plan again"
        return f"Or allow more: backfill run {self.plan.id} --limits {exceeded.limit}=VALUE"

    def require_expected(self, step: CampaignStep, difference: Difference, where: str = "") -> None:
        if difference.unmet:
            self.progress(markdown(difference_answer(difference, declared_of(self.catalog.steps))))
            reason = f"Not as expected: {difference.unmet[0].expectation} (backfill status {self.plan.id} shows it)."
            report = shadow_report(self.shadowed)
            raise self.stop(step, f"{where}{difference.sentence} {reason}", self.plan_again, report)

    @property
    def plan_again(self) -> str:
        """For an unmet expectation: it is part of the plan, so running the plan again cannot help."""
        again = f"Plan again with what is to be expected instead: {self.plan.command('TEXT')}."
        if not self.plan.terms.empty:
            again = f"Change what is expected in the file of the plan, and plan again: {self.plan.command()}."
        return f"{again} Or give this one up: backfill timeline delete {self.plan.id}"

    def begin(self) -> None:
        self.begun = (clock.seconds(), self.spark_seconds)

    def time_spent(self, step: CampaignStep) -> Spent | None:
        """Returns None if the step did not begin in this process, or its time is in the journal already."""
        if self.begun is None:
            return None
        (started, spark), self.begun = self.begun, None
        return Spent(
            seconds=round(clock.seconds() - started, 3),
            spark_start=round(self.spark_seconds - spark, 3),
            size=sizes(self.plan.steps).get(step),
        )

    # ------------------------------------------------------------------ the shadow backfill

    def stage_wave(self, number: int) -> list[StepBuilt]:
        self.begin()
        wave = self.waves[number]
        self.progress(f"{self.plan.id}: wave {wave.name}, {len(wave.days)} of {len(self.waves[-1].so_far)} days")
        days = days_of_wave(self.steps, wave)
        total = sum(map(len, days.values()))

        def watch(done: Sequence[StepBuilt]) -> None:
            self.require_within_limits(CampaignStep.SHADOW, done, f"wave {wave.name}: ", days=total)

        return self.stage(days, watch)

    def stage(
        self,
        days: Mapping[str, tuple[date, ...]] | None = None,
        watch: Callable[[Sequence[StepBuilt]], None] | None = None,
    ) -> list[StepBuilt]:
        """``days``: by step, default all. ``watch`` is called while days are computed, and may raise."""
        steps = shadow_steps(self.catalog, self.plan, days)
        self.shadowed = shadow(self.builder.lake, self.campaign, steps, self.run, self.say_news, watch)
        return self.shadowed

    def say_news(self, line: str) -> None:
        """Print ``line`` unless it repeats an adoption by this process or a cut period."""
        is_own = ADOPTED in line and bool(self.shadowed)
        if is_own or line in self.cut:
            return
        if FLAGGED in line:
            self.cut.add(line)
        self.progress(line)

    def judge_wave(self, number: int, done: Sequence[StepBuilt]) -> list[Exceeded]:
        """Raises :class:`CampaignStopped` if a limit is exceeded or an expectation unmet."""
        where = f"wave {self.waves[number].name}: "
        found = self.require_within_limits(CampaignStep.SHADOW, done, where)
        # The next step judges the last wave together with all other days.
        is_last = number == len(self.waves) - 1
        if self.plan.expectations and not is_last and any(each.staged for each in done):
            # The timelines may hold days of later waves from before a restart: compare only ``done``.
            difference = find_difference(self.builder.lake, self.plan, self.progress, staged=staged_by(done))
            self.require_expected(CampaignStep.SHADOW, difference, where)
        for each in found:
            self.progress(f"Warning: {each.sentence}")
        report = {**shadow_report(done), "warnings": [each.sentence for each in found]}
        spent = self.time_spent(CampaignStep.SHADOW)
        self.write(JournalEntry(kind="wave", wave=number, report=report, at=clock.now(), spent=spent))
        return found

    def judge_limits(self, done: Sequence[StepBuilt], limits: Limits, days: int = 0) -> list[Exceeded]:
        """``days``: the least number to count as tried."""
        started = next((e.at for e in reversed(self.entries()) if e.kind in ("started", "resumed")), clock.now())
        seconds = Decimal(str((clock.now() - started).total_seconds()))
        price = self.price_per_core_second
        money = None if price is None else computed_seconds(done) * self.plan.cost.cores * price
        staged, published = self.figures(done)
        seen = input_of(done, staged, published, seconds, money)
        return judge(limits, replace(seen, tried=max(seen.tried, days)))

    def entries(self) -> list[JournalEntry]:
        """Reads only what is new."""
        storage, log = self.builder.lake.storage, self.builder.lake.publisher.log
        self.known_entries = journal.numbered_entries(storage, self.campaign, self.known_entries)
        if (newest := log.head().version) != self.known_log:
            self.published = published_by(log, self.campaign, self.published)
            self.known_log = max([newest, *(each.closed for each in self.published)])
        return all_entries(list(self.known_entries.values()), self.published)

    def published_contents(self) -> dict[str, dict[date, DayContent | None]]:
        """By table and day; None for a foreign write."""
        observed = self._observe()
        return {table: observed.contents(table) for each in self.steps for table in each.tables}

    def figures(self, done: Iterable[StepBuilt]) -> tuple[Held, Held]:
        steps, lake = list(done), self.builder.lake
        found, observed, published = staged_contents(steps), self._observe(), self.published_contents()
        overlay = staged_by(steps).overlay
        staged: Held = {}
        before: Held = {}
        for name, days in found.items():
            was = {day: content for day, content in published.get(name, {}).items() if day in days}
            table, version = self.catalog.table(name), observed.versions.get(name)
            staged[name] = complete(lake, table, days, version, overlay, self.read)
            before[name] = complete(lake, table, was, version, read=self.read)
        return staged, before

    def _observe(self) -> LogView:
        return observe(self.builder.lake.storage, [table for each in self.steps for table in each.tables])

    @property
    def held_back(self) -> list[HeldBack]:
        return [each for step in self.shadowed for each in step.held_back]


def _first_cause(exceeded: Exceeded, done: Iterable[StepBuilt]) -> str:
    held = [each for step in done for each in step.held_back]
    causes = {"gates": [each for each in held if each.rules], "errors": [each for each in held if each.error]}
    return f" The first: {held_back_lines(found)[0]}." if (found := causes.get(exceeded.limit)) else ""


def shadow_report(done: Iterable[StepBuilt]) -> StepReport:
    steps = list(done)
    counts = {
        each.step: {
            "staged": len(each.staged),
            "unchanged": len(each.kept),
            "held back": len({held.day for held in each.held_back}),
        }
        for each in steps
    }
    held = [each for step in steps for each in step.held_back]
    return {
        "days": counts,
        "staged": _ranges_by_table(steps, lambda each: each.staged),
        "unchanged": _ranges_by_table(steps, lambda each: each.kept),
        "held_back": held_back_lines(held),
        journal.HELD_BACK_DAYS: held_back_days(held),
    }


def _ranges_by_table(steps: Iterable[StepBuilt], days: Callable[[StepBuilt], Iterable[date]]) -> dict[str, list[str]]:
    found = {table: list(as_ranges(days(each))) for each in steps for table in each.build.tables}
    return {table: ranges for table, ranges in found.items() if ranges}
