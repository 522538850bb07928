"""Carries out a plan in the foreground: ``backfill run PLAN`` stages it, ``backfill approve PLAN`` cuts it over."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from datetime import date
from typing import TYPE_CHECKING

import click
from rich.text import Text

from backfill_assets.cli.foreground import foreground_builder, run_info, tell
from backfill_assets.cli.output import ranges, say, say_json
from backfill_assets.cli.output import table as new_table
from backfill_assets.cli.wiring import current_settings, open_storage
from backfill_assets.errors import InvalidRequest

if TYPE_CHECKING:
    from backfill_assets.backfill.campaign import Beside, TableChange
    from backfill_assets.backfill.plan import Plan
    from backfill_assets.build import RunInfo
    from backfill_assets.build.lake import Lake
    from backfill_assets.build.shadow import HeldBack, ShadowedStep, ShadowStep
    from backfill_assets.settings import Settings

_EPILOG = """
\b
Examples:
  backfill plan fact_sales_transactions --days 2017-03-01..2017-05-29
  backfill run plan-0123456789abcdef        stage it where no reader sees it
  backfill approve plan-0123456789abcdef    publish all of its tables at once
  backfill rollback <publication>           put all of them back
"""


@click.command(epilog=_EPILOG)
@click.argument("plan")
@click.option("--without-held-back", is_flag=True, help="Publish the good days although others were held back.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def approve(plan: str, without_held_back: bool, as_json: bool) -> None:
    """Publish everything that `backfill run PLAN` has staged: all tables in one publication, or nothing.

    Days whose inputs moved since they were staged are staged again first, and only those. Readers who pin the
    publication log see all tables old or all new. One rollback puts all of them back.
    """
    from backfill_assets.build.cutover import cut_over
    from backfill_assets.build.shadow import staged_in
    from backfill_assets.lakehouse.plans import close_plan

    settings, found = current_settings(), kept(plan)
    with ExitStack() as stack:
        lake, steps, info = foreground_builder(settings, stack).lake, _steps(found), run_info("backfill approve")
        campaign = _campaign(plan)
        if not any(staged_in(lake.storage, campaign, _tables(steps)).days.values()):
            raise InvalidRequest(f"Nothing of {plan} is staged.", hint=f"backfill run {plan} stages it.")
        done = cut_over(lake, campaign, steps, info, tell, without_held_back=without_held_back)
    close_plan(open_storage(settings), plan)
    again = {table: [str(day) for day in days] for table, days in done.staged_again.items()}
    if as_json:
        say_json({"publication": done.published.publication, "days": done.days, "staged_again": again})
        return
    rows = new_table("table", "periods", "staged again", "which", numbers=["periods"])
    for table, days in done.days.items():
        rows.add_row(table, f"{len(days):,}", ranges(done.staged_again.get(table, ())), ranges(days))
    say(rows, f"Published together as {done.published.publication}.")
    say(f"To put all of it back: backfill rollback {done.published.publication}")


def stage_plan(plan: str, as_json: bool) -> None:
    """Stage what ``plan`` wants on timelines of its own, and show what it would change; publishes raw rows only."""
    from backfill_assets.build.shadow import shadow
    from backfill_assets.lakehouse.plans import open_plan

    settings, found = current_settings(), kept(plan)
    _refuse_stopped(found)
    with ExitStack() as stack:
        lake, steps, info = foreground_builder(settings, stack).lake, _steps(found), run_info("backfill run")
        _refuse_moved(settings, found, lake, steps)
        open_plan(lake.storage, plan)
        _take_in(settings, found, info, stack)
        done = shadow(lake, _campaign(plan), steps, info, tell)
        changes = [_change(lake, each, table) for each in done for table in each.build.tables]
    held = [each for step in done for each in step.held_back]
    if as_json:
        say_json(_as_json(plan, done, changes))
    else:
        _say(plan, done, changes, held)


def kept(plan: str) -> Plan:
    from backfill_assets.backfill.plan import Plan
    from backfill_assets.lakehouse.plans import kept_plan

    return Plan.from_json(kept_plan(open_storage(current_settings()), plan), id=plan)


# ------------------------------------------------------------------ what is refused


def _refuse_stopped(plan: Plan) -> None:
    stops = [finding for finding in plan.findings if finding.severity == "stops"]
    if stops:
        raise InvalidRequest(f"{plan.id} cannot be run: {stops[0].message}", hint=stops[0].next_step)


def _refuse_moved(settings: Settings, plan: Plan, lake: Lake, steps: Sequence[ShadowStep]) -> None:
    """Before anything is staged; afterwards, what moves is staged again."""
    from backfill_assets.backfill.basis import moved_since
    from backfill_assets.build.shadow import staged_in
    from backfill_assets.backfill.situation_now import situation_now
    from backfill_assets.days import DayRange

    if any(staged_in(lake.storage, _campaign(plan.id), _tables(steps)).days.values()):
        return
    versions = {each.table: each.version for each in plan.pinned if each.version is not None}
    moved = moved_since(plan, situation_now(settings, plan.asked.target, DayRange.parse(plan.asked.days), versions))
    if moved:
        raise InvalidRequest(
            f"What {plan.id} was computed from has moved: {'; '.join(moved.lines()[:3])}.",
            hint=f"Plan again: backfill plan {plan.asked.target} --days {plan.asked.days}",
        )


# ------------------------------------------------------------------ what it works with


def _campaign(plan: str) -> str:
    from backfill_assets.backfill.campaign import campaign_of

    return campaign_of(plan)


def _steps(plan: Plan) -> list[ShadowStep]:
    from backfill_assets.build.shadow import ShadowStep
    from backfill_assets.datasets import registry

    wanted = [each for each in plan.steps if each.kind == "rebuild" and each.days]
    return [
        ShadowStep(registry.step(each.name), registry.step(each.name).version(each.version), each.days)
        for each in wanted
    ]


def _tables(steps: Sequence[ShadowStep]) -> list[str]:
    return [table.name for each in steps for table in each.step.tables]


def _take_in(settings: Settings, plan: Plan, info: RunInfo, stack: ExitStack) -> None:
    """Raw is append-only: what has landed is taken in for everybody, at once."""
    from backfill_assets.datasets import registry

    for each in plan.steps:
        if each.kind == "take in" and each.days:
            foreground_builder(settings, stack).build(registry.step(each.name), each.days, run=info, progress=tell)


# ------------------------------------------------------------------ what it shows


def _change(lake: Lake, done: ShadowedStep, table: str) -> TableChange:
    from backfill_assets.backfill.campaign import table_change

    states = lake.publisher.log.day_states(lake.publisher.log.head(), {table})
    published = {date.fromisoformat(day): state.content for (_, day), state in states.items()}
    staged = {each.day: each.content for held in done.build.staged.values() for each in held if each.table == table}
    return table_change(table, published, staged)


def _say(plan: str, done: Sequence[ShadowedStep], changes: Sequence[TableChange], held: Sequence[HeldBack]) -> None:
    counts = ("staged", "would change", "unchanged", "held back")
    rows = new_table("table", *counts, "which would change", numbers=counts)
    by_step = {table: each for each in done for table in each.build.tables}
    for change in changes:
        step = by_step[change.table]
        out = sum(each.table == change.table for each in step.held_back)
        told = (len(step.staged), len(change.changed), len(change.unchanged) + len(step.unchanged), out)
        rows.add_row(change.table, *(f"{count:,}" for count in told), ranges(change.changed))
    say(rows)
    _say_measures([beside for change in changes for beside in change.beside])
    for each in held:
        why = each.because_of or "; ".join(f"{rule.rule}: {rule.observed}" for rule in each.rules)
        say(Text.assemble(("held back", "bold red"), f"  {each.table} {each.day}: {why}"))
    say(f"Nothing of it is published yet. To publish all of it at once: backfill approve {plan}")


def _say_measures(found: Sequence[Beside]) -> None:
    rows = new_table("table", "measure", "published", "staged", "change", numbers=["published", "staged", "change"])
    for each in found:
        share = "" if each.share is None else f"{each.share:+.4%}"
        rows.add_row(each.table, each.measure, f"{each.published:,}", f"{each.staged:,}", share)
    say(rows)


def _as_json(plan: str, done: Sequence[ShadowedStep], changes: Sequence[TableChange]) -> dict[str, object]:
    return {
        "plan": plan,
        "tables": {
            change.table: {
                "changed": list(change.changed),
                "unchanged": list(change.unchanged),
                "measures": {
                    each.measure: {"published": str(each.published), "staged": str(each.staged)}
                    for each in change.beside
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
