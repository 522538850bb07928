"""Plans whose processes died, that were undone, overtaken or rolled back: what is typed about them meets what is so."""

from __future__ import annotations

from typing import Any

import pytest

from backfill_assets import clock
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.campaign.run import CampaignRun
from backfill_assets.campaign.standing import PlanStanding
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse import campaign_journal as journal
from backfill_assets.lakehouse.campaign_journal import CampaignStep
from backfill_assets.lakehouse.records import Provenance
from backfill_assets.lakehouse.timelines import open_timelines
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets_tests.begun_campaign import going
from backfill_assets_tests.campaign.played_campaign import CAMPAIGN, DAY, NEXT, OTHER, PLAN, TABLE, PlayedCampaign
from backfill_assets_tests.death import Died

pytestmark = pytest.mark.protocol
P = PLAN.id
RUN, UNDO, ABANDON = (f"backfill {word} {P}" for word in ("run", "rollback", "timeline delete"))


# ------------------------------------------------------------------ undone, and undone again


@pytest.mark.parametrize("since", ["nothing", "given up", "approved"])
def test_what_is_staged_again_has_still_been_undone_and_is_live_by_the_undo_of_its_undo(
    played: PlayedCampaign, since: str
) -> None:
    """The daemon would publish it once more by the approval of what was staged again."""
    played.cut_over()
    undo = played.undo()
    played.enter("resumed")
    if since != "nothing":
        played.enter("step", CampaignStep.SHADOW)
    if since == "given up":
        played.enter("stopped", reason="ana abandoned it", abandoned=True)
    if since == "approved":
        played.enter("step", CampaignStep.VALIDATE)
        played.approve()
    assert f"{P} is undone already: {undo} did it on 20" in (said := played.refused("rollback", P, "--yes"))
    assert f"backfill rollback {undo}" in said
    redo = played.undo_of(undo)
    assert played.backfill.json("status", P)["standing"] == PlanStanding.LIVE_AGAIN
    said = played.refused("approve", P, "--yes")
    assert f"{P} is published already, as {redo}" in said and UNDO in said


def test_the_journal_says_that_what_was_undone_is_taken_up_again(played: PlayedCampaign, carried_on: list[str]) -> None:
    """What that takes is no part of what it took before. To go on with what is published is another thing."""
    played.cut_over(CampaignStep.CUT_OVER)
    played.backfill("run", P)
    played.undo()
    played.backfill("run", P)
    entries = journal.entries(played.lakehouse.storage, CAMPAIGN)
    assert [each.again for each in entries if each.kind == "resumed"] == [False, True]
    assert carried_on == ["step 7 of 9: downstream rebuilt", "wave 1 of 2: canary"]
    published = [each.log for each in entries if each.kind == "resumed"]
    assert published == sorted(published) and published[0] >= 0, "each knows what it was decided on"


@pytest.mark.parametrize("at", [CrashPoint.PREPARED, CrashPoint.CLOSING])
def test_an_undo_that_was_killed_is_finished_by_the_next_one_and_not_repeated(
    played: PlayedCampaign, at: CrashPoint
) -> None:
    played.cut_over()
    with played.dying(at), pytest.raises(Died):
        played.backfill("rollback", P, "--yes")
    said = played.refused("rollback", P, "--yes")
    *_, undo = played.publications()
    assert played.publications() == ["before", "cut", undo] and played.ids() == [1, 2]
    assert f"is undone already: {undo} did it on 20" in said and f"backfill rollback {undo}" in said
    played.backfill("rollback", undo, "--yes")
    assert played.ids() == [5, 6]


@pytest.mark.parametrize("number", [0, 4])
def test_a_campaign_with_a_damaged_journal_is_given_up(played: PlayedCampaign, number: int) -> None:
    """Every command is refused with the one that helps; the entry is kept beside the others."""
    played.stage()
    storage, path = played.lakehouse.storage, f"_campaigns/{CAMPAIGN}/{number:06d}.json"
    storage.write_bytes(path, b'{"kind": "sta')
    assert f"backfill timeline delete {P}" in played.refused("run", P)
    played.backfill("timeline", "delete", P, "--yes")
    assert not going(storage) and not open_timelines(storage, TABLE)
    assert played.backfill.json("status", P)["standing"] == "given up"
    assert storage.read_bytes(f"{path}.damaged") == b'{"kind": "sta'
    assert "was given up: " in played.refused("timeline", "delete", P, "--yes")


@pytest.mark.parametrize("number", [0, 5])
def test_one_that_is_published_is_not_given_up_and_can_be_rolled_back(played: PlayedCampaign, number: int) -> None:
    """The log knows what its damaged journal does not."""
    played.cut_over()
    played.lakehouse.storage.write_bytes(f"_campaigns/{CAMPAIGN}/{number:06d}.json", b"")
    said = played.refused("timeline", "delete", P, "--yes")
    assert f"{P} is published, as cut" in said and UNDO in said
    played.backfill("rollback", P, "--yes")
    assert played.ids() == [1, 2]


# ------------------------------------------------------------------ half published


@pytest.mark.parametrize(("word", "at"), [("run", CrashPoint.PREPARED), ("approve", CrashPoint.CLOSING)])
def test_half_a_publication_is_finished_and_gone_on_with(
    played: PlayedCampaign, carried_on: list[str], at: CrashPoint, word: str
) -> None:
    """It was approved: neither staged again nor asked for a second time."""
    played.die_in_cut_over(at)
    played.backfill(word, P, *(["--yes"] if word == "approve" else []))
    assert carried_on == ["step 7 of 9: downstream rebuilt"]
    assert played.publications() == ["before", "cut"] and played.ids() == [5, 6]


def test_half_a_publication_is_not_given_up(played: PlayedCampaign) -> None:
    played.die_in_cut_over(CrashPoint.TABLE_COMMITTED)
    said = played.refused("timeline", "delete", P, "--yes")
    assert f"{P} is published, as cut" in said and UNDO in said
    assert played.ids() == [5, 6]


def test_an_undo_of_a_cut_over_that_no_journal_knew_is_not_published_again(
    played: PlayedCampaign, carried_on: list[str]
) -> None:
    """Its approval was still there: the next step would have been the cut-over."""
    played.die_in_cut_over(CrashPoint.TABLE_COMMITTED)
    undo = played.undo()
    assert f"{P} is undone already: {undo}" in played.refused("approve", P, "--yes")
    assert carried_on == []


# ------------------------------------------------------------------ overtaken


def test_another_campaign_that_was_undone_itself_overtakes_nothing(
    played: PlayedCampaign, carried_on: list[str]
) -> None:
    """Planning again would give the same plan."""
    played.stage()
    played.publish("theirs", OTHER, {NEXT: [9]})
    played.undo_of("theirs")
    played.backfill("run", P)
    assert carried_on


# ------------------------------------------------------------------ rolled back by a person since


def test_an_approval_names_days_that_a_person_rolled_back_since_they_were_staged(
    played: PlayedCampaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes them: the person who says yes has to know."""
    played.lakehouse.publish("nightly", {TABLE: {NEXT: [3]}})
    played.stage(replaces="nightly", days={DAY: [5], NEXT: [6]})
    with clock.use(played.lakehouse.time):
        roll_back(
            played.lakehouse.publisher,
            "nightly",
            id="by-hand",
            steps=CATALOG.steps,
            provenance=Provenance(launched_by="eva"),
        )
    monkeypatch.setattr("backfill_assets.answers.campaign.staged_notice", _no_notice)
    said = played.backfill("approve", P, exit_code=2).output
    assert f"Rolled back since, by by-hand, and published by a yes: {TABLE} {NEXT}." in " ".join(said.split())


def test_a_program_that_approves_gets_these_days_too(played: PlayedCampaign, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that the plan would not have changed, which is staged for the first time when it is approved."""
    played.lakehouse.publish("nightly", {TABLE: {DAY: [3], NEXT: [3]}})
    played.stage(replaces="nightly", days={DAY: [5]})
    by_hand = played.undo_of("nightly")

    def publish(at: CampaignRun, **_: object) -> None:
        played.publish()
        played.enter("step", CampaignStep.CUT_OVER, publication="cut", days={})

    monkeypatch.setattr("backfill_assets.cli.verbs.approve.carry_on", publish)
    values = played.backfill.json("approve", P, "--yes")
    assert values["rolled_back_since"] == {by_hand: {TABLE: [f"{DAY}..{NEXT}"]}}


def _no_notice(_: object) -> Any:
    from backfill_assets.lakehouse.records import Notice

    return Notice(title="It was rebuilt")
