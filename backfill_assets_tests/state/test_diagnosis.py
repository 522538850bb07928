"""The diagnosis as a table: what is seen of a day, and its cause, and whether building it again helps."""

from __future__ import annotations

from decimal import Decimal

import pytest

from backfill_assets.state.diagnosis import CASES, Action, Cause, Signs, diagnose, gravest, in_a_word
from backfill_assets_tests.state.diagnosis_page import PAGE, page

TABLE: list[tuple[Signs, Cause, Action]] = [
    ({Cause.UNREADABLE: "its log is gone"}, Cause.UNREADABLE, Action.ASK),
    ({Cause.AUTOMATION: "repairs failed"}, Cause.AUTOMATION, Action.ASK),
    ({Cause.LOST_RAW: "", Cause.FOREIGN_RAW: ""}, Cause.LOST_RAW, Action.RESTORE),
    ({Cause.FOREIGN_RAW: ""}, Cause.FOREIGN_RAW, Action.ASK),
    ({Cause.INCOMPLETE: "nothing landed"}, Cause.INCOMPLETE, Action.WAIT),
    ({Cause.OVERDUE: "nothing yet"}, Cause.OVERDUE, Action.WAIT),
    ({Cause.DRIFT: "loyalty_tier"}, Cause.DRIFT, Action.ASK),
    ({Cause.UNUSUAL: "rows 10"}, Cause.UNUSUAL, Action.ASK),
    ({Cause.LATE: "", Cause.CLOSED: "", Cause.ROLLED_BACK: ""}, Cause.CLOSED, Action.ASK),
    ({Cause.LOST_FILES: "", Cause.CLOSED: ""}, Cause.LOST_FILES, Action.ASK),
    ({Cause.FOREIGN_WRITE: "", Cause.CLOSED: ""}, Cause.FOREIGN_WRITE, Action.ASK),
    ({Cause.CONTENT: "", Cause.CLOSED: ""}, Cause.CONTENT, Action.ASK),
    ({Cause.MISSING: "", Cause.CLOSED: "", Cause.HELD_BACK: ""}, Cause.CLOSED, Action.ASK),
    ({Cause.LATE: "", Cause.ROLLED_BACK: ""}, Cause.ROLLED_BACK, Action.ASK),
    ({Cause.FOREIGN_WRITE: "", Cause.ROLLED_BACK: ""}, Cause.FOREIGN_WRITE, Action.ASK),
    ({Cause.LOST_FILES: "", Cause.FOREIGN_WRITE: "", Cause.ROLLED_BACK: ""}, Cause.LOST_FILES, Action.ASK),
    ({Cause.CONTENT: "", Cause.LATE: "", Cause.ROLLED_BACK: ""}, Cause.CONTENT, Action.ASK),
    ({Cause.LATE: "", Cause.UNDONE_WITH_RAW: ""}, Cause.UNDONE_WITH_RAW, Action.ASK),
    ({Cause.FOREIGN_WRITE: "", Cause.GONE_VERSION: ""}, Cause.FOREIGN_WRITE, Action.ASK),
    ({Cause.LOST_FILES: "", Cause.GONE_VERSION: ""}, Cause.LOST_FILES, Action.ASK),
    ({Cause.CONTENT: "", Cause.GONE_VERSION: ""}, Cause.CONTENT, Action.ASK),
    ({Cause.DISAGREES: "1 apart", Cause.GONE_VERSION: ""}, Cause.GONE_VERSION, Action.ASK),
    ({Cause.FOREIGN_WRITE: "", Cause.GONE_VERSION: "", Cause.ROLLED_BACK: ""}, Cause.FOREIGN_WRITE, Action.ASK),
    ({Cause.LATE: "", Cause.EDITED_LOGIC: "f changed", Cause.HELD_BACK: "30 %"}, Cause.EDITED_LOGIC, Action.ASK),
    ({Cause.FOREIGN_WRITE: "", Cause.EDITED_LOGIC: "f changed"}, Cause.FOREIGN_WRITE, Action.ASK),
    ({Cause.LOST_FILES: "", Cause.EDITED_LOGIC: "f changed"}, Cause.LOST_FILES, Action.ASK),
    ({Cause.LATE: "", Cause.HELD_BACK: "30 %"}, Cause.HELD_BACK, Action.ASK),
    ({Cause.MISSING: "", Cause.HELD_BACK: "30 %", Cause.FAILED_RUN: ""}, Cause.HELD_BACK, Action.ASK),
    ({Cause.LATE: "", Cause.TOO_LATE: "3 rows landed late"}, Cause.TOO_LATE, Action.ASK),
    ({Cause.CONTENT: "", Cause.TOO_LATE: "3 rows landed late"}, Cause.CONTENT, Action.REBUILD),
    ({Cause.LOST_FILES: "", Cause.CONTENT: ""}, Cause.LOST_FILES, Action.REBUILD),
    ({Cause.LOST_FILES: "", Cause.FOREIGN_WRITE: ""}, Cause.LOST_FILES, Action.REBUILD),
    ({Cause.FOREIGN_WRITE: "", Cause.CONTENT: ""}, Cause.FOREIGN_WRITE, Action.REBUILD),
    ({Cause.CONTENT: "", Cause.DISAGREES: "1 apart"}, Cause.CONTENT, Action.REBUILD),
    ({Cause.CODE_CHANGED: "", Cause.LATE: ""}, Cause.CODE_CHANGED, Action.ASK),
    ({Cause.CORRECTED: "", Cause.LATE: ""}, Cause.CORRECTED, Action.REBUILD),
    ({Cause.LATE: ""}, Cause.LATE, Action.REBUILD),
    ({Cause.LATE: "", Cause.DISAGREES: "1 apart"}, Cause.LATE, Action.REBUILD),
    ({Cause.REFERENCE: ""}, Cause.REFERENCE, Action.REBUILD),
    ({Cause.INPUT: ""}, Cause.INPUT, Action.REBUILD),
    ({Cause.DISAGREES: "1 apart"}, Cause.DISAGREES, Action.ASK),
    ({Cause.MISSING: "", Cause.FAILED_RUN: ""}, Cause.FAILED_RUN, Action.REBUILD),
    ({Cause.MISSING: ""}, Cause.MISSING, Action.REBUILD),
]
NOTHING_WRONG = {
    Cause.SOURCE_CHANGED,
    Cause.LANDED,
    Cause.INPUT_REBUILT,
    Cause.ADOPTED,
    Cause.ASKED_FOR,
}
"""Why a plan or a run builds a day all the same."""


@pytest.mark.parametrize(("seen", "cause", "action"), TABLE, ids=[f"{n} {each[1]}" for n, each in enumerate(TABLE)])
def test_what_is_seen_has_a_cause(seen: Signs, cause: Cause, action: Action) -> None:
    found = diagnose(seen)
    assert (found.cause, found.helps) == (cause, action)


def test_it_is_told_in_the_words_of_what_was_seen() -> None:
    assert diagnose({Cause.HELD_BACK: "30 % rejected"}).words == "30 % rejected"
    assert diagnose({Cause.LATE: ""}).words == "raw gained rows since"


def test_a_day_is_shown_by_the_one_word_of_its_cause() -> None:
    words = [in_a_word(each) for each in (None, Cause.MISSING, Cause.LATE, Cause.CODE_CHANGED, Cause.LOST_FILES)]
    assert words == ["fresh", "missing", "stale: late rows", "stale: code changed", "files lost"]


@pytest.mark.parametrize(
    ("then", "cause"),
    [("held back by gates", Cause.HELD_BACK), ("input rebuilt", Cause.INPUT), ("never built", Cause.MISSING)],
)
def test_incidents_of_before_are_read(then: str, cause: Cause) -> None:
    assert Cause(then) is cause


def test_the_gravest_of_tables_that_are_built_together_counts() -> None:
    assert gravest([None, Cause.MISSING, Cause.LATE, Cause.CODE_CHANGED]) is Cause.CODE_CHANGED
    assert gravest([Cause.LATE, Cause.MISSING]) is Cause.LATE and gravest([None, None]) is None


def test_each_cause_is_in_the_table() -> None:
    assert {cause for _, cause, _ in TABLE} == {case.cause for case in CASES} == set(Cause) - NOTHING_WRONG


def test_who_is_less_sure_than_declared_asks_a_person() -> None:
    seen: Signs = {Cause.MISSING: "", Cause.FAILED_RUN: ""}
    assert diagnose(seen, Decimal("0.7")).helps is Action.REBUILD
    assert diagnose(seen, Decimal("0.71")).helps is Action.ASK


def test_a_sound_day_has_no_diagnosis() -> None:
    with pytest.raises(LookupError):
        diagnose({})


def test_the_page_has_the_cases() -> None:
    assert PAGE.read_text() == page(), "make pins writes it"
