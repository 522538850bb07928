"""The source is protected: declared rates by the hour, a bucket, backing off with the figures, live left alone."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.errors import InvalidRequest
from backfill_assets.stream.throttle import (
    FEWEST_BATCHES,
    LONGEST_PAUSE_SECONDS,
    LOWEST_FACTOR,
    BackOff,
    Rate,
    RateHours,
    RateUnit,
    ReadLimit,
    Throttle,
    TokenBucket,
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
    limit = ReadLimit.parse("2000", ["06:00-22:00=500", "23:30-01:00=8000"])
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
        ReadLimit.parse("2000", ["06:00-22:00=500", "21:00-07:00=100"])
    with pytest.raises(InvalidRequest, match="records and another one bytes"):
        ReadLimit.parse("2000", ["06:00-22:00=5MB"])
    with pytest.raises(InvalidRequest, match="files in flight"):
        ReadLimit(files_in_flight=0)
    with pytest.raises(InvalidRequest, match="events in flight"):
        ReadLimit.parse(events_in_flight=0)


def test_without_a_declared_rate_nothing_is_limited() -> None:
    throttle = Throttle(ReadLimit.parse())
    assert (throttle.wait(10**9, NOON, None), throttle.most_in(1, NOON)) == (0, None)


def test_a_bucket_lets_its_burst_pass_at_once_and_then_its_rate() -> None:
    bucket = TokenBucket(rate=100, burst=50)
    assert [bucket.take(50, 0), bucket.take(100, 0), bucket.take(100, 1)] == [0, 1.0, 1.0]
    assert bucket.take(50, 60) == 0


def test_what_is_larger_than_the_bucket_is_waited_for_and_passes() -> None:
    """A clock that goes back gives no tokens."""
    bucket = TokenBucket(rate=10, burst=10)
    assert bucket.take(100, 5) == 9
    assert bucket.take(0, 1) == 9


@given(amounts=st.lists(st.integers(1, 500), min_size=1, max_size=50), rate=st.integers(1, 200))
def test_a_reader_that_waits_never_exceeds_the_rate(amounts: list[int], rate: int) -> None:
    """For all sizes of what it reads, the sum is at most the burst and the rate times the time."""
    bucket, now, taken = TokenBucket(rate, burst=rate), 0.0, 0
    for amount in amounts:
        now += bucket.take(amount, now)
        taken += amount
        assert taken <= rate + rate * now + 1e-6


def _usual(back_off: BackOff, batches: int = FEWEST_BATCHES) -> None:
    for _ in range(batches):
        assert back_off.answered(0.3, 2000, Rate(500)).factor == 1


def test_a_slow_answer_halves_the_rate_at_once_and_says_why() -> None:
    back_off = BackOff()
    _usual(back_off)
    pace = back_off.answered(4.1, 2000, Rate(500))
    assert pace.factor == 0.5
    assert pace.reason == "the source took 4.1 s for 2,000 records, usually 0.3 s: reading at 250 records/s"


def test_the_answer_of_the_source_is_a_part_of_its_batch() -> None:
    """What Spark asks the source for; not the rest of the batch, which says how much was usually read."""
    assert answer_seconds({"latestOffset": 200, "getBatch": 50, "addBatch": 9_000, "triggerExecution": 9_300}) == 0.25
    assert answer_seconds({"addBatch": 9_000}) is None
    back_off = BackOff()
    for _ in range(FEWEST_BATCHES):
        assert back_off.answered(0.25, 2000, batch_seconds=4).factor == 1
    assert back_off.answered(0.25, 2000, batch_seconds=400).factor == 1
    assert back_off.usual_rate() == Rate(500)


def test_it_recovers_slowly() -> None:
    """Seven good answers for a slow one; until then the reason says that it recovers."""
    back_off = BackOff()
    _usual(back_off, 20)
    back_off.answered(4.1, 2000, Rate(500))
    paces = [back_off.answered(0.3, 2000, Rate(500)) for _ in range(8)]
    assert [pace.factor == 1 for pace in paces] == [False] * 7 + [True]
    assert paces[0].reason == "the source answers as usual again: reading at 275 records/s"
    assert paces[-1].reason == ""


def test_a_larger_batch_may_take_longer_and_chance_is_not_slow() -> None:
    back_off = BackOff()
    _usual(back_off)
    assert back_off.answered(3.0, 20_000, Rate(500)).factor == 1
    for _ in range(9):
        back_off.answered(0.01, 10)
    assert back_off.answered(0.4, 10, Rate(500)).factor == 1


def test_there_is_no_judgement_before_something_is_usual() -> None:
    back_off = BackOff()
    assert [back_off.answered(seconds, 2000).factor for seconds in (9, 0.1, 9, 0.1)] == [1, 1, 1, 1]


def test_errors_halve_the_rate_and_the_pause_between_them_doubles() -> None:
    back_off = BackOff()
    paces = [back_off.failed("TimeoutException: 30 s\nat org.apache", Rate(2000)) for _ in range(12)]
    assert [pace.pause_seconds for pace in paces[:4]] == [1, 2, 4, 8]
    assert (paces[-1].pause_seconds, paces[-1].factor) == (LONGEST_PAUSE_SECONDS, LOWEST_FACTOR)
    assert paces[0].reason == "the source answered with an error (TimeoutException: 30 s): reading at 1,000 records/s"
    assert back_off.answered(0.1, 10).pause_seconds == 0


def test_only_history_is_throttled() -> None:
    """What is live passes, also while the source is backed off from; an unknown lag is history."""
    throttle = Throttle(ReadLimit.parse("100"))
    throttle.back_off.failed("busy")
    assert [throttle.wait(1000, NOON, lag) for lag in (0, 59)] == [0, 0]
    assert throttle.wait(1000, NOON, 60) == pytest.approx((1000 - 50) / 50)
    assert throttle.wait(50, NOON, None) == pytest.approx((1000 - 50 + 50) / 50)


def test_the_rate_changes_with_the_hour_and_the_source() -> None:
    throttle = Throttle(ReadLimit.parse("2000", ["06:00-22:00=500"]))
    assert (throttle.most_in(10, NOON), throttle.most_in(10, NIGHT)) == (5000, 20_000)
    throttle.back_off.failed("busy")
    assert (throttle.most_in(10, NOON), throttle.most_in(10, NOON, lag_seconds=1)) == (2500, None)


def test_a_reader_without_a_rate_backs_off_from_what_the_source_gave() -> None:
    throttle = Throttle(ReadLimit.parse())
    _usual(throttle.back_off)
    throttle.back_off.answered(5.0, 2000)
    rate = throttle.rate(NOON)
    assert rate and rate.per_second == pytest.approx(2000 / 0.3 / 2)


def test_a_debt_is_paid_at_the_new_rate() -> None:
    throttle = Throttle(ReadLimit.parse("1000", ["12:00-13:00=100"]))
    assert throttle.wait(1100, NOON, None) == pytest.approx(10)
    assert throttle.wait(0, NOON + timedelta(hours=1), None) == 0
