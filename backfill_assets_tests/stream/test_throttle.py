"""The source is protected: declared rates by the hour, backing off with the figures, live left alone."""

from __future__ import annotations

from datetime import UTC, datetime, time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.errors import InvalidRequest
from backfill_assets.stream.throttle import (
    FEWEST_BATCHES,
    LONGEST_PAUSE_SECONDS,
    LOWEST_FACTOR,
    Rate,
    RateHours,
    RateUnit,
    ReadLimit,
    Throttle,
    answer_seconds,
    parse_rate,
)

NOON = datetime(2017, 3, 10, 12, tzinfo=UTC)
NIGHT = NOON.replace(hour=23)


@pytest.mark.parametrize(
    ("text", "rate", "shown"),
    [
        ("2000", Rate(2000), "2,000 records/s"),
        ("2k", Rate(2000), "2,000 records/s"),
        ("0.5/s", Rate(0.5), "0.5 records/s"),
        ("5MB", Rate(5_000_000, RateUnit.BYTES), "4.8 MiB/s"),
        ("512KiB", Rate(524_288, RateUnit.BYTES), "512.0 KiB/s"),
        ("100B/s", Rate(100, RateUnit.BYTES), "100 B/s"),
    ],
)
def test_a_rate_is_records_or_bytes_a_second(text: str, rate: Rate, shown: str) -> None:
    assert (parse_rate(text), str(rate)) == (rate, shown)


@pytest.mark.parametrize("text", ["", "0", "-1", "fast", "5Mi", "5iB", "1e3", "2000 rows"])
def test_another_text_is_no_rate(text: str) -> None:
    with pytest.raises(InvalidRequest, match="is not a rate"):
        parse_rate(text)


def test_hours_have_a_rate_of_their_own() -> None:
    """Their end is excluded, and they may go over midnight."""
    limit = ReadLimit.parse(["2000", "06:00-22:00=500", "23:30-01:00=8000"])
    moments = ("05:59", "06:00", "21:59", "22:00", "23:30", "00:59", "01:00")
    found = [limit.rate_at(datetime.combine(NOON, time.fromisoformat(text), UTC)) for text in moments]
    assert found == [Rate(n) for n in (2000, 500, 500, 2000, 8000, 8000, 2000)]
    assert str(limit) == "2,000 records/s, 500 records/s at 06:00-22:00 UTC, 8,000 records/s at 23:30-01:00 UTC"


@pytest.mark.parametrize("text", ["06:00-22:00", "6-22=500", "06:00-25:00=500", "06:00-06:00=500", "06:00-22:00=x"])
def test_hours_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        RateHours.parse(text)


def test_a_limit_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="overlap"):
        ReadLimit.parse(["2000", "06:00-22:00=500", "21:00-07:00=100"])
    with pytest.raises(InvalidRequest, match="records and another one bytes"):
        ReadLimit.parse(["2000", "06:00-22:00=5MB"])


def test_without_a_declared_rate_nothing_is_limited() -> None:
    throttle = Throttle()
    assert throttle.wait(10**9, 1, NOON, None) == 0
    assert (throttle.limit.most_in(1, NOON, 100), ReadLimit(most=7).most_in(1, NOON, 100)) == (100, 7)


@given(
    batches=st.lists(st.tuples(st.integers(1, 500), st.floats(0, 10)), min_size=1, max_size=50),
    rate=st.integers(1, 200),
)
def test_a_reader_that_waits_never_exceeds_the_rate(batches: list[tuple[int, float]], rate: int) -> None:
    """However much a batch reads, and however long it takes."""
    throttle, now, read = Throttle(ReadLimit(Rate(rate))), 0.0, 0
    for amount, took in batches:
        now += took + throttle.wait(amount, took, NOON, None)
        read += amount
        assert read <= rate * now + 1e-6


def _usual(throttle: Throttle, batches: int = FEWEST_BATCHES) -> None:
    for _ in range(batches):
        assert throttle.answered(0.3, 2000, NOON).factor == 1


@pytest.fixture
def throttle() -> Throttle:
    return Throttle(ReadLimit(Rate(500)))


def test_a_slow_answer_halves_the_rate_at_once_and_says_why(throttle: Throttle) -> None:
    _usual(throttle)
    pace = throttle.answered(4.1, 2000, NOON)
    assert pace.factor == 0.5
    assert pace.reason == "the source took 4.1 s for 2,000 records, usually 0.3 s: reading at 250 records/s"


def test_the_answer_of_the_source_is_a_part_of_its_batch() -> None:
    """What Spark asks the source for; not the rest of the batch."""
    assert answer_seconds({"latestOffset": 200, "getBatch": 50, "addBatch": 9_000, "triggerExecution": 9_300}) == 0.25
    assert answer_seconds({"addBatch": 9_000}) is None


def test_it_recovers_slowly(throttle: Throttle) -> None:
    """Seven good answers for a slow one; until then the reason says that it recovers."""
    _usual(throttle, 20)
    throttle.answered(4.1, 2000, NOON)
    paces = [throttle.answered(0.3, 2000, NOON) for _ in range(8)]
    assert [pace.factor == 1 for pace in paces] == [False] * 7 + [True]
    assert paces[0].reason == "the source answers as usual again: reading at 275 records/s"
    assert paces[-1].reason == ""


def test_a_larger_batch_may_take_longer_and_chance_is_not_slow(throttle: Throttle) -> None:
    _usual(throttle)
    assert throttle.answered(3.0, 20_000, NOON).factor == 1
    for _ in range(9):
        throttle.answered(0.01, 10, NOON)
    assert throttle.answered(0.4, 10, NOON).factor == 1


def test_there_is_no_judgement_before_something_is_usual(throttle: Throttle) -> None:
    assert [throttle.answered(seconds, 2000, NOON).factor for seconds in (9, 0.1, 9, 0.1)] == [1, 1, 1, 1]


def test_errors_halve_the_rate_and_the_pause_between_them_doubles() -> None:
    throttle = Throttle(ReadLimit(Rate(2000)))
    paces = [throttle.failed("TimeoutException: 30 s\nat org.apache", NOON) for _ in range(12)]
    assert [pace.pause_seconds for pace in paces[:4]] == [1, 2, 4, 8]
    assert (paces[-1].pause_seconds, paces[-1].factor) == (LONGEST_PAUSE_SECONDS, LOWEST_FACTOR)
    assert paces[0].reason == "the source answered with an error (TimeoutException: 30 s): reading at 1,000 records/s"
    assert throttle.answered(0.1, 10, NOON).pause_seconds == 0


def test_only_history_is_throttled() -> None:
    """What is live passes, also while the source is backed off from; an unknown lag is history."""
    throttle = Throttle(ReadLimit(Rate(100)))
    throttle.failed("busy", NOON)
    assert [throttle.wait(1000, 1, NOON, lag) for lag in (0, 59)] == [0, 0]
    assert [throttle.wait(1000, 1, NOON, lag) for lag in (60, None)] == [19, 19]


def test_the_rate_changes_with_the_hour_and_the_source() -> None:
    """What Spark reads at once is that of the hour; a slow source is spared by waiting, not by asking it more often."""
    throttle = Throttle(ReadLimit.parse(["2000", "06:00-22:00=500"]))
    for pace in (1, 0.5):
        assert [throttle.limit.most_in(10, now, 10**6) for now in (NOON, NIGHT)] == [5_000, 20_000]
        assert [throttle.wait(1000, 0, now, None) for now in (NOON, NIGHT)] == [2 / pace, 0.5 / pace]
        throttle.failed("busy", NOON)


def test_a_reader_without_a_rate_takes_twice_as_long_at_half_the_pace() -> None:
    throttle = Throttle()
    _usual(throttle)
    assert throttle.answered(5.0, 2000, NOON).reason.endswith("usually 0.3 s: reading at 50% of the rate")
    assert throttle.wait(2000, 5.5, NOON, None) == 5.5
