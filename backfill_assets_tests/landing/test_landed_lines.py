"""What is shown of a received row: the line of its file, or the event as raw has it."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.examples.datasets.sea_temperatures import SEA
from backfill_assets.landing.landed_lines import (
    EventPlace,
    event_place,
    format_place,
    landed_line,
    overtakes,
    place_values,
)
from backfill_assets.landing.zone import LandingZone
from backfill_assets.model.declaration import Source

DAY = date(2017, 3, 1)


def _sales() -> Source:
    source = CATALOG.step("raw_sales").source
    assert source is not None
    return source


def received(file: str, line: int, **columns: Any) -> dict[str, Any]:
    kept = {"unparsed_line": None, "rescued": None}
    return {
        **dict.fromkeys(_sales().columns),
        **kept,
        "source_file": file,
        "source_line": line,
        "arrival_day": DAY,
        **columns,
    }


def test_an_event_is_as_raw_has_it(tmp_path: Path) -> None:
    """At offset 0 too, without a landing zone: its topic is not asked."""
    row = received("kafka:orders/0", 0, quantity="2", rescued='{"colour": "red", "size": 7}')
    line = landed_line(LandingZone(tmp_path), _sales(), row)
    assert line is not None
    assert json.loads(line) == {"quantity": "2", "colour": "red", "size": 7}


def test_an_event_that_is_no_object_is_shown_as_it_came(tmp_path: Path) -> None:
    """It is in quarantine, and people look at it there."""
    row = received("kafka:orders/0", 5, unparsed_line="broken")
    assert landed_line(LandingZone(tmp_path), _sales(), row) == "broken"


def test_a_token_stays_a_token(tmp_path: Path) -> None:
    """Raw has nothing else, and so an event shows nothing else."""
    source = replace(_sales(), fields=("quantity",), personal_fields={"quantity": "quantity_token"})
    row = received("kafka:orders/0", 5) | {"quantity_token": "t-1"}
    assert landed_line(LandingZone(tmp_path), source, row) == '{"quantity": "t-1"}'


def test_a_line_is_read_from_its_file(tmp_path: Path) -> None:
    """As it always was, and a file that is gone gives none."""
    path = f"sales/{DAY}/a.jsonl.gz"
    (tmp_path / path).parent.mkdir(parents=True)
    with gzip.open(tmp_path / path, "wt") as file:
        file.write('{"quantity": 1}\n{"quantity": 2}\n')
    assert landed_line(LandingZone(tmp_path), _sales(), received(path, 2, quantity="2")) == '{"quantity": "2"}'
    assert landed_line(LandingZone(tmp_path), _sales(), received(f"sales/{DAY}/b.jsonl.gz", 2)) is None


@pytest.mark.parametrize(
    "content",
    [b"plain text", gzip.compress(b"{}\n")[:12], gzip.compress(b"{}\n")[:10] + b"\xff" * 20],
    ids=["plain", "cut off", "damaged"],
)
def test_a_file_that_was_damaged_since_gives_no_line(tmp_path: Path, content: bytes) -> None:
    """What raw has of the row is shown all the same."""
    path = f"sales/{DAY}/a.jsonl.gz"
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_bytes(content)
    assert landed_line(LandingZone(tmp_path), _sales(), received(path, 1, quantity="2")) is None


@pytest.mark.parametrize(
    ("sent_at", "content_hash", "wins"),
    [
        ("2016-02-16T00:00:00.5Z", 1, True),
        ("2016-02-15T23:00:00Z", 9, False),
        ("2016-02-16T00:00:00Z", 9, True),
        ("2016-02-16T00:00:00Z", 5, False),
        ("later", 9, False),
        (None, 9, False),
    ],
)
def test_a_landed_row_wins_by_version_and_then_by_content_hash(sent_at: str, content_hash: int, wins: bool) -> None:
    """The order in which bronze lets rows win; moments are compared, not their text."""
    winner = {"sent_at": datetime(2016, 2, 16, tzinfo=UTC), "content_hash": 5}
    assert overtakes(SEA.source, {"sent_at": sent_at, "content_hash": content_hash}, winner) is wins


FILE = "sales/2017-03-01/a.jsonl.gz"


@pytest.mark.parametrize(
    ("file", "line", "text"),
    [
        (FILE, 7, f"{FILE}:7"),
        ("kafka:orders/0", 0, "topic orders, partition 0, offset 0"),
        ("kafka:shop.orders-eu_1/12", 1_234_567, "topic shop.orders-eu_1, partition 12, offset 1,234,567"),
    ],
)
def test_a_place_in_words(file: str, line: int, text: str) -> None:
    """An event has no line: it has an offset."""
    assert format_place(file, line) == text


def test_a_place_for_programs() -> None:
    """File and line are there in any case: they are the columns of raw."""
    assert place_values(FILE, 7) == {"file": FILE, "line": 7}
    event = {"topic": "orders", "partition": 3, "offset": 0}
    assert place_values("kafka:orders/3", 0) == {"file": "kafka:orders/3", "line": 0, **event}
    assert event_place("kafka:orders/3", 0) == EventPlace("orders", 3, 0)


def test_a_marker_has_no_place() -> None:
    """It was not received."""
    assert event_place(None, None) is None
