from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from backfill_assets.examples.datasets.sales import SALES, SalesLine
from backfill_assets.model.lateness import Beyond, Lateness


@pytest.mark.parametrize(
    ("beyond", "late", "why"),
    [
        ("ask", 12, "12 rows landed more than 7 days after their day"),
        ("ask", 1, "1 row landed more than 7 days after their day"),
        ("ask", 0, ""),
        ("ask", None, ""),
        ("rebuild", 12, ""),
        ("quarantine", 12, ""),
    ],
)
def test_a_person_is_asked_about_late_rows_where_that_is_declared(beyond: Beyond, late: int | None, why: str) -> None:
    """A day that was published before they were counted has none that are known."""
    assert Lateness(7, beyond).asks({"late_rows": late}) == why


@pytest.mark.parametrize("beyond", ["rebuild", "quarantine", "ask"])
def test_only_to_reject_late_rows_is_another_logic(beyond: Beyond) -> None:
    """Its quarantine counts them, so that they hold no day back; for the others all is as it was."""
    sales = replace(SALES, late_rows=beyond)
    sales.row("v1", "As it is.")(SalesLine)
    raw, refined = sales.dataset().steps[:2]
    assert raw.lateness == Lateness(7, beyond)
    refinement, rejects = sales.refinement(), beyond == "quarantine"
    assert refinement.takes_days == (7 if rejects else None)
    assert rejects or refinement == SALES.refinement()
    rules = [rule.name for rule in refined.tables[1].rules]
    assert rules == ["content_intact", *(["arrived_within"] if rejects else [])]
    if rejects:
        assert refined.tables[1].rules[1] == replace(SALES.arrives, at_most=Decimal(1))
