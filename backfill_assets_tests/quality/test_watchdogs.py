"""The verdicts on published days: what is wrong is reported with what to do, and thresholds are not judged here."""

from __future__ import annotations

from dataclasses import replace

import pytest

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.model.declaration import DayFacts, Metrics
from backfill_assets.quality import watchdogs
from backfill_assets.quality.watchdogs import RecordedDay

REVENUE = CATALOG.table("fact_daily_revenue")
GOOD = RecordedDay(rows=2, checksum="77", content_hash_sum=None, files_as_published=True)
OWN: Metrics = {"rows": 2, "checksum": "77", "total_revenue_eur": "10.5000", "total_quantity": 4, "total_lines": 3}
FACT: Metrics = {"rows": 3, "total_amount_eur": "10.5000", "total_quantity": 4}


def _failed(recorded: RecordedDay, own: Metrics, fact: Metrics | None = None) -> dict[str, str]:
    facts = DayFacts(own=own, upstream={"fact_sales_transactions": fact or FACT})
    return {rule.rule: rule.observed for rule in watchdogs.judge(REVENUE, recorded, facts) if not rule.passed}


def test_a_day_that_holds_what_was_published_passes_and_thresholds_are_not_judged_again() -> None:
    """A declaration may change how many rows are too many; that must not open repairs of old days."""
    facts = DayFacts(own=OWN, upstream={"fact_sales_transactions": FACT})
    found = watchdogs.judge(REVENUE, GOOD, facts)
    assert all(rule.passed for rule in found)
    assert [rule.rule for rule in found][:2] == [watchdogs.FILES, watchdogs.CONTENT]
    assert "volume_within" not in {rule.rule for rule in found}


@pytest.mark.parametrize(
    ("recorded", "own", "rule"),
    [
        (replace(GOOD, files_as_published=False), OWN, watchdogs.FILES),
        (GOOD, {**OWN, "checksum": "78"}, watchdogs.CONTENT),
        (GOOD, {**OWN, "rows": 3}, watchdogs.CONTENT),
        (replace(GOOD, missing_files=("day=2017-03-01/a.parquet",)), OWN, watchdogs.FILES),
        (GOOD, {**OWN, "total_revenue_eur": "10.5001"}, "total_agrees_revenue_eur"),
    ],
)
def test_each_way_to_be_wrong_is_noticed(recorded: RecordedDay, own: Metrics, rule: str) -> None:
    """One rule fails, with what was seen; the others still hold."""
    assert list(_failed(recorded, own)) == [rule]


def test_a_day_is_not_compared_with_what_cannot_be_read() -> None:
    """The day that has lost its files is wrong; of this one, what it holds itself is judged all the same."""
    facts = DayFacts(own={**OWN, "checksum": "78"}, upstream={"fact_sales_transactions": {**FACT, "rows": 0}})
    found = watchdogs.judge(REVENUE, GOOD, facts, unread={"fact_sales_transactions"})
    assert {rule.rule: rule.passed for rule in found} == {watchdogs.FILES: True, watchdogs.CONTENT: False}


def test_a_day_with_other_columns_then_is_compared_by_its_rows() -> None:
    """The checksum is over the columns of the contract: a column gained since would make every old day look changed."""
    assert not _failed(replace(GOOD, checksum=None), {**OWN, "checksum": "another"})


def test_raw_is_never_said_to_be_rebuilt() -> None:
    """Landed files count once: nothing would be taken in again. A person has to look."""
    raw = CATALOG.table("raw_sales")
    own: Metrics = {"rows": 1, "checksum": "1", "content_hash_sum": "5", "recomputed_hash_sum": "5"}
    told = watchdogs.judge(raw, RecordedDay(2, None, "9", files_as_published=False), DayFacts(own=own))
    failed = [rule for rule in told if not rule.passed]
    assert [rule.rule for rule in failed] == [watchdogs.FILES, watchdogs.CONTENT]
    assert all("cannot be built again" in rule.next_step for rule in failed)
    assert "backfill history raw_sales" in watchdogs.in_words(told)
