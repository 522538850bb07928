"""How often thresholds would have been broken is counted from what the log keeps, without reading a row."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path

import pytest

from backfill_assets.answers.thresholds import histories, thresholds_answer
from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.model.declaration import Metrics
from backfill_assets_tests.small_lakehouse import SmallLakehouse

SALES = CATALOG.dataset("sales")
DAYS = [date(2017, 3, 6) + timedelta(n) for n in range(56)]
BAD = DAYS[-2]


def _days() -> Mapping[str, Mapping[date, Metrics]]:
    """Eight weeks; on one day a tenth of the rows is rejected, and the department of many lines is not known."""
    raw: dict[date, Metrics] = {day: {"rows": 4000, "received": 4000, "late_rows": 0} for day in DAYS}
    rejected: dict[date, Metrics] = {day: {"rows": 400 * (day == BAD), "from.raw_sales.rows": 4000} for day in DAYS}
    report: dict[date, Metrics] = {
        day: {
            "rows": 20,
            "from.fact_sales_transactions.rows": 4000,
            "unknown_department": 15 + 100 * (day == BAD),
            "lines_by_department": 4000,
        }
        for day in DAYS
    }
    bronze: dict[date, Metrics] = {day: {"rows": 4000, "from.raw_sales.rows": 4000} for day in DAYS}
    return {
        "raw_sales": raw,
        "quarantine_sales": rejected,
        "bronze_sales": bronze,
        "report_department_revenue": report,
        "fact_sales_transactions": {day: {"rows": 4000} for day in DAYS},
    }


def test_declared_and_learned_thresholds_are_counted_beside_each_other() -> None:
    """What was not measured of a day is not counted; of the first four weeks nothing is learned."""
    found = {
        (each.table, each.threshold, each.is_learned): (len(each.verdicts), each.broken)
        for each in histories(SALES, _days())
        if each.verdicts
    }
    report = "report_department_revenue"
    assert found["bronze_sales", "few_rejected", False] == (56, [BAD])
    assert found["quarantine_sales", "rows per row of raw_sales", True] == (28, [BAD])
    assert found[report, "few_unknown_department", False] == (56, [BAD])
    assert found[report, "unknown_department per row of fact_sales_transactions", True] == (28, [BAD])
    assert found["raw_sales", "rows", True] == (28, [])
    assert found["raw_sales", "volume_within", False] == (56, [])
    assert ("bronze_sales", "few_duplicates", False) not in found


def test_the_answer_is_a_table_and_says_how_many_verdicts_there_were(tmp_path: Path) -> None:
    lakehouse = SmallLakehouse(tmp_path)
    with pytest.raises(InvalidRequest, match="Nothing of sales is published"):
        thresholds_answer(lakehouse.storage, SALES, CATALOG.table_names)
    lakehouse.publish("p1", {"raw_sales": {day: range(1 + 9 * (day != BAD)) for day in DAYS}})
    answer = thresholds_answer(lakehouse.storage, SALES, CATALOG.table_names).as_json()
    assert answer["notes"] == [{"text": "1 verdict of 84 would be a failure or a warning.", "tone": "warn"}]
    learned = next(row for row in answer["thresholds"] if row["kind"] == "learned")
    assert (learned["judged"], learned["broken"], learned["days"]) == (28, 1, [str(BAD)])
