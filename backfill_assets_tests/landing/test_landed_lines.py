"""What is shown of a received row: the line of its file, or the event as raw has it."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.landing.landed_lines import (
    EventPlace,
    event_place,
    format_place,
    landed_line,
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
    """At offset 0 too, without a landing zone: its topic is not asked. A token stays a token: raw has nothing else."""
    zone, row = LandingZone(tmp_path), received("kafka:orders/0", 0, quantity="2", rescued='{"colour": "red"}')
    assert json.loads(landed_line(zone, _sales(), row) or "") == {"quantity": "2", "colour": "red"}
    source = replace(_sales(), fields=("quantity",), personal_fields={"quantity": "quantity_token"})
    row = received("kafka:orders/0", 5) | {"quantity_token": "t-1"}
    assert landed_line(zone, source, row) == '{"quantity": "t-1"}'
    assert landed_line(zone, _sales(), received("kafka:orders/0", 5, unparsed_line="broken")) == "broken"


LINES = gzip.compress(b'{"quantity": 1}\n{"quantity": 2}\n')


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (LINES, '{"quantity": "2"}'),
        (None, None),
        (b"plain text", None),
        (LINES[:12], None),
        (LINES[:10] + b"\xff" * 20, None),
    ],
    ids=["sound", "gone", "plain", "cut off", "damaged"],
)
def test_a_line_is_read_from_its_file_if_it_is_there_and_sound(
    tmp_path: Path, content: bytes | None, line: str | None
) -> None:
    """As it always was. What raw has of the row is shown all the same."""
    path = f"sales/{DAY}/a.jsonl.gz"
    (tmp_path / path).parent.mkdir(parents=True)
    if content is not None:
        (tmp_path / path).write_bytes(content)
    assert landed_line(LandingZone(tmp_path), _sales(), received(path, 2, quantity="2")) == line


FILE = "sales/2017-03-01/a.jsonl.gz"


def test_a_place_in_words_and_for_programs() -> None:
    """An event has no line: it has an offset. File and line are there in any case: they are the columns of raw."""
    event = {"topic": "shop.orders-eu_1", "partition": 12, "offset": 1_234_567}
    of_event, words = "kafka:shop.orders-eu_1/12", "topic shop.orders-eu_1, partition 12, offset 1,234,567"
    assert format_place(FILE, 7) == f"{FILE}:7"
    assert (format_place(of_event, 1_234_567), format_place("kafka:orders/0", 0)) == (
        words,
        "topic orders, partition 0, offset 0",
    )
    assert format_place("sales/day=2017-03-01/a.parquet", 7) == "sales/day=2017-03-01/a.parquet, row 7"
    assert place_values("a.parquet", 7) == {"file": "a.parquet", "line": 7, "row": 7}
    assert place_values(FILE, 7) == {"file": FILE, "line": 7}
    assert place_values(of_event, 1_234_567) == {"file": of_event, "line": 1_234_567, **event}
    assert event_place("kafka:orders/3", 0) == EventPlace("orders", 3, 0)
    assert event_place(None, None) is None, "a marker was not received"
