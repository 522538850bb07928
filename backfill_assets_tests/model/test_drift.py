from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest

from backfill_assets.examples.datasets.sales import SALES
from backfill_assets.lakehouse.records import DayContent
from backfill_assets.model.drift import FIELDS, Drift, DriftKind, FieldRows, as_text, drifts, from_text, judge, together

SOURCE = SALES.source
FIRST = date(2017, 3, 1)
TIER = FieldRows(DriftKind.UNDECLARED, "loyalty_tier", 5, "gold")
LACKS, OTHER = FieldRows(DriftKind.MISSING, "store_id", 2), FieldRows(DriftKind.RETYPED, "quantity", 1, "many")


def days(*found: tuple[int, list[FieldRows]], received: int = 100) -> Mapping[date, Mapping[str, Any]]:
    """By how many days after the first they are."""
    return {FIRST + timedelta(after): {"received": received, FIELDS: as_text(fields)} for after, fields in found}


def test_the_rows_of_a_field_add_up_over_the_parts_of_a_day() -> None:
    """The first example stands for all; a part that was not measured, or has nothing, adds nothing."""
    one, other = as_text([TIER, LACKS]), as_text([replace(TIER, rows=7, example="blue"), OTHER])
    assert from_text(together([one, None, "", other])) == [LACKS, OTHER, replace(TIER, rows=12)]
    assert together([None, ""]) == ""
    was, more = (DayContent(3, "1", metrics={FIELDS: text}) for text in (one, other))
    assert was.plus(more).metrics[FIELDS] == together([one, other])
    assert from_text(DayContent(3, "1").plus(more).metrics[FIELDS]) == from_text(other)


def test_what_a_source_writes_is_bounded_and_moves_no_cursor() -> None:
    (found,) = from_text(as_text([replace(TIER, field="\x1b[2J" + "x" * 200, example="\n" * 99)]))
    assert found.field.startswith("\\x1b[2Jxx") and len(found.field) == 80
    assert found.example.endswith("…") and len(found.example) == 60


def _drift(of: FieldRows, since: int, last: int, count: int, rows: int, received: int) -> Drift:
    return Drift(
        of.kind, of.field, FIRST + timedelta(since), FIRST + timedelta(last), count, rows, received, of.example
    )


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        ({}, []),
        (days((0, [])), []),
        (days((0, [TIER]), (1, [TIER]), (2, [])), [_drift(TIER, 0, 1, 2, 10, 200)]),
        # A row of a hundred that has a text for a number is a defect; two of a hundred are not.
        (days((0, [LACKS, OTHER])), [_drift(LACKS, 0, 0, 1, 2, 100)]),
        # What was not seen for four weeks is over, and begins anew when it is back.
        (days((0, [TIER]), (28, [])), [_drift(TIER, 0, 0, 1, 5, 100)]),
        (days((0, [TIER]), (29, [])), []),
        (days((0, [TIER]), (29, [TIER])), [_drift(TIER, 29, 29, 1, 5, 100)]),
        # What was declared since is as declared; what is declared no more is not asked for.
        (days((0, [replace(TIER, field="currency"), replace(LACKS, field="gone")])), []),
    ],
)
def test_drift_over_days(measured: Mapping[date, Mapping[str, Any]], expected: list[Drift]) -> None:
    assert drifts(SOURCE, measured) == expected


def test_a_drift_in_words() -> None:
    (one,) = drifts(SOURCE, days((0, [TIER])))
    assert str(one) == "loyalty_tier is not declared: 5 of 100 rows (5.0 %) on 2017-03-01, for example gold"
    (several,) = drifts(SOURCE, days((0, [LACKS]), (1, [LACKS])))
    assert str(several) == "store_id is missing: 4 of 200 rows (2.0 %) on 2 days since 2017-03-01"


def test_the_check_of_a_day_warns_and_looks_back_alone() -> None:
    """Nothing is said against a day that was published before this was measured."""
    measured = {**days((0, [TIER]), (1, [TIER]), (2, [])), FIRST + timedelta(3): {"received": 9}}
    first, second, third, unmeasured = (judge(SOURCE, measured, FIRST + timedelta(after)) for after in range(4))
    assert not first.passed and not first.holds_back and "5 of 100 rows" in first.observed
    assert "10 of 200 rows (5.0 %) on 2 days since 2017-03-01" in second.observed
    assert third.passed and third.observed == "100 rows as declared" and not third.next_step
    assert unmeasured.passed and unmeasured.observed == "not measured when it was published"
