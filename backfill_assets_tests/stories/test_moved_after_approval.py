"""Rows that come after a campaign was validated: what its approval publishes is what it was given for, or it waits."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from backfill_assets.difference.find import last_difference
from backfill_assets.lakehouse.storage import Storage
from backfill_assets_tests.cli.command import backfill, types, work_with
from backfill_assets_tests.stories.landed_lines import land_lines
from backfill_assets_tests.stories.staged_campaign import DAYS, FACT
from backfill_assets_tests.workshop import Workshop

MOVED = date(2017, 3, 7)
EXPECTED = "amount_eur < 5% a day"


class Late:
    """A line of a day that the campaigns rebuild, which comes into raw and bronze beside them."""

    def __init__(self, workshop: Workshop) -> None:
        self.workshop, self.count = workshop, 0

    def lands(self, dollars: str) -> None:
        self.count += 1
        line = {"transaction_timestamp": f"{MOVED}T10:00:00Z", "currency": "USD", "sales_value": dollars}
        land_lines(self.workshop.settings.landing, DAYS.last, f"late-{self.count}", 1, line, 777 + self.count)
        self.workshop.build("raw_sales", [DAYS.last])
        self.workshop.build("bronze_sales", [MOVED])


def sum_of(workshop: Workshop) -> Decimal:
    rows = workshop.read(FACT)
    return sum((Decimal(value) for value in rows[rows["day"] == MOVED]["amount_eur"]), Decimal(0))


def compared(storage: Storage, plan: str) -> tuple[Decimal, Decimal]:
    """The moved day's euros before and after, in the difference that is kept."""
    kept = last_difference(storage, plan)
    assert kept is not None
    (fact,) = [table for table in kept.tables if table.table == FACT]
    (sums,) = [day.of("amount_eur") for day in fact.days if day.day == MOVED]
    assert sums.before is not None and sums.after is not None
    return sums.before, sums.after


@pytest.mark.long
def test_what_moved_after_the_approval_was_asked_for_is_judged_before_it_is_published(
    wrong: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A late line of 100,000 dollars is not published by an approval that did not see it; one of 1 dollar is."""
    monkeypatch.setenv("BACKFILL_HOME", str(wrong.settings.home))
    work_with(monkeypatch, wrong)
    storage = wrong.builder.lake.storage
    old, late = sum_of(wrong), Late(wrong)
    asked = ("plan", FACT, "--days", str(DAYS), "--version", "v2")
    plan = types(*asked, "--expect", EXPECTED)["plan"]
    assert types("run", plan, "--waves", "100%")["waits"] == "it waits for approval"
    assert compared(storage, plan)[0] == old
    late.lands("100000.00")

    refused = backfill("approve", plan, "--yes", exit_code=1)

    assert sum_of(wrong) == old
    assert f"{FACT} {MOVED}" in refused.stderr and f"Not as expected: {EXPECTED}" in refused.stderr
    assert "backfill plan" in refused.stderr and "timeline delete" in refused.stderr
    seen, staged = compared(storage, plan)
    assert seen == old and staged > 80_000, "what is kept is the difference that was refused"
    assert f"{EXPECTED}\tnot met" in refused.stdout, "it is shown as well"
    assert "was stopped" in backfill("approve", plan, "--yes", exit_code=1).stderr
    backfill("timeline", "delete", plan, "--yes")
