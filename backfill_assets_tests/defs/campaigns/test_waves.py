"""The waves of a campaign: native backfills that its run launches once, follows and judges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from backfill_assets.defs.campaigns import waves
from backfill_assets.defs.campaigns.waves import stage_waves, wave_backfill_id, wave_under_way
from backfill_assets.defs.private_dagster import BaseAssetGraph, BulkActionStatus
from backfill_assets.lakehouse.campaign_journal import CampaignStep
from backfill_assets_tests.defs.campaigns.campaigns import campaign, started


@pytest.fixture
def daemon(dagster_instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ends each backfill while the run waits for it; the ids, in order.

    Only the sleep of this module is replaced: other threads sleep too, and the instance in memory has one connection.
    """
    ended: list[str] = []

    def end_one(_: float) -> None:
        for backfill in dagster_instance.get_backfills():
            if backfill.status is BulkActionStatus.REQUESTED:
                ended.append(backfill.backfill_id)
                dagster_instance.update_backfill(backfill._replace(status=BulkActionStatus.COMPLETED_SUCCESS))

    monkeypatch.setattr(waves, "sleep", end_one)
    return ended


@pytest.fixture
def graph(location: dg.Definitions) -> waves.Graph:
    def resolve() -> BaseAssetGraph[Any]:
        return location.resolve_asset_graph()

    return resolve


def test_one_run_stages_wave_after_wave(
    dagster_instance: dg.DagsterInstance, graph: waves.Graph, daemon: list[str], tmp_path: Path
) -> None:
    """Each is a backfill that says what it is, and is judged when it has ended."""
    at = started(tmp_path, CampaignStep.PIN)
    assert stage_waves(dagster_instance, graph, at, waits=True)
    assert daemon == [wave_backfill_id(at, 0), wave_backfill_id(at, 1)]
    assert at.state.waves_done == 2 and at.next().step is CampaignStep.SHADOW
    titles = [str(each.title) for each in dagster_instance.get_backfills()]
    assert all(title.startswith("fact_sales_transactions 2017-03-01..2017-03-02: wave ") for title in titles)
    assert not any(wave_under_way(dagster_instance, at, number) for number in (0, 1))


def test_a_run_that_follows_a_dead_one_launches_nothing_twice(
    dagster_instance: dg.DagsterInstance, graph: waves.Graph, daemon: list[str], tmp_path: Path
) -> None:
    """The backfill of a wave goes on although the run that launched it was killed: the next run waits for it."""
    at = started(tmp_path, CampaignStep.PIN)
    assert not stage_waves(dagster_instance, graph, at, waits=False)
    assert wave_under_way(dagster_instance, at, 0) == wave_backfill_id(at, 0)
    assert not stage_waves(dagster_instance, graph, at, waits=False), "it ends again, and launches no second one"
    assert len(dagster_instance.get_backfills()) == 1 and at.state.waves_done == 0
    assert stage_waves(dagster_instance, graph, at, waits=True)
    assert len(dagster_instance.get_backfills()) == 2 and at.state.waves_done == 2


def test_a_backfill_is_named_for_its_wave(tmp_path: Path) -> None:
    """The UI shows an id up to its first hyphen; Dagster keeps 32 characters."""
    at = started(tmp_path)
    first = wave_backfill_id(at, 0)
    assert first.startswith("wave_1_of_2_") and "-" not in first and len(first) <= 32
    at.start(at.options)
    again = wave_backfill_id(at, 0)
    assert again == f"{first}_r1" and len(again) <= 32
    assert wave_backfill_id(campaign(tmp_path / "other"), 0).split("_")[-1] in first, "the campaign's own"


def test_nothing_is_waited_for_that_counts_as_dead(
    dagster_instance: dg.DagsterInstance, graph: waves.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its machine may have been killed: without an event for an hour it has ended, and its days are staged here."""
    at = started(tmp_path, CampaignStep.PIN)
    said: list[str] = []
    at.progress = said.append
    looks = iter([True, False, True, False])
    monkeypatch.setattr(waves, "is_backfill_alive", lambda *_: next(looks))
    monkeypatch.setattr(waves, "sleep", lambda _: None)
    monkeypatch.setattr(waves, "_SAY_EVERY_SECONDS", 0.0)
    assert stage_waves(dagster_instance, graph, at, waits=True)
    assert [line for line in said if line.startswith("staged")] == ["staged wave 0", "staged wave 1"]
