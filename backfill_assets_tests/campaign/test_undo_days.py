"""What becomes of each day of a campaign that is undone: one rule, and each case of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

import pytest

from backfill_assets.campaign.undo_days import (
    InputsAfter,
    Refusal,
    TableDayState,
    UndoAction,
    UndoneDay,
    decide_day,
    first_of,
    seconds_of,
    versions_back,
)
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.records import Before, DayContent, DayState, Origin
from backfill_assets.model.declaration import ADOPTED

DAY = date(2017, 3, 1)
OLD = DayContent(rows=2, checksum="5", code_version="v1", inputs="i", staged_ms=1500)
NEW = DayContent(rows=2, checksum="6", code_version="v2", inputs="i")
LATER = DayContent(rows=3, checksum="9", code_version="v2", inputs="j")
AS_THEN = InputsAfter(OLD.input_fingerprint, "v1")
"""What the old logic would be given is what it was given then."""
CHANGED = InputsAfter(fingerprints.input_fingerprint("v1", "", "j"), "v1")
GONE = InputsAfter(missing="raw 2017-03-01", version="v1")
UNDECLARED = InputsAfter(CHANGED.wanted)
NONE = InputsAfter()
BEFORE = Before(files=(AddedFile("old", str(DAY), 1, 0, "{}"),), content=OLD, publication="first")
FOREIGN_BEFORE = BEFORE.model_copy(update={"content": None})


def now(content: DayContent | None, *files: str, publication: str = "later") -> DayState:
    return DayState(
        table="t",
        day=DAY,
        publication=publication,
        sequence=1,
        physical=fingerprints.physical(files),
        content=content,
    )


AS_LEFT = TableDayState("t", BEFORE, frozenset({"new"}), NEW, now(NEW, "new", publication="cut"), frozenset({"new"}))
COMPACTED = replace(AS_LEFT, now=now(NEW, "one"), now_files=frozenset({"one"}))
MOVED = replace(AS_LEFT, now=now(LATER, "more"), now_files=frozenset({"more"}))
FORCED = replace(AS_LEFT, content=replace(OLD, checksum="6"), now=now(replace(OLD, checksum="6"), "new"))
BACK = replace(MOVED, now=now(replace(OLD, inputs="j", checksum="7"), "more"))
OVERWRITTEN = replace(MOVED, now_files=frozenset({"more", "foreign"}))
OTHERS = replace(MOVED, other_campaign="campaign-x")
NO_INPUTS = replace(AS_LEFT, before=BEFORE.model_copy(update={"content": replace(OLD, inputs="")}))
CAME_WITH_ITS_TABLE = BEFORE.model_copy(update={"content": replace(OLD, code_version=ADOPTED, inputs="")})
FIRST = replace(AS_LEFT, before=Before())
FIRST_MOVED = replace(MOVED, before=Before())
TAKEN_AWAY = replace(FIRST, now=now(None), now_files=frozenset())
READER = TableDayState("t", None, frozenset(), None, now(NEW, "new"), frozenset({"new"}))
SOME_ROWS = replace(AS_LEFT, content=replace(NEW, code_version="v1"))
SOME_ROWS = replace(SOME_ROWS, now=replace(now(SOME_ROWS.content, "new"), origin=Origin("cut", only_where="store = 3")))
CASES = [
    # a day that the campaign had brought
    ("as it left it, and made of what there is", [AS_LEFT], AS_THEN, UndoAction.PUT_BACK, ""),
    ("the same when its version is gone, by what was recorded", [AS_LEFT], InputsAfter(AS_THEN.wanted), "put back", ""),
    ("a forced rebuild gave other rows", [FORCED], AS_THEN, UndoAction.PUT_BACK, ""),
    ("it holds the rows of before", [replace(FORCED, now=now(OLD, "new"))], AS_THEN, UndoAction.STANDS, "already"),
    ("a compaction has not moved it", [COMPACTED], AS_THEN, UndoAction.PUT_BACK, ""),
    ("rows came and went again", [MOVED], AS_THEN, UndoAction.PUT_BACK, ""),
    ("its inputs changed", [AS_LEFT], CHANGED, "stage again", "what it is computed from has changed"),
    ("in words", [AS_LEFT], replace(CHANGED, changes="raw has 1 row more"), "stage again", "raw has 1 row more"),
    ("it was published again since", [MOVED], CHANGED, UndoAction.RESTATE, "published again since by later"),
    ("one of its two tables was", [AS_LEFT, replace(MOVED, table="u")], CHANGED, "stage again", "again since by later"),
    ("past the log", [OVERWRITTEN], CHANGED, "stage again", "published again since by a writer that bypassed the log"),
    ("an input is staged again", [AS_LEFT], replace(AS_THEN, restated="fact 1"), "stage again", "reads fact 1"),
    ("it is what the old logic gives now", [BACK], CHANGED, UndoAction.STANDS, "the logic from before gives just"),
    ("it is back, and an input is staged again", [BACK], replace(CHANGED, restated="fact 1"), "stage again", ""),
    ("another campaign came since", [OTHERS], CHANGED, UndoAction.REFUSED, "campaign-x has published it since"),
    ("its inputs changed, its version is gone", [AS_LEFT], UNDECLARED, "refused", "v1 that it had is not there"),
    ("it moved, and its version is gone", [MOVED], UNDECLARED, "refused", "since by later, and the version v1"),
    ("what it was made of is not published", [AS_LEFT], GONE, "refused", "raw 2017-03-01, which it was computed from"),
    ("it moved, and what it was made of is gone", [MOVED], GONE, "refused", "since by later, and raw 2017-03-01"),
    ("it was made of nothing", [NO_INPUTS], GONE, UndoAction.PUT_BACK, ""),
    ("it was made of nothing, and compacted", [replace(COMPACTED, before=NO_INPUTS.before)], GONE, "put back", ""),
    ("it was made of nothing, and moved", [replace(MOVED, before=NO_INPUTS.before)], GONE, "refused", "later"),
    ("only some of its rows were computed", [SOME_ROWS], CHANGED, UndoAction.PUT_BACK, "its other rows stay"),
    (
        "the same, and it moved",
        [replace(SOME_ROWS, now=MOVED.now, now_files=MOVED.now_files)],
        CHANGED,
        "stage again",
        "",
    ),
    ("the same, and an input is staged again", [SOME_ROWS], replace(CHANGED, restated="f 1"), "stage again", "f 1"),
    # a day that was not published before it
    ("as it left it", [FIRST], NONE, UndoAction.WITHDRAW, "published first by what is undone"),
    ("a row was taken in since", [FIRST_MOVED], NONE, "withdraw", "what arrived stays in its inputs"),
    ("it is gone already", [TAKEN_AWAY], NONE, UndoAction.STANDS, "already"),
    ("it has rows of others", [replace(OVERWRITTEN, before=Before())], NONE, "refused", "has rows of a writer"),
    ("a later campaign came", [replace(FIRST_MOVED, other_campaign="campaign-x")], NONE, "refused", "campaign-x"),
    # a day that had rows of a writer that bypassed the log
    ("as it left it", [replace(AS_LEFT, before=FOREIGN_BEFORE)], NONE, UndoAction.PUT_BACK, ""),
    ("it moved", [replace(MOVED, before=FOREIGN_BEFORE)], NONE, "refused", "was not built by this code"),
    # a published day that the campaign had not brought, and that reads one that changes
    ("it comes out the same", [READER], InputsAfter(NEW.input_fingerprint, "v2"), UndoAction.STANDS, "the same"),
    ("it has to follow", [READER], InputsAfter(LATER.input_fingerprint, "v2"), "stage again", "reads what is undone"),
    ("an input is staged again", [READER], InputsAfter("", "v2", restated="fact 1"), "stage again", "reads fact 1"),
    ("an input is taken away", [READER], InputsAfter("", "v2", "fact 1", "fact 1"), UndoAction.WITHDRAW, "withdrawn"),
    ("of several inputs", [READER], InputsAfter("x", "v2", withdrawn="fact 1"), UndoAction.RESTATE, ""),
    ("its version is gone", [READER], InputsAfter("x"), UndoAction.LEFT_STALE, "its version is not declared any more"),
    ("an input is not published", [READER], InputsAfter("x", "v2", "raw 1"), UndoAction.LEFT_STALE, "raw 1 is not"),
    # a day that came with its table
    ("it was adopted", [replace(AS_LEFT, before=CAME_WITH_ITS_TABLE)], UNDECLARED, UndoAction.PUT_BACK, ""),
    (
        "it was adopted, and moved",
        [replace(MOVED, before=CAME_WITH_ITS_TABLE)],
        UNDECLARED,
        "put back",
        "what came since",
    ),
    (
        "it was adopted, and has its files again",
        [replace(MOVED, before=CAME_WITH_ITS_TABLE, now=now(OLD, "old"), now_files=frozenset({"old"}))],
        UNDECLARED,
        UndoAction.STANDS,
        "already",
    ),
]


OF_OTHERS = replace(COMPACTED, computed_since=True)
SHOWN = replace(AS_LEFT, now=now(OLD, "new"))
"""The log says what it said before: a compaction, or a rebuild of the same rows."""
BY_FILES = [
    ("as it left it, and made of what there is", AS_LEFT, AS_THEN, UndoAction.PUT_BACK, None),
    ("it was compacted", COMPACTED, AS_THEN, UndoAction.PUT_BACK, None),
    ("others computed equal rows", OF_OTHERS, AS_THEN, UndoAction.REFUSED, Refusal.MOVED),
    (
        "files as it left them, whoever made them",
        replace(AS_LEFT, computed_since=True),
        AS_THEN,
        "put back",
        None,
    ),
    ("others changed it", MOVED, AS_THEN, UndoAction.REFUSED, Refusal.MOVED),
    ("others wrote past the log", OVERWRITTEN, AS_THEN, UndoAction.REFUSED, Refusal.MOVED),
    ("its inputs changed", AS_LEFT, CHANGED, UndoAction.REFUSED, Refusal.OLDER),
    ("its inputs changed, and others changed it", MOVED, CHANGED, UndoAction.REFUSED, Refusal.OLDER),
    ("its inputs only gained rows", AS_LEFT, replace(CHANGED, gained=True), UndoAction.PUT_BACK, None),
    ("it holds that already, though stale", SHOWN, CHANGED, UndoAction.PUT_BACK, None),
    (
        "it holds that, of an input that goes back",
        SHOWN,
        replace(CHANGED, brought=True),
        "refused",
        Refusal.OLDER,
    ),
    ("only some of its rows were computed", SOME_ROWS, CHANGED, UndoAction.PUT_BACK, None),
    ("the same, of an input that goes back", SOME_ROWS, replace(CHANGED, brought=True), "refused", Refusal.OLDER),
    ("what it was made of is not known", AS_LEFT, NONE, UndoAction.REFUSED, Refusal.NOT_KNOWN),
    ("it was made of nothing", NO_INPUTS, NONE, UndoAction.PUT_BACK, None),
    ("it was made of nothing, and moved", replace(MOVED, before=NO_INPUTS.before), NONE, "refused", Refusal.MOVED),
    ("it was not published before", FIRST, NONE, UndoAction.WITHDRAW, None),
    ("it was not published before, and moved", FIRST_MOVED, NONE, UndoAction.REFUSED, Refusal.MOVED),
    ("it had rows of others", replace(AS_LEFT, before=FOREIGN_BEFORE), NONE, UndoAction.PUT_BACK, None),
]


@pytest.mark.parametrize(
    ("table", "inputs", "action", "refusal"),
    [pytest.param(*case, id=f"{number}: {name}") for number, (name, *case) in enumerate(BY_FILES)],
)
def test_a_rollback_computes_nothing(
    table: TableDayState, inputs: InputsAfter, action: str, refusal: Refusal | None
) -> None:
    found = decide_day("t", DAY, [table], inputs, computes=False)
    assert (found.action, found.refusal) == (action, refusal)


@pytest.mark.parametrize(
    ("tables", "inputs", "action", "reason"),
    [pytest.param(*case, id=f"{number}: {name}") for number, (name, *case) in enumerate(CASES)],
)
def test_what_becomes_of_a_day(tables: Sequence[TableDayState], inputs: InputsAfter, action: str, reason: str) -> None:
    found = decide_day("t", DAY, tables, inputs, computes=True)
    assert found.action == action and reason in found.reason


def test_a_record_is_put_back_only_if_it_was_made_of_what_there_is() -> None:
    """A campaign that only caught up with its inputs leaves just what is wanted now: that is no reason to go back."""
    caught_up = replace(OLD, inputs="j", checksum="9")
    made = replace(AS_LEFT, content=caught_up, now=now(caught_up, "new", publication="cut"))
    assert decide_day("t", DAY, [made], CHANGED, computes=True).action is UndoAction.STANDS
    of_two = replace(made, content=LATER, now=now(LATER, "new", publication="cut"))
    assert decide_day("t", DAY, [of_two], CHANGED, computes=True).action is UndoAction.RESTATE


def test_the_time_is_known_if_every_day_was_timed() -> None:
    again = decide_day("t", DAY, [MOVED], CHANGED, computes=True)
    put_back = decide_day("t", DAY, [AS_LEFT], AS_THEN, computes=True)
    assert again == UndoneDay("t", DAY, UndoAction.RESTATE, "published again since by later", "v1", 1.5)
    assert seconds_of([again, again, put_back]) == 3.0
    assert seconds_of([again, replace(again, seconds=None)]) is None
    assert seconds_of([put_back]) == 0


def test_versions_come_back_with_the_days_that_were_brought() -> None:
    """What is refused, left as it is, or follows, brings no version back."""
    cases = [(AS_LEFT, AS_THEN), (MOVED, CHANGED), (FIRST, NONE), (AS_LEFT, GONE), (BACK, CHANGED), (READER, CHANGED)]
    days = [decide_day("t", DAY, [table], inputs, computes=True) for table, inputs in cases]
    assert versions_back(days[1:2]) == versions_back(days) == {"t": {"v1"}}
    assert versions_back(days[2:]) == {}


def test_the_first_input_day_that_changes_is_named() -> None:
    second = date(2017, 3, 2)
    again = {"fact": frozenset({second})}
    assert first_of({"raw": [second], "fact": [DAY, second]}, again) == "fact 2017-03-02"
    assert first_of({"fact": [DAY]}, again) == ""
