"""A storm of campaigns, undos and timelines; in full: ``make storm-of-timelines SECONDS=180``."""

from __future__ import annotations

from pathlib import Path

import pytest

from backfill_assets_tests.campaign.timelines_storm import lines, storm

pytestmark = pytest.mark.protocol
SEED = 20170401


@pytest.mark.long
@pytest.mark.timeout(900)
def test_campaigns_undos_and_timelines_at_once_lose_and_tear_nothing(tmp_path: Path) -> None:
    tallies = tmp_path / "tallies"
    tallies.mkdir()
    played, told, wrong = storm(str(tmp_path / "lakehouse"), tallies, 60, SEED)
    print("\n".join(lines(played, told)))
    assert wrong == []
    assert played.kills.total() > 2
    counts = told.count()
    assert all(counts[role, "done"] for role in ("source", "nightly build", "campaign"))
