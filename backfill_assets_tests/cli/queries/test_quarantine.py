"""``backfill quarantine`` names where a rejected row is from: a line of a file, or an event by its offset."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

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
    monkeypatch.setattr(quarantine, "letters", lambda snapshot, table, days=None: found)
    return found


def test_a_rejected_event_is_shown_with_its_offset(backfill: Backfill, rows: list[dict[str, Any]]) -> None:
    """For people in words; for programs beside the columns of raw."""
    shown = ("quarantine", "show", "quarantine_sales", DAY)
    output = backfill(*shown).output
    assert f"{FILE}:3" in output and "topic orders, partition 2, offset 0" in output
    line, event = backfill.json(*shown)
    assert (line["file"], line["line"]) == (FILE, 3) and "topic" not in line
    assert (event["topic"], event["partition"], event["offset"]) == ("orders", 2, 0)
    assert event["landed"] == {"quantity": "many"}


def test_the_example_of_a_reason_can_be_an_event(
    backfill: Backfill, rows: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first that was rejected for it."""
    rows.pop(0)
    monkeypatch.setattr(quarantine, "resolved_positions", lambda *arguments: set())
    (group,) = backfill.json("quarantine", "list", "quarantine_sales")
    assert group["example"]["offset"] == 0 and group["example"]["topic"] == "orders"
    words = " ".join(backfill("quarantine", "list", "quarantine_sales").output.replace("│", " ").split())
    assert "orders" in words
