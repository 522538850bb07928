"""A release is about one gate of one day; whatever else is wrong with that day holds it back as always."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.release import Release, read_release, release_command, with_releases, write_release
from backfill_assets.model.declaration import RuleOutcome

DAY, NEXT, TABLE = date(2026, 3, 2), date(2026, 3, 3), "bronze_sales"
FEW = RuleOutcome("few_rejected", "validity", False, "90 of 100 rows quarantined", "at most 20")
KEYS = RuleOutcome("keys_unique", "uniqueness", False, "99 different keys in 100 rows", "as many as rows")
RELEASE = Release(table=TABLE, day=DAY, by="ana", at=datetime(2026, 3, 4, 9, tzinfo=UTC), reason="a till")


def test_a_released_day_is_warned_of_and_every_other_gate_and_day_is_held_back(storage: Storage) -> None:
    judged = {DAY: (FEW, KEYS), NEXT: (FEW,)}
    assert with_releases(storage, TABLE, judged) == judged
    write_release(storage, RELEASE)
    released = with_releases(storage, TABLE, judged)
    few, keys = released[DAY]
    assert (few.holds_back, few.passed, few.observed) == (False, False, FEW.observed)
    assert few.details == ("released by ana on 2026-03-04: a till",)
    assert keys == KEYS and released[NEXT] == (FEW,)
    assert with_releases(storage, "fact_sales_transactions", judged) == judged


def test_a_gate_that_holds_says_nothing_of_a_release(storage: Storage) -> None:
    write_release(storage, RELEASE)
    passed = RuleOutcome("few_rejected", "validity", True, "3 of 100 rows quarantined", "at most 20")
    assert with_releases(storage, TABLE, {DAY: (passed,)}) == {DAY: (passed,)}


def test_a_release_has_a_reason_and_a_command_where_it_helps(storage: Storage) -> None:
    with pytest.raises(InvalidRequest, match="has a reason"):
        write_release(storage, RELEASE.model_copy(update={"reason": "  "}))
    assert read_release(storage, TABLE, DAY) is None
    assert release_command(TABLE, DAY, [FEW]) == 'backfill raw release bronze_sales 2026-03-02 "REASON"'
    assert release_command(TABLE, DAY, [FEW, KEYS]) == ""
