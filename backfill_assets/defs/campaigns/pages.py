"""Pages of campaigns as Markdown metadata; the UI shows up to 1,000 characters of each in place. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import yaml

from backfill_assets.answers.campaign import found_sentence, left_to, step_answer
from backfill_assets.answers.plan import cost_line, headline
from backfill_assets.campaign import decisions
from backfill_assets.campaign.course import is_published, waits_for_approval
from backfill_assets.campaign.ends import plan_again
from backfill_assets.campaign.run import CampaignRun
from backfill_assets.defs.dagster_internals import USER_TAG
from backfill_assets.lakehouse.campaign_journal import CampaignStep
from backfill_assets.lakehouse.campaign_reports import ComparedReport
from backfill_assets.plan.cost import spent_words
from backfill_assets.plan.keep import rebuilt_steps
from backfill_assets.plan.records import Plan, PlanFinding, as_ranges
from backfill_assets.report.markdown import markdown
from backfill_assets.settings import ApprovalRule
from backfill_assets.text import escape_markdown, format_count
from backfill_assets.ui_addresses import launchpad_page

LOCATION = "backfill_assets"
JOB, APPROVE_JOB, UNDO_JOB = "campaign", "approve_campaign", "undo_campaign"
OPS = {JOB: "carry_on", APPROVE_JOB: "approve", UNDO_JOB: "undo"}
EFFECT_TAG = "backfill/effect"
_LAUNCH = "it opens filled in: press *Launch Run*"
_MOST_NAMED = 6
_MOST_WRONG = 3
Entries = dict[str, str]


def in_markdown(entries: Mapping[str, str]) -> dict[str, dg.MetadataValue]:
    return {label: dg.MetadataValue.md(text) for label, text in entries.items()}


@dataclass(frozen=True)
class Launchpads:
    location: str = LOCATION

    @classmethod
    def of(cls, run: dg.DagsterRun) -> Launchpads:
        origin = run.remote_job_origin
        return cls(origin.location_name if origin else LOCATION)

    def new_plan(self, target: str, days: str) -> str:
        return self._filled(JOB, {"target": target, "days": days})

    def start(self, plan: str) -> str:
        return self._filled(JOB, {"plan": plan, "start": True})

    def approve(self, plan: str, effect: str, *, user: str = "", without_held_back: bool = False) -> str:
        config = {"plan": plan} | ({"without_held_back": True} if without_held_back else {})
        return self._filled(APPROVE_JOB, config, {EFFECT_TAG: effect} | ({USER_TAG: user} if user else {}))

    def undo(self, plan: str, effect: str) -> str:
        return self._filled(UNDO_JOB, {"plan": plan}, {EFFECT_TAG: effect})

    def _filled(self, job: str, config: Mapping[str, object], tags: Mapping[str, str] | None = None) -> str:
        filled = {"config": yaml.safe_dump({"ops": {OPS[job]: {"config": dict(config)}}}, sort_keys=False)}
        for number, (key, value) in enumerate((tags or {}).items()):
            filled |= {f"tags[{number}][key]": key, f"tags[{number}][value]": value}
        return launchpad_page(self.location, job, filled)


def plan_page(plan: Plan, pads: Launchpads) -> Entries:
    if not rebuilt_steps(plan):
        return _page(headline(plan), "Nothing: every day is as this plan would make it.")
    if stops := stopping(plan):
        do = " ".join(filter(None, (stops.next_step, "Then plan again.")))
        why = f"{headline(plan)} **It cannot be started:** {escape_markdown(stops.message)}"
        return _page(why, "Nothing.", escape_markdown(do))
    page = _page(
        headline(plan),
        "Nothing, until you start it: no day is computed, and no reader sees a change.",
        f"[Start it]({pads.start(plan.id)}); {_LAUNCH}. All of its days are staged and compared then, and it waits "
        "for your approval.",
        f"backfill run {plan.id} --daemon",
    )
    return page | {"cost": f"Estimated: {cost_line(plan)}."}


def stopping(plan: Plan) -> PlanFinding | None:
    return next((finding for finding in plan.findings if finding.severity == "stops"), None)


def step_page(at: CampaignRun, step: CampaignStep, pads: Launchpads) -> dict[str, dg.MetadataValue]:
    report = at.state.done[step].report
    cost = spent_words(at.plan, at.entries())
    entries = standing_page(at, found_by(at, step), pads) | ({"cost": cost} if cost else {})
    if step is CampaignStep.NOTIFY:
        return in_markdown(entries)
    if isinstance(report, ComparedReport):
        return {**in_markdown(entries), "the difference": dg.MetadataValue.md(report.difference)}
    return {**in_markdown(entries), "report": dg.MetadataValue.md(markdown(step_answer(step, report)))}


def found_by(at: CampaignRun, step: CampaignStep) -> str:
    done = at.state.done
    steps = [step] if CampaignStep.CUT_OVER not in done else dict.fromkeys((CampaignStep.CUT_OVER, step))
    return escape_markdown(" ".join(found_sentence(done[each].report, at.plan) for each in steps))


def last_found(at: CampaignRun) -> str:
    return found_by(at, list(at.state.done)[-1]) if at.state.done else ""


def letter_link(page: str, plan: str, served: str) -> dict[str, dg.MetadataValue]:
    if not page:
        return {}
    file = page if "://" in page else Path(page).as_uri()
    return {"letter": dg.MetadataValue.url(f"{served}/{plan}" if served else file)}


def standing_page(at: CampaignRun, found: str, pads: Launchpads) -> Entries:
    wrong = left_to(at)
    more = [f"And {len(wrong) - _MOST_WRONG} more: `backfill incident list`."] * (len(wrong) > _MOST_WRONG)
    meanwhile = " ".join([*map(escape_markdown, wrong[:_MOST_WRONG]), *more])
    return _standing(at, found, pads) | ({"meanwhile": meanwhile} if wrong else {})


def _standing(at: CampaignRun, found: str, pads: Launchpads) -> Entries:
    state, move, plan = at.state, at.next(), at.plan.id
    if waits_for_approval(state):
        return _approval(at, found, pads)
    if state.stopped:
        return _stopped(at, found, pads)
    if state.rolled_back:
        do = f"[Start it again]({pads.start(plan)}), if it is to be staged again; {_LAUNCH}."
        return _page(f"{found} The campaign was rolled back.", "Nothing.", do, f"backfill run {plan} --daemon")
    next_words = f"{_sentence(move.reason)}{'' if move.waits else ', by itself'}."
    if not is_published(state) or state.finished:
        return _page(found, next_words)
    effect = "puts back all tables of the campaign at once, as they were before it"
    do = f"Nothing. If it turns out to be wrong, [undo it]({pads.undo(plan, effect)}); {_LAUNCH}."
    return _page(found, next_words, do, f"backfill rollback {plan}")


def _stopped(at: CampaignRun, found: str, pads: Launchpads) -> Entries:
    stopped, plan = at.state.stopped, at.plan.id
    why = f"{found} The campaign was stopped: {escape_markdown(stopped.reason if stopped else '')}"
    if stopped and stopped.helps == plan_again(at.plan):
        return _page(why, "Nothing.", escape_markdown(plan_again(at.plan)))
    again = f"Put the cause right, then [start it again]({pads.start(plan)}); {_LAUNCH}. What is staged is used."
    command = f"backfill run {plan} --daemon"
    return _page(why, "Nothing, until you start it again or give it up.", again, command, give_up=plan)


def effect_of_approval(at: CampaignRun) -> str:
    planned = {table: as_ranges(each.days) for each in rebuilt_steps(at.plan) for table in each.tables}
    return f"publishes {at.plan.scope_of(at.state.validation.staged or planned)} at once, for every reader"


def _approval(at: CampaignRun, found: str, pads: Launchpads) -> Entries:
    """Each listed approver has a launchpad: open-source Dagster has no login."""
    plan, effect, terms = at.plan.id, effect_of_approval(at), at.plan.terms
    approvers = decisions.approvers(at)
    able = approvers.able
    held = at.state.validation.held_back
    link = f"[approve and publish{' the others' * bool(held)}]"
    link += f"({pads.approve(plan, effect, without_held_back=bool(held))})"
    others = f" {format_count(len(held), 'day')} held back and left out." if held else ""
    who = ""
    if terms.approvers or terms.approvals > 1 or at.approval_by is not ApprovalRule.ANYONE:
        who = f" Who may approve: {escape_markdown(approvers.sentence)} Give the run the tag `user` with your name."
        link = "use the link below that has your name, or " + link if able else link
    page = _page(
        found,
        f"**{_sentence(at.next().reason)}.** Nothing is published yet, and nothing happens until you decide.",
        f"Read the difference below, then {link}; {_LAUNCH}. That {effect}. It can be undone for "
        f"{at.plan.rollback_window_days} days.{who}{others}",
        f"backfill approve {plan}",
        give_up=plan,
    )
    for name in able[:_MOST_NAMED]:
        named = pads.approve(plan, effect, user=name, without_held_back=bool(held))
        page[f"if you are {name}"] = f"[approve as {escape_markdown(name)}]({named}); {_LAUNCH}."
    return page


def undo_page(plan: str, publication: str, sentence: str, pads: Launchpads) -> Entries:
    do = f"Nothing. To publish it after all, [start the plan again]({pads.start(plan)}); {_LAUNCH}."
    return _page(sentence, "Nothing.", do, f"backfill rollback {publication}", "to undo this undo")


def _page(
    found: str, then: str, do: str = "Nothing.", command: str = "", label: str = "in a terminal", give_up: str = ""
) -> Entries:
    page = {"found": found, "next": then, "to do": do}
    if command:
        page[label] = f"`{command}`"
    if give_up:
        page["to give it up"] = f"`backfill timeline delete {give_up}`"
    return page


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]
