"""What is typed about a plan in any state does what it says, or is refused with the command that helps."""

from __future__ import annotations

from typing import Any

import pytest

from backfill_assets.campaign.rollback import roll_back
from backfill_assets.campaign.run import CampaignRun
from backfill_assets.cli import foreground
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.campaign_journal import CampaignStep
from backfill_assets.lakehouse.plans import open_plan_ids
from backfill_assets.lakehouse.records import Provenance
from backfill_assets.lakehouse.timelines import open_timelines
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets_tests.campaign.played_campaign import (
    CAMPAIGN,
    DAY,
    NEXT,
    OTHER,
    PLAN,
    PLAN_AGAIN,
    TABLE,
    PlayedCampaign,
)
from backfill_assets_tests.cli.command import Backfill

pytestmark = pytest.mark.protocol
RUN, ROLLBACK, APPROVE = (f"backfill {word} {PLAN.id}" for word in ("run", "rollback", "approve"))
INSIDE = [CrashPoint.PREPARED, CrashPoint.TABLE_COMMITTED, CrashPoint.CLOSING]


@pytest.fixture
def backfill(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Backfill:
    return Backfill(tmp_path / "home", monkeypatch)


@pytest.fixture
def played(backfill: Backfill, monkeypatch: pytest.MonkeyPatch) -> PlayedCampaign:
    def refuse(*_: object) -> None:
        raise AssertionError("Spark is started")

    monkeypatch.setattr(foreground, "foreground_spark", refuse)
    monkeypatch.setattr("backfill_assets.plan.keep.require_carried_out", lambda *_, **__: None)
    return PlayedCampaign(backfill, monkeypatch)


@pytest.fixture
def carried_on(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a command went on with, instead of doing it."""
    moves: list[str] = []

    def carry_on(at: CampaignRun, **_: object) -> None:
        moves.append(at.next().reason)

    for where in ("campaigns", "verbs.approve"):
        monkeypatch.setattr(f"backfill_assets.cli.{where}.carry_on", carry_on)
    return moves


def refused(played: PlayedCampaign, *words: str) -> str:
    return " ".join(played.backfill(*words, exit_code=1).stderr.split())


# ------------------------------------------------------------------ undone, and undone again


def test_an_approval_of_an_undone_plan_is_refused_with_both_ways_on(played: PlayedCampaign) -> None:
    """It published nothing, and named the undone publication as what it had published."""
    played.cut_over()
    undo = played.undo()
    said = refused(played, "approve", PLAN.id, "--yes")
    assert f"{PLAN.id} is undone already: {undo} did it on 20" in said
    assert RUN in said and f"backfill rollback {undo}" in said
    assert played.publications() == ["before", "cut", undo]


@pytest.mark.parametrize("at", INSIDE)
def test_an_undo_that_was_killed_is_finished_by_the_next_one_and_not_repeated(
    played: PlayedCampaign, at: CrashPoint
) -> None:
    played.cut_over()
    with played.dying(at), pytest.raises(AssertionError, match="Crashed"):
        played.backfill("rollback", PLAN.id, "--yes")
    said = refused(played, "rollback", PLAN.id, "--yes")
    *_, undo = played.publications()
    assert played.publications() == ["before", "cut", undo] and played.ids() == [1, 2]
    assert f"is undone already: {undo} did it on 20" in said and f"backfill rollback {undo}" in said
    played.backfill("rollback", undo, "--yes")
    assert played.ids() == [5, 6]


def test_an_undone_plan_is_not_given_up(played: PlayedCampaign, carried_on: list[str]) -> None:
    played.cut_over()
    undo = played.undo()
    said = refused(played, "timeline", "delete", PLAN.id, "--yes")
    assert f"{PLAN.id} is undone already: {undo} did it on 20" in said
    assert RUN in said and f"backfill rollback {undo}" in said and "rollback window" in said
    played.backfill("run", PLAN.id)
    assert carried_on == ["wave 1 of 2: canary"]


def test_after_the_undo_of_its_undo_a_plan_is_live_although_it_was_given_up(played: PlayedCampaign) -> None:
    """It had been given up meanwhile, as older versions of this code allowed."""
    played.cut_over()
    undo = played.undo()
    played.enter("stopped", reason="ana abandoned it", abandoned=True)
    played.undo_of(undo)
    assert played.backfill.json("status", PLAN.id)["waits"].startswith("it can be rolled back until")
    assert played.ids() == [5, 6]
    assert "is published" in refused(played, "timeline", "delete", PLAN.id, "--yes")


def test_a_plan_that_is_staged_again_and_comes_back_by_the_undo_of_its_undo_is_live(played: PlayedCampaign) -> None:
    """The daemon would publish it once more by the approval of what was staged again."""
    played.cut_over()
    undo = played.undo()
    played.enter("resumed")
    for step in ("shadow_backfilled", "validated"):
        played.enter("step", step)
    played.approve()
    redo = played.undo_of(undo)
    said = refused(played, "approve", PLAN.id, "--yes")
    assert f"{PLAN.id} is published already, as {redo}" in said and ROLLBACK in said


@pytest.mark.parametrize("number", [0, 1, 4])
def test_a_campaign_with_a_damaged_journal_is_given_up(played: PlayedCampaign, number: int) -> None:
    """Every command is refused with the one that helps; the entry is kept beside the others."""
    played.stage()
    storage, path = played.lakehouse.storage, f"_campaigns/{CAMPAIGN}/{number:06d}.json"
    storage.write_bytes(path, b'{"kind": "sta')
    assert f"backfill timeline delete {PLAN.id}" in refused(played, "run", PLAN.id)
    played.backfill("timeline", "delete", PLAN.id, "--yes")
    assert not open_plan_ids(storage) and not open_timelines(storage, TABLE)
    assert played.backfill.json("status", PLAN.id)["standing"] == "given up"
    assert storage.read_bytes(f"{path}.damaged") == b'{"kind": "sta'
    assert "was given up: " in refused(played, "timeline", "delete", PLAN.id, "--yes")


@pytest.mark.parametrize("number", [0, 5])
def test_one_that_is_published_is_not_given_up_and_can_be_rolled_back(played: PlayedCampaign, number: int) -> None:
    """The log knows what its damaged journal does not."""
    played.cut_over()
    played.lakehouse.storage.write_bytes(f"_campaigns/{CAMPAIGN}/{number:06d}.json", b"")
    said = refused(played, "timeline", "delete", PLAN.id, "--yes")
    assert f"{PLAN.id} is published, as cut" in said and ROLLBACK in said
    played.backfill("rollback", PLAN.id, "--yes")
    assert played.ids() == [1, 2]


# ------------------------------------------------------------------ half published


@pytest.mark.parametrize("at", INSIDE)
def test_half_a_publication_is_named_with_the_command_that_finishes_it(played: PlayedCampaign, at: CrashPoint) -> None:
    """The status of all tables names the publication, and that of the plan the command."""
    played.die_in_cut_over(at)
    assert played.backfill.json("status")["under_way"] == ["cut"]
    values = played.backfill.json("status", PLAN.id)
    assert values["standing"] == "half published by a process that died"
    (said,) = values["next"]
    assert f"cut is under way. If its process died: {RUN} finishes it" in said


@pytest.mark.parametrize("at", INSIDE)
@pytest.mark.parametrize("word", ["run", "approve"])
def test_half_a_publication_is_finished_and_gone_on_with(
    played: PlayedCampaign, carried_on: list[str], at: CrashPoint, word: str
) -> None:
    """It was approved: neither staged again nor asked for a second time."""
    played.die_in_cut_over(at)
    played.backfill(word, PLAN.id, *(["--yes"] if word == "approve" else []))
    assert carried_on == ["step 7 of 9: downstream rebuilt"]
    assert played.publications() == ["before", "cut"] and played.ids() == [5, 6]


def test_half_a_publication_is_not_given_up(played: PlayedCampaign) -> None:
    played.die_in_cut_over(CrashPoint.TABLE_COMMITTED)
    said = refused(played, "timeline", "delete", PLAN.id, "--yes")
    assert f"{PLAN.id} is published, as cut" in said and ROLLBACK in said
    assert played.ids() == [5, 6]


def test_an_undo_of_a_cut_over_that_no_journal_knew_is_not_published_again(
    played: PlayedCampaign, carried_on: list[str]
) -> None:
    """Its approval was still there: the next step would have been the cut-over."""
    played.die_in_cut_over(CrashPoint.TABLE_COMMITTED)
    undo = played.undo()
    assert played.entries()[-2:] == ["step", "rolled back"]
    assert f"{PLAN.id} is undone already: {undo}" in refused(played, "approve", PLAN.id, "--yes")
    assert carried_on == []


@pytest.mark.parametrize("word", ["approve", "status"])
def test_killed_after_its_publication_it_names_the_command_that_carries_it_on(
    played: PlayedCampaign, word: str
) -> None:
    played.cut_over(CampaignStep.CUT_OVER)
    if word == "status":
        (said,) = played.backfill.json("status", PLAN.id)["next"]
    else:
        said = refused(played, "approve", PLAN.id, "--yes")
        assert f"{PLAN.id} is published already, as cut" in said
    assert RUN in said and "downstream rebuilt" in said


# ------------------------------------------------------------------ overtaken


@pytest.mark.parametrize("words", [("run", PLAN.id), ("approve", PLAN.id, "--yes")])
def test_an_overtaken_plan_is_planned_again(
    played: PlayedCampaign, carried_on: list[str], words: tuple[str, ...]
) -> None:
    """Run said approve, and approve said run."""
    played.stage()
    played.publish("theirs", OTHER, {NEXT: [9]})
    said = refused(played, *words)
    assert f"{TABLE} {NEXT} was brought by {OTHER} (theirs), since {PLAN.id} staged it" in said
    assert f"Plan again: {PLAN_AGAIN}" in said
    (shown,) = played.backfill.json("status", PLAN.id)["next"]
    assert f"Plan again: {PLAN_AGAIN}" in shown and APPROVE not in shown
    assert carried_on == []
    played.backfill("timeline", "delete", PLAN.id, "--yes")


def test_another_campaign_that_was_undone_itself_overtakes_nothing(
    played: PlayedCampaign, carried_on: list[str]
) -> None:
    """Planning again would give the same plan."""
    played.stage()
    played.publish("theirs", OTHER, {NEXT: [9]})
    played.undo_of("theirs")
    played.backfill("run", PLAN.id)
    assert carried_on


# ------------------------------------------------------------------ rolled back by a person since


def test_an_approval_names_days_that_a_person_rolled_back_since_they_were_staged(
    played: PlayedCampaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes them: the person who says yes has to know."""
    played.lakehouse.publish("nightly", {TABLE: {NEXT: [3]}})
    played.stage(replaces="nightly", days={DAY: [5], NEXT: [6]})
    roll_back(
        played.lakehouse.publisher,
        "nightly",
        id="by-hand",
        steps=CATALOG.steps,
        provenance=Provenance(launched_by="eva"),
    )
    monkeypatch.setattr("backfill_assets.answers.campaign.staged_notice", _no_notice)
    said = played.backfill("approve", PLAN.id, exit_code=2).output
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
    values = played.backfill.json("approve", PLAN.id, "--yes")
    assert values["rolled_back_since"] == {by_hand: {TABLE: [f"{DAY}..{NEXT}"]}}


def _no_notice(_: object) -> Any:
    from backfill_assets.lakehouse.records import Notice

    return Notice(title="It was rebuilt")
