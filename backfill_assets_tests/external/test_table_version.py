from __future__ import annotations

from datetime import date, timedelta

import pytest

from backfill_assets.external.table_version import day_in

WINTER, SUMMER = date(2017, 3, 25), date(2017, 3, 26)


@pytest.mark.parametrize(
    ("text", "kind", "zone", "day"),
    [
        ("2017-03-26", "date", "UTC", SUMMER),
        ("2017-03-26 and more", "string", "Europe/Berlin", SUMMER),
        ("soon", "string", "UTC", None),
        ("2017-03-25T22:59:59.999Z", "timestamp", "Europe/Berlin", WINTER),
        ("2017-03-25T23:00:00.000Z", "timestamp", "Europe/Berlin", SUMMER),
        ("2017-03-26T22:00:00.000Z", "timestamp", "Europe/Berlin", date(2017, 3, 27)),
        ("2017-03-26 23:59:59", "timestamp", "UTC", SUMMER),
        ("2017-03-26T23:59:59.000", "timestamp_ntz", "Europe/Berlin", SUMMER),
        ("9999-12-31T23:59:59.000Z", "timestamp", "Europe/Berlin", None),
    ],
)
def test_the_day_that_a_value_of_a_log_says(text: str, kind: str, zone: str, day: date | None) -> None:
    assert day_in(text, kind, zone) == day


def test_the_greatest_moment_is_cut_to_milliseconds() -> None:
    """Rows up to a millisecond later may be in the file."""
    assert day_in("2017-03-26T23:59:59.999Z", "timestamp", "UTC", timedelta(milliseconds=1)) == date(2017, 3, 27)
