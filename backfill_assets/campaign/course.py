"""The course of a campaign: what has been done of its nine steps, and what comes next. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from backfill_assets.campaign.options import Options
from backfill_assets.lakehouse.campaign_journal import STEPS, CampaignStep, JournalEntry
from backfill_assets.lakehouse.campaign_reports import (
    ApprovalReport,
    BegunReport,
    ComparedReport,
    CutOverReport,
    PublicationReport,
    StopReport,
)
from backfill_assets.rebuild.outcome import UNKNOWN, Person


@dataclass(frozen=True)
class Stop:
    """``helps``: what to do; empty to fix the cause and run the plan again."""

    reason: str
    helps: str = ""
    given_up: bool = False

    @classmethod
    def of(cls, entry: JournalEntry) -> Stop:
        report = entry.reported(StopReport)
        return cls(entry.reason, report.helps, report.abandoned)

    @property
    def sentence(self) -> str:
        return f"it was stopped: {self.reason.removesuffix('.')}"


@dataclass(frozen=True)
class Approval:
    """``needed``: how many people have to approve the same difference."""

    fingerprint: str | None
    person: Person
    by: str
    needed: int = 1

    @classmethod
    def of(cls, entry: JournalEntry) -> Approval:
        report = entry.reported(ApprovalReport)
        return cls(report.fingerprint, Person.of(report), entry.by, report.needed)

    @property
    def name(self) -> str:
        return self.person.name.casefold() or self.by

    def __str__(self) -> str:
        return str(self.person or self.by)


@dataclass(frozen=True)
class CampaignState:
    campaign: str
    started: bool = False
    options: Options = field(default_factory=Options)
    done: Mapping[CampaignStep, JournalEntry] = field(default_factory=dict)
    waves_done: int = 0
    stopped: Stop | None = None
    started_by: Person = UNKNOWN
    """Who started it or resumed it last; the options are theirs."""
    approved: Approval | None = None
    given: tuple[Approval, ...] = ()
    withdrawn: JournalEntry | None = None
    rolled_back: JournalEntry | None = None
    as_published: CampaignState | None = None
    """The state at the last publication, which the undo of an undo brings back."""
    resumes: int = 0
    approvals: int = 0

    @property
    def daemon(self) -> bool:
        return self.options.daemon

    @property
    def cut_over_at(self) -> datetime | None:
        entry = self.done.get(CampaignStep.CUT_OVER)
        return entry.at if entry else None

    @property
    def validation(self) -> ComparedReport:
        """What people decide on, or empty."""
        entry = self.done.get(CampaignStep.VALIDATE)
        return entry.reported(ComparedReport) if entry else ComparedReport()

    @property
    def cut_over(self) -> CutOverReport:
        entry = self.done.get(CampaignStep.CUT_OVER)
        return entry.reported(CutOverReport) if entry else CutOverReport()

    @property
    def finished(self) -> bool:
        return CampaignStep.DECOMMISSION in self.done


@dataclass(frozen=True)
class Move:
    """The next ``step`` or ``wave``; neither while the campaign waits."""

    reason: str
    step: CampaignStep | None = None
    wave: int | None = None

    @property
    def waits(self) -> bool:
        return self.step is None and self.wave is None


def state_of(campaign: str, entries: Iterable[JournalEntry]) -> CampaignState:
    """Folds all entries; a later attempt replaces an earlier one. Only resuming ends a stop."""
    found = CampaignState(campaign)
    for entry in entries:
        found = _after(found, entry)
        if is_published(found):
            found = replace(found, as_published=replace(found, as_published=None))
    return found


def _after(now: CampaignState, entry: JournalEntry) -> CampaignState:
    match entry.kind:
        case "started":
            begun = entry.reported(BegunReport)
            found = CampaignState(
                now.campaign,
                as_published=now.as_published,
                started=True,
                options=Options().changed_by(begun),
                started_by=Person.of(begun),
            )
        case "resumed":
            found = _resume(now, entry)
        case "wave":
            found = replace(now, waves_done=max(now.waves_done, entry.wave + 1))
        case "step":
            found = replace(now, done={**now.done, CampaignStep(entry.step): entry})
        case "stopped":
            found = replace(now, stopped=Stop.of(entry))
        case "approved" | "withdrawn":
            found = _approve(now, entry) if entry.kind == "approved" else _withdraw(now, entry)
        case "rolled back" | "restored":
            found = replace(now, rolled_back=entry) if entry.kind == "rolled back" else _restore(now)
    return found


def _restore(now: CampaignState) -> CampaignState:
    live = now.as_published or now
    return replace(live, stopped=None, rolled_back=None, resumes=now.resumes, approvals=now.approvals)


def _approve(now: CampaignState, entry: JournalEntry) -> CampaignState:
    options = replace(now.options, without_held_back=entry.reported(ApprovalReport).without_held_back)
    new = Approval.of(entry)
    others = (each for each in now.given if each.fingerprint == new.fingerprint and each.name != new.name)
    given = (*others, new)
    approved = new if len(given) >= new.needed else None
    found = replace(now, approved=approved, given=given, approvals=now.approvals + 1)
    return replace(found, options=options, withdrawn=None)


def approved_by(now: CampaignState) -> str:
    return _names(now.given) if now.approved else ""


def _names(given: Iterable[Approval]) -> str:
    return ", ".join(map(str, given))


def _withdraw(now: CampaignState, entry: JournalEntry) -> CampaignState:
    """Replaces the report of VALIDATE, unless the campaign was published meanwhile."""
    if is_published(now):
        return now
    return replace(now, approved=None, given=(), withdrawn=entry, done={**now.done, CampaignStep.VALIDATE: entry})


def _resume(now: CampaignState, entry: JournalEntry) -> CampaignState:
    """Once published, steps stay done; before, the shadow backfill starts over and adopts what is still right."""
    begun = entry.reported(BegunReport)
    options, person = now.options.changed_by(begun), Person.of(begun)
    again = replace(now, options=options, started_by=person, stopped=None, resumes=now.resumes + 1)
    if is_published(now):
        return again
    kept = {step: done for step, done in now.done.items() if STEPS.index(step) < STEPS.index(CampaignStep.SHADOW)}
    return replace(again, done=kept, waves_done=0, approved=None, given=(), withdrawn=None, rolled_back=None)


def is_published(now: CampaignState) -> bool:
    return CampaignStep.CUT_OVER in now.done and not now.rolled_back


def is_given_up(now: CampaignState) -> bool:
    return bool(now.stopped and now.stopped.given_up)


def in_order(written: Sequence[JournalEntry], published: Iterable[JournalEntry]) -> list[JournalEntry]:
    """Each publication goes before the first entry that knows it (``log``); one that the journal reports appears
    once.
    """
    found: list[JournalEntry] = []
    later = deque(each for each in published if not any(_reports(entry, each) for entry in written))
    for entry in written:
        while later and later[0].log <= entry.log:
            found.append(later.popleft())
        found.append(entry)
    return [*found, *later]


def _reports(entry: JournalEntry, published: JournalEntry) -> bool:
    return entry.kind == published.kind and entry.tells_of(published.reported(PublicationReport).publication)


def next_move(now: CampaignState, waves: Sequence[str], window: timedelta, at: datetime) -> Move:
    if waiting := _why_waiting(now, window, at):
        return Move(waiting)
    step = next(step for step in STEPS if step not in now.done)
    if step is CampaignStep.SHADOW and now.waves_done < len(waves):
        return Move(f"wave {now.waves_done + 1} of {len(waves)}: {waves[now.waves_done]}", wave=now.waves_done)
    return Move(f"step {STEPS.index(step) + 1} of {len(STEPS)}: {step.value.replace('_', ' ')}", step=step)


def why_over(newest: JournalEntry | None, published: Callable[[], object]) -> str:
    """Why nothing comes after ``newest``; empty if all entries have to be read. ``published`` reads the log: the undo
    of an undo brings back what was given up.
    """
    if newest is None or not newest.ends_campaign:
        return ""
    if not newest.gives_up:
        return _FINISHED
    return "" if published() else Stop.of(newest).sentence


def waits_for_approval(now: CampaignState) -> bool:
    validated = CampaignStep.VALIDATE in now.done and CampaignStep.CUT_OVER not in now.done
    return validated and not (now.approved or now.stopped or now.rolled_back or now.finished)


def _why_waiting(now: CampaignState, window: timedelta, at: datetime) -> str:
    over = now.cut_over_at + window if now.cut_over_at else None
    reasons = {
        "it was never started": not now.started,
        _FINISHED: now.finished,
        now.stopped.sentence if now.stopped else "": now.stopped,
        "it was rolled back; run its plan again to stage it again": now.rolled_back,
        _why_waiting_for_approval(now): waits_for_approval(now),
        f"it is published. You can undo it until {over:%Y-%m-%d}; then its staging files are deleted" if over else "": (
            CampaignStep.NOTIFY in now.done and over and at < over
        ),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


_FINISHED = "it is finished"


def _why_waiting_for_approval(now: CampaignState) -> str:
    if now.given:
        given = f"{len(now.given)} of {now.given[-1].needed} given, by {_names(now.given)}"
        return f"it waits for approval: {given}"
    return f"it waits for approval again: {now.withdrawn.reason}" if now.withdrawn else "it waits for approval"
