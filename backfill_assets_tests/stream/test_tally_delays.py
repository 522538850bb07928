"""How late events are, from a count of what was sent by when and a count of what was visible by when."""

from __future__ import annotations

import pytest

from backfill_assets_tests.stream.tally_delays import SentCurve, Visible, delayed, percentile


def sent(*points: tuple[float, int]) -> SentCurve:
    curve = SentCurve()
    for moment, events in points:
        curve.add(moment, events)
    return curve


def test_between_two_looks_events_were_sent_evenly() -> None:
    curve = sent((100, 0), (101, 10), (102, 10), (110, 100))
    assert [curve.sent_at(number) for number in (0, 5, 10, 55, 100, 200)] == [100, 100.5, 101, 105.5, 110, 110]


def test_the_delay_is_from_sending_to_the_first_step_that_shows_it() -> None:
    """100 events in 10 s, half of them visible after 10 s and all after 20 s; 9 of 10 events are facts."""
    found = list(delayed([Visible(10, 45), Visible(20, 90)], sent((0, 0), (10, 100)), 100 / 90))
    assert sum(each.events for each in found) == pytest.approx(100)
    assert percentile(found, 0.5) == pytest.approx(10, abs=0.3)
    assert percentile([each for each in found if each.at == 10], 1.0) == pytest.approx(10, abs=0.3)
    assert percentile([each for each in found if each.at == 20], 0.01) == pytest.approx(10, abs=0.3)


def test_a_step_with_fewer_rows_shows_nothing_new() -> None:
    steps = [Visible(1, 10), Visible(2, 9), Visible(3, 10)]
    assert {each.at for each in delayed(steps, sent((0, 0), (1, 10)), 1.0)} == {1}


def test_without_events_there_is_no_delay() -> None:
    assert percentile([], 0.5) is None
