"""What the page of a campaign's step says first: what was found, what comes next, and the one thing to do.

Each is an entry of its metadata, in Markdown: the UI shows entries of up to a thousand characters where they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import dagster as dg

from backfill_assets.answers.campaign import step_sentence
from backfill_assets.answers.plan import headline
from backfill_assets.campaign.approvers import names_that_may_approve, who_may_approve
from backfill_assets.campaign.run import CampaignRun
from backfill_assets.defs.campaigns.jobs import step_key
from backfill_assets.defs.campaigns.pages import Pages
from backfill_assets.lakehouse.campaign_journal import HELPS, STEPS, CampaignStep, campaign_of
from backfill_assets.plan.keep import planned_by
from backfill_assets.plan.records import Plan
from backfill_assets.plan.shadow_steps import rebuilt_steps
from backfill_assets.settings import ApprovalRule
from backfill_assets.text import escape_markdown, format_count

Entries = dict[str, str]
"""Markdown by label."""
SHOWN_AT_MOST = 1000
_LAUNCH = "it opens filled in: press *Launch Run*"
_MOST_NAMED = 6
"""Of more approvers than these, the others write the tag themselves."""


def in_markdown(entries: Mapping[str, str]) -> dict[str, dg.MetadataValue]:
    return {label: dg.MetadataValue.md(text) for label, text in entries.items()}


def after_plan(plan: Plan, pages: Pages) -> Entries:
    """For a plan that is not started."""
    if not rebuilt_steps(plan):
        return _page(headline(plan), "Nothing: every day is as this plan would make it.")
    if stops := [finding for finding in plan.findings if finding.severity == "stops"]:
        first = stops[0]
        do = " ".join(filter(None, (first.next_step, "Then plan again.")))
        return _page(f"{headline(plan)} **It cannot be started:** {_literal(first.message)}", "Nothing.", _literal(do))
    return _page(
        headline(plan),
        "Nothing, until you start it: no day is computed, and no reader sees a change.",
        f"[Start it]({pages.start(plan.id)}); {_LAUNCH}. All of its days are staged and compared then, and it waits "
        "for your approval.",
        f"backfill run {plan.id} --daemon",
    )


def after_start(plan: Plan, waves: int, pages: Pages, next_run: str) -> Entries:
    """For a plan that was started by this run."""
    validated = pages.asset(step_key(CampaignStep.VALIDATE), campaign_of(plan.id))
    return _page(
        headline(plan),
        f"The days are staged in {format_count(waves, 'wave')} where no reader sees them, and compared with what is "
        f"published, {_by_itself(pages, next_run)}.",
        f"Nothing. When it waits for your approval, [its difference is here]({validated}).",
    )


def after_step(at: CampaignRun, step: CampaignStep, facts: Mapping[str, Any], pages: Pages, next_run: str) -> Entries:
    """For a step that is done. ``next_run`` is the run that was launched for what comes after it, if any was."""
    found = _literal(step_sentence(step, facts))
    if step is CampaignStep.VALIDATE:
        return _approval(at, found, pages)
    if step is CampaignStep.CUT_OVER:
        goes_on = f"The published days are read again and the notice is sent, {_by_itself(pages, next_run)}."
        return _page(found, goes_on, f"Nothing. {_undo(at, pages)}", _undo_command(at))
    if step is CampaignStep.NOTIFY:
        until = at.state.cut_over_at
        window = f" until {until + timedelta(days=at.plan.rollback_window_days):%Y-%m-%d}" if until else ""
        return _page(
            f"{found} The campaign is done.",
            f"It can be undone{window}, and is closed by itself then.",
            f"Nothing. {_undo(at, pages)}",
            _undo_command(at),
        )
    if step is CampaignStep.DECOMMISSION:
        return _page(found, "Nothing: the campaign is closed.")
    after = STEPS[STEPS.index(step) + 1]
    what = (
        f"step {STEPS.index(after) + 1} of {len(STEPS)}, [{after.value}]({pages.asset(step_key(after), at.campaign)})"
    )
    return _page(found, f"{what}, by itself.")


def after_failure(at: CampaignRun, pages: Pages) -> Entries:
    """For a step that failed: where the campaign stands, and how it goes on."""
    move, plan = at.next(), at.plan.id
    if at.state.stopped:
        again = f"Put the cause right, then [start it again]({pages.start(plan)}); {_LAUNCH}. What is staged is used."
        found = f"The campaign was stopped: {_literal(at.state.stopped.reason)}"
        if at.state.stopped.report.get(HELPS) == at.plan_again:
            return _page(found, "Nothing.", _literal(at.plan_again))
        return _page(
            found,
            "Nothing, until you start it again or give it up.",
            again,
            f"backfill run {plan} --daemon",
            give_up=plan,
        )
    if at.state.withdrawn or at.state.given:
        return _approval(at, _literal(at.state.withdrawn.reason if at.state.withdrawn else move.reason), pages)
    if at.state.rolled_back:
        do = f"[Start it again]({pages.start(plan)}), if it is to be staged again."
        return _page("The campaign was rolled back.", "Nothing.", do, f"backfill run {plan} --daemon")
    reason = f"{move.reason} is tried again by itself, three times at most."
    return _page(
        "This run failed, and the campaign stands where it stood.", reason, "Nothing, unless all of them fail."
    )


def after_undo(plan: str, publication: str, put_back: int, again: int, pages: Pages) -> Entries:
    """For a campaign that was rolled back by ``publication``."""
    found = f"{format_count(put_back + again, 'day')} of tables hold again what they held before the campaign"
    more = f", {again} of them computed again because they had moved since" if again else ""
    do = f"Nothing. To publish it after all, [start the plan again]({pages.start(plan)}); {_LAUNCH}."
    return _page(f"{found}{more}.", "Nothing.", do, f"backfill rollback {publication}", "to undo this undo")


def effect_of_approval(at: CampaignRun) -> str:
    """What approving does, in a sentence: it is also a tag of the run.

    Of the planned days, those that are staged: others would not change, or are held back.
    """
    counts: Mapping[str, Mapping[str, int]] = at.validation.get("days", {})
    steps = [(each.tables, counts.get(each.name, {}).get("staged", len(each.days))) for each in rebuilt_steps(at.plan)]
    tables = [table for held, staged in steps if staged for table in held]
    days = sum(staged * len(held) for held, staged in steps)
    return f"publishes {format_count(days, 'day')} of {format_count(len(tables), 'table')} at once, for every reader"


def _approval(at: CampaignRun, found: str, pages: Pages) -> Entries:
    """With a launchpad for each person who may approve, if the plan lists them: open-source Dagster has no login."""
    plan, effect, terms = at.plan.id, effect_of_approval(at), at.plan.terms
    planner = planned_by(at.builder.lake.storage, plan)
    able = names_that_may_approve(at.approval_by, planner, at.state.started_by, terms.approvers)
    link = f"[approve and publish]({pages.approve(at.campaign, effect)})"
    others = ""
    if held := at.validation.get("held_back", ()):
        link = f"[approve and publish the others]({pages.approve(at.campaign, effect, without_held_back=True)})"
        others = f" {format_count(len(held), 'day')} {'is' if len(held) == 1 else 'are'} held back and left out."
    who = ""
    if terms.approvers or terms.approvals > 1 or at.approval_by is not ApprovalRule.ANYONE:
        may = who_may_approve(at.approval_by, planner, at.state.started_by, terms.approvers, terms.approvals)
        who = f" Who may approve: {_literal(may)} Give the run the tag `user` with your name."
        link = "use the link below that has your name, or " + link if able else link
    page = _page(
        found,
        "**It waits for your approval.** Nothing is published yet, and nothing happens until you decide.",
        f"Read the difference below, then {link}; {_LAUNCH}. That {effect}. It can be undone for "
        f"{at.plan.rollback_window_days} days.{who}{others}",
        f"backfill approve {plan}",
        give_up=plan,
    )
    for name in able[:_MOST_NAMED]:
        named = pages.approve(at.campaign, effect, user=name, without_held_back=bool(held))
        page[f"if you are {name}"] = f"[approve as {_literal(name)}]({named}); {_LAUNCH}."
    return page


def _undo_command(at: CampaignRun) -> str:
    return f"backfill rollback {at.plan.id}"


def _undo(at: CampaignRun, pages: Pages) -> str:
    effect = "puts back all tables of the campaign at once, as they were before it"
    return f"If it turns out to be wrong, [undo it]({pages.undo(at.campaign, effect)}); {_LAUNCH}."


def _by_itself(pages: Pages, next_run: str) -> str:
    return f"by [a run that has been launched]({pages.run(next_run)})" if next_run else "by itself"


def _page(
    found: str, then: str, do: str = "Nothing.", command: str = "", label: str = "in a terminal", give_up: str = ""
) -> Entries:
    page = {"found": found, "next": then, "to do": do}
    if command:
        page[label] = f"`{command}`"
    if give_up:
        page["to give it up"] = f"`backfill timeline delete {give_up}`"
    return page


def _literal(text: str) -> str:
    return escape_markdown(text)
