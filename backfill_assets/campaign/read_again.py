"""Steps that read published days again: the inputs before anything is staged, and all of it after the cut-over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date

from backfill_assets import clock
from backfill_assets.campaign.ends import record_stop
from backfill_assets.campaign.run import CampaignRun
from backfill_assets.campaign.undo import undo
from backfill_assets.errors import CampaignStopped
from backfill_assets.lakehouse.campaign_journal import CampaignStep
from backfill_assets.lakehouse.campaign_reports import DownstreamReport, Refreshed, RowsRead, SourceReport
from backfill_assets.model.declaration import Step
from backfill_assets.plan.make import make_plan
from backfill_assets.plan.records import NO_TERMS, Plan, PlannedStep, Ranges, Scope, as_ranges, days_of
from backfill_assets.plan.situation import PlanContext
from backfill_assets.publish.delivery import Sender, deliver
from backfill_assets.rebuild.decide import days_so_far
from backfill_assets.rebuild.lake import waiting
from backfill_assets.state.reading import unknown_publication
from backfill_assets.text import format_count, format_ranges
from backfill_assets.upkeep.watch import Watch, WatchedDay

SituationOf = Callable[[Plan], PlanContext]


def verify_source(at: CampaignRun) -> SourceReport:
    """Ingest what has landed, then read every pinned input again: counts and checksums must be as published.

    Changed files are read again first. An input that gained rows from a stream is stale, not wrong: the cut-over stages
    its days again.
    """
    refreshed: dict[str, Refreshed] = {}
    for each in at.plan.steps:
        step = at.catalog.step(each.name)
        if each.kind == "take in" and each.source_files:
            refreshed[each.name] = _refreshed(at, each, step)
        if each.kind == "take in" and each.days:
            at.builder.build(step, each.days, run=at.run, progress=at.progress)
    read: dict[str, RowsRead] = {}
    for table, watched in _read_again(at, [(pinned.table, days_of(pinned.days)) for pinned in at.plan.pinned]):
        if wrong := [day for day in watched if day.is_wrong]:
            raise record_stop(at, CampaignStep.VERIFY_SOURCE, _wrong(wrong))
        read[table] = RowsRead(days=len(watched), rows=sum(day.rows for day in watched))
    return SourceReport(inputs=read, refreshed=refreshed)


def _refreshed(at: CampaignRun, planned: PlannedStep, step: Step) -> Refreshed:
    done = at.builder.refresh(step, list(planned.source_files), run=at.run, progress=at.progress)
    others = sorted(done.rows.keys() - set(planned.days))
    if others:
        at.progress(
            f"Warning: {step.name}: rows of {format_ranges(others)} were corrected as well: plan these days too"
        )
    added, deleted = (sum(counts[number] for counts in done.rows.values()) for number in (0, 1))
    return Refreshed(publication=done.publication, added=added, deleted=deleted, other_days=as_ranges(others))


def check_and_rebuild_downstream(at: CampaignRun, sender: Sender, situation: SituationOf) -> DownstreamReport:
    """Read the published days again, and stop or roll back if they are wrong; else rebuild their readers.

    Held-back days of the campaign stay as they are, with everything that reads them.
    """
    brought = _brought_days(at, at.state.cut_over.publication)
    watched = [day for _, found in _read_again(at, brought) for day in found]
    if wrong := [day for day in watched if day.is_wrong]:
        raise _wrong_after_cut_over(at, wrong, sender)
    # Expectations and approvers are about the plan's own tables.
    own_terms = {"version": "", "where": "", "force": False, "expectations": (), "terms": NO_TERMS}
    asked = at.plan.asked.model_copy(update={"scope": Scope.DOWNSTREAM, **own_terms})
    own = {each.name: set(each.days) for each in at.steps}
    rebuilt: dict[str, Ranges] = {}
    for each in make_plan(asked, situation(at.plan)).steps:
        days = [day for day in each.days if day not in own.get(each.name, ())]
        if each.kind == "rebuild" and days:
            at.progress(f"{each.name}: {format_count(len(days), each.cadence.noun)} that read what was published ...")
            at.builder.build(at.catalog.step(each.name), days, run=at.run, progress=at.progress)
            rebuilt[each.name] = as_ranges(days)
    return DownstreamReport(checked=len(watched), rebuilt=rebuilt)


def _read_again(
    at: CampaignRun, days_by_table: Sequence[tuple[str, Sequence[date]]]
) -> Iterator[tuple[str, Sequence[WatchedDay]]]:
    total, done, started = sum(len(days) for _, days in days_by_table), 0, clock.seconds()
    watch = Watch(at.catalog, at.storage, at.lake.publisher.log, at.lake.spark, believes_hashes=True)
    for table, days in days_by_table:
        with waiting(at.progress, f"{table}: published days are read again"):
            watched = watch.look([at.catalog.table(table)], days)
        done += len(days)
        at.progress(days_so_far(f"{table}: read again", done, total, clock.seconds() - started))
        yield table, watched


# ------------------------------------------------------------------ what is read again


def _brought_days(at: CampaignRun, publication: str) -> list[tuple[str, tuple[date, ...]]]:
    found = at.lake.publisher.log.find_prepared(publication)
    if found is None:
        raise unknown_publication(at.storage, publication)
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
    publication = at.state.cut_over.publication
    reason = f"after the cut-over, {_wrong(wrong)}"
    if not at.options.roll_back_if_wrong:
        return record_stop(
            at, CampaignStep.DOWNSTREAM, f"{reason} To put all of it back: backfill rollback {publication}"
        )
    back = undo(at.lake, publication, at.run, at.progress, reason=reason).published.publication
    deliver(at.lake.publisher, sender)
    return record_stop(at, CampaignStep.DOWNSTREAM, f"{reason} All of it was put back by {back}.")
