"""Landed text against typed values, without Spark."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from backfill_assets.examples.datasets.sea_temperatures import SEA
from backfill_assets.landing.landed_values import overtakes


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
