"""How a plan stands, and which commands of a person that allows: one table. Pure."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from backfill_assets.campaign.course import CampaignState, is_given_up, is_published, waits_for_approval
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.campaign_journal import CampaignStep, plan_of
from backfill_assets.plan.records import Plan


class PlanStanding(enum.StrEnum):
    NOT_STARTED = "not started"
    STAGING = "being staged"
    WAITING = "waiting for approval"
    APPROVED = "approved"
    STOPPED = "stopped"
    GIVEN_UP = "given up"
    OVERTAKEN = "overtaken by another campaign"
    HALF_PUBLISHED = "half published by a process that died"
    HALF_UNDONE = "half undone by a process that died"
    PUBLISHED = "published, with steps to do"
    LIVE = "published"
    LIVE_AGAIN = "published again by the undo of its undo"
    PUT_BACK = "put back by another publication"
    UNDONE = "undone"
    FINISHED = "finished"


class PlanWord(enum.StrEnum):
    APPROVE = "approve"
    RUN = "run"
    ROLLBACK = "rollback"
    ABANDON = "timeline delete"


@dataclass(frozen=True)
class PlanFacts:
    plan: str
    course: CampaignState
    left: str = ""
    plan_again: str = "backfill plan"
    publication: str = ""
    at: datetime | None = None
    undone: bool = False
    restored: bool = False
    half_done: str = ""
    half_done_undoes: bool = False
    overtaken: str = ""
    """A staged day that another campaign published since, in words."""
    put_back_by: str = ""


def standing_of(facts: PlanFacts) -> PlanStanding:
    """Half-done publications come first: all else is uncertain until they end."""
    now = facts.course
    found = {
        PlanStanding.HALF_UNDONE: facts.half_done and facts.half_done_undoes,
        PlanStanding.HALF_PUBLISHED: facts.half_done,
        PlanStanding.NOT_STARTED: not now.started,
        PlanStanding.UNDONE: now.rolled_back,
        PlanStanding.FINISHED: now.finished,
        PlanStanding.PUT_BACK: is_published(now) and facts.put_back_by,
        PlanStanding.PUBLISHED: is_published(now) and facts.left,
        PlanStanding.LIVE_AGAIN: is_published(now) and facts.restored,
        PlanStanding.LIVE: is_published(now),
        PlanStanding.GIVEN_UP: is_given_up(now),
        PlanStanding.OVERTAKEN: facts.overtaken,
        PlanStanding.STOPPED: now.stopped,
        PlanStanding.WAITING: waits_for_approval(now),
        PlanStanding.APPROVED: now.approved,
    }
    return next((standing for standing, holds in found.items() if holds), PlanStanding.STAGING)


def page_of(plan: Plan, standing: PlanStanding) -> str:
    """The campaign's page: state, table and days; the state first, since lists cut long names in the middle."""
    stops = plan.stopped and standing is PlanStanding.NOT_STARTED
    state = "cannot be started" if stops else standing
    return f"{state}: {plan.asked.target} {plan.asked.days} ({_hash(plan.id)})"


def is_page_of(page: str, campaign: str) -> bool:
    return page.endswith(f"({_hash(plan_of(campaign))})")


def _hash(plan: str) -> str:
    return plan.rpartition("-")[2][:8]


def require_allowed(word: PlanWord, facts: PlanFacts) -> None:
    """Raise :class:`InvalidRequest` with the command that helps."""
    standing = standing_of(facts)
    # An undone campaign that is staged again is still undone.
    was_undone = word is PlanWord.ROLLBACK and facts.undone and not facts.half_done
    refusal = _TABLE[PlanStanding.UNDONE if was_undone else standing][word]
    if refusal is not None:
        sentence, hint = (text.format_map(_words(facts)) for text in refusal)
        raise InvalidRequest(sentence, hint=hint)


def next_command(facts: PlanFacts) -> str:
    """Empty if the next step is not for a person."""
    standing = standing_of(facts)
    now = facts.course
    if now.daemon and not now.stopped and standing in _BY_THE_DAEMON:
        return ""
    return _NEXT[standing].format_map(_words(facts))


def _words(facts: PlanFacts) -> Mapping[str, str]:
    now, plan = facts.course, facts.plan
    look = f"backfill status {plan} shows how far it"
    # What stopped it before the comparison would stop it again.
    taken_up = f"backfill run {plan} takes it up again, and compares it anew."
    taken_up = taken_up if CampaignStep.VALIDATE in now.done else f"{look} came."
    helps = now.stopped.helps if now.stopped else ""
    return {
        "plan": plan,
        "publication": facts.publication,
        "at": f"{facts.at:%Y-%m-%d %H:%M:%S} UTC" if facts.at else "an unknown day",
        "left": facts.left,
        "again": facts.plan_again,
        "half_done": facts.half_done,
        "overtaken": facts.overtaken,
        "put_back_by": facts.put_back_by,
        "stopped": now.stopped.reason.removesuffix(".") if now.stopped else "",
        "carried_on": f"Dagster's daemon carries it on: {look} is." if now.daemon else f"backfill run {plan} does it.",
        "taken_up": helps or taken_up,
        "put_right": helps or f"When its cause is put right: backfill run {plan}. {_TO_GIVE_IT_UP.format(plan=plan)}",
    }


_Refusal = tuple[str, str]
_ALLOWED = None
_ABORT = (
    "{half_done}, a publication of {plan}, is begun and cannot be ended yet.",
    "If what keeps it from its end stays, give it up: backfill maintain --abort {half_done}",
)
_NOTHING_STAGED = ("Nothing of {plan} is staged and validated.", "backfill run {plan} stages it.")
_NOT_ALL_STAGED = ("Nothing of {plan} is staged and validated yet.", "{carried_on}")
_TO_GIVE_IT_UP = "To give it up: backfill timeline delete {plan}"
_NOTHING_PUBLISHED = ("{plan} has published nothing.", _TO_GIVE_IT_UP)
_NEVER_STARTED = ("{plan} was never started.", "backfill run {plan} stages it.")
_GIVEN_UP = ("{plan} was given up: {stopped}.", "To take it up again: backfill run {plan}")
_OVERTAKEN = (
    "{overtaken}, since {plan} staged it.",
    f"Plan again: {{again}}. {_TO_GIVE_IT_UP}",
)
_PUBLISHED = "{plan} is published already, as {publication}."
_GOES_ON = (_PUBLISHED, "It is not done yet: {left}. {carried_on}")
_LIVE = (_PUBLISHED, "To put all of it back: backfill rollback {plan}")
_NOTHING_LEFT = (_PUBLISHED, "To put all of it back: backfill rollback {plan}. For what has come since: {again}")
_FINISHED = ("{plan} is finished: {publication} published it.", "To rebuild its days again: {again}")
_NOT_GIVEN_UP = ("{plan} is published, as {publication}: there is nothing to give up.", _LIVE[1])
_PUT_BACK = (
    "{plan} was published as {publication}, and its days are as they were before that already: {put_back_by} did it.",
    "To bring them back: backfill rollback {put_back_by}. Or plan again: {again}",
)
_BACK = "To bring it back: backfill rollback {publication}"
_BOTH_WAYS = f"To stage it again: backfill run {{plan}}. {_BACK}"
_UNDONE = "{plan} is undone already: {publication} did it on {at}."


def _row(
    approve: _Refusal | None, run: _Refusal | None, rollback: _Refusal | None, abandon: _Refusal | None
) -> Mapping[PlanWord, _Refusal | None]:
    return dict(zip(PlanWord, (approve, run, rollback, abandon), strict=True))


_TABLE: Mapping[PlanStanding, Mapping[PlanWord, _Refusal | None]] = {
    PlanStanding.NOT_STARTED: _row(
        _NOTHING_STAGED, _ALLOWED, ("{plan} has published nothing.", _NEVER_STARTED[1]), _NEVER_STARTED
    ),
    PlanStanding.STAGING: _row(_NOT_ALL_STAGED, _ALLOWED, _NOTHING_PUBLISHED, _ALLOWED),
    PlanStanding.WAITING: _row(_ALLOWED, _ALLOWED, _NOTHING_PUBLISHED, _ALLOWED),
    PlanStanding.APPROVED: _row(_ALLOWED, _ALLOWED, _NOTHING_PUBLISHED, _ALLOWED),
    PlanStanding.STOPPED: _row(
        ("{plan} was stopped: {stopped}.", "{taken_up}"), _ALLOWED, _NOTHING_PUBLISHED, _ALLOWED
    ),
    PlanStanding.GIVEN_UP: _row(_GIVEN_UP, _ALLOWED, ("{plan} has published nothing.", _GIVEN_UP[1]), _GIVEN_UP),
    PlanStanding.OVERTAKEN: _row(_OVERTAKEN, _OVERTAKEN, _NOTHING_PUBLISHED, _ALLOWED),
    PlanStanding.HALF_PUBLISHED: _row(_ABORT, _ABORT, _ABORT, _ABORT),
    PlanStanding.HALF_UNDONE: _row(_ABORT, _ABORT, _ABORT, _ABORT),
    PlanStanding.PUBLISHED: _row(_GOES_ON, _ALLOWED, _ALLOWED, _NOT_GIVEN_UP),
    PlanStanding.LIVE: _row(_LIVE, _NOTHING_LEFT, _ALLOWED, _NOT_GIVEN_UP),
    PlanStanding.LIVE_AGAIN: _row(_LIVE, _NOTHING_LEFT, _ALLOWED, _NOT_GIVEN_UP),
    PlanStanding.PUT_BACK: _row(_PUT_BACK, _PUT_BACK, _PUT_BACK, _PUT_BACK),
    PlanStanding.UNDONE: _row(
        (_UNDONE, _BOTH_WAYS),
        _ALLOWED,
        (_UNDONE, _BACK),
        (_UNDONE, f"Nothing has to be given up: its files are kept as long as the rollback window. {_BOTH_WAYS}"),
    ),
    PlanStanding.FINISHED: _row(_FINISHED, _FINISHED, _ALLOWED, _NOT_GIVEN_UP),
}
"""Rows of half-done publications are for failures: callers settle them first."""
_NO_PROCESS = "If no command is at work on it"
_HALF_DONE = "{half_done} is under way. If its process died:"
_NEXT: Mapping[PlanStanding, str] = {
    PlanStanding.NOT_STARTED: "Nothing of it is staged yet. To stage it: backfill run {plan}",
    PlanStanding.STAGING: f"{_NO_PROCESS}: backfill run {{plan}} takes it up",
    PlanStanding.WAITING: "Nothing of it is published yet. To publish all of it at once: backfill approve {plan}",
    PlanStanding.APPROVED: f"{_NO_PROCESS}: backfill approve {{plan}} publishes it",
    PlanStanding.STOPPED: "{put_right}",
    PlanStanding.GIVEN_UP: _GIVEN_UP[1],
    PlanStanding.OVERTAKEN: f"{{overtaken}}, since it was staged. {_OVERTAKEN[1]}",
    PlanStanding.HALF_PUBLISHED: f"Its publication {_HALF_DONE} backfill run {{plan}} finishes it",
    PlanStanding.HALF_UNDONE: f"Its undo {_HALF_DONE} backfill rollback {{plan}} finishes it",
    PlanStanding.PUBLISHED: f"{_NO_PROCESS}: backfill run {{plan}} goes on with {{left}}",
    PlanStanding.LIVE: _LIVE[1],
    PlanStanding.LIVE_AGAIN: _LIVE[1],
    PlanStanding.PUT_BACK: f"{{put_back_by}} has put its days back. {_PUT_BACK[1]}",
    PlanStanding.UNDONE: f"{{publication}} has undone it on {{at}}. {_BOTH_WAYS}",
    PlanStanding.FINISHED: "",
}
_BY_THE_DAEMON = (PlanStanding.STAGING, PlanStanding.APPROVED, PlanStanding.PUBLISHED)
