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
    assert parse_source("Kafka://one:9092/sales") == KafkaTopic("one:9092", "sales")


@pytest.mark.parametrize(
    "text",
    [
        *("", "kafka", "http://one:9092/sales", "kafka://one/sales", "kafka://one:9092", "kafka://one:9092/"),
        *("kafka://[::1:9092/sales", "kafka://one:9092/sales#2", "kafka://one:9092/sa\nles", "kafka:one:9092/sales"),
        *("kafka://one:9092/a/b", "kafka://one:9092/a b", "kafka:///sales", "kafka://one:x/sales"),
    ],
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidRequest) as failure:
        parse_source(text)
    assert "kafka://HOST:PORT/TOPIC" in str(failure.value)


def test_a_password_in_the_address_is_refused_and_not_repeated() -> None:
    for text in ("kafka://ana:s3cret@one:9092/sales", "http://ana:s3cret@one/sales"):
        require_not_repeated(text)


def require_not_repeated(text: str) -> None:
    with pytest.raises(InvalidRequest) as failure:
        parse_source(text)
    assert "s3cret" not in str(failure.value) and "BACKFILL_KAFKA_PROPERTIES" in str(failure.value)


def test_options_in_the_address_are_refused_and_not_repeated() -> None:
    """They were left out without a word, so that a broker was asked without them."""
    require_not_repeated("kafka://one:9092/sales?sasl.password=s3cret")
