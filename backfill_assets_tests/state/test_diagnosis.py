"""The diagnosis as a table: what is seen of a day, and its cause, and whether building it again helps."""

from __future__ import annotations

from decimal import Decimal

import pytest

from backfill_assets.quality.watchdogs import CONTENT, FILES
from backfill_assets.state.diagnosis import CASES, Action, Cause, Symptoms, diagnose
from backfill_assets_tests.state.diagnosis_page import PAGE, page

SUM = "bronze_to_fact_reconciles"
TABLE = [
    (Symptoms(unreadable="its log is gone"), Cause.UNREADABLE, Action.ASK),
    (Symptoms(failing="repairs failed"), Cause.AUTOMATION, Action.ASK),
    (Symptoms(is_raw=True, lost=True, broken={FILES}), Cause.LOST_RAW, Action.RESTORE),
    (Symptoms(is_raw=True, foreign=True), Cause.FOREIGN_RAW, Action.ASK),
    (Symptoms(is_raw=True, broken={CONTENT}), Cause.FOREIGN_RAW, Action.ASK),
    (Symptoms(is_raw=True, incomplete="nothing landed"), Cause.INCOMPLETE, Action.WAIT),
    (Symptoms(is_raw=True, overdue="nothing yet"), Cause.OVERDUE, Action.WAIT),
    (Symptoms(is_raw=True, drifted="loyalty_tier"), Cause.DRIFT, Action.ASK),
    (Symptoms(unusual="rows 10"), Cause.UNUSUAL, Action.ASK),
    (Symptoms(late=True, rolled_back=True), Cause.ROLLED_BACK, Action.ASK),
    (Symptoms(foreign=True, rolled_back=True), Cause.FOREIGN_WRITE, Action.ASK),
    (Symptoms(lost=True, foreign=True, rolled_back=True), Cause.LOST_FILES, Action.ASK),
    (Symptoms(broken={CONTENT}, late=True, rolled_back=True), Cause.CONTENT, Action.ASK),
    (Symptoms(late=True, undone_with_raw=True), Cause.UNDONE_WITH_RAW, Action.ASK),
    (Symptoms(foreign=True, version_gone=True), Cause.GONE_VERSION, Action.ASK),
    (Symptoms(late=True, edited="f changed", gates="30 %"), Cause.EDITED_LOGIC, Action.ASK),
    (Symptoms(late=True, gates="30 %"), Cause.HELD_BACK, Action.ASK),
    (Symptoms(missing=True, gates="30 %", run_failed=True), Cause.HELD_BACK, Action.ASK),
    (Symptoms(late=True, asks="3 rows landed late"), Cause.TOO_LATE, Action.ASK),
    (Symptoms(lost=True, broken={FILES}), Cause.LOST_FILES, Action.REBUILD),
    (Symptoms(lost=True, foreign=True), Cause.LOST_FILES, Action.REBUILD),
    (Symptoms(foreign=True, broken={FILES, CONTENT}), Cause.FOREIGN_WRITE, Action.REBUILD),
    (Symptoms(broken={CONTENT, SUM}), Cause.CONTENT, Action.REBUILD),
    (Symptoms(late=True, corrected=True), Cause.CORRECTED, Action.REBUILD),
    (Symptoms(late=True), Cause.LATE, Action.REBUILD),
    (Symptoms(late=True, broken={SUM}), Cause.LATE, Action.REBUILD),
    (Symptoms(changed=True, reference=True), Cause.REFERENCE, Action.REBUILD),
    (Symptoms(changed=True), Cause.INPUT, Action.REBUILD),
    (Symptoms(broken={SUM}), Cause.DISAGREES, Action.ASK),
    (Symptoms(missing=True, run_failed=True), Cause.FAILED_RUN, Action.REBUILD),
    (Symptoms(missing=True), Cause.MISSING, Action.REBUILD),
]


@pytest.mark.parametrize(("seen", "cause", "action"), TABLE, ids=[f"{n} {each[1]}" for n, each in enumerate(TABLE)])
def test_what_is_seen_has_a_cause(seen: Symptoms, cause: Cause, action: Action) -> None:
    found = diagnose(seen)
    assert (found.cause, found.action) == (cause, action)


def test_a_day_that_came_with_its_table_says_so() -> None:
    found = diagnose(Symptoms(foreign=True, version_gone=True, adopted=True))
    assert found.cause is Cause.GONE_VERSION and "nothing here can make it again" in found.words


def test_each_cause_is_in_the_table() -> None:
    assert {cause for _, cause, _ in TABLE} == {case.cause for case in CASES}


def test_who_is_less_sure_than_declared_asks_a_person() -> None:
    seen = Symptoms(missing=True, run_failed=True)
    assert diagnose(seen, Decimal("0.7")).action is Action.REBUILD
    assert diagnose(seen, Decimal("0.71")).action is Action.ASK


def test_a_sound_day_has_no_diagnosis() -> None:
    with pytest.raises(LookupError):
        diagnose(Symptoms())


def test_the_page_has_the_cases() -> None:
    assert PAGE.read_text() == page(), "make pins writes it"
