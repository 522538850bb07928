"""Closes a day of one table or of all that are computed, and reopens it, beside all who publish."""

from __future__ import annotations

from backfill_assets.errors import InvalidRequest
from backfill_assets.publish.books import say
from backfill_assets.publish.closed_days import EVERY_TABLE, BookEntry, BookWord
from backfill_assets_tests.simulator.staging import DAYS
from backfill_assets_tests.simulator.world import RAW, Life


def keep_books(life: Life) -> None:
    """What is closed already, or open, is refused."""
    word: BookWord = life.draw.choice(["close", "reopen"])
    day = life.draw.choice(DAYS)
    entry = BookEntry(
        id=life.new_id("b"),
        word=word,
        table=life.draw.choice([EVERY_TABLE, "fact", "report"]),
        first=day,
        last=day,
        by=life.name,
        reason="reported",
        at=life.world.clock.now(),
        takes_rows=frozenset(RAW),
    )
    try:
        say(life.publisher(), entry)
    except InvalidRequest:
        life.world.tally["books refused"] += 1
    else:
        life.world.tally["closed" if word == "close" else "reopened"] += 1
