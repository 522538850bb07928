"""How far a campaign is: steps, findings, days, approvers, next command."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import singledispatch
from typing import Any

from backfill_assets.answers.plan import boundaries_table, terms_facts
from backfill_assets.answers.status import campaign_table
from backfill_assets.campaign.course import approved_by, is_published
from backfill_assets.campaign.later_decisions import LaterDecisions, SwitchedSince
from backfill_assets.campaign.look import campaign_days, look, plan_difference_answer
from backfill_assets.campaign.run import CampaignRun
from backfill_assets.campaign.standing import PlanFacts, next_command, standing_of
from backfill_assets.campaign.steps import staged_notice
from backfill_assets.difference.find import last_difference
from backfill_assets.lakehouse.campaign_journal import CampaignStep, JournalEntry, campaign_of
from backfill_assets.lakehouse.campaign_reports import (
    AnnouncedReport,
    ByPerson,
    ClosedReport,
    ComparedReport,
    CutOverReport,
    DownstreamReport,
    PinnedReport,
    Report,
    SourceReport,
    StagedReport,
    ToldReport,
)
from backfill_assets.lakehouse.plans import page_uri
from backfill_assets.plan.cost import times_table
from backfill_assets.plan.inputs import planned_boundaries
from backfill_assets.plan.keep import planned_by
from backfill_assets.plan.records import Plan, as_ranges
from backfill_assets.publish.notice_forms import notice_lines
from backfill_assets.publish.publisher import Publisher
from backfill_assets.report.answer import Answer, Fact, Grid, Id, Line, Part, Tone, Worded
from backfill_assets.state.positions import publication_boundaries
from backfill_assets.text import format_are, format_count
from backfill_assets.upkeep.incidents import IncidentBook


def kept_difference_answer(at: CampaignRun) -> Answer | None:
    storage = at.builder.lake.storage
    found = last_difference(storage, at.plan.id)
    if found is None:
        return None
    log = at.builder.lake.publisher.log
    answer = plan_difference_answer(log, at.plan, found, at.catalog.steps, at.approval_by, ui=at.ui)
    page = {"The page of the difference": page_uri(storage, at.plan.id)}
    return replace(answer, sections=(), next=(), name="difference", links={**answer.links, **page})


def next_of_plan(publisher: Publisher, plan: Plan) -> tuple[str, ...]:
    return tuple(filter(None, [next_command(look(publisher, campaign_of(plan.id), plan))]))


# ------------------------------------------------------------------ the answers


def campaign_answer(at: CampaignRun, *, journal: bool = True) -> Answer:
    facts, entries, difference = at.facts, at.entries(), kept_difference_answer(at)
    said = _entries(at.plan, entries) if journal else ()
    wrong = (Line(each, Tone.WARN) for each in left_to(at))
    parts = (*_standing(at, facts), *wrong, *_what_is_published(at, facts), *said, *_days(at, entries))
    next_line = tuple(filter(None, [next_command(facts)]))
    return Answer(f"The campaign of {at.plan.id}", parts, (difference,) if difference else (), next=next_line)


def _standing(at: CampaignRun, facts: PlanFacts) -> Iterator[Part]:
    yield Fact("plan", Id(at.plan.id))
    yield Fact("standing", standing_of(facts).value)
    yield Fact("waits", at.next().reason)
    if facts.course.daemon:
        yield Fact("carried on by", "Dagster's daemon")
    people = {
        "planned by": str(planned_by(at.builder.lake.storage, at.plan.id) or ""),
        "started by": str(at.state.started_by or ""),
        "approved by": approved_by(at.state),
        "who may approve": at.approval_by.value,
    }
    yield from (Fact(name, value) for name, value in people.items() if value)
    yield from terms_facts(at.plan.terms)


def left_to(at: CampaignRun) -> list[str]:
    return [
        f"{each.table} {each.first_ranges} on main: {each.cause}. It is left to this campaign."
        for each in IncidentBook(at.builder.lake.storage).open()
        if each.left_to == at.plan.id
    ]


def _what_is_published(at: CampaignRun, facts: PlanFacts) -> Iterator[Part]:
    """Leaves out what was rolled back; boundaries are the publication's, or else the plan's."""
    boundaries = at.plan.boundaries
    if is_published(facts.course):
        report = facts.course.cut_over
        yield Fact("publication", Id(report.publication))
        yield Fact("staged again", report.staged_again)
        yield Fact("moved after the approval", report.moved)
        if by := facts.publication:
            boundaries = planned_boundaries(publication_boundaries(at.builder.lake.storage, [by]).get(by, []))
    if boundaries:
        yield boundaries_table(boundaries)


def _entries(plan: Plan, entries: Sequence[JournalEntry]) -> Iterator[Part]:
    rows = [(each.at, each.kind, _which(each), _by(each)) for each in entries]
    yield Grid("entries", ("when", "what", "step or wave", "by"), rows)
    for each in entries:
        if sentence := entry_sentence(plan, each):
            yield Line(f"{_which(each) or each.kind}: {sentence}")


def _which(entry: JournalEntry) -> str:
    return entry.step or (f"wave {entry.wave + 1}" if entry.wave >= 0 else "")


def _by(entry: JournalEntry) -> str:
    known_by = entry.reported(ByPerson).known_by
    return f"{entry.by} ({known_by})" if known_by else entry.by


def _days(at: CampaignRun, entries: Sequence[JournalEntry]) -> Iterator[Part]:
    if days := campaign_days(at.builder.lake.storage, at.plan):
        yield campaign_table(days)
    yield Fact("held back", list(at.state.validation.held_back))
    yield times_table(at.plan, entries)


def approval_answer(at: CampaignRun, later: LaterDecisions) -> Answer:
    """What an approval publishes, its notice, and ``later`` decisions that it overrides."""
    found = campaign_days(at.builder.lake.storage, at.plan)
    scope = at.plan.scope_of({each.table: as_ranges(each.staged) for each in found})
    days = f"{scope}, all at once, for {at.plan.id}"
    needed, given = at.plan.terms.approvals, len(at.state.given)
    publishes = f"A yes publishes {days}."
    if needed > 1:
        so_far = f"{given} {'has' if given == 1 else 'have'}"
        publishes = f"{needed} people have to say yes, {so_far}. The last one publishes {days}."
    since = (Line(each, Tone.WARN) for each in later.sentences)
    notice = Answer("The notice that is sent then", tuple(map(Line, notice_lines(staged_notice(at)))))
    undo = Line("It is one publication: one backfill rollback puts all of it back.")
    shown = (campaign_table(found),) if found else ()
    return Answer(parts=(Line(publishes, Tone.STRONG), *shown, *since, undo), sections=(notice,))


def later_facts(later: LaterDecisions) -> tuple[Fact, Fact]:
    return Fact("rolled back since", later.rolled_back), switched_fact(later.switched)


def switched_fact(switched: Iterable[SwitchedSince]) -> Fact:
    return Fact("switched since", [Worded(asdict(each), each.sentence) for each in switched])


def step_answer(step: CampaignStep, report: Report) -> Answer:
    parts = tuple(_reported(label, value) for label, value in report.shown().items())
    return Answer(step.value.replace("_", " "), parts)


def _reported(name: str, value: Any) -> Part:
    if isinstance(value, list) and len(value) > 1:
        return Grid(name, (name,), [(each,) for each in value])
    if isinstance(value, Mapping) and value and all(isinstance(each, Mapping) for each in value.values()):
        columns = list(dict.fromkeys(column for row in value.values() for column in row))
        rows = [(key, *(row.get(column) for column in columns)) for key, row in value.items()]
        return Grid(name, ("", *columns), rows, title=name)
    return Fact(name, value)


# ------------------------------------------------------------------ what a step has found, in a sentence


def entry_sentence(plan: Plan, entry: JournalEntry) -> str:
    """Empty if the entry says only what happened and who did it."""
    if entry.reason:
        return entry.reason
    if entry.kind == "wave":
        report = entry.reported(StagedReport)
        return " ".join([found_sentence(report, plan), *report.warnings])
    return found_sentence(entry.report, plan) if entry.kind == "step" else ""


@singledispatch
def found_sentence(_: Report, plan: Plan) -> str:
    """What a step has found. Empty for reports of people."""
    return ""


@found_sentence.register
def _announced(report: AnnouncedReport, _: Plan) -> str:
    return f"{report.notice or 'It is announced'}."


@found_sentence.register
def _verified(_: SourceReport, plan: Plan) -> str:
    return "All that it reads was read again: it is as it was published."


@found_sentence.register
def _pinned(report: PinnedReport, _: Plan) -> str:
    files = sum(sum(days.values()) for days in report.not_ingested.values())
    more = f"; {format_count(files, 'landed file')} that are not ingested are no part of them" if files else ""
    return f"The versions of {format_count(len(report.versions), 'input')} are recorded{more}."


@found_sentence.register
def _staged(report: StagedReport, plan: Plan) -> str:
    days = {"Staged": report.staged, "Unchanged": report.unchanged, "Held back": report.held_back_days}
    said = [f"{label}: {plan.scope_of(ranges)}." for label, ranges in days.items() if ranges]
    return " ".join(said) or "What changes is staged."


@found_sentence.register
def _compared(report: ComparedReport, _: Plan) -> str:
    return report.sentence or "It is compared with what is published."


@found_sentence.register
def _published(report: CutOverReport, plan: Plan) -> str:
    behind = "; ".join(f"{table} {', '.join(ranges)}" for table, ranges in report.leaves_stale.items())
    more = f" These read it and are stale until they are built: {behind}." if behind else ""
    return f"Published: {plan.scope_of(report.days)}, all at once.{more}"


@found_sentence.register
def _checked(report: DownstreamReport, _: Plan) -> str:
    more = f" Built as well: {', '.join(report.rebuilt)}." if report.rebuilt else ""
    return f"All of it was read again: it is as staged.{more}"


@found_sentence.register
def _notified(report: ToldReport, _: Plan) -> str:
    due = report.still_due
    return f"The notice did not arrive: {next(iter(due.values()))}." if due else "The notice is sent."


@found_sentence.register
def _closed(report: ClosedReport, _: Plan) -> str:
    return f"{format_are(len(report.closed), 'timeline')} closed."
