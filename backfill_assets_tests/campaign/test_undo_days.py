"""What becomes of each day of a campaign that is undone: put back where it stands, staged again where it moved."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

from backfill_assets.campaign.undo_days import TableDayState, UndoAction, decide_day, first_read_again, seconds_of
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.records import Before, DayContent, DayState
from backfill_assets.rebuild.decide import InputFingerprint

DAY = date(2017, 3, 1)
OLD = DayContent(rows=2, checksum="5", code_version="v1", inputs="i", staged_ms=1500)
NEW = DayContent(rows=2, checksum="6", code_version="v2", inputs="i")
LATER = DayContent(rows=3, checksum="9", code_version="v2", inputs="j")
WANTED = InputFingerprint("i", OLD.input_fingerprint)
CHANGED = InputFingerprint("j", fingerprints.input_fingerprint("v1", "", "j"))
BEFORE = Before(files=(AddedFile("old", str(DAY), 1, 0, "{}"),), content=OLD, publication="first")


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
MOVED = replace(AS_LEFT, now=now(LATER, "more"), now_files=frozenset({"more"}))


def way(
    made: TableDayState, wanted: InputFingerprint | None = WANTED, reads_again: str = "", *, known: bool = True
) -> tuple[UndoAction, str]:
    found = decide_day("t", DAY, [made], wanted, reads_again, version_known=known)
    return found.way, found.reason


def test_a_day_as_the_campaign_left_it_is_put_back() -> None:
    """With nothing to stage; it does not matter whether the old logic is still there."""
    assert way(AS_LEFT) == (UndoAction.PUT_BACK, "")
    assert way(AS_LEFT, None, known=False) == (UndoAction.PUT_BACK, "")


def test_a_compaction_has_not_moved_it() -> None:
    """Maintenance must not cost the second in which a campaign is undone."""
    compacted = replace(AS_LEFT, now=now(NEW, "one"), now_files=frozenset({"one"}))
    assert way(compacted) == (UndoAction.PUT_BACK, "")


def test_a_day_that_was_published_again_is_staged_again() -> None:
    """By the logic from before; in one of two tables is enough."""
    assert way(MOVED, CHANGED) == (UndoAction.STAGE_AGAIN, "published again since by later")
    found = decide_day("t", DAY, [AS_LEFT, replace(MOVED, table="u")], CHANGED, version_known=True)
    assert (found.way, found.version, found.seconds) == (UndoAction.STAGE_AGAIN, "v1", 1.5)


def test_a_day_that_was_brought_back_stays() -> None:
    """Main has just what the old logic gives now, and will give when its inputs are back."""
    back = replace(OLD, inputs="j")
    assert way(replace(MOVED, now=now(back, "more")), CHANGED)[0] is UndoAction.STANDS
    assert way(replace(MOVED, now=now(back, "more")), CHANGED, "fact 2017-03-01")[0] is UndoAction.STAGE_AGAIN
    foreign = replace(MOVED, now=now(back, "more"), now_files=frozenset({"more", "foreign"}))
    assert way(foreign, CHANGED) == (UndoAction.STAGE_AGAIN, "published again since by a writer that bypassed the log")


def test_rows_that_arrived_are_not_lost_by_files_that_are_older() -> None:
    """Its inputs have changed since the files from before were made, or are staged again themselves."""
    assert way(AS_LEFT, CHANGED)[0] is UndoAction.STAGE_AGAIN
    assert way(AS_LEFT, WANTED, "fact 2017-03-01") == (UndoAction.STAGE_AGAIN, "reads fact 2017-03-01")


def test_inputs_that_changed_before_the_campaign_are_no_reason_to_keep_what_it_built() -> None:
    """A campaign that only caught up with its inputs is undone like any other; but rows from raw are not given up."""
    caught_up = replace(OLD, inputs="j", checksum="9")
    made = replace(AS_LEFT, content=caught_up, now=now(caught_up, "new", publication="cut"))
    assert way(made, CHANGED) == (UndoAction.PUT_BACK, "")
    of_raw = decide_day("t", DAY, [made], CHANGED, version_known=True, reads_raw=True)
    assert of_raw.way is UndoAction.STAGE_AGAIN
    assert way(made, CHANGED, "fact 2017-03-01")[0] is UndoAction.STAGE_AGAIN
    assert way(made, InputFingerprint("k", fingerprints.input_fingerprint("v1", "", "k")))[0] is UndoAction.STAGE_AGAIN


def test_what_moved_and_cannot_be_staged_again_is_refused_with_the_reason() -> None:
    """Its version is gone, it had none, or its inputs are gone."""
    assert way(MOVED, CHANGED, known=False)[0] is UndoAction.REFUSED
    assert "the version v1 that it had before is not there any more" in way(MOVED, CHANGED, known=False)[1]
    first = replace(MOVED, before=Before())
    assert "before it was not built by this code" in way(first, None)[1]
    assert "is not published" in way(MOVED, None)[1]


def test_a_day_that_was_never_published_before_is_withdrawn() -> None:
    assert way(replace(AS_LEFT, before=Before()), None) == (UndoAction.PUT_BACK, "")


def test_the_time_is_known_if_every_day_was_timed() -> None:
    again = decide_day("t", DAY, [MOVED], CHANGED, version_known=True)
    put_back = decide_day("t", DAY, [AS_LEFT], WANTED, version_known=True)
    assert seconds_of([again, again, put_back]) == 3.0
    assert seconds_of([again, replace(again, seconds=None)]) is None
    assert seconds_of([put_back]) == 0


def test_the_first_input_day_that_is_staged_again_is_named() -> None:
    second = date(2017, 3, 2)
    again = {"fact": frozenset({second})}
    assert first_read_again({"raw": [second], "fact": [DAY, second]}, again) == "fact 2017-03-02"
    assert first_read_again({"fact": [DAY]}, again) == ""
