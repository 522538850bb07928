"""The zone of event days is one that exists, and people are told of the day there."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.datasets.fx_rates import FX_RATES
from backfill_assets.examples.datasets.sea_temperatures import SEA, SeaReading
from backfill_assets.model.event_day import day_named, zone_problems

IN_BERLIN = replace(SEA.source, event_zone="Europe/Berlin")


@pytest.mark.parametrize(
    ("zone", "words"),
    [
        ("Europe/Berln", "(?s)event_zone: there is no time zone 'Europe/Berln'.*Did you mean Europe/Berlin"),
        ("CEST", "(?s)there is no time zone 'CEST'"),
        ("localtime", "(?s)there is no time zone 'localtime'"),
        ("", "(?s)there is no time zone ''.*Write it like Europe/Berlin"),
    ],
)
def test_a_zone_that_is_none_is_refused_when_it_is_declared(zone: str, words: str) -> None:
    """The zone of the machine is another one on each machine."""
    declared = replace(SEA, event_zone=zone)
    declared.row("v1", "Newest of each reading.")(SeaReading)
    with pytest.raises(InvalidRequest, match=words):
        declared.dataset()


def test_a_zone_is_declared_for_moments() -> None:
    """A date is the same one everywhere."""
    assert list(zone_problems(IN_BERLIN)) == [] == list(zone_problems(replace(FX_RATES.source, event_zone="UTC")))
    ((what, _),) = zone_problems(replace(FX_RATES.source, event_zone="Europe/Berlin"))
    assert what == "'rate_day' is a date, which is the same day in every zone."


def test_the_day_that_a_person_is_told_of() -> None:
    """Of a moment the day of the clocks there; of a text that names none, none."""
    moment = "measured_at: '2016-02-15T23:30:00.5Z' is no plausible day"
    assert day_named(SEA.source, moment) == date(2016, 2, 15)
    assert day_named(IN_BERLIN, moment) == date(2016, 2, 16)
    assert day_named(SEA.source, "'2016-02-16T00:30:00.123456789+02:00'") == date(2016, 2, 15)
    assert day_named(IN_BERLIN, "'2016-02-15' is no plausible day") == date(2016, 2, 15)
    for none in ("", "no day", "2016-02-30", "0000-01-01T00:00:00Z"):
        assert day_named(IN_BERLIN, none) is None
