"""Every word about a plan in every state: it does what it says, or is refused with the command that helps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pytest

from backfill_assets.campaign.standing import PlanStanding, PlanWord, is_page_of, page_of
from backfill_assets.lakehouse.campaign_journal import CampaignStep, campaign_of
from backfill_assets.plan.records import Plan, PlanFinding, PlanRequest
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets_tests.campaign.played_campaign import (
    DAY,
    NEXT,
    OLD,
    OTHER,
    PLAN,
    TABLE,
    PlayedCampaign,
)

pytestmark = pytest.mark.protocol
P = PLAN.id
RUN, APPROVE, UNDO, ABANDON, LOOK = (
    f"backfill {word} {P}" for word in ("run", "approve", "rollback", "timeline delete", "status")
)
AGAIN = f"backfill plan {TABLE} --days {DAY}..{NEXT}"
REDO, ABORT, UNSWITCH = "backfill rollback {newest}", "backfill maintain --abort {newest}", "backfill rollback s"
"""``newest`` is the last publication."""


@dataclass(frozen=True)
class Refused:
    """What is so, and the commands that help."""

    sentence: str
    helps: Sequence[str]


Cell = Refused | str
"""A word that does what it says has this effect."""
ANNOUNCED, VERIFIED, STAGES = "step 1 of 9: announced", "step 2 of 9: source verified", "wave 1 of 2: canary"
CUTS_OVER, GOES_ON = "step 6 of 9: cut over", "step 7 of 9: downstream rebuilt"
BACK, GIVEN_UP = "as before", "given up"
How = Callable[[PlayedCampaign], object]


def _after(*deeds: How) -> How:
    return lambda played: [deed(played) for deed in deeds]


def _nothing(_: PlayedCampaign) -> None:
    """A plan that was only made."""


def _stop(played: PlayedCampaign) -> None:
    played.enter("stopped", reason="a limit.")


def _give_up(played: PlayedCampaign) -> None:
    played.backfill("timeline", "delete", P, "--yes")


def _overtake(played: PlayedCampaign) -> None:
    played.publish("theirs", OTHER, {NEXT: [9]})


def _publish_half(played: PlayedCampaign) -> None:
    played.die_in_cut_over(CrashPoint.PREPARED)


def _publish(played: PlayedCampaign) -> None:
    played.cut_over(CampaignStep.CUT_OVER)


def _redo(played: PlayedCampaign) -> None:
    played.undo_of(played.undo())


def _redo_half(played: PlayedCampaign) -> None:
    played.die_in_rollback(played.undo())


def _put_back(played: PlayedCampaign) -> None:
    played.lakehouse.publish("s", {TABLE: OLD})


def _finish(played: PlayedCampaign) -> None:
    played.cut_over(CampaignStep.DECOMMISSION)


_start, _stage, _approve = PlayedCampaign.start, PlayedCampaign.stage, PlayedCampaign.approve
_cut_over, _undo, _undo_half = PlayedCampaign.cut_over, PlayedCampaign.undo, PlayedCampaign.die_in_rollback
_lock = PlayedCampaign.cannot_be_written
WAYS: Mapping[str, How] = {
    "not started": _nothing,
    "being staged": _start,
    "waiting for approval": _stage,
    "approved": _after(_stage, _approve),
    "stopped": _after(_stage, _stop),
    "given up": _after(_stage, _give_up),
    "overtaken by another campaign": _after(_stage, _overtake),
    "half published by a process that died": _after(_publish_half, _lock),
    "half undone by a process that died": _after(_cut_over, _undo_half, _lock),
    "half undone by a process that died, once more": _after(_cut_over, _redo_half, _lock),
    "published, with steps to do": _publish,
    "published": _cut_over,
    "published again by the undo of its undo": _after(_cut_over, _redo),
    "put back by another publication": _after(_cut_over, _put_back),
    "undone": _after(_cut_over, _undo),
    "finished": _finish,
}
"""By how the plan stands then, in the words of ``status``."""

UNSTAGED = Refused(f"Nothing of {P} is staged and validated.", [RUN])
UNSTAGED_YET = Refused(f"Nothing of {P} is staged and validated yet.", [RUN])
UNSTARTED = Refused(f"{P} was never started.", [RUN])
NOTHING = f"{P} has published nothing."
NO_MORE, NOT_YET = Refused(NOTHING, [ABANDON]), Refused(NOTHING, [RUN])
STOPPED = Refused(f"{P} was stopped: a limit.", [RUN])
WAS_GIVEN_UP = Refused(f"{P} was given up: ", [RUN])
OVERTAKEN = Refused(f"{TABLE} {NEXT} was brought by {OTHER} (theirs), since {P} staged it.", [AGAIN, ABANDON])
HALF = Refused(f"{{newest}}, a publication of {P}, is begun and cannot be ended yet.", [ABORT])
LIVE = Refused(f"{P} is published already, as {{newest}}.", [UNDO])
DONE = Refused(LIVE.sentence, [UNDO, AGAIN])
KEPT = Refused(f"{P} is published, as {{newest}}: there is nothing to give up.", [UNDO])
PUT_BACK = Refused(
    f"{P} was published as cut, and its days are as they were before that already: s did it.", [UNSWITCH, AGAIN]
)
UNDONE = Refused(f"{P} is undone already: {{newest}} did it on 20", [REDO])
STAGED_ANEW = Refused(UNDONE.sentence, [RUN, REDO])
NOTHING_TO_DO = Refused(UNDONE.sentence, [RUN, REDO, "as long as the rollback window"])
FINISHED = Refused(f"{P} is finished: cut published it.", [AGAIN])
CELLS: Mapping[str, tuple[Sequence[str], Cell, Cell, Cell, Cell]] = {
    # what status says to type next; approve, run, rollback, timeline delete
    "not started": ([RUN], UNSTAGED, ANNOUNCED, NOT_YET, UNSTARTED),
    "being staged": ([RUN], UNSTAGED_YET, VERIFIED, NO_MORE, GIVEN_UP),
    "waiting for approval": ([APPROVE], CUTS_OVER, STAGES, NO_MORE, GIVEN_UP),
    "approved": ([APPROVE], CUTS_OVER, STAGES, NO_MORE, GIVEN_UP),
    "stopped": ([RUN, ABANDON], STOPPED, STAGES, NO_MORE, GIVEN_UP),
    "given up": ([RUN], WAS_GIVEN_UP, STAGES, NOT_YET, WAS_GIVEN_UP),
    "overtaken by another campaign": ([AGAIN, ABANDON], OVERTAKEN, OVERTAKEN, NO_MORE, GIVEN_UP),
    "half published by a process that died": ([RUN], HALF, HALF, HALF, HALF),
    "half undone by a process that died": ([UNDO], HALF, HALF, HALF, HALF),
    "half undone by a process that died, once more": ([UNDO], HALF, HALF, HALF, HALF),
    "published, with steps to do": ([RUN, GOES_ON], GOES_ON, GOES_ON, BACK, KEPT),
    "published": ([UNDO], LIVE, DONE, BACK, KEPT),
    "published again by the undo of its undo": ([UNDO], LIVE, DONE, BACK, KEPT),
    "put back by another publication": ([UNSWITCH, AGAIN], PUT_BACK, PUT_BACK, PUT_BACK, PUT_BACK),
    "undone": ([RUN, REDO], STAGED_ANEW, STAGES, UNDONE, NOTHING_TO_DO),
    "finished": ([], FINISHED, FINISHED, BACK, KEPT),
}


def test_every_state_is_tried() -> None:
    assert CELLS.keys() == WAYS.keys()
    assert {_standing(name) for name in CELLS} == set(PlanStanding)


@pytest.mark.parametrize("state", CELLS)
def test_a_word_does_what_it_says_or_names_what_helps(
    played: PlayedCampaign, carried_on: list[str], state: str
) -> None:
    """What is half done comes first: nothing else can be said before it is ended."""
    helps, *cells = CELLS[state]
    WAYS[state](played)
    status, newest = played.backfill.json("status", P), played.newest()
    assert status["standing"] == _standing(state)
    said = "".join(status.get("next", []))
    assert bool(said) == bool(helps) and _lacks(said, helps, newest) == []
    for word, cell in zip(PlanWord, cells, strict=True):
        typed = [*word.split(), P, *([] if word is PlanWord.RUN else ["--yes"])]
        with played.for_once():
            if isinstance(cell, Refused):
                error = played.refused(*typed)
                assert _lacks(error, [cell.sentence, *cell.helps], newest) == []
            else:
                played.backfill(*typed, *(["--json"] if word is PlanWord.APPROVE else []))
                assert _effect(played, word, carried_on) == cell
        assert carried_on == [], word


def _standing(state: str) -> str:
    return state.partition(", once more")[0]


def _lacks(said: str, wanted: Sequence[str], newest: str) -> list[str]:
    return [each for each in wanted if each.replace("{newest}", newest) not in said]


def _effect(played: PlayedCampaign, word: PlanWord, carried_on: list[str]) -> str:
    if word is PlanWord.ROLLBACK:
        return BACK if played.ids() == [1, 2] else ""
    return str(played.backfill.json("status", P)["standing"]) if word is PlanWord.ABANDON else carried_on.pop()


@pytest.mark.parametrize("state", ["being staged", "approved", "published, with steps to do"])
def test_what_the_daemon_does_is_not_for_a_person(played: PlayedCampaign, carried_on: list[str], state: str) -> None:
    """Unless it was stopped, as a day does that is not as it was published: only a person ends that."""
    played.start(daemon=True)
    WAYS[state](played) if state != "being staged" else None
    assert "next" not in played.backfill.json("status", P)
    if state == "approved":
        played.backfill.json("approve", P, "--yes")
    else:
        assert "Dagster's daemon carries it on" in played.refused("approve", P, "--yes")
    _stop(played)
    status = played.backfill.json("status", P)
    assert RUN in "".join(status["next"]) and status["standing"] == (state if "publi" in state else "stopped")
    assert carried_on == []


def test_every_command_says_of_a_stop_what_the_stop_itself_said(played: PlayedCampaign) -> None:
    """An expectation that is not met is part of the plan: taking the plan up again breaks it again."""
    helps = f"Plan again: {AGAIN} --expect TEXT. Or give this one up: {ABANDON}"
    played.stage()
    played.approve()
    played.enter("stopped", CampaignStep.CUT_OVER, reason="Not as expected", helps=helps)
    assert played.backfill.json("status", P)["next"] == [helps]
    assert played.refused("approve", P, "--yes").endswith(f"{P} was stopped: Not as expected. -> {helps}")


def test_what_would_stop_it_again_is_not_advised(played: PlayedCampaign) -> None:
    """It was stopped before it could be compared."""
    played.start()
    _stop(played)
    said = played.refused("approve", P, "--yes")
    assert f"{P} was stopped: a limit" in said and LOOK in said and RUN not in said


def test_the_page_of_a_plan_that_cannot_be_started_says_so_in_its_name() -> None:
    """In place of its state: it was not started, and never will be."""
    stops = PlanFinding(kind="damaged", severity="stops", message="A day is damaged.", next_step="Put it back.")
    plan = Plan(asked=PlanRequest(target="fact", days="2017-03-01"), steps=(), made_at=PLAN.made_at)
    stopped = plan.model_copy(update={"findings": (stops,)})
    for found, name in ((plan, "not started: fact 2017-03-01 ("), (stopped, "cannot be started: fact 2017-03-01 (")):
        page = page_of(found, PlanStanding.NOT_STARTED)
        assert page.startswith(name) and is_page_of(page, campaign_of(found.id))
    assert page_of(stopped, PlanStanding.STOPPED).startswith("stopped: fact ")
