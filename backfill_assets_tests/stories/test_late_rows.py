"""Rows that land too late, from the landed file to the tables, by what their dataset declares."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from backfill_assets.examples.datasets.sea_temperatures import SEA, SeaReading
from backfill_assets_tests.declared import declare
from backfill_assets_tests.stories.landing_snippet import land_rows
from backfill_assets_tests.workshop import Workshop

DAY = date(2016, 3, 1)
RAW, BRONZE, QUARANTINE = "raw_sea_temperatures", "bronze_sea_temperatures", "quarantine_sea_temperatures"
STRICT = replace(SEA, late_rows="quarantine", tolerated_rejects=0)
STRICT.row("v2", "Without those that came too late.")(SeaReading)


def test_rows_that_are_too_late_are_in_quarantine_and_accounted_for(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a day that was built before. However many there are, they hold it back by no gate that counts rejects."""
    declare(monkeypatch, STRICT.dataset())
    for after, hours in ((0, range(3)), (7, range(3, 5)), (8, range(5, 12))):
        moments = [datetime(DAY.year, DAY.month, DAY.day, hour, tzinfo=UTC) for hour in hours]
        rows = [
            {"sensor_id": "B01", "measured_at": moment, "celsius": Decimal("4.5"), "sent_at": moment}
            for moment in moments
        ]
        arrival = DAY + timedelta(days=after)
        land_rows(workshop.settings.landing, "sea_temperatures", arrival, "readings", rows)
        workshop.build(RAW, [arrival])
        (built, _) = workshop.build(BRONZE, [DAY]).days
        assert all(rule.passed for rule in built.rules if rule.holds_back)
    assert len(workshop.read(BRONZE)) == 5
    reasons = [list(each) for each in workshop.read(QUARANTINE)["reasons"]]
    assert reasons == [["late: sea_temperatures takes rows up to 7 days after their day (was 8)"]] * 7
    accounted = next(rule for rule in built.rules if rule.rule == "everything_accounted_for")
    assert accounted.passed and accounted.observed.startswith("5 published + 7 quarantined + 0 deduplicated = 12")
