"""What a campaign does next follows from its journal alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from backfill_assets.campaign.course import CampaignState, Move, approved_by, next_move, state_of
from backfill_assets.lakehouse.campaign_journal import STEPS, CampaignStep, JournalEntry, Kind

NOW = datetime(2026, 3, 1, tzinfo=UTC)
WINDOW = timedelta(days=30)
WAVES = ("canary", "pilot", "all")


def entry(kind: Kind, step: CampaignStep | None = None, wave: int = -1, **report: object) -> JournalEntry:
    return JournalEntry(kind=kind, at=NOW, step=step or "", wave=wave, report=report, reason=f"because of {kind}")


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


def test_nothing_is_cut_over_without_an_approval() -> None:
    assert after(until(CampaignStep.VALIDATE)) == Move("it waits for approval")
    assert after([*until(CampaignStep.VALIDATE), entry("approved")]).step is CampaignStep.CUT_OVER


def test_it_is_decommissioned_when_no_one_can_roll_it_back_any_more() -> None:
    told = until(CampaignStep.NOTIFY)
    assert after(told, NOW + WINDOW - timedelta(seconds=1)).reason == (
        "it can be rolled back until 2026-03-31, and is decommissioned then"
    )
    assert after(told, NOW + WINDOW).step is CampaignStep.DECOMMISSION


@pytest.mark.parametrize("last", [CampaignStep.PIN, CampaignStep.VALIDATE])
def test_a_stopped_campaign_waits_and_a_resumed_one_stages_from_the_first_wave_on(last: CampaignStep) -> None:
    stopped = [*until(last), entry("approved"), entry("stopped", last)]
    assert after(stopped) == Move("it was stopped: because of stopped")
    resumed = state_of("campaign-x", [*stopped, entry("resumed", daemon=True)])
    assert next_move(resumed, WAVES, WINDOW, NOW).wave == 0
    assert resumed.approved is None, "what is staged then was not approved"
    assert (resumed.daemon, resumed.resumes) == (True, 1)


def test_the_reason_of_a_stop_is_part_of_a_sentence() -> None:
    """What prints it ends the sentence."""
    stopped = [*until(CampaignStep.PIN), entry("stopped", CampaignStep.SHADOW)]
    stopped[-1] = stopped[-1].model_copy(update={"reason": "1 of 17 days are held back, and at most 5 % may."})
    assert after(stopped).reason == "it was stopped: 1 of 17 days are held back, and at most 5 % may"


def test_what_is_published_is_not_staged_again_by_a_resume() -> None:
    stopped = [*until(CampaignStep.CUT_OVER), entry("stopped", CampaignStep.DOWNSTREAM), entry("resumed")]
    assert after(stopped).step is CampaignStep.DOWNSTREAM


def test_a_campaign_that_was_rolled_back_can_be_run_again() -> None:
    back = [*until(CampaignStep.NOTIFY), entry("rolled back")]
    assert after(back).waits
    assert after([*back, entry("resumed")]).wave == 0


def test_a_rollback_that_was_undone_leaves_the_campaign_where_it_was() -> None:
    back_and_forth = [*until(CampaignStep.NOTIFY), entry("rolled back"), entry("restored")]
    assert after(back_and_forth, NOW + WINDOW).step is CampaignStep.DECOMMISSION


def test_a_campaign_that_was_never_started_does_nothing() -> None:
    assert next_move(CampaignState("campaign-x"), WAVES, WINDOW, NOW).waits


def test_a_withdrawn_approval_has_to_be_given_again_for_what_there_is_then() -> None:
    """What the withdrawal says is what is validated now; the days that were left out knowingly are so no more."""
    validated = entry("step", CampaignStep.VALIDATE, fingerprint="old")
    knowingly = entry("approved", without_held_back=True, fingerprint="old")
    given = [*until(CampaignStep.SHADOW), validated, knowingly]
    assert state_of("campaign-x", given).options["without_held_back"]
    withdrawn = [*given, entry("withdrawn", CampaignStep.VALIDATE, fingerprint="new")]
    assert after(withdrawn) == Move("it waits for approval again: because of withdrawn")
    now = state_of("campaign-x", withdrawn)
    assert now.done[CampaignStep.VALIDATE].report == {"fingerprint": "new"}
    given_again = [*withdrawn, entry("approved")]
    assert after(given_again).step is CampaignStep.CUT_OVER
    assert not state_of("campaign-x", given_again).options["without_held_back"]
    assert after([*withdrawn, entry("resumed")]).wave == 0
    assert state_of("campaign-x", [*withdrawn, entry("resumed")]).withdrawn is None


def test_a_withdrawal_does_not_undo_what_another_process_has_published() -> None:
    over = until(CampaignStep.CUT_OVER)
    assert after([*over, entry("withdrawn", CampaignStep.VALIDATE)]).step is CampaignStep.DOWNSTREAM
    (*begun, cut_over) = over
    late = [*begun, entry("withdrawn", CampaignStep.VALIDATE), cut_over]
    assert after(late).step is CampaignStep.DOWNSTREAM


def test_approvals_are_counted() -> None:
    """A run that failed for want of the right approval is asked for again after the next one."""
    assert state_of("campaign-x", [*until(CampaignStep.VALIDATE), entry("approved"), entry("approved")]).approvals == 2


def test_several_people_approve_the_same_difference() -> None:
    """One who approves twice is one; an approval of an older difference does not count."""
    entries = until(CampaignStep.VALIDATE)
    for who, fingerprint, waits in (
        ("ana", "old", "1 of 2 given, by ana (OS user)"),
        ("bela", "new", "1 of 2 given, by bela (OS user)"),
        ("Bela", "new", "1 of 2 given, by Bela (OS user)"),
        ("ana", "new", ""),
    ):
        report = {"who": who, "known by": "OS user", "fingerprint": fingerprint, "needed": 2}
        entries.append(JournalEntry(kind="approved", at=NOW, by=who, report=report))
        assert after(entries).reason == (f"it waits for approval: {waits}" if waits else "step 6 of 9: cut over")
    assert approved_by(state_of("campaign-x", entries)) == "Bela (OS user), ana (OS user)"
    withdrawn = state_of("campaign-x", [*entries, entry("withdrawn", CampaignStep.CUT_OVER)])
    assert (withdrawn.given, withdrawn.approved, approved_by(withdrawn)) == ((), None, "")
    assert state_of("campaign-x", [*entries, entry("resumed")]).given == ()


def test_the_one_who_started_it_last_is_known() -> None:
    """The options are theirs; entries of before people were recorded name no one."""
    ana, bela = ({"who": name, "known by": "OS user"} for name in ("ana", "bela"))
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
