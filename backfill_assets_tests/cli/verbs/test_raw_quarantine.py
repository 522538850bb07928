"""``backfill raw quarantine`` names where a rejected row is from: a line of a file, or an event by its offset."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from backfill_assets.answers import raw as answers
from backfill_assets.landing import quarantine
from backfill_assets_tests.cli.command import Backfill

DAY = date(2017, 3, 1)
FILE = "sales/2017-03-01/a.jsonl.gz"


def rejected(file: str, line: int) -> dict[str, Any]:
    return {
        "source_file": file,
        "source_line": line,
        "day": DAY,
        "arrival_day": DAY,
        "content_hash": 7,
        "reasons": ["quantity: 'many' is not a bigint"],
        "quantity": "many",
    }


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    found = [rejected(FILE, 3), rejected("kafka:orders/2", 0)]
    for module in (quarantine, answers):
        monkeypatch.setattr(module, "letters", lambda view, table, days=None: found)
    monkeypatch.setattr(quarantine, "resolved_positions", lambda *arguments: set())
    return found


def test_a_rejected_event_is_shown_with_its_offset(backfill: Backfill, rows: list[dict[str, Any]]) -> None:
    """For people in words; for programs beside the columns of raw."""
    shown = ("raw", "quarantine", "quarantine_sales", DAY)
    output = backfill(*shown).output
    assert f"{FILE}:3" in output and "topic orders, partition 2, offset 0" in output
    line, event = backfill.json(*shown)["rows"]
    assert line["at"] == {"file": FILE, "line": 3}
    place = {"topic": "orders", "partition": 2, "offset": 0}
    assert event["at"] == {"file": "kafka:orders/2", "line": 0, **place}
    assert event["landed"] == {"quantity": "many"}


def test_the_example_of_a_reason_can_be_an_event(backfill: Backfill, rows: list[dict[str, Any]]) -> None:
    """The first that was rejected for it."""
    rows.pop(0)
    (group,) = backfill.json("raw", "quarantine", "quarantine_sales")["reasons"]
    assert group["at"]["offset"] == 0 and group["at"]["topic"] == "orders"
    words = " ".join(backfill("raw", "quarantine", "quarantine_sales").output.replace("│", " ").split())
    assert "orders" in words
