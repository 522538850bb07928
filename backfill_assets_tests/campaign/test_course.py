"""What a campaign does next follows from its journal alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from backfill_assets.campaign.course import Move, approved_by, in_order, next_move, state_of, why_over
from backfill_assets.lakehouse.campaign_journal import STEPS, CampaignStep, JournalEntry, Kind
from backfill_assets.lakehouse.campaign_reports import ApprovalReport, BegunReport, ComparedReport, PublicationReport

NOW = datetime(2026, 3, 1, tzinfo=UTC)
WINDOW = timedelta(days=30)
WAVES = ("canary", "pilot", "all")


def entry(kind: Kind, step: CampaignStep | None = None, wave: int = -1, **report: object) -> JournalEntry:
    said = {"step": step or "", "wave": wave, "report": report, "reason": f"because of {kind}"}
    return JournalEntry.model_validate({"kind": kind, "at": NOW, **said})


def until(last: CampaignStep) -> list[JournalEntry]:
    """Everything up to and with ``last``, approved as soon as that can be."""
    found = [entry("started")]
    for step in STEPS[: STEPS.index(last) + 1]:
        if step is CampaignStep.SHADOW:
            found += [entry("wave", wave=number) for number in range(len(WAVES))]
        if step is CampaignStep.CUT_OVER:
            found.append(entry("approved"))
        found.append(entry("step", step))
    return found


def after(entries: list[JournalEntry], at: datetime = NOW) -> Move:
    return next_move(state_of("campaign-x", entries), WAVES, WINDOW, at)


def test_the_nine_steps_follow_each_other_and_the_shadow_goes_in_waves() -> None:
    entries: list[JournalEntry] = [entry("started")]
    moves: list[str] = []
    while len(moves) < 20 and not (move := after(entries, NOW + WINDOW)).reason.startswith("it is finished"):
        if move.waits:
            entries.append(entry("approved"))
        else:
            moves.append(move.step.value if move.step else f"wave {move.wave}")
            entries.append(entry("step", move.step) if move.step else entry("wave", wave=move.wave or 0))
    assert moves == [
        "announced",
        "source_verified",
        "watermarks_pinned",
        *("wave 0", "wave 1", "wave 2"),
        "shadow_backfilled",
        "validated",
        "cut_over",
        "downstream_rebuilt",
        "completion_told",
        "decommissioned",
    ]


UNDOABLE = "it is published. You can undo it"


@pytest.mark.parametrize("last", [CampaignStep.PIN, CampaignStep.VALIDATE])
def test_a_stopped_campaign_waits_and_a_resumed_one_stages_from_the_first_wave_on(last: CampaignStep) -> None:
    stopped = [*until(last), entry("approved"), entry("stopped", last)]
    assert after(stopped) == Move("it was stopped: because of stopped")
    resumed = state_of("campaign-x", [*stopped, entry("resumed", daemon=True)])
    assert next_move(resumed, WAVES, WINDOW, NOW).wave == 0
    assert resumed.approved is None, "what is staged then was not approved"
    assert (resumed.daemon, resumed.resumes) == (True, 1)


def test_a_withdrawn_approval_has_to_be_given_again_for_what_there_is_then() -> None:
    """What the withdrawal says is what is validated now; the days that were left out knowingly are so no more."""
    validated = entry("step", CampaignStep.VALIDATE, fingerprint="old")
    knowingly = entry("approved", without_held_back=True, fingerprint="old")
    given = [*until(CampaignStep.SHADOW), validated, knowingly]
    assert state_of("campaign-x", given).options.without_held_back
    withdrawn = [*given, entry("withdrawn", CampaignStep.VALIDATE, fingerprint="new")]
    assert after(withdrawn) == Move("it waits for approval again: because of withdrawn")
    now = state_of("campaign-x", withdrawn)
    assert now.validation == ComparedReport(fingerprint="new")
    given_again = [*withdrawn, entry("approved")]
    assert after(given_again).step is CampaignStep.CUT_OVER
    assert not state_of("campaign-x", given_again).options.without_held_back
    assert after([*withdrawn, entry("resumed")]).wave == 0
    assert state_of("campaign-x", [*withdrawn, entry("resumed")]).withdrawn is None


def test_several_people_approve_the_same_difference() -> None:
    """One who approves twice is one; an approval of an older difference does not count."""
    entries = until(CampaignStep.VALIDATE)
    for who, fingerprint, waits in (
        ("ana", "old", "1 of 2 given, by ana (OS user)"),
        ("bela", "new", "1 of 2 given, by bela (OS user)"),
        ("Bela", "new", "1 of 2 given, by Bela (OS user)"),
        ("ana", "new", ""),
    ):
        report = ApprovalReport(who=who, known_by="OS user", fingerprint=fingerprint, needed=2)
        entries.append(JournalEntry(kind="approved", at=NOW, by=who, report=report))
        assert after(entries).reason == (f"it waits for approval: {waits}" if waits else "step 6 of 9: cut over")
    assert approved_by(state_of("campaign-x", entries)) == "Bela (OS user), ana (OS user)"
    withdrawn = state_of("campaign-x", [*entries, entry("withdrawn", CampaignStep.CUT_OVER)])
    assert (withdrawn.given, withdrawn.approved, approved_by(withdrawn)) == ((), None, "")
    late = [*entries, entry("step", CampaignStep.CUT_OVER), entry("withdrawn", CampaignStep.CUT_OVER)]
    assert approved_by(state_of("campaign-x", late)) == "Bela (OS user), ana (OS user)", "it is published"
    assert state_of("campaign-x", [*entries, entry("resumed")]).given == ()


def test_the_one_who_started_it_last_is_known() -> None:
    """The options are theirs; entries of before people were recorded name no one."""
    ana, bela = (BegunReport(who=name, known_by="OS user") for name in ("ana", "bela"))
    started = JournalEntry(kind="started", at=NOW, report=ana)
    assert str(state_of("campaign-x", [started]).started_by) == "ana (OS user)"
    resumed = JournalEntry(kind="resumed", at=NOW, report=bela)
    assert state_of("campaign-x", [started, resumed]).started_by.name == "bela"
    assert not state_of("campaign-x", [started, entry("resumed")]).started_by
    by_name = [*until(CampaignStep.VALIDATE), JournalEntry(kind="approved", at=NOW, by="ana: backfill approve")]
    assert approved_by(state_of("campaign-x", by_name)) == "ana: backfill approve"


def test_a_step_that_ends_after_the_campaign_was_given_up_changes_nothing() -> None:
    """The daemon's run was at work on it. Only taking the campaign up again ends a stop."""
    entries = [entry("started"), entry("step", CampaignStep.ANNOUNCE), entry("stopped")]
    ended = [*entries, entry("step", CampaignStep.VERIFY_SOURCE)]
    assert state_of("campaign-x", ended).stopped
    assert not state_of("campaign-x", [*ended, entry("resumed")]).stopped


def test_approvals_are_counted() -> None:
    """A run that failed for want of the right approval is asked for again after the next one."""
    assert state_of("campaign-x", [*until(CampaignStep.VALIDATE), entry("approved"), entry("approved")]).approvals == 2


CUT, TOLD, VALIDATED = until(CampaignStep.CUT_OVER), until(CampaignStep.NOTIFY), until(CampaignStep.VALIDATE)
WITHDRAWN = entry("withdrawn", CampaignStep.VALIDATE)
STOPPED = entry("stopped", CampaignStep.DOWNSTREAM)
BACK = entry("rolled back")
LIMIT = STOPPED.model_copy(update={"reason": "1 of 17 days are held back, and at most 5 % may."})


@pytest.mark.parametrize(
    ("entries", "later", "move"),
    [
        ([], WINDOW, ""),
        (VALIDATED, WINDOW, "it waits for approval"),
        ([*VALIDATED, entry("approved")], WINDOW, CampaignStep.CUT_OVER),
        ([*CUT, STOPPED, entry("resumed")], WINDOW, CampaignStep.DOWNSTREAM),
        ([*until(CampaignStep.PIN), LIMIT], WINDOW, f"it was stopped: {LIMIT.reason[:-1]}"),
        ([*CUT, WITHDRAWN], WINDOW, CampaignStep.DOWNSTREAM),
        ([*CUT[:-1], WITHDRAWN, CUT[-1]], WINDOW, CampaignStep.DOWNSTREAM),
        (
            TOLD,
            WINDOW - timedelta(seconds=1),
            f"{UNDOABLE} until 2026-03-31; then its staging files are deleted",
        ),
        (TOLD, WINDOW, CampaignStep.DECOMMISSION),
        ([*TOLD, BACK], WINDOW, "it was rolled back"),
        ([*TOLD, BACK, entry("resumed")], WINDOW, 0),
        ([*TOLD, BACK, entry("restored")], WINDOW, CampaignStep.DECOMMISSION),
    ],
    ids=[
        "never started",
        "nothing is cut over without an approval",
        "approved",
        "what is published is not staged again by a resume",
        "the reason of a stop is part of a sentence",
        "a withdrawal does not undo what another process has published",
        "nor one that was written before that was",
        "someone can roll it back",
        "no one can roll it back any more",
        "rolled back",
        "run again after that",
        "the rollback was undone",
    ],
)
def test_what_comes_next(entries: list[JournalEntry], later: timedelta, move: str | int | CampaignStep) -> None:
    found = after(entries, NOW + later)
    if isinstance(move, CampaignStep):
        assert found.step is move
    elif isinstance(move, int):
        assert found.wave == move
    else:
        assert found.waits and found.reason.startswith(move) and not found.reason.endswith(".")


def known_at(log: int, entry: JournalEntry) -> JournalEntry:
    return entry.model_copy(update={"log": log})


CUT_OVER, UNDONE, RESTORED = (
    entry("step", CampaignStep.CUT_OVER, publication="cut"),
    entry("rolled back", publication="undo"),
    entry("restored", publication="redo"),
)
LOG = [
    each.model_copy(update={"log": log, "reason": reason})
    for each, log, reason in ((CUT_OVER, 10, ""), (UNDONE, 20, "by undo"), (RESTORED, 30, "by redo"))
]
APPROVED = [known_at(9, each) for each in (*VALIDATED, entry("approved"))]


@pytest.mark.parametrize(
    ("written", "log", "found"),
    [
        (APPROVED, [], ""),
        (APPROVED, LOG[:1], "cut"),
        ([*APPROVED, known_at(9, CUT_OVER)], LOG[:1], "cut"),
        ([*APPROVED, known_at(15, entry("step", CampaignStep.DOWNSTREAM))], LOG[:2], "cut undo"),
        ([*APPROVED, known_at(15, entry("resumed"))], LOG[:2], "cut resumed undo"),
        ([*APPROVED, known_at(20, entry("resumed")), known_at(25, entry("approved"))], LOG[:2], "cut undo resumed"),
        ([*APPROVED, known_at(20, entry("resumed"))], LOG, "cut undo resumed redo"),
        ([*APPROVED, known_at(5, entry("stopped")), known_at(20, entry("resumed"))], LOG[:2], "cut undo resumed"),
        ([*APPROVED, CUT_OVER, BACK.model_copy(update={"reason": "by undo"})], LOG[:2], "cut"),
    ],
    ids=[
        "nothing is published",
        "its process died before it said so",
        "it said so, by what it had known before",
        "undone since",
        "who took it up did not know of the undo",
        "taken up after the undo",
        "brought back",
        "one who was slow knew less than the one before",
        "a journal that has the undo itself",
    ],
)
def test_journal_and_log_are_one_sequence(written: list[JournalEntry], log: list[JournalEntry], found: str) -> None:
    """Each publication comes before the first entry that was written knowing it, and once."""
    both = in_order(written, log)
    assert [each for each in both if each in written] == written
    names = [each.reported(PublicationReport).publication or each.kind for each in both]
    assert " ".join(name for name in names if name in ("cut", "undo", "redo", "resumed")) == found


@pytest.mark.parametrize(
    ("entries", "over"),
    [
        (TOLD, False),
        (until(CampaignStep.DECOMMISSION), True),
        ([entry("stopped")], False),
        ([entry("stopped", abandoned=True)], True),
    ],
)
@pytest.mark.parametrize("published", [None, "redo"])
def test_what_is_over_is_known_by_its_last_entry(
    entries: list[JournalEntry], published: str | None, *, over: bool
) -> None:
    """Of one that was given up only if the log has nothing of it: the undo of an undo brings it back."""
    given_up = bool(entries[-1].report.as_json())
    assert bool(why_over(entries[-1], lambda: published)) is (over and not (given_up and published))
