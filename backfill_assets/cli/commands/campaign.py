"""Carries out a plan in the foreground: ``backfill run PLAN`` stages it, ``backfill approve PLAN`` cuts it over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from backfill_assets.cli.completion import complete_plan
from backfill_assets.cli.foreground import foreground_builder, report_progress, report_step, run_info
from backfill_assets.cli.ids import Show, campaigns, find_plan, plans, short_ids, typed_storage
from backfill_assets.cli.notices import deliver_notices, notice_sender
from backfill_assets.cli.output import ask, ranges, say, say_facts, say_json, screen
from backfill_assets.cli.output import table as new_table
from backfill_assets.cli.queries.campaign_table import campaign_json, campaign_table, facts_of, say_next
from backfill_assets.cli.queries.diff import say_difference, say_sums
from backfill_assets.cli.wiring import current_settings, open_storage
from backfill_assets.errors import CampaignStopped, LakehouseUnusable
from backfill_assets.published.boundaries import boundary_line, boundary_value
from backfill_assets.text import format_count

if TYPE_CHECKING:
    from backfill_assets.campaign.course import Move
    from backfill_assets.campaign.run import CampaignRun, Options
    from backfill_assets.cli.tables import ShownTable
    from backfill_assets.difference.kept import Difference
    from backfill_assets.difference.records import TableDifference
    from backfill_assets.lakehouse.campaign_journal import JournalEntry
    from backfill_assets.lakehouse.storage import Storage
    from backfill_assets.plan.records import Plan
    from backfill_assets.published.boundaries import DaysBoundary
    from backfill_assets.rebuild.shadow import HeldBack, ShadowedStep

RolledBack = Mapping[str, Mapping[str, Sequence[str]]]
"""Ranges of days by table, by the rollback that put them back."""
_EPILOG = """
\b
Examples:
  backfill plan fact_sales_transactions --days 2017-03-01..2017-05-29
  backfill run plan-0123456789abcdef        stage it where no reader sees it
  backfill approve plan-0123456789abcdef    look once more, say yes: all of its tables are published at once
  backfill approve plan-0123456789abcdef --yes           in a script
  backfill rollback <publication>           put all of them back
"""


_CAMPAIGN_EPILOG = """
\b
Examples:
  backfill campaign                            every campaign, and how far it is
  backfill campaign plan-0123456789abcdef      each step, and what comes next
  backfill campaign plan-0123456789abcdef --abandon
"""


@click.command(epilog=_EPILOG)
@click.argument("plan", shell_complete=complete_plan)
@click.option("--without-held-back", is_flag=True, help="Publish the good days even if others are held back.")
@click.option("--yes", is_flag=True, help="Do not ask. Required without a terminal.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def approve(plan: str, without_held_back: bool, yes: bool, as_json: bool) -> None:
    """Publish everything that `backfill run PLAN` has staged: all tables in one publication, or nothing.

    Shows the difference and the notice to readers, and asks. Days whose inputs have changed since they were staged are
    then staged, compared and judged again. If an expectation is not met, or a limit is exceeded, nothing is published,
    and the new difference is shown.

    Readers who pin the publication log see all tables old or all tables new. One rollback puts all of them back.
    Afterwards, downstream tables that are not in the plan are built, and the notice is sent. After `backfill run PLAN
    --daemon`, this command records your approval, and Dagster's daemon does the rest.
    """
    from backfill_assets.campaign.approval import moved_sentence
    from backfill_assets.campaign.course import is_published
    from backfill_assets.lakehouse.campaign_journal import CampaignStep

    plan = find_plan(typed_storage(), plan)
    with ExitStack() as stack:
        at = _campaign_run(plan, "backfill approve", stack)
        back: RolledBack = {}
        if any(entry.step == CampaignStep.CUT_OVER for entry in at.catch_up()) and is_published(at.state):
            report_step(f"{at.facts.publication} was approved and begun by a process that died: it goes on")
        else:
            back = _take_approval(at, without_held_back=without_held_back, yes=yes, as_json=as_json)
            if at.state.approved is None:
                _say_waits(plan, f"Your approval of {plan} is recorded, and {at.next().reason}.", as_json)
                return
        seen = _difference(at)
        if at.state.daemon:
            show_it = f"backfill campaign {_short_plan(plan)} shows how far it is"
            words = f"{plan} is approved. Dagster's daemon cuts it over: {show_it}."
            _say_waits(plan, words, as_json)
            return
        try:
            move = _carry_on(at, as_json=as_json)
        except CampaignStopped:
            _say_difference(_difference(at), as_json or _difference(at) == seen)
            raise
        done = at.state.done
        report, times = done[CampaignStep.CUT_OVER].report, _times(at.plan, at.entries())
    if as_json:
        boundaries = [boundary_value(each).plain() for each in _boundaries_read(report["publication"])]
        outcome = {"rolled_back": back, "waits": move.reason, "times": times.json, "boundaries": boundaries}
        say_json({**report, **outcome})
        return
    again = report["staged again"]
    rows = ((table, ", ".join(again.get(table, ())), ", ".join(days)) for table, days in report["days"].items())
    short = short_ids(typed_storage())(report["publication"])
    say(new_table("table", "staged again", "published", rows=rows), f"Published together as {short}.")
    _say_boundaries(report["publication"])
    if CampaignStep.NOTIFY in done:
        due = done[CampaignStep.NOTIFY].report.get("still due", {})
        say(
            *(f"Not sent yet: {key}: {why}. To try again: backfill maintain --send-notices" for key, why in due.items())
        )
    if moved := report["moved"]:
        shown = f"backfill diff {_short_plan(plan)} --kept shows what was published"
        say(f"{moved_sentence(moved)} It was compared and judged again: {shown}.")
    say(times.shown, f"To put all of it back: backfill rollback {short}")


@click.command(epilog=_CAMPAIGN_EPILOG)
@click.argument("plan", shell_complete=complete_plan, required=False)
@click.option(
    "--abandon",
    is_flag=True,
    help="Give the campaign up: none of it is published, and its staged files may be deleted.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def campaign(plan: str | None, abandon: bool, as_json: bool) -> None:
    """Show how far the campaign of PLAN is: its nine steps, their results, and what it waits for.

    Without PLAN, list all campaigns.
    """
    from backfill_assets.campaign.day_outcomes import campaign_days
    from backfill_assets.lakehouse import campaign_journal as journal
    from backfill_assets.lakehouse.campaign_journal import campaign_of
    from backfill_assets.plan.boundaries import boundary_lines
    from backfill_assets.plan.keep import plan_as_kept

    settings = current_settings()
    storage = open_storage(settings)
    if plan is None:
        _say_campaigns(*_journals(storage), short_ids(storage, campaigns), as_json)
        return
    plan = find_plan(storage, plan)
    kept = plan_as_kept(settings, plan)
    if abandon:
        _abandon(plan)
    entries = journal.entries(storage, campaign_of(plan))
    if as_json:
        entry_values = [entry.model_dump(mode="json") for entry in entries]
        days, times = campaign_json(campaign_days(storage, kept)), _times(kept, entries).json
        boundaries = [boundary_value(each).plain() for each in _boundaries_read(_published_as(kept, entries))]
        values = {"plan": plan, "entries": entry_values, "days": days, "times": times, "boundaries": boundaries}
        say_json({**values, **_standing_json(storage, kept), **_people(storage, kept, entries)})
        return
    with ExitStack() as stack:
        _say_campaign(_campaign_run(plan, "backfill campaign", stack), entries)
    if found := campaign_days(storage, kept):
        say(campaign_table(found))
    if publication := _published_as(kept, entries):
        _say_boundaries(publication)
    elif planned := boundary_lines(kept):
        say(*planned)
    say(_times(kept, entries).shown)


def _journals(storage: Storage) -> tuple[dict[str, list[JournalEntry]], dict[str, str]]:
    """The journal of each campaign that has begun, by name, and why others cannot be read."""
    from backfill_assets.lakehouse import campaign_journal as journal

    begun: dict[str, list[JournalEntry]] = {}
    damaged: dict[str, str] = {}
    for name in journal.campaigns(storage):
        try:
            begun[name] = journal.entries(storage, name)
        except LakehouseUnusable as error:
            damaged[name] = error.message
    # A process that was killed at its first entry has left a folder.
    return {name: entries for name, entries in begun.items() if entries}, damaged


def _standing_json(storage: Storage, plan: Plan) -> Mapping[str, str]:
    from backfill_assets.campaign.standing import next_command, standing_of

    facts = facts_of(storage, plan)
    return {"standing": standing_of(facts).value, "next": next_command(facts)}


def _people(storage: Storage, plan: Plan, entries: Sequence[JournalEntry]) -> Mapping[str, object]:
    from backfill_assets.campaign.course import approved_by, state_of
    from backfill_assets.lakehouse.campaign_journal import campaign_of
    from backfill_assets.plan.keep import planned_by

    now, planner = state_of(campaign_of(plan.id), entries), planned_by(storage, plan.id)
    known = {"planned_by": planner, "started_by": now.started_by}
    names = {name: str(person) if person else "" for name, person in known.items()}
    return {**names, "approved_by": approved_by(now), "approvers": list(plan.terms.approvers)}


def _abandon(plan: str) -> None:
    from backfill_assets.campaign.steps import abandon

    with ExitStack() as stack:
        abandon(_campaign_run(plan, "backfill campaign --abandon", stack))


def stage_plan(plan: str, options_of: Callable[[Plan], Options], first: str | None, as_json: bool) -> None:
    """Carry ``plan`` out until it waits for approval, and show what it would change. Starts again at ``first``."""
    from backfill_assets.lakehouse.campaign_journal import CampaignStep
    from backfill_assets.plan.keep import require_carried_out

    plan = find_plan(typed_storage(), plan)
    with ExitStack() as stack:
        at = _campaign_run(plan, "backfill run", stack)
        options = options_of(at.plan)
        require_carried_out(current_settings(), at.catalog, at.plan, started=at.state.started)
        at.start(options, CampaignStep(first) if first else None)
        if options.daemon:
            show_it = f"backfill campaign {_short_plan(plan)} shows it"
            words = f"{at.campaign} is started. Dagster's daemon carries it out: {show_it}."
            _say_waits(plan, words, as_json)
            return
        move = _carry_on(at, as_json=as_json)
        # What could not be sent when the campaign was announced is sent now, or named.
        deliver_notices(current_settings(), at.builder.lake.publisher, as_json=as_json)
        done, changes = at.shadowed, _beside_published(at)
        times = _times(at.plan, at.entries())
    if as_json:
        say_json({**_as_json(plan, done, changes), "waits": move.reason, "times": times.json})
        return
    if done:
        _say(done, changes, at.held_back, _difference(at))
    say(times.shown)
    say(f"{_short_plan(plan)}: {move.reason}.")
    say_next(typed_storage(), plan)


def _take_approval(at: CampaignRun, *, without_held_back: bool, yes: bool, as_json: bool) -> RolledBack:
    """Show what a yes publishes, ask, and record it; the days that a person has rolled back since, which it takes."""
    from backfill_assets.campaign.look import rolled_back_since
    from backfill_assets.campaign.standing import PlanWord

    at.require(PlanWord.APPROVE)
    seen, back = _difference(at), rolled_back_since(at.builder.lake.publisher, at.campaign, at.plan)
    _say_difference(seen, as_json)
    at.require_approvable(without_held_back=without_held_back, seen=seen)
    _say_what_is_published(at, back, as_json)
    if not yes:
        ask("Publish this?")
    at.approve(without_held_back=without_held_back, seen=seen)
    return back


# ------------------------------------------------------------------ what it works with


def _campaign_run(plan: str, command: str, stack: ExitStack) -> CampaignRun:
    from backfill_assets.campaign.run import CampaignRun
    from backfill_assets.cli.running_dev import running_ui
    from backfill_assets.plan.keep import plan_as_kept

    settings = current_settings()
    price = settings.core_hour_price
    return CampaignRun(
        foreground_builder(settings, stack),
        plan_as_kept(settings, plan),
        run_info(command),
        report_progress,
        None if price is None else price / 3600,
        approval_by=settings.approval_by,
        ui=running_ui(settings),
    )


def _carry_on(at: CampaignRun, *, as_json: bool) -> Move:
    from backfill_assets.campaign.steps import carry_on
    from backfill_assets.plan.observe import observe_context_of

    settings = current_settings()
    sender = notice_sender(settings, as_json=as_json)
    return carry_on(at, sender, lambda plan: observe_context_of(settings, at.catalog, plan), report_step)


# ------------------------------------------------------------------ what it shows


def _short_publication(publication: str) -> str:
    return short_ids(typed_storage())(publication)


def _short_plan(plan: str) -> str:
    return short_ids(typed_storage(), plans)(plan)


def _say_what_is_published(at: CampaignRun, back: RolledBack, quiet: bool) -> None:
    """The days that a yes publishes, and those that it does not; the difference above has what changes on them."""
    from backfill_assets.campaign.day_outcomes import campaign_days
    from backfill_assets.campaign.steps import staged_notice
    from backfill_assets.publication.senders import notice_lines

    if quiet:
        return
    found = campaign_days(at.builder.lake.storage, at.plan)
    count, tables = sum(len(each.staged) for each in found), sum(bool(each.staged) for each in found)
    days = f"{format_count(count, 'day')} of {format_count(tables, 'table')}"
    needed, given = at.plan.terms.approvals, len(at.state.given)
    publishes = f"A yes publishes {days}"
    if needed > 1:
        so_far = f"{given} {'has' if given == 1 else 'have'}"
        publishes = f"{needed} people have to say yes, {so_far}. The last one publishes {days}"
    say(f"{publishes}, all at once, for {_short_plan(at.plan.id)}:")
    if found:
        say(campaign_table(found))
    for by, by_table in back.items():
        which = "; ".join(f"{table} {', '.join(put_back)}" for table, put_back in by_table.items())
        say(Text(f"Rolled back since, by {_short_publication(by)}, and published by a yes: {which}.", "yellow"))
    say("It is one publication: one `backfill rollback` puts all of it back.", "The notice that is sent then:")
    say(*(f"  {line}" for line in notice_lines(staged_notice(at))))


def _difference(at: CampaignRun) -> Difference | None:
    from backfill_assets.difference.find import last_difference

    return last_difference(at.builder.lake.storage, at.plan.id)


def _say_difference(found: Difference | None, quiet: bool) -> None:
    if found is not None and not quiet:
        say_difference(found)


def _published_as(plan: Plan, entries: Sequence[JournalEntry]) -> str:
    """The publication that cut ``plan`` over; empty if none has, or if it was rolled back."""
    from backfill_assets.campaign.course import is_published, state_of
    from backfill_assets.lakehouse.campaign_journal import CampaignStep, campaign_of

    now = state_of(campaign_of(plan.id), entries)
    return str(now.done[CampaignStep.CUT_OVER].report["publication"]) if is_published(now) else ""


def _boundaries_read(publication: str) -> Sequence[DaysBoundary]:
    """Up to where topics had been read for the days that it brought; nothing without a publication or a stream."""
    from backfill_assets.published.positions import publication_boundaries

    published = [publication] if publication else []
    return publication_boundaries(open_storage(current_settings()), published).get(publication, [])


def _say_boundaries(publication: str) -> None:
    for each in _boundaries_read(publication):
        say(f"Read: {boundary_line(each)}")


def _beside_published(at: CampaignRun) -> list[TableDifference]:
    from backfill_assets.difference.metadata import table_difference

    staged, published = at.figures(at.shadowed)
    return [table_difference(table, published.get(table, {}), days) for table, days in staged.items()]


def _say(
    done: Sequence[ShadowedStep],
    changes: Sequence[TableDifference],
    held: Sequence[HeldBack],
    difference: Difference | None,
) -> None:
    counts = ("staged", "would change", "unchanged", "held back")
    rows = new_table("table", *counts, "days that change", numbers=counts, drop=("unchanged", "staged", "held back"))
    by_step = {table: each for each in done for table in each.build.tables}
    for change in changes:
        step = by_step[change.table]
        out = len({each.day for each in step.held_back})
        numbers = (len(step.staged), len(change.changed), len(change.unchanged) + len(step.unchanged), out)
        rows.add_row(change.table, *(f"{count:,}" for count in numbers), ranges(change.changed))
    say(rows)
    if difference is not None:
        say_sums(difference)
    for each in held:
        say(Text.assemble(("held back", "bold red"), f"  {each.table} {each.day}: {each.why}"))


def _say_waits(plan: str, words: str, as_json: bool) -> None:
    if as_json:
        say_json({"plan": plan, "waits": words})
    else:
        say(words)


@dataclass(frozen=True)
class _Times:
    """The estimated and the measured time of the steps, for people and for programs."""

    shown: ShownTable
    json: Sequence[Mapping[str, object]]


def _times(plan: Plan, entries: Sequence[JournalEntry]) -> _Times:
    from backfill_assets.plan.durations import TIME_COLUMNS, TIME_NUMBERS, time_rows, times_json

    shown = new_table(*TIME_COLUMNS, rows=time_rows(plan, entries), numbers=TIME_NUMBERS)
    return _Times(shown, times_json(plan, entries))


def _say_campaigns(
    found: Mapping[str, Sequence[JournalEntry]], damaged: Mapping[str, str], show: Show, as_json: bool
) -> None:
    from backfill_assets.campaign.course import state_of
    from backfill_assets.lakehouse.campaign_journal import STEPS

    rows = new_table("campaign", "steps done", "last", "by", numbers=["steps done"])
    values: list[Mapping[str, Any]] = []
    for name, entries in found.items():
        now = state_of(name, entries)
        values.append({"campaign": name, "done": [step.value for step in STEPS if step in now.done]})
        rows.add_row(
            show(name), f"{len(now.done)} of {len(STEPS)}", f"{entries[-1].kind} {entries[-1].step}", entries[-1].by
        )
    for name, why in damaged.items():
        values.append({"campaign": name, "damage": why})
        rows.add_row(show(name), "", "cannot be read", "")
    if as_json:
        say_json(values)
    else:
        say(*(Text(why, "yellow") for why in damaged.values()))
        say(
            rows
            if values
            else "No campaign was started yet: backfill plan makes a plan, backfill run PLAN carries it out."
        )


def _say_campaign(at: CampaignRun, entries: Sequence[JournalEntry]) -> None:
    from backfill_assets.campaign.step_sentences import entry_sentence
    from backfill_assets.plan.durations import seconds_text

    on_screen = screen()
    rows = new_table("when", "what", "step or wave", "spent", "by", numbers=["spent"], drop=("by", "spent"))
    if not on_screen:
        rows.add_column("result")
    found: list[tuple[str, str]] = []
    for entry in entries:
        which = entry.step or (f"wave {entry.wave + 1}" if entry.wave >= 0 else "")
        spent = seconds_text(entry.spent.seconds if entry.spent else None)
        result = entry_sentence(entry)
        beside = () if on_screen else (result,)
        rows.add_row(f"{entry.at:%Y-%m-%d %H:%M:%S}", entry.kind, which, spent, _by(entry), *beside)
        found += [(which or entry.kind, result)] if result else []
    say(rows)
    if on_screen:
        say_facts("", found)
    say(*_approval_lines(at), f"Next: {at.next().reason}.")
    say_next(typed_storage(), at.plan.id)


def _by(entry: JournalEntry) -> str:
    """Who it was, and how that is known of those who started or approved it."""
    from backfill_assets.rebuild.person import Person

    known_by = Person.of(entry.report).known_by
    return f"{entry.by} ({known_by})" if known_by else entry.by


def _approval_lines(at: CampaignRun) -> list[str]:
    """Who planned, started and approved it, and who may approve it."""
    from backfill_assets.plan.keep import planned_by

    planner, listed = planned_by(at.builder.lake.storage, at.plan.id), at.plan.terms.approvers
    said = {
        "Planned by": str(planner) if planner else "",
        "Started by": str(at.state.started_by) if at.state.started_by else "",
        "Approved by": at.approved_by,
        "Approvers that the plan lists": ", ".join(listed),
        "BACKFILL_APPROVAL_BY": at.approval_by,
    }
    return [f"{name}: {value}." for name, value in said.items() if value]


def _as_json(plan: str, done: Sequence[ShadowedStep], changes: Sequence[TableDifference]) -> dict[str, object]:
    return {
        "plan": plan,
        "tables": {
            change.table: {
                "changed": list(change.changed),
                "unchanged": list(change.unchanged),
                "measures": {
                    measure: {"published": sums.before, "staged": sums.after} for measure, sums in change.sums.items()
                },
            }
            for change in changes
        },
        "held_back": [
            {"table": each.table, "day": each.day, "because_of": each.because_of, "rules": [r.rule for r in each.rules]}
            for step in done
            for each in step.held_back
        ],
    }
