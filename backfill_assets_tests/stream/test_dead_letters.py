"""Rejected events are sent once a publication that quarantines them, at least once, and never instead of quarantine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

import pytest

from backfill_assets import clock
from backfill_assets.errors import InvalidRequest, SourceUnreadable
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.publish.publisher import Published
from backfill_assets.stream.broker import BrokerAway, Message
from backfill_assets.stream.dead_letters import DeadLetters, Files, Row, message, newly, quarantine_of
from backfill_assets.stream.sources import KafkaTopic
from backfill_assets_tests.protocol.lake import D1, Lake

TOPIC = KafkaTopic("there:9092", "sales-rejected")


def rejected(offset: int, *reasons: str, file: str = "kafka:sales/0", **more: object) -> dict[str, Any]:
    return {"source_file": file, "source_line": offset, "content_hash": offset, "reasons": list(reasons), **more}


def test_events_are_sent_that_quarantine_lacked_or_had_for_another_reason() -> None:
    before = [rejected(1, "a"), rejected(2, "a"), rejected(3, "a")]
    after = [rejected(4, "a"), rejected(1, "a"), rejected(2, "b"), rejected(7, "a", file="sales/2026-03-02/a.jsonl")]
    assert newly(after, before) == [rejected(2, "b"), rejected(4, "a")]
    assert newly([rejected(1, "a")] * 2, before) == [rejected(1, "a")]


def test_a_message_says_where_the_event_is_and_why_and_what_raw_has_of_it() -> None:
    row = rejected(5, "till: is missing", household="a1b2", till=None, arrival_day=date(2026, 3, 2))
    sent = message(row, "quarantine_sales", date(2026, 3, 1), "p1")
    assert sent.key == b"sales/0/5"
    assert dict(sent.headers) == {"publication": b"p1", "reasons": b'["till: is missing"]'}
    assert json.loads(sent.value) == {
        "topic": "sales",
        "partition": 0,
        "offset": 5,
        "table": "quarantine_sales",
        "day": "2026-03-01",
        "reasons": ["till: is missing"],
        "row": {"source_file": "kafka:sales/0", "source_line": 5, "content_hash": 5, "household": "a1b2"}
        | {"arrival_day": "2026-03-02"},
    }


def test_the_quarantine_of_a_raw_table_is_found_by_what_reads_it() -> None:
    assert quarantine_of(CATALOG.steps, CATALOG.step("raw_fx_rates")) == "quarantine_fx_rates"


class OfNames(DeadLetters):
    """Rows of the small lake are names: an offset and a reason."""

    def _rows(self, files: Files, without: Files) -> list[Row]:
        return [rejected(*_of(row["name"])) for row in super()._rows(files, without)]


def _of(name: str) -> tuple[int, str]:
    offset, _, reason = name.partition(" ")
    return int(offset), reason


@dataclass
class Receiver:
    answers: list[Exception | None] = field(default_factory=list)
    sent: list[tuple[str, str]] = field(default_factory=list)

    def __call__(self, topic: str, messages: Sequence[Message]) -> None:
        answer = self.answers.pop(0) if self.answers else None
        if answer is None or isinstance(answer, SystemExit):
            said = (dict(each.headers)["publication"].decode() for each in messages)
            self.sent += [(each.key.decode()[-1], of) for each, of in zip(messages, said, strict=True)]
        if answer is not None:
            raise answer


def letters_of(lake: Lake, told: list[str] | None = None) -> DeadLetters:
    found = OfNames(lake.publisher(), "t", TOPIC, (told if told is not None else []).append)
    found.begin(["sales"])
    return found


def quarantine(lake: Lake, id: str, *names: str) -> None:
    assert isinstance(lake.publish(id, {"t": {D1: list(names)}}), Published)


@pytest.mark.protocol
def test_each_is_sent_once_a_publication_from_the_first_stream_on(lake: Lake) -> None:
    """A stream that dies before it has noted what was sent sends it again, under the same publication."""
    quarantine(lake, "p1", "1 old")
    letters, receiver = letters_of(lake), Receiver()
    letters.send(receiver)
    quarantine(lake, "p2", "1 old", "2 new")
    quarantine(lake, "p3", "1 old", "2 other", "3 new")
    receiver.answers = [SystemExit()]  # type: ignore[list-item]
    with pytest.raises(SystemExit):
        letters.send(receiver)
    again = letters_of(lake)
    again.send(receiver)
    again.send(receiver)
    assert receiver.sent == [("2", "p2"), ("2", "p2"), ("2", "p3"), ("3", "p3")]
    lake.publish("other", {"u": {D1: ["9 not of this table"]}})
    letters_of(lake).send(receiver)
    assert len(receiver.sent) == 4


@pytest.mark.protocol
def test_a_topic_that_refuses_is_told_once_and_tried_again_in_a_minute(lake: Lake) -> None:
    told: list[str] = []
    with clock.use(lake.time):
        letters, receiver = letters_of(lake, told), Receiver([SourceUnreadable("no"), SourceUnreadable("no")])
        quarantine(lake, "p1", "1 new")
        for _ in range(3):
            letters.send(receiver)
        assert len(receiver.answers) == 1, "it is left alone for a minute"
        for _ in range(3):
            lake.clock += timedelta(seconds=61)
            letters.send(receiver)
        receiver.answers = [BrokerAway("away: the stream tells that itself")]
        quarantine(lake, "p2", "1 new", "2 new")
        letters.send(receiver)
    assert told == ["Warning: no"] and receiver.sent == [("1", "p1")]


@pytest.mark.protocol
def test_a_topic_that_is_read_gets_nothing_that_is_rejected_of_it(lake: Lake) -> None:
    with pytest.raises(InvalidRequest, match="gets what is rejected of it"):
        DeadLetters(lake.publisher(), "t", TOPIC, print).begin(["sales", "sales-rejected"])
