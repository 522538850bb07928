"""How a plan and each of its days stand, by journal and log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta

from backfill_assets import clock
from backfill_assets.campaign.approval import letter_terms
from backfill_assets.campaign.course import (
    CampaignState,
    is_given_up,
    is_published,
    next_move,
    state_of,
)
from backfill_assets.campaign.cutover import campaign_that_brought
from backfill_assets.campaign.published import CampaignPublication, all_entries, course_of, published_by
from backfill_assets.campaign.standing import PlanFacts
from backfill_assets.campaign.undo import Undone, UndoPlan, undo
from backfill_assets.campaign.undo_days import require_undoable
from backfill_assets.days import TableDay, by_table
from backfill_assets.difference.find import declared_of
from backfill_assets.difference.letter import difference_answer
from backfill_assets.difference.verdict import Difference
from backfill_assets.lakehouse import campaign_journal as journal
from backfill_assets.lakehouse.campaign_journal import CampaignStep, JournalEntry, campaign_of, plan_of
from backfill_assets.lakehouse.campaign_reports import RangesByTable, StagedReport
from backfill_assets.lakehouse.records import Publication, logical_or_empty
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import GateVerdict, newest_verdicts
from backfill_assets.model.declaration import Step
from backfill_assets.plan.keep import planned_by, rebuilt_steps
from backfill_assets.plan.records import Plan, PlannedStep, Ranges, as_ranges, days_of
from backfill_assets.publish.log import PublicationLog
from backfill_assets.publish.publisher import Publisher
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.walk import HeldBack
from backfill_assets.report.answer import Answer
from backfill_assets.settings import ApprovalRule
from backfill_assets.state.boundaries import boundary_line
from backfill_assets.state.positions import publication_boundaries
from backfill_assets.text import format_count


def settle(publisher: Publisher, campaign: str) -> bool:
    """Finish what a dead process began; whether that was a publication of ``campaign``."""
    begun = _half_done(publisher, campaign)
    publisher.recover()
    return begun is not None


def carry_out_undo(lake: Lake, plan: UndoPlan, run: RunInfo, progress: Progress) -> Undone:
    require_undoable(plan.days)
    return undo(lake, plan.publication, run, progress)


def look(publisher: Publisher, campaign: str, plan: Plan | None = None) -> PlanFacts:
    """Writes nothing. Without ``plan``, only what the log has."""
    storage, id = publisher.storage, plan_of(campaign)
    window = timedelta(days=plan.rollback_window_days if plan else 0)
    published = published_by(publisher.log, campaign)
    course = state_of(campaign, all_entries(journal.entries(storage, campaign), published))
    move = next_move(replace(course, stopped=None), (), window, clock.now())
    facts = PlanFacts(id, course, left="" if move.waits else move.reason)
    if plan is not None:
        again = plan.command()
        facts = replace(facts, plan_again=again, overtaken=_overtaken(publisher, campaign, plan, course))
    if published:
        found = published[-1]
        facts = replace(facts, publication=found.id, at=found.at, undone=found.undoes, restored=found.restores)
        facts = replace(facts, put_back_by="" if found.undoes else _put_back_by(publisher, found))
    if half_done := _half_done(publisher, campaign):
        facts = replace(facts, half_done=half_done.id, half_done_undoes=bool(half_done.provenance.undoes))
    return facts


def read_up_to(publisher: Publisher, publication: str) -> tuple[str, ...]:
    found = publication_boundaries(publisher.storage, [publication]).get(publication, ())
    return tuple(map(boundary_line, found))


def _half_done(publisher: Publisher, campaign: str) -> Publication | None:
    log = publisher.log
    begun = (log.prepared_in(entry.file).publication for entry in log.head().state.open.values())
    return next((each for each in begun if each.provenance.campaign == campaign), None)


def _verdicts(storage: Storage, campaign: str, plan: Plan) -> dict[TableDay, GateVerdict]:
    return newest_verdicts(storage, [table for step in rebuilt_steps(plan) for table in step.tables], campaign)


def _overtaken(publisher: Publisher, campaign: str, plan: Plan, now: CampaignState) -> str:
    if not now.started or is_published(now) or now.rolled_back or is_given_up(now):
        return ""
    verdicts = _verdicts(publisher.storage, campaign, plan)
    if not verdicts:
        return ""
    log = publisher.log
    states = log.day_states(log.head(), {key.table for key in verdicts})
    moved = {k: state for k, state in states.items() if k in verdicts and state.publication != verdicts[k].replaces}
    others = {
        key: (by, state.origin.brought_by)
        for key, state in moved.items()
        if (by := campaign_that_brought(state.origin)) not in ("", campaign)
    }
    if not others:
        return ""
    key, (other, publication) = next(iter(others.items()))
    more = f" and {format_count(len(others) - 1, 'more day')}" if len(others) > 1 else ""
    return f"{key}{more} {'were' if more else 'was'} brought by {other} ({publication})"


def _put_back_by(publisher: Publisher, found: CampaignPublication) -> str:
    log, made = publisher.log, found.prepared
    states = log.day_states(log.head(), found.made.writes)
    keys = [TableDay(change.table, day.day) for change in made.publication.tables for day in change.days]
    before = {key: logical_or_empty(made.before[key.table][key.day].content) for key in keys}
    changed = [key for key in keys if before[key] != logical_or_empty(made.result(*key))]
    back = [states[key] for key in changed if key in states and logical_or_empty(states[key].content) == before[key]]
    return max(back, key=lambda state: state.sequence).publication if back and len(back) == len(changed) else ""


def plan_difference_answer(
    log: PublicationLog,
    plan: Plan,
    difference: Difference,
    steps: Sequence[Step],
    rule: ApprovalRule,
    *,
    ui: str = "",
    drawn: bool = False,
) -> Answer:
    terms = letter_terms(plan, rule, planned_by(log.storage, plan.id), course_of(log, campaign_of(plan.id)), ui)
    return difference_answer(difference, declared_of(steps), terms, drawn=drawn)


@dataclass(frozen=True)
class CampaignDays:
    """A table's days, ascending; first days of periods for a weekly or monthly one."""

    table: str
    planned: tuple[date, ...]
    staged: tuple[date, ...]
    held_back: tuple[date, ...]
    published: tuple[date, ...]
    all_staged: bool = False

    @property
    def unchanged(self) -> tuple[date, ...]:
        """Empty until all are walked."""
        return self._others if self.all_staged else ()

    @property
    def left(self) -> tuple[date, ...]:
        return () if self.all_staged else self._others

    @property
    def _others(self) -> tuple[date, ...]:
        return _among(self.planned, {*self.planned} - {*self.staged, *self.held_back, *self.published})


def campaign_days(storage: Storage, plan: Plan) -> list[CampaignDays]:
    """Tables are in build order; a plan never started has none."""
    campaign = campaign_of(plan.id)
    entries = all_entries(journal.entries(storage, campaign), published_by(PublicationLog(storage), campaign))
    now = state_of(campaign, entries)
    if not now.started:
        return []
    verdicts = {} if is_published(now) else _verdicts(storage, now.campaign, plan)
    return [found for each in rebuilt_steps(plan) for found in _of_step(each, verdicts, now, entries)]


def held_back_days(held: Iterable[HeldBack]) -> dict[str, Ranges]:
    days = by_table((each.table, each.day) for each in held)
    return {table: as_ranges(found) for table, found in days.items()}


def _of_step(
    step: PlannedStep, verdicts: Mapping[TableDay, GateVerdict], now: CampaignState, entries: Sequence[JournalEntry]
) -> Iterator[CampaignDays]:
    published = is_published(now)
    judged = [(key, verdict.passed) for key, verdict in verdicts.items() if key.table in step.tables]
    brought = now.cut_over.days if published else {}
    held = {key.day for key, passed in judged if not passed}
    # A day that passed but reads a held-back day is not published either.
    held |= {day for table in step.tables for day in days_of(_last_held_back(entries).get(table, ()))}
    for table in step.tables:
        yield CampaignDays(
            table=table,
            planned=step.days,
            staged=_among(step.days, {key.day for key, _ in judged if key.table == table} - held),
            held_back=_among(step.days, held),
            published=_among(step.days, {*days_of(brought.get(table, ()))}),
            all_staged=published or (CampaignStep.SHADOW in now.done and not _is_over(now)),
        )


def _is_over(now: CampaignState) -> bool:
    return bool(now.rolled_back or is_given_up(now))


def _last_held_back(entries: Sequence[JournalEntry]) -> RangesByTable:
    for entry in reversed(entries):
        if entry.kind in ("started", "resumed"):
            break
        if (found := entry.reported(StagedReport).held_back_days) is not None:
            return found
    return {}


def _among(planned: Sequence[date], days: set[date]) -> tuple[date, ...]:
    return tuple(day for day in planned if day in days)
