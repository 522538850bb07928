"""The nine steps of a campaign. Each can be repeated, and returns its report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date

from backfill_assets.campaign.approval import MovedDays
from backfill_assets.campaign.breaker import held_back_lines
from backfill_assets.campaign.course import Move, approved_by, is_published
from backfill_assets.campaign.cutover import cut_over
from backfill_assets.campaign.ends import evidence, record_step, record_stop, shadow_report
from backfill_assets.campaign.look import campaign_days, read_up_to
from backfill_assets.campaign.notice import begins, completion
from backfill_assets.campaign.read_again import SituationOf, check_and_rebuild_downstream, verify_source
from backfill_assets.campaign.review import Review, compare_and_keep
from backfill_assets.campaign.run import CampaignRun
from backfill_assets.campaign.staging import (
    judge_wave,
    published_contents,
    require_expected,
    require_within_limits,
    stage,
    stage_wave,
)
from backfill_assets.days import TableDay
from backfill_assets.difference.difference import TableDifference, changes, table_difference
from backfill_assets.errors import CampaignStopped
from backfill_assets.lakehouse.campaign_journal import STEPS, CampaignStep
from backfill_assets.lakehouse.campaign_reports import (
    AnnouncedReport,
    ClosedReport,
    ComparedReport,
    CutOverReport,
    PinnedReport,
    Report,
    StagedReport,
    ToldReport,
)
from backfill_assets.lakehouse.records import Notice, Publication
from backfill_assets.lakehouse.timelines import close_timelines, newest_verdicts
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.graph import NO_DAYS, Days
from backfill_assets.plan.keep import shadow_steps
from backfill_assets.plan.records import Ranges, as_ranges, days_of
from backfill_assets.publish.delivery import Sender, deliver
from backfill_assets.publish.outbox import announce, begins_key
from backfill_assets.state.boundaries import boundary_line
from backfill_assets.state.positions import read_boundaries
from backfill_assets.state.view import View

_NOTHING_CHANGES = "nothing would change: main holds all of it already."
_AFTER_CUT_OVER = STEPS[STEPS.index(CampaignStep.CUT_OVER) + 1 :]


def do_step(at: CampaignRun, step: CampaignStep, sender: Sender, situation: SituationOf) -> Report:
    """Raises :class:`CampaignStopped` if the campaign must not go on."""
    at.timer.begin()
    at.settle()
    now = at.state
    if step in now.done and is_published(now) and step not in _AFTER_CUT_OVER:
        report = now.done[step].report
        if not isinstance(report, CutOverReport):
            return report
        return report.model_copy(update={"read_up_to": read_up_to(at.lake.publisher, report.publication)})
    if now.rolled_back:
        hint = f"To stage it again: backfill run {at.plan.id}"
        raise CampaignStopped(f"{at.plan.id} was rolled back {now.rolled_back.reason}.", hint=hint)
    work: Mapping[CampaignStep, Callable[[], Report]] = {
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
    report = work[step]()
    record_step(at, step, report)
    return report


def carry_on(
    at: CampaignRun, sender: Sender, situation: SituationOf, announce_move: Callable[[str], None] | None = None
) -> Move:
    try:
        while not (move := at.next()).waits:
            (announce_move or at.progress)(f"{at.plan.id}: {move.reason}")
            if move.wave is not None:
                staged = stage_wave(at, move.wave)
                judge_wave(at, move.wave, staged)
            elif move.step is not None:
                do_step(at, move.step, sender, situation)
    except CampaignStopped:
        deliver(at.lake.publisher, sender)
        raise
    return move


def announce_campaign(at: CampaignRun, sender: Sender) -> AnnouncedReport:
    tables = (table for step in at.plan.steps if step.days for table in step.tables)
    notice = begins(at.plan, _reports(at.catalog, tables), at.dataset)
    announce(at.storage, begins_key(at.campaign), notice)
    delivery = deliver(at.lake.publisher, sender)
    return AnnouncedReport(notice=notice.title, reports=notice.reports, delivered=tuple(delivery.sent))


def pin_watermarks(at: CampaignRun, situation: SituationOf) -> PinnedReport:
    """Locks nothing: the cut-over stages again what later arrivals make stale."""
    head = at.lake.publisher.log.head()
    found = situation(at.plan)
    arriving = {
        table: {str(day): len(landed.waiting) for day, landed in sorted(days.items()) if landed.waiting}
        for table, days in found.landed.items()
    }
    view = View(at.storage, head.version, head.state.versions)
    read = read_boundaries(view, {each.table: days_of(each.days) for each in at.plan.pinned})
    return PinnedReport(
        sequence=head.version,
        versions={each.table: head.state.versions.get(each.table) for each in at.plan.pinned},
        not_ingested={table: days for table, days in arriving.items() if days},
        read_up_to=tuple(map(boundary_line, read)),
    )


def shadow_all(at: CampaignRun) -> StagedReport:
    """Walk all days once more: those that moved since their wave are staged again, others adopted."""
    require_within_limits(at, CampaignStep.SHADOW, stage(at))
    return shadow_report(at.staged.steps)


def validate(at: CampaignRun) -> ComparedReport:
    warnings = require_within_limits(at, CampaignStep.VALIDATE, stage(at))
    if not any(each.staged for each in at.staged.steps):
        held = held_back_lines(at.staged.held_back)
        give_up = f"To give it up: backfill timeline delete {at.plan.id}"
        hint = "" if held else give_up
        raise record_stop(at, CampaignStep.VALIDATE, held[0] if held else _NOTHING_CHANGES, hint)
    difference = compare_and_keep(at, at.staged.steps, at.progress)
    require_expected(at, CampaignStep.VALIDATE, difference)
    return evidence(at, at.staged.steps, warnings, difference)


def bring_into_main(at: CampaignRun) -> CutOverReport:
    lake, review = at.lake, Review(at)

    def notice(publication: Publication) -> Notice:
        made = changes(publication, published_contents(at))
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
    return CutOverReport(
        publication=done.published.publication,
        days=_as_ranges(done.days),
        staged_again=_as_ranges(done.staged_again),
        moved=review.moved,
        leaves_stale=_as_ranges(done.published.leaves_stale),
        read_up_to=read_up_to(lake.publisher, done.published.publication),
    )


def _as_ranges(days: Mapping[str, Sequence[date]]) -> dict[str, Ranges]:
    return {table: as_ranges(found) for table, found in days.items()}


def staged_notice(at: CampaignRun) -> Notice:
    published = published_contents(at)
    days = {each.table: each.staged for each in campaign_days(at.storage, at.plan) if each.staged}
    verdicts, changed = newest_verdicts(at.storage, days, at.campaign), []
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
    return completion(at.plan, changed, reports, approved_by(at.state), moved, stale, at.dataset)


def notify(at: CampaignRun, sender: Sender) -> ToldReport:
    """Deliver the notice written with the publication; what fails stays due."""
    delivery = deliver(at.lake.publisher, sender)
    reports = _reports(at.catalog, at.tables)
    return ToldReport(reports=reports, delivered=tuple(delivery.sent), still_due=dict(delivery.failed))


def _reports(catalog: Catalog, tables: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in dict.fromkeys(tables) if catalog.table(name).layer == "report")


def decommission(at: CampaignRun) -> ClosedReport:
    """After the rollback window: close the timelines, whose files maintenance then reclaims."""
    closed = close_timelines(at.storage, at.tables, at.campaign)
    return ClosedReport(closed=tuple(timeline.path for timeline in closed))
