"""The nine steps of a campaign. Each can be repeated, and returns its report as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from backfill_assets import clock
from backfill_assets.campaign.approval import (
    ApprovalDecision,
    ApprovalVerdict,
    Attempt,
    MovedDays,
    decide,
    moved_days,
    moved_sentence,
)
from backfill_assets.campaign.breaker import held_back_lines
from backfill_assets.campaign.course import Move, is_published
from backfill_assets.campaign.cutover import cut_over
from backfill_assets.campaign.look import boundary_lines, campaign_days, plan_difference_answer, read_up_to
from backfill_assets.campaign.notice import begins, completion
from backfill_assets.campaign.run import CampaignRun, StepReport, shadow_report
from backfill_assets.campaign.standing import PlanWord
from backfill_assets.campaign.undo import undo
from backfill_assets.days import TableDay
from backfill_assets.difference.difference import TableCompared, TableDifference, changes, table_difference
from backfill_assets.difference.find import declared_of, find_difference, last_difference
from backfill_assets.difference.letter import difference_answer
from backfill_assets.difference.verdict import Difference
from backfill_assets.errors import CampaignStopped
from backfill_assets.lakehouse.campaign_journal import ABANDONED, STEPS, CampaignStep, JournalEntry, set_damaged_aside
from backfill_assets.lakehouse.plans import close_plan, keep_page, open_plan, page_uri
from backfill_assets.lakehouse.records import Notice, Publication
from backfill_assets.lakehouse.timelines import close_timelines, newest_verdicts
from backfill_assets.limits import Exceeded
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import NO_DAYS, Days
from backfill_assets.plan.keep import shadow_steps
from backfill_assets.plan.make import make_plan
from backfill_assets.plan.records import NO_TERMS, Plan, PlannedStep, Scope, as_ranges, days_of
from backfill_assets.plan.situation import PlanContext
from backfill_assets.publish.delivery import Sender, deliver
from backfill_assets.publish.outbox import announce, begins_key, withdraw
from backfill_assets.rebuild.decide import days_so_far
from backfill_assets.rebuild.lake import Progress, waiting
from backfill_assets.rebuild.walk import StepBuilt, sides_of, staged_by
from backfill_assets.report.html import html
from backfill_assets.report.markdown import markdown
from backfill_assets.state.positions import read_boundaries
from backfill_assets.state.reading import unknown_publication
from backfill_assets.state.view import View
from backfill_assets.text import format_count, format_ranges
from backfill_assets.upkeep.watch import Watch, WatchedDay


@dataclass
class Review:
    """Decides whether a cut-over may publish. ``moved``: days that differ from what was approved."""

    at: CampaignRun
    compared: Difference | None = None
    moved: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._approved = self.at.approved_difference
        self._shown = last_difference(self.at.builder.lake.storage, self.at.plan.id)

    def __call__(self, done: Sequence[StepBuilt], progress: Progress) -> bool:
        """True if ``done`` may be published, False if it has to be staged again first.

        Raises :class:`CampaignStopped` if neither: the approval is withdrawn, and the new difference is kept.
        """
        if not any(each.staged for each in done):
            return True
        decision = self._decide(done)
        if decision.verdict in (ApprovalVerdict.COMPARE, ApprovalVerdict.STAGE_AGAIN):
            self.compared = compare_and_keep(self.at, done, progress, self._known_tables())
            decision = self._decide(done)
        self.moved = {} if decision.as_approved else self._moved_days(done)
        return self._carry_out(decision, done, progress)

    def _decide(self, done: Sequence[StepBuilt]) -> ApprovalDecision:
        knowingly = self.at.options.without_held_back
        held = () if knowingly else tuple(held_back_lines(each for step in done for each in step.held_back))
        exceeded = () if self.compared is None else tuple(self._exceeded_limits(done))
        return decide(Attempt(self._approved, sides_of(done), self.compared, exceeded, held))

    def _exceeded_limits(self, done: Sequence[StepBuilt]) -> list[Exceeded]:
        """Leaves out budgets: time has passed while the campaign waited for approval."""
        return self.at.judge_limits(done, self.at.options.limits.without_budgets())

    def _carry_out(self, decision: ApprovalDecision, done: Sequence[StepBuilt], progress: Progress) -> bool:
        if decision.verdict is ApprovalVerdict.PUBLISH:
            if self.moved:
                progress(f"{self.at.plan.id}: {moved_sentence(self.moved)} {decision.reason}")
            return True
        if decision.verdict is ApprovalVerdict.STAGE_AGAIN or self.compared is None:
            return False
        exceeded = self._exceeded_limits(done)
        report = evidence(self.at, done, exceeded, self.compared)
        reason = f"{moved_sentence(self.moved)} {decision.reason}"
        if decision.verdict is ApprovalVerdict.STOP:
            raise self.at.stop(CampaignStep.CUT_OVER, reason, hint=self.at.plan_again, report=report)
        raise self.at.withdraw_approval(reason, report, next((each for each in exceeded if each.stops), None))

    def _known_tables(self) -> tuple[TableCompared, ...]:
        found = self.compared or self._shown
        return found.tables if found else ()

    def _moved_days(self, done: Sequence[StepBuilt]) -> dict[str, list[str]]:
        """Returns all days staged now if the approved difference is no longer kept."""
        if self._shown is not None and self._shown.fingerprint == self._approved:
            return moved_days(self._shown.sides, sides_of(done))
        return {table: list(as_ranges(each.build.computed)) for each in done for table in each.build.tables}


def compare_and_keep(
    at: CampaignRun, done: Sequence[StepBuilt], progress: Progress, known: Sequence[TableCompared] = ()
) -> Difference:
    storage = at.builder.lake.storage
    found = find_difference(at.builder.lake, at.plan, progress, staged=staged_by(done), known=known)
    log = at.builder.lake.publisher.log
    answer = plan_difference_answer(log, at.plan, found, at.catalog.steps, at.approval_by, ui=at.ui, drawn=True)
    keep_page(storage, at.plan.id, html(answer))
    return found


def evidence(
    at: CampaignRun, done: Sequence[StepBuilt], exceeded: Sequence[Exceeded], difference: Difference
) -> StepReport:
    return {
        **shadow_report(done),
        "warnings": [each.sentence for each in exceeded],
        "sentence": difference.sentence,
        "report": page_uri(at.builder.lake.storage, at.plan.id),
        "fingerprint": difference.fingerprint,
        "difference": markdown(difference_answer(difference, declared_of(at.catalog.steps))),
    }


_NOTHING_CHANGES = "nothing would change: main holds all of it already."
SituationOf = Callable[[Plan], PlanContext]
_AFTER_CUT_OVER = STEPS[STEPS.index(CampaignStep.CUT_OVER) + 1 :]
"""Done again by whoever asks: published days are read once more."""


def do_step(at: CampaignRun, step: CampaignStep, sender: Sender, situation: SituationOf) -> StepReport:
    """Raises :class:`CampaignStopped` if the campaign must not go on."""
    at.begin()
    at.settle()
    now = at.state
    if step in now.done and is_published(now) and step not in _AFTER_CUT_OVER:
        report = now.done[step].report
        read = read_up_to(at.builder.lake.publisher, report["publication"]) if step is CampaignStep.CUT_OVER else {}
        return {**report, **read}
    if now.rolled_back:
        hint = f"To stage it again: backfill run {at.plan.id}"
        raise CampaignStopped(f"{at.plan.id} was rolled back {now.rolled_back.reason}.", hint=hint)
    work: Mapping[CampaignStep, Callable[[], StepReport]] = {
        CampaignStep.ANNOUNCE: lambda: announce_campaign(at, sender),
        CampaignStep.VERIFY_SOURCE: lambda: verify_source(at),
        CampaignStep.PIN: lambda: pin_watermarks(at, situation),
        CampaignStep.SHADOW: lambda: shadow_all(at),
        CampaignStep.VALIDATE: lambda: validate(at),
        CampaignStep.CUT_OVER: lambda: bring_into_main(at),
        CampaignStep.DOWNSTREAM: lambda: check_and_rebuild_downstream(at, sender, situation),
        CampaignStep.NOTIFY: lambda: notify(at, sender),
        CampaignStep.DECOMMISSION: lambda: decommission(at),
    }
    return at.record_step(step, work[step]())


def carry_on(
    at: CampaignRun, sender: Sender, situation: SituationOf, announce_move: Callable[[str], None] | None = None
) -> Move:
    try:
        while not (move := at.next()).waits:
            (announce_move or at.progress)(f"{at.plan.id}: {move.reason}")
            if move.wave is not None:
                staged = at.stage_wave(move.wave)
                at.judge_wave(move.wave, staged)
            elif move.step is not None:
                do_step(at, move.step, sender, situation)
    except CampaignStopped:
        deliver(at.builder.lake.publisher, sender)
        raise
    return move


def announce_campaign(at: CampaignRun, sender: Sender) -> StepReport:
    """Opens the plan too: ``backfill status`` shows it on its tables from now on."""
    storage = at.builder.lake.storage
    open_plan(storage, at.plan.id)
    tables = (table for step in at.plan.steps if step.days for table in step.tables)
    notice = begins(at.plan, _reports(at.catalog, tables), at.dataset)
    announce(storage, begins_key(at.campaign), notice)
    delivery = deliver(at.builder.lake.publisher, sender)
    return {"notice": notice.title, "reports": list(notice.reports), "delivered": list(delivery.sent)}


def verify_source(at: CampaignRun) -> StepReport:
    """Ingest what has landed, then read every pinned input again: counts and checksums must be as published.

    Changed files are read again first. An input that gained rows from a stream is stale, not wrong: the cut-over stages
    its days again.
    """
    refreshed: StepReport = {}
    for each in at.plan.steps:
        step = at.catalog.step(each.name)
        if each.kind == "take in" and each.source_files:
            refreshed[each.name] = _refreshed(at, each, step)
        if each.kind == "take in" and each.days:
            at.builder.build(step, each.days, run=at.run, progress=at.progress)
    read: StepReport = {}
    for table, watched in _read_again(at, [(pinned.table, days_of(pinned.days)) for pinned in at.plan.pinned]):
        if wrong := [day for day in watched if day.is_wrong]:
            raise at.stop(CampaignStep.VERIFY_SOURCE, _wrong(wrong))
        read[table] = {"days": len(watched), "rows": sum(day.rows for day in watched)}
    return {"inputs": read, **({"refreshed": refreshed} if refreshed else {})}


def _refreshed(at: CampaignRun, planned: PlannedStep, step: Step) -> StepReport:
    """Published at once: raw is only appended to."""
    done = at.builder.refresh(step, list(planned.source_files), run=at.run, progress=at.progress)
    others = sorted(done.rows.keys() - set(planned.days))
    if others:
        at.progress(
            f"Warning: {step.name}: rows of {format_ranges(others)} were corrected as well: plan these days too"
        )
    added, deleted = (sum(counts[number] for counts in done.rows.values()) for number in (0, 1))
    return {"publication": done.publication, "added": added, "deleted": deleted, "other days": list(as_ranges(others))}


def pin_watermarks(at: CampaignRun, situation: SituationOf) -> StepReport:
    """Locks nothing: later arrivals make days stale, and the cut-over stages those again."""
    head = at.builder.lake.publisher.log.head()
    found = situation(at.plan)
    arriving = {
        table: {str(day): len(landed.waiting) for day, landed in sorted(days.items()) if landed.waiting}
        for table, days in found.landed.items()
    }
    view = View(at.builder.lake.storage, head.version, head.state.versions)
    read = read_boundaries(view, {each.table: days_of(each.days) for each in at.plan.pinned})
    return {
        "sequence": head.version,
        "versions": {each.table: head.state.versions.get(each.table) for each in at.plan.pinned},
        "not taken in": {table: days for table, days in arriving.items() if days},
        **boundary_lines(read),
    }


def shadow_all(at: CampaignRun) -> StepReport:
    """Walk all days once more: those that moved since their wave are staged again, others adopted."""
    at.require_within_limits(CampaignStep.SHADOW, at.stage())
    return shadow_report(at.shadowed)


def validate(at: CampaignRun) -> StepReport:
    warnings = at.require_within_limits(CampaignStep.VALIDATE, at.stage())
    if not any(each.staged for each in at.shadowed):
        held = held_back_lines(at.held_back)
        give_up = f"To give it up: backfill timeline delete {at.plan.id}"
        hint = "" if held else give_up
        raise at.stop(CampaignStep.VALIDATE, held[0] if held else _NOTHING_CHANGES, hint)
    difference = compare_and_keep(at, at.shadowed, at.progress)
    at.require_expected(CampaignStep.VALIDATE, difference)
    return evidence(at, at.shadowed, warnings, difference)


def bring_into_main(at: CampaignRun) -> StepReport:
    lake, review = at.builder.lake, Review(at)

    def notice(publication: Publication) -> Notice:
        made = changes(publication, at.published_contents())
        return _completion(at, made, review.moved, publication.leaves_stale)

    done = cut_over(
        lake,
        at.campaign,
        shadow_steps(at.catalog, at.plan),
        at.run,
        at.progress,
        without_held_back=at.options.without_held_back,
        notice=notice,
        review=review,
    )
    close_plan(lake.storage, at.plan.id)
    return {
        "publication": done.published.publication,
        "days": _as_ranges(done.days),
        "staged again": _as_ranges(done.staged_again),
        "moved": review.moved,
        **({"leaves stale": _as_ranges(stale)} if (stale := done.published.leaves_stale) else {}),
        **read_up_to(lake.publisher, done.published.publication),
    }


def _as_ranges(days: Mapping[str, Sequence[date]]) -> dict[str, list[str]]:
    return {table: list(as_ranges(found)) for table, found in days.items()}


def staged_notice(at: CampaignRun) -> Notice:
    storage, published = at.builder.lake.storage, at.published_contents()
    days = {each.table: each.staged for each in campaign_days(storage, at.plan) if each.staged}
    verdicts, changed = newest_verdicts(storage, days, at.campaign), []
    for table, of_table in days.items():
        judged = ((day, verdicts[TableDay(table, day)].content) for day in of_table)
        staged = {day: content for day, content in judged if content is not None}
        changed.append(table_difference(table, published.get(table, {}), staged))
    return _completion(at, changed)


def _completion(
    at: CampaignRun,
    changed: Sequence[TableDifference],
    moved: MovedDays | None = None,
    stale: Days = NO_DAYS,
) -> Notice:
    reports = _reports(at.catalog, (change.table for change in changed if change.changed))
    return completion(at.plan, changed, reports, at.approved_by, moved, stale, at.dataset)


def check_and_rebuild_downstream(at: CampaignRun, sender: Sender, situation: SituationOf) -> StepReport:
    """Read the published days again, and stop or roll back if they are wrong; else rebuild their readers.

    Days of the campaign itself are not built: held-back days stay as they are, with everything that reads them.
    """
    brought = _brought_days(at, _publication(at))
    watched = [day for _, found in _read_again(at, brought) for day in found]
    if wrong := [day for day in watched if day.is_wrong]:
        raise _wrong_after_cut_over(at, wrong, sender)
    # Expectations and approvers are about the plan's own tables.
    own_terms = {"version": "", "force": False, "expectations": (), "terms": NO_TERMS}
    asked = at.plan.asked.model_copy(update={"scope": Scope.DOWNSTREAM, **own_terms})
    own = {each.name: set(each.days) for each in at.steps}
    rebuilt: StepReport = {}
    for each in make_plan(asked, situation(at.plan)).steps:
        days = [day for day in each.days if day not in own.get(each.name, ())]
        if each.kind == "rebuild" and days:
            at.progress(f"{each.name}: {format_count(len(days), each.cadence.noun)} that read what was published ...")
            at.builder.build(at.catalog.step(each.name), days, run=at.run, progress=at.progress)
            rebuilt[each.name] = list(as_ranges(days))
    return {"checked": len(watched), "rebuilt": rebuilt}


def _read_again(
    at: CampaignRun, days_by_table: Sequence[tuple[str, Sequence[date]]]
) -> Iterator[tuple[str, Sequence[WatchedDay]]]:
    total, done, started = sum(len(days) for _, days in days_by_table), 0, clock.seconds()
    watch = _watch(at)
    for table, days in days_by_table:
        with waiting(at.progress, f"{table}: published days are read again"):
            watched = watch.look([at.catalog.table(table)], days)
        done += len(days)
        at.progress(days_so_far(f"{table}: read again", done, total, clock.seconds() - started))
        yield table, watched


def notify(at: CampaignRun, sender: Sender) -> StepReport:
    """Deliver the notice written with the publication. If delivery fails, it stays due."""
    delivery = deliver(at.builder.lake.publisher, sender)
    reports = _reports(at.catalog, (table for each in at.steps for table in each.tables))
    return {"reports": list(reports), "delivered": list(delivery.sent), "still due": dict(delivery.failed)}


def _reports(catalog: Catalog, tables: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in dict.fromkeys(tables) if catalog.table(name).layer == "report")


def decommission(at: CampaignRun) -> StepReport:
    """After the rollback window: close the timelines, which lets maintenance reclaim their files."""
    storage = at.builder.lake.storage
    closed = close_timelines(storage, (table for each in at.steps for table in each.tables), at.campaign)
    close_plan(storage, at.plan.id)
    return {"closed": [timeline.path for timeline in closed]}


def abandon(at: CampaignRun) -> None:
    """Give the campaign up before its cut-over. Raises :class:`InvalidRequest` if there is nothing to give up.

    Unreadable journal entries are set aside: the log knows whether it is published.
    """
    begun = JournalEntry(kind="started", at=clock.now(), by=at.run.launched_by, reason="its journal was damaged")
    set_damaged_aside(at.builder.lake.storage, at.campaign, begun)
    at.require(PlanWord.ABANDON)
    decommission(at)
    withdraw(at.builder.lake.storage, begins_key(at.campaign))
    at.write(
        JournalEntry(
            kind="stopped", at=clock.now(), reason=f"{at.run.launched_by} abandoned it", report={ABANDONED: True}
        )
    )


# ------------------------------------------------------------------ what the steps look at


def _watch(at: CampaignRun) -> Watch:
    lake = at.builder.lake
    return Watch(lake.catalog, lake.storage, lake.publisher.log, lake.spark, believes_hashes=True)


def _publication(at: CampaignRun) -> str:
    return str(at.state.done[CampaignStep.CUT_OVER].report["publication"])


def _brought_days(at: CampaignRun, publication: str) -> list[tuple[str, tuple[date, ...]]]:
    found = at.builder.lake.publisher.log.find_prepared(publication)
    if found is None:
        raise unknown_publication(at.builder.lake.storage, publication)
    tables = found[0].publication.tables
    return [(each.table, tuple(day.day for day in each.days)) for each in tables]


def _wrong(days: Sequence[WatchedDay]) -> str:
    first = days[0]
    broken = "; ".join(
        f"{rule.rule}: {rule.observed}, expected {rule.expected}" for rule in first.rules if not rule.passed
    )
    others = f", and {format_count(len(days) - 1, 'more day')}" if len(days) > 1 else ""
    return f"{first.table} {first.day} is not as it was published ({broken}){others}."


def _wrong_after_cut_over(at: CampaignRun, wrong: Sequence[WatchedDay], sender: Sender) -> CampaignStopped:
    publication = _publication(at)
    reason = f"after the cut-over, {_wrong(wrong)}"
    if not at.options.roll_back_if_wrong:
        return at.stop(CampaignStep.DOWNSTREAM, f"{reason} To put all of it back: backfill rollback {publication}")
    back = undo(at.builder.lake, publication, at.run, at.progress, reason=reason).published.publication
    deliver(at.builder.lake.publisher, sender)
    return at.stop(CampaignStep.DOWNSTREAM, f"{reason} All of it was put back by {back}.")
