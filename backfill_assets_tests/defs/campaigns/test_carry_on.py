"""A campaign is carried on by one run at a time: the run before it launches it, and the sensor where none could."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from dagster._core.code_pointer import ModuleCodePointer
from dagster._core.definitions.partitions.context import partition_loading_context
from dagster._core.origin import JobPythonOrigin, RepositoryPythonOrigin
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin

from backfill_assets.cli.dev.dagster_home import dagster_home
from backfill_assets.defs.campaigns import carry_on
from backfill_assets.defs.campaigns.carry_on import MOVE_TAG, STARTS_TAG, launch_next_run, run_under_way
from backfill_assets.defs.campaigns.jobs import APPROVE_JOB, CAMPAIGNS, STAGE_JOB, campaign_jobs, step_key
from backfill_assets.defs.campaigns.sensor import _move_campaign, campaign_sensor
from backfill_assets.defs.private_dagster import PARTITION_NAME_TAG
from backfill_assets.defs.resources import Backfill, SharedSpark
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.campaign_journal import ABANDONED, STEPS, CampaignStep, JournalEntry
from backfill_assets.plan.records import PlanTerms
from backfill_assets.settings import Settings
from backfill_assets_tests.defs.campaigns.campaigns import JudgedRun, plan, started

DAY = datetime(2017, 6, 1, tzinfo=UTC)
_REPOSITORY = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("small"), "__repository__")
_CODE = RepositoryPythonOrigin("python", ModuleCodePointer("small", "defs"))


@pytest.fixture
def queued(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """With the repository's own ``dagster.yaml``: runs wait in a queue that nothing reads."""
    with dg.DagsterInstance.from_config(str(dagster_home(Settings.at(tmp_path / "dagster")))) as found:
        yield found


def run_of(instance: dg.DagsterInstance, status: dg.DagsterRunStatus, tags: dict[str, str]) -> dg.DagsterRun:
    origin = RemoteJobOrigin(_REPOSITORY, "of_a_person") if status is dg.DagsterRunStatus.QUEUED else None
    return instance.create_run_for_job(_job(), status=status, tags=tags, remote_job_origin=origin)


def _job() -> dg.JobDefinition:
    @dg.job
    def of_a_person() -> None:
        pass

    return of_a_person


def by_a_code_server(instance: dg.DagsterInstance, *selected: CampaignStep) -> Any:
    """The context of a run of ``selected`` that a code server has started."""
    run = instance.create_run_for_job(
        _job(),
        status=dg.DagsterRunStatus.STARTED,
        remote_job_origin=RemoteJobOrigin(_REPOSITORY, "of_a_person"),
        job_code_origin=JobPythonOrigin("of_a_person", _CODE),
    )
    layer = SimpleNamespace(selected_asset_keys={step_key(step) for step in selected})
    return SimpleNamespace(instance=instance, run=run, job_def=SimpleNamespace(asset_layer=layer))


def launched(instance: dg.DagsterInstance, run_id: str) -> dg.DagsterRun:
    found = instance.get_run_by_id(run_id)
    assert found is not None
    return found


def test_a_run_that_has_started_a_campaign_launches_its_first_run(
    queued: dg.DagsterInstance, location: dg.Definitions, tmp_path: Path
) -> None:
    """In the queue, of all steps until approval, by the code server that the run itself has."""
    at = started(tmp_path / "home")
    run = launched(queued, launch_next_run(by_a_code_server(queued), at, lambda: location))
    assert run.status is dg.DagsterRunStatus.QUEUED and run.job_name == STAGE_JOB
    assert run.asset_selection == {step_key(step) for step in STEPS[:5]}
    assert run.tags[PARTITION_NAME_TAG] == at.campaign and MOVE_TAG in run.tags
    assert run.remote_job_origin == RemoteJobOrigin(_REPOSITORY, STAGE_JOB)
    assert run_under_way(queued, at.campaign) == run.run_id
    assert queued.has_dynamic_partition("campaigns", at.campaign)


def test_what_is_approved_from_its_page_goes_on(
    queued: dg.DagsterInstance, location: dg.Definitions, tmp_path: Path
) -> None:
    """A person materializes the cut-over alone: the steps after it follow. A run that has them all launches none."""
    at = started(tmp_path / "home", CampaignStep.CUT_OVER)
    whole = by_a_code_server(queued, CampaignStep.CUT_OVER, CampaignStep.DOWNSTREAM, CampaignStep.NOTIFY)
    assert launch_next_run(whole, at, lambda: location) == ""
    run = launched(queued, launch_next_run(by_a_code_server(queued, CampaignStep.CUT_OVER), at, lambda: location))
    assert run.job_name == APPROVE_JOB
    assert run.asset_selection == {step_key(CampaignStep.DOWNSTREAM), step_key(CampaignStep.NOTIFY)}


def test_no_run_is_launched_where_a_person_decides(
    queued: dg.DagsterInstance, location: dg.Definitions, tmp_path: Path
) -> None:
    """Nor by a run in a process of its own, which no code server knows: there the sensor does it."""
    waits = started(tmp_path / "waits", CampaignStep.VALIDATE)
    assert launch_next_run(by_a_code_server(queued), waits, lambda: location) == ""
    alone = by_a_code_server(queued)
    alone.run = run_of(queued, dg.DagsterRunStatus.STARTED, {})
    assert launch_next_run(alone, started(tmp_path / "alone"), lambda: location) == ""


@pytest.mark.parametrize("tag", [PARTITION_NAME_TAG, STARTS_TAG])
@pytest.mark.parametrize("status", [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.STARTED])
def test_the_sensor_leaves_a_campaign_to_the_run_that_it_has(
    dagster_instance: dg.DagsterInstance, tmp_path: Path, tag: str, status: dg.DagsterRunStatus
) -> None:
    """A person, the sensor or another run has launched it: with two, one day would be rebuilt twice at once."""
    at = started(tmp_path)
    run = run_of(dagster_instance, status, {tag: at.campaign})
    moved = _move_campaign(dagster_instance, at)
    assert moved.request is None and f"the run {run.run_id[:8]}" in moved.words


def test_a_run_that_never_came_into_the_queue_holds_no_campaign_up(
    dagster_instance: dg.DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its launcher was killed between creating and queueing it. For a moment it counts, since most are queued then."""
    at = started(tmp_path)
    run_of(dagster_instance, dg.DagsterRunStatus.NOT_STARTED, {PARTITION_NAME_TAG: at.campaign})
    assert run_under_way(dagster_instance, at.campaign)
    monkeypatch.setattr(carry_on, "_QUEUED_WITHIN", timedelta(0))
    assert run_under_way(dagster_instance, at.campaign) == ""
    assert _requested(dagster_instance, at).job_name == STAGE_JOB


def test_the_sensor_takes_up_what_a_dead_run_left(dagster_instance: dg.DagsterInstance, tmp_path: Path) -> None:
    """Three times at most, and from where the journal says it stands."""
    at = started(tmp_path, CampaignStep.PIN)
    for attempt in range(3):
        request = _requested(dagster_instance, at)
        assert request.job_name == STAGE_JOB and request.partition_key == at.campaign
        assert request.asset_selection == [step_key(CampaignStep.SHADOW), step_key(CampaignStep.VALIDATE)]
        assert str(request.run_key).endswith(f"-{attempt}")
        run_of(dagster_instance, dg.DagsterRunStatus.FAILURE, {PARTITION_NAME_TAG: at.campaign, **request.tags})
    moved = _move_campaign(dagster_instance, at)
    assert moved.request is None and "failed 3 times" in moved.words
    at.judge_wave(0)
    assert str(_requested(dagster_instance, at).run_key).endswith("-0"), "it has moved: attempts are counted anew"


def test_the_sensor_says_what_a_campaign_waits_for(dagster_instance: dg.DagsterInstance, tmp_path: Path) -> None:
    at = started(tmp_path, CampaignStep.VALIDATE)
    assert _move_campaign(dagster_instance, at).words == "it waits for approval"
    at.approve()
    request = _requested(dagster_instance, at)
    assert request.job_name == APPROVE_JOB and request.asset_selection == [step_key(step) for step in STEPS[5:8]]


def _requested(instance: dg.DagsterInstance, at: JudgedRun) -> dg.RunRequest:
    found = _move_campaign(instance, at).request
    assert found is not None
    return found


def test_a_campaign_that_cannot_be_read_holds_up_no_other(
    dagster_instance: dg.DagsterInstance, location: dg.Definitions, tmp_path: Path
) -> None:
    """Its plan was removed, or kept by other code: the sensor opens those of all campaigns that ever were."""
    lost, at = started(tmp_path), started(tmp_path, of=plan(PlanTerms(title="another")))
    at.builder.lake.storage.write_bytes(f"_plans/{at.plan.id}.json", at.plan.to_json().encode())
    (request,) = list(_tick(dagster_instance, location, tmp_path).run_requests or [])
    assert request.partition_key == at.campaign
    run_of(dagster_instance, dg.DagsterRunStatus.STARTED, {PARTITION_NAME_TAG: at.campaign})
    words = str(_tick(dagster_instance, location, tmp_path).skip_message)
    assert f"{lost.campaign}: cannot be carried on: There is no plan" in words
    assert f"{at.campaign}: step 1 of 9: announced is under way" in words


def test_a_damaged_notice_and_a_damaged_plan_hold_up_no_campaign(
    dagster_instance: dg.DagsterInstance, location: dg.Definitions, tmp_path: Path
) -> None:
    """Both are named at each tick."""
    lost, at = started(tmp_path), started(tmp_path, of=plan(PlanTerms(title="another")))
    storage = at.builder.lake.storage
    storage.write_bytes(f"_plans/{at.plan.id}.json", at.plan.to_json().encode())
    storage.write_bytes(f"_plans/{lost.plan.id}.json", b'{"asked": {')
    storage.write_bytes("_outbox/due/a.json", b"{")
    (request,) = list(_tick(dagster_instance, location, tmp_path).run_requests or [])
    assert request.partition_key == at.campaign
    run_of(dagster_instance, dg.DagsterRunStatus.STARTED, {PARTITION_NAME_TAG: at.campaign})
    words = str(_tick(dagster_instance, location, tmp_path).skip_message)
    assert f"{lost.campaign}: cannot be carried on: What is kept as {lost.plan.id} cannot be read" in words
    assert "notice a: not delivered: " in words and "_outbox/due/a.json is damaged" in words


def test_of_campaigns_that_are_over_only_the_last_entry_is_read(
    dagster_instance: dg.DagsterInstance, location: dg.Definitions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sensor looks every ten seconds, and campaigns stay for good; each has a partition."""
    done = started(tmp_path, CampaignStep.DECOMMISSION)
    given_up = started(tmp_path, of=plan(PlanTerms(title="given up")))
    given_up.write(JournalEntry(kind="stopped", at=DAY, reason="ana abandoned it", report={ABANDONED: True}))
    monkeypatch.setattr(Backfill, "campaign", lambda *_: pytest.fail("is over"))
    words = str(_tick(dagster_instance, location, tmp_path).skip_message)
    assert f"{done.campaign}: it is finished" in words
    assert f"{given_up.campaign}: it was stopped: ana abandoned it" in words
    assert set(dagster_instance.get_dynamic_partitions(str(CAMPAIGNS.name))) == {done.campaign, given_up.campaign}


def _tick(instance: dg.DagsterInstance, location: dg.Definitions, home: Path) -> dg.SensorExecutionData:
    settings = Settings.at(home)
    spark = SharedSpark(settings=settings)
    resources = {"spark": spark, "backfill": Backfill(settings=settings, catalog=CATALOG, spark=spark)}
    built = dg.build_sensor_context(instance, repository_def=location.get_repository_def(), resources=resources)
    with built as context, partition_loading_context(dynamic_partitions_store=instance):
        return campaign_sensor(campaign_jobs()).evaluate_tick(context)
