from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date

import pytest

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.examples.datasets.sea_temperatures import SEA
from backfill_assets.model.declaration import Source
from backfill_assets.model.placement import (
    AHEAD_OF_ARRIVAL,
    ON_ARRIVAL_DAY,
    Placement,
    both,
    is_ingestion,
    recorded_placement,
)

DAY = date(2017, 3, 4)
FIRST = date(2016, 12, 24)
NOW = Placement(FIRST, 1)
NONE = {ON_ARRIVAL_DAY: 0, AHEAD_OF_ARRIVAL: 0}
SOME = {ON_ARRIVAL_DAY: 3, AHEAD_OF_ARRIVAL: 0}
AHEAD = {ON_ARRIVAL_DAY: 0, AHEAD_OF_ARRIVAL: 2}


def _source(first_day: date, earliest_day: date | None = None) -> Source:
    steps = [
        replace(step, source=replace(step.source, earliest_day=earliest_day)) if step.source else step
        for step in SEA.dataset().steps
    ]
    found = replace(SEA.dataset(), first_day=first_day, steps=tuple(steps)).steps[0].source
    assert found is not None
    return found


def test_the_earliest_day_is_the_first_day_of_the_dataset() -> None:
    """A day that was not written down would keep older rows out without a word."""
    for dataset in CATALOG.datasets:
        for step in dataset.steps:
            if step.source:
                assert step.source.placement.earliest_day == dataset.first_day, dataset.name
    assert _source(date(1995, 1, 1)).placement.earliest_day == date(1995, 1, 1)
    assert _source(FIRST, earliest_day=date(1990, 6, 1)).placement.earliest_day == date(1990, 6, 1)


def test_what_is_declared_is_in_the_code_version_of_raw() -> None:
    raw = SEA.dataset().steps[0]
    assert raw.source is not None
    assert raw.code_version == "v1 from 2016-02-15, 1 ahead"
    later = replace(raw, source=replace(raw.source, days_ahead=3))
    assert later.code_version == "v1 from 2016-02-15, 3 ahead"
    assert SEA.dataset().steps[1].code_version == "v1"
    there = replace(raw, source=replace(raw.source, event_zone="America/Port-au-Prince"))
    assert there.source is not None
    assert there.code_version == "v1 from 2016-02-15, 1 ahead, days of America/Port-au-Prince"
    assert recorded_placement(there.code_version) == there.source.placement and is_ingestion(there.code_version)
    assert recorded_placement(raw.code_version) == raw.source.placement


EARLIER, LATER = Placement(date(2017, 1, 1), 1), Placement(date(2016, 1, 1), 1)
"""Declarations before which the first day was another one than now: it has become earlier, or later."""
CONCERNED: Mapping[str, tuple[Placement, Mapping[str, int], date, bool]] = {
    "declared as before": (NOW, SOME, DAY, False),
    "an earlier first day, and rows that wait for it": (EARLIER, SOME, DAY, True),
    "an earlier first day, and no such rows": (EARLIER, NONE, DAY, False),
    "an earlier first day, and it is not known whether there are such rows": (EARLIER, {}, DAY, True),
    "a later first day, and rows that were too early before": (LATER, SOME, DAY, False),
    "a later first day, and a day before it": (LATER, NONE, date(2016, 12, 23), True),
    "a later first day, and that day": (LATER, NONE, FIRST, False),
    "further ahead, and rows that wait for it": (Placement(FIRST, 0), SOME, DAY, True),
    "further ahead, and rows that were not too far": (Placement(FIRST, 0), AHEAD, DAY, False),
    "less far ahead, and rows that arrived before their day": (Placement(FIRST, 2), AHEAD, DAY, True),
    "less far ahead, and no such rows": (Placement(FIRST, 2), SOME, DAY, False),
    "another zone, and rows": (Placement(FIRST, 1, "Europe/Berlin"), {"received": 3}, DAY, True),
    "another zone, and no row": (Placement(FIRST, 1, "Europe/Berlin"), {"received": 0}, DAY, False),
    "a source that was in no dataset": (Placement(None, 1), SOME, DAY, False),
}


@pytest.mark.parametrize("declared", CONCERNED)
def test_which_days_another_declaration_concerns(declared: str) -> None:
    """From what was recorded with the day alone: a status reads no data. Other days stay fresh."""
    was, metrics, day, concerned = CONCERNED[declared]
    assert NOW.concerns(day, was.code_version, metrics) is concerned


def test_days_from_before_this_was_recorded_stay_fresh_unless_they_lie_before_the_first_day() -> None:
    """Every source had 2000-01-01 then."""
    assert not NOW.concerns(DAY, "v1", {})
    assert NOW.concerns(date(2016, 12, 1), "v1", {})
    assert Placement(date(1995, 1, 1), 1).concerns(DAY, "v1", NONE)


def test_a_day_that_was_taken_in_by_two_declarations_is_of_both() -> None:
    """Else rows that are appended would make those look right that were there before."""
    mixed = both(both(EARLIER.code_version, NOW.code_version), EARLIER.code_version)
    assert mixed == "v1 from 2017-01-01, 1 ahead; v1 from 2016-12-24, 1 ahead"
    assert NOW.concerns(DAY, mixed, SOME)
    assert both("", "v1") == both("v1", "v1") == "v1"


def test_a_day_of_which_all_rows_were_put_on_their_days_anew_is_of_the_declaration_of_now() -> None:
    """Rows that stay on the day they arrived by both declarations do not leave it stale for good."""
    refreshed = both(both(EARLIER.code_version, "v1 from 2016-06-01, 1 ahead"), NOW.of_all_rows)
    assert refreshed == NOW.code_version
    assert not NOW.concerns(DAY, refreshed, SOME)
    assert both(refreshed, EARLIER.code_version) == f"{NOW.code_version}; {EARLIER.code_version}"


def test_a_row_that_names_an_earlier_day_says_what_to_declare() -> None:
    """The day of the row, the day that is declared, and both names that it can be declared by."""
    told = _source(FIRST).why_on_arrival_day(date(2016, 11, 3))
    assert told.startswith("2016-11-03 is before 2016-12-24, first_day of its dataset. ")
    assert "earliest_day of the source sea_temperatures, then run backfill raw refresh raw_sea_temperatures on" in told
    declared = _source(FIRST, earliest_day=date(2016, 12, 1)).why_on_arrival_day(date(2016, 11, 3))
    assert declared.startswith("2016-11-03 is before 2016-12-01, earliest_day of the source sea_temperatures. ")
    assert "first_day of the dataset" in declared
    there = replace(_source(FIRST), event_zone="Asia/Tokyo").why_on_arrival_day(date(2016, 11, 3))
    assert there.startswith("2016-11-03 in Asia/Tokyo is before 2016-12-24, first_day of its dataset. ")
    ahead = _source(FIRST).why_on_arrival_day(date(2017, 3, 9))
    assert ahead.startswith("2017-03-09 is more than 1 day after the day it arrived. ")
    assert "days_ahead of the source sea_temperatures" in ahead
    sent = _source(FIRST).why_on_arrival_day(date(2017, 3, 9), of_topic=True)
    assert sent.startswith("2017-03-09 is more than 1 day after the time of its record in the topic. ")
    assert "send it again with the right time" in sent and "days_ahead" in sent
