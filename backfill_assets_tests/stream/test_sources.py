"""What ``--from`` names is parsed into types before anything uses it."""

from __future__ import annotations

import pytest

from backfill_assets.errors import InvalidRequest
from backfill_assets.stream.sources import KafkaTopic, LandingFolder, parse_source


def test_the_landing_folder_and_topics_are_sources() -> None:
    assert parse_source("landing") == LandingFolder()
    topic = parse_source("kafka://one:9092,two:9093/sales.eu-1")
    assert topic == KafkaTopic("one:9092,two:9093", "sales.eu-1")
    assert str(topic) == "kafka://one:9092,two:9093/sales.eu-1"


@pytest.mark.parametrize(
    "text",
    [
        *("", "kafka", "http://one:9092/sales", "kafka://one/sales", "kafka://one:9092", "kafka://one:9092/"),
        *("kafka://one:9092/a/b", "kafka://one:9092/a b", "kafka:///sales", "kafka://one:x/sales"),
    ],
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidRequest) as failure:
        parse_source(text)
    assert "kafka://HOST:PORT/TOPIC" in str(failure.value)


def test_a_password_in_the_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(InvalidRequest) as failure:
        parse_source("kafka://ana:s3cret@one:9092/sales")
    assert "s3cret" not in str(failure.value) and "BACKFILL_KAFKA_PROPERTIES" in str(failure.value)
