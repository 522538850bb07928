"""A plan that commands are typed about, and what they would go on with."""

from __future__ import annotations

from pathlib import Path

import pytest

from backfill_assets.campaign.run import CampaignRun
from backfill_assets.cli import foreground
from backfill_assets_tests.campaign.played_campaign import PlayedCampaign
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.played_lake import no_spark


@pytest.fixture(scope="package")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Backfill:
    """The home that each of them begins with."""
    with pytest.MonkeyPatch.context() as patch:
        return PlayedCampaign(Backfill(tmp_path_factory.mktemp("begun"), patch), patch).backfill


@pytest.fixture
def played(begun: Backfill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlayedCampaign:
    monkeypatch.setattr(foreground, "foreground_spark", no_spark)
    monkeypatch.setattr("backfill_assets.plan.keep.require_carried_out", lambda *_, **__: None)
    return PlayedCampaign(Backfill(tmp_path / "home", monkeypatch), monkeypatch, begun)


@pytest.fixture
def carried_on(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a command went on with, instead of doing it."""
    moves: list[str] = []

    def carry_on(at: CampaignRun, **_: object) -> None:
        moves.append(at.next().reason)

    for where in ("campaigns", "verbs.approve"):
        monkeypatch.setattr(f"backfill_assets.cli.{where}.carry_on", carry_on)
    return moves
