"""Every word about a plan in every state: it does what it says, or is refused with the command that helps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from backfill_assets.campaign.course import entries_behind, state_of
from backfill_assets.campaign.standing import (
    PlanFacts,
    PlanStanding,
    PlanWord,
    is_page_of,
    next_command,
    page_of,
    require_allowed,
    standing_of,
)
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.campaign_journal import (
    ABANDONED,
    HELPS,
    STEPS,
    CampaignStep,
    JournalEntry,
    Kind,
    campaign_of,
)
from backfill_assets.plan.records import Plan, PlanFinding, PlanRequest

AT = datetime(2017, 6, 1, 12, tzinfo=UTC)
AGAIN = "backfill plan fact --days 2017-03-01"
RUN, APPROVE, ABANDON, LOOK = (
    "backfill run P",
    "backfill approve P",
    "backfill timeline delete P",
    "backfill status P",
)
UNDO, REDO, ABORT, UNSWITCH = (
    "backfill rollback P",
    "backfill rollback back",
    "backfill maintain --abort half",
    "backfill rollback s",
)


def entry(kind: Kind, step: CampaignStep | None = None, reason: str = "", **report: object) -> JournalEntry:
    return JournalEntry(kind=kind, step=step or "", at=AT, by="ana", reason=reason, report=report)


def until(last: CampaignStep) -> list[JournalEntry]:
    """Approved as soon as that can be."""
    found = [entry("started")]
    for step in STEPS[: STEPS.index(last) + 1]:
        found += [entry("approved")] if step is CampaignStep.CUT_OVER else []
        found.append(entry("step", step, publication="cut" if step is CampaignStep.CUT_OVER else None))
    return found


def facts(*entries: JournalEntry, daemon: bool = False, **more: object) -> PlanFacts:
    found = PlanFacts("P", state_of("C", entries), plan_again=AGAIN, at=AT)
    course = replace(found.course, daemon=daemon)
    return replace(found, course=course, **more)  # type: ignore[arg-type]


VALIDATED, TOLD = until(CampaignStep.VALIDATE), until(CampaignStep.NOTIFY)
BACK, RESTORED = entry("rolled back", reason="by back"), entry("restored", reason="by forth")
GIVEN_UP = entry("stopped", reason="ana abandoned it").model_copy(update={"report": {ABANDONED: True}})
LEFT = "step 7 of 9: downstream rebuilt"
SEEN: Mapping[PlanStanding, PlanFacts] = {
    PlanStanding.NOT_STARTED: facts(),
    PlanStanding.STAGING: facts(*until(CampaignStep.PIN)),
    PlanStanding.WAITING: facts(*VALIDATED),
    PlanStanding.APPROVED: facts(*VALIDATED, entry("approved")),
    PlanStanding.STOPPED: facts(*VALIDATED, entry("stopped", reason="a limit.")),
    PlanStanding.GIVEN_UP: facts(*VALIDATED, GIVEN_UP),
    PlanStanding.OVERTAKEN: facts(*VALIDATED, overtaken="fact 2017-03-01 was brought by other (theirs)"),
    PlanStanding.HALF_PUBLISHED: facts(*VALIDATED, entry("approved"), half_done="half"),
    PlanStanding.HALF_UNDONE: facts(*TOLD, publication="cut", half_done="half", half_done_undoes=True),
    PlanStanding.PUBLISHED: facts(*until(CampaignStep.CUT_OVER), publication="cut", left=LEFT),
    PlanStanding.LIVE: facts(*TOLD, publication="cut"),
    PlanStanding.LIVE_AGAIN: facts(*TOLD, BACK, RESTORED, publication="forth", restored=True),
    PlanStanding.PUT_BACK: facts(*TOLD, publication="cut", put_back_by="s"),
    PlanStanding.UNDONE: facts(*TOLD, BACK, publication="back", undone=True),
    PlanStanding.FINISHED: facts(*until(CampaignStep.DECOMMISSION), publication="cut"),
}
ALLOWED = ("", ())
Cell = tuple[str, Sequence[str]]
_NOTHING = "P has published nothing."
_LIVE = ("P is published already, as cut.", [UNDO])
_DONE = ("P is published already, as cut.", [UNDO, AGAIN])
_KEEP = ("P is published, as cut: there is nothing to give up.", [UNDO])
_AGAIN = ("P is published already, as forth.", [UNDO])
_HALF = ("half, a publication of P, is begun and cannot be ended yet.", [ABORT])
_PUT_BACK = (
    "P was published as cut, and its days are as they were before that already: s did it.",
    [UNSWITCH, AGAIN],
)
_OVERTAKEN = ("fact 2017-03-01 was brought by other (theirs), since P staged it.", [AGAIN, ABANDON])
_UNDONE = "P is undone already: back did it on 2017-06-01 12:00:00 UTC."
_FINISHED = ("P is finished: cut published it.", [AGAIN])
CELLS: Mapping[PlanStanding, tuple[Cell, Cell, Cell, Cell]] = {
    # approve, run, rollback, timeline delete
    PlanStanding.NOT_STARTED: (
        ("Nothing of P is staged and validated.", [RUN]),
        ALLOWED,
        (_NOTHING, [RUN]),
        ("P was never started.", [RUN]),
    ),
    PlanStanding.STAGING: (
        ("Nothing of P is staged and validated yet.", [RUN]),
        ALLOWED,
        (_NOTHING, [ABANDON]),
        ALLOWED,
    ),
    PlanStanding.WAITING: (ALLOWED, ALLOWED, (_NOTHING, [ABANDON]), ALLOWED),
    PlanStanding.APPROVED: (ALLOWED, ALLOWED, (_NOTHING, [ABANDON]), ALLOWED),
    PlanStanding.STOPPED: (("P was stopped: a limit.", [RUN]), ALLOWED, (_NOTHING, [ABANDON]), ALLOWED),
    PlanStanding.GIVEN_UP: (
        ("P was given up: ana abandoned it.", [RUN]),
        ALLOWED,
        (_NOTHING, [RUN]),
        ("P was given up: ana abandoned it.", [RUN]),
    ),
    PlanStanding.OVERTAKEN: (_OVERTAKEN, _OVERTAKEN, (_NOTHING, [ABANDON]), ALLOWED),
    PlanStanding.HALF_PUBLISHED: (_HALF, _HALF, _HALF, _HALF),
    PlanStanding.HALF_UNDONE: (_HALF, _HALF, _HALF, _HALF),
    PlanStanding.PUBLISHED: (("P is published already, as cut.", [RUN, LEFT]), ALLOWED, ALLOWED, _KEEP),
    PlanStanding.LIVE: (_LIVE, _DONE, ALLOWED, _KEEP),
    PlanStanding.LIVE_AGAIN: (
        _AGAIN,
        (_AGAIN[0], [UNDO, AGAIN]),
        ALLOWED,
        ("P is published, as forth: there is nothing to give up.", [UNDO]),
    ),
    PlanStanding.PUT_BACK: (_PUT_BACK, _PUT_BACK, _PUT_BACK, _PUT_BACK),
    PlanStanding.UNDONE: (
        (_UNDONE, [RUN, REDO]),
        ALLOWED,
        (_UNDONE, [REDO]),
        (_UNDONE, [RUN, REDO, "as long as the rollback window"]),
    ),
    PlanStanding.FINISHED: (_FINISHED, _FINISHED, ALLOWED, _KEEP),
}


@pytest.mark.parametrize("standing", PlanStanding)
def test_each_state_is_known_from_the_journal_and_the_log(standing: PlanStanding) -> None:
    assert standing_of(SEEN[standing]) is standing
    begun = replace(SEEN[standing], half_done="half", half_done_undoes=False)
    assert standing_of(begun) is PlanStanding.HALF_PUBLISHED, "nothing else can be said before it is ended"


@pytest.mark.parametrize(
    ("standing", "word", "cell"),
    [(standing, word, cell) for standing, row in CELLS.items() for word, cell in zip(PlanWord, row, strict=True)],
)
def test_a_word_does_what_it_says_or_names_what_helps(standing: PlanStanding, word: PlanWord, cell: Cell) -> None:
    sentence, helps = cell
    if cell == ALLOWED:
        require_allowed(word, SEEN[standing])
        return
    with pytest.raises(InvalidRequest) as refused:
        require_allowed(word, SEEN[standing])
    assert refused.value.message == sentence
    assert refused.value.hint is not None
    assert [each for each in helps if each not in refused.value.hint] == []


def test_every_cell_is_tried() -> None:
    assert CELLS.keys() == SEEN.keys() == set(PlanStanding)


@pytest.mark.parametrize(
    ("standing", "helps"),
    [
        (PlanStanding.NOT_STARTED, [RUN]),
        (PlanStanding.STAGING, [RUN]),
        (PlanStanding.WAITING, [APPROVE]),
        (PlanStanding.APPROVED, [APPROVE]),
        (PlanStanding.STOPPED, [RUN, ABANDON]),
        (PlanStanding.GIVEN_UP, [RUN]),
        (PlanStanding.OVERTAKEN, [AGAIN, ABANDON]),
        (PlanStanding.HALF_PUBLISHED, [RUN]),
        (PlanStanding.HALF_UNDONE, [UNDO]),
        (PlanStanding.PUBLISHED, [RUN, LEFT]),
        (PlanStanding.LIVE, [UNDO]),
        (PlanStanding.LIVE_AGAIN, [UNDO]),
        (PlanStanding.PUT_BACK, [UNSWITCH, AGAIN]),
        (PlanStanding.UNDONE, [RUN, REDO]),
        (PlanStanding.FINISHED, []),
    ],
)
def test_what_to_type_next(standing: PlanStanding, helps: Sequence[str]) -> None:
    said = next_command(SEEN[standing])
    assert bool(said) == bool(helps) and [each for each in helps if each not in said] == []


@pytest.mark.parametrize("standing", [PlanStanding.STAGING, PlanStanding.APPROVED, PlanStanding.PUBLISHED])
def test_what_the_daemon_does_is_not_for_a_person(standing: PlanStanding) -> None:
    """Unless it was stopped: only a person ends that."""
    seen = SEEN[standing]
    carried = replace(seen, course=replace(seen.course, daemon=True))
    assert next_command(carried) == ""
    with pytest.raises(InvalidRequest) as refused:
        require_allowed(PlanWord.APPROVE, replace(carried, course=replace(carried.course, approved=None, done={})))
    assert refused.value.hint is not None and "Dagster's daemon carries it on" in refused.value.hint


def test_every_command_says_of_a_stop_what_the_stop_itself_said() -> None:
    """An expectation that is not met is part of the plan: taking the plan up again breaks it again."""
    helps = "Plan again: backfill plan fact --expect TEXT. Or give this one up: backfill timeline delete plan-0f"
    stopped = entry("stopped", CampaignStep.CUT_OVER, "Not as expected", **{HELPS: helps})
    found = replace(
        facts(*VALIDATED, entry("approved"), stopped), course=state_of("campaign-0f", [*VALIDATED, stopped])
    )
    assert next_command(found) == helps.replace("plan-0f", "P")
    with pytest.raises(InvalidRequest, match="P was stopped: Not as expected") as refused:
        require_allowed(PlanWord.APPROVE, found)
    assert refused.value.hint == helps.replace("plan-0f", "P")


def test_a_published_plan_that_was_stopped_goes_on_by_hand() -> None:
    """A day that is not as it was published stops it; the daemon waits for a person."""
    seen = facts(*until(CampaignStep.CUT_OVER), entry("stopped", reason="a file is gone"), daemon=True, left=LEFT)
    assert standing_of(seen) is PlanStanding.PUBLISHED and RUN in next_command(seen)


def test_what_would_stop_it_again_is_not_advised() -> None:
    """It was stopped before it could be compared."""
    seen = facts(*until(CampaignStep.PIN), entry("stopped", reason="Not as expected."))
    with pytest.raises(InvalidRequest, match="P was stopped: Not as expected") as refused:
        require_allowed(PlanWord.APPROVE, seen)
    assert refused.value.hint is not None and RUN not in refused.value.hint and LOOK in refused.value.hint


@pytest.mark.parametrize("since", [[], [entry("step", CampaignStep.SHADOW), GIVEN_UP], VALIDATED[4:]])
def test_what_is_staged_again_has_still_been_undone(since: list[JournalEntry]) -> None:
    """A rollback of it says so; the undo of its undo makes it live, with all that the journal has of before."""
    entries = [*TOLD, BACK, entry("resumed"), *since]
    undone = facts(*entries, publication="back", undone=True)
    with pytest.raises(InvalidRequest, match="P is undone already: back did it") as refused:
        require_allowed(PlanWord.ROLLBACK, undone)
    assert refused.value.hint is not None and REDO in refused.value.hint
    live = facts(*entries, RESTORED, publication="forth", restored=True)
    assert standing_of(live) is PlanStanding.LIVE_AGAIN


CUT = entry("step", CampaignStep.CUT_OVER, publication="cut")


@pytest.mark.parametrize(
    ("known", "newest", "lacks"),
    [
        ([], CUT, []),
        (TOLD, CUT, []),
        ([*VALIDATED, entry("approved")], CUT, [CUT]),
        ([*VALIDATED, entry("approved")], BACK, [CUT, BACK]),
        ([*VALIDATED, entry("approved")], RESTORED, [CUT]),
        (TOLD, BACK, [BACK]),
        ([*TOLD, BACK], BACK, []),
        ([*TOLD, BACK], RESTORED, [RESTORED]),
        ([*TOLD, BACK, entry("resumed")], BACK, []),
        ([*TOLD, BACK, entry("resumed"), entry("approved")], RESTORED, [RESTORED]),
        ([*TOLD, BACK, RESTORED], BACK, [BACK]),
    ],
)
def test_what_the_journal_lacks_of_the_log(
    known: list[JournalEntry], newest: JournalEntry, lacks: list[JournalEntry]
) -> None:
    """Its process died between a publication and the entry about it."""
    assert entries_behind(state_of("C", known), known, CUT, newest) == lacks


def test_the_page_of_a_plan_that_cannot_be_started_says_so_in_its_name() -> None:
    """In place of its state: it was not started, and never will be."""
    stops = PlanFinding(kind="damaged", severity="stops", message="A day is damaged.", next_step="Put it back.")
    plan = Plan(asked=PlanRequest(target="fact", days="2017-03-01"), steps=(), made_at=AT)
    stopped = plan.model_copy(update={"findings": (stops,)})
    for found, name in ((plan, "not started: fact 2017-03-01 ("), (stopped, "cannot be started: fact 2017-03-01 (")):
        page = page_of(found, PlanStanding.NOT_STARTED)
        assert page.startswith(name) and is_page_of(page, campaign_of(found.id))
    assert page_of(stopped, PlanStanding.STOPPED).startswith("stopped: fact ")
