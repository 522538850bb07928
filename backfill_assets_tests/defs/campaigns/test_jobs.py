"""A campaign is one job whose run carries on, is taken up after a death, and stops where a person decides."""

# No postponed annotations here: Dagster reads ResourceDependency from the annotation itself.
import logging
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from backfill_assets.campaign import decisions
from backfill_assets.campaign.course import Move
from backfill_assets.campaign.ends import record_step, record_stop
from backfill_assets.campaign.run import CampaignRun
from backfill_assets.defs.campaigns import jobs
from backfill_assets.defs.campaigns.jobs import (
    ASSET,
    CAMPAIGN_TAG,
    CAMPAIGNS,
    SENSOR,
    campaign_jobs,
    campaign_sensor,
    days_asked,
    example_target,
    run_under_way,
)
from backfill_assets.defs.campaigns.pages import APPROVE_JOB, JOB, OPS
from backfill_assets.defs.dagster_internals import RETRY_NUMBER_TAG
from backfill_assets.defs.resources import Backfill, run_info
from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.campaign_journal import STEPS, CampaignStep, JournalEntry, campaign_of
from backfill_assets.lakehouse.campaign_reports import AnnouncedReport, CutOverReport, Report, StopReport
from backfill_assets.lakehouse.records import Publication, Switch
from backfill_assets.plan.records import PlanFinding, PlanTerms
from backfill_assets.settings import Settings
from backfill_assets_tests.defs.campaigns.campaigns import FACT, RANGE, campaign, judge_wave, plan, started
from backfill_assets_tests.defs.conftest import evaluate_tick, shown_on
from backfill_assets_tests.defs.fake_builder import resources_of
from backfill_assets_tests.defs.small_dataset import SMALL_CATALOG, SMALL_TABLES
from backfill_assets_tests.publish.test_lineage_outbox import receiving
from backfill_assets_tests.small_lakehouse import SmallLakehouse

NAME = campaign_of(plan().id)


class PlayedBackfill(Backfill):
    """The resource over a campaign that is nothing but its journal."""

    def campaign(self, campaign_: str, run: dg.DagsterRun | None, progress: Callable[[str], None]) -> CampaignRun:
        return campaign(self.settings.home)


class World:
    """An instance, and the jobs on one home."""

    def __init__(self, instance: dg.DagsterInstance, home: Path, kind: type[Backfill] = PlayedBackfill) -> None:
        self.instance, self.home = instance, home
        self.resources = resources_of(Settings.at(home), kind)
        self.jobs = {job.name: job for job in campaign_jobs(SMALL_TABLES)}

    def run(self, name: str, tags: dict[str, str] | None = None, **config: object) -> dg.ExecuteInProcessResult:
        return self.jobs[name].execute_in_process(
            instance=self.instance,
            resources=self.resources,
            run_config={"ops": {OPS[name]: {"config": config}}},
            tags=tags,
            raise_on_error=False,
        )

    def pages(self) -> list[dict[str, Any]]:
        """What was shown of the campaign, newest first."""
        return shown_on(self.instance, ASSET)

    def dots(self) -> list[str]:
        """How Dagster shows the pages."""
        names = self.instance.get_dynamic_partitions(SENSOR)
        found = self.instance.get_status_by_partition(dg.AssetKey(ASSET), names, CAMPAIGNS) or {}
        return [str(dot.value) if (dot := found.get(name)) else "" for name in names]

    def tick(self) -> Any:
        sensor = campaign_sensor()
        location = dg.Definitions(jobs=list(self.jobs.values()), sensors=[sensor], resources=self.resources)
        return evaluate_tick(sensor, self.instance, location, self.resources)


@pytest.fixture
def world(dagster_instance: dg.DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """The moves are done as soon as they are asked for; the plan is as it was kept."""

    def move_on(at: CampaignRun, _: object, __: object, announce: Callable[[str], None]) -> Move:
        while not (move := at.next()).waits:
            announce(f"{at.campaign}: {move.reason}")
            if move.wave is not None:
                judge_wave(at, move.wave)
            elif move.step is not None:
                is_cut = move.step is CampaignStep.CUT_OVER
                record_step(at, move.step, CutOverReport(publication="p1") if is_cut else Report())
        return move

    monkeypatch.setattr(jobs, "carry_on", move_on)
    monkeypatch.setattr(jobs, "look_again", lambda *_: (plan(), None, datetime.now(UTC)))
    monkeypatch.setattr(jobs, "plan_and_keep", lambda *_, **__: (plan(), datetime.now(UTC)))
    monkeypatch.setattr(jobs, "require_carried_out", lambda *_, **__: None)
    return World(dagster_instance, tmp_path)


def failure(result: dg.ExecuteInProcessResult) -> str:
    (event,) = result.get_step_failure_events()
    data = event.step_failure_data
    return str(data.user_failure_data.description if data.user_failure_data else data.error)


def test_a_plan_is_shown_and_not_started(world: World) -> None:
    """Its page has the link that starts it; no step was done."""
    assert world.run(JOB, target=FACT, days=RANGE).success
    (page,) = world.pages()
    assert page["plan"] == plan().id and "Start it" in str(page["to do"]) and page["in full"]
    assert not campaign(world.home).state.started


def test_one_run_carries_a_campaign_on_until_it_waits_for_approval(world: World) -> None:
    """Each step that is done is a page, newest first; the last one has the link that approves."""
    assert world.run(JOB, plan=plan().id, start=True, waves="50%,100%").success
    at = campaign(world.home)
    assert list(at.state.done) == list(STEPS[:5]) and at.state.daemon and len(at.waves) == 2
    assert len(world.pages()) == 5
    assert "approve_campaign" in str(world.pages()[0]["to do"])
    assert "Nothing" in str(world.pages()[1]["to do"])


def test_approving_carries_it_on_to_the_notice(world: World) -> None:
    """The pages of the reports say so; then it waits for the end of the rollback window."""
    started(world.home, CampaignStep.VALIDATE)
    assert world.run(APPROVE_JOB, plan=plan().id).success
    assert list(campaign(world.home).state.done) == list(STEPS[:8])
    assert "undo_campaign" in str(world.pages()[0]["to do"])


def test_what_was_decided_since_is_in_the_log_of_the_run_that_approves(world: World) -> None:
    """The launchpad that asked had been opened before."""
    at = started(world.home, CampaignStep.VALIDATE)
    switches = {FACT: Switch(version="v1")}
    at.builder.lake.publisher.publish(Publication(id="to-v1", kind="replace", tables=(), switches=switches))
    done = world.run(APPROVE_JOB, plan=plan().id)
    said = [entry.user_message for entry in world.instance.all_logs(done.run_id) if entry.level == logging.WARNING]
    assert [f"v1 of {FACT} was made current since, by to-v1" in each for each in said] == [True]


def test_a_retry_goes_on_with_the_plan_that_its_run_had_made(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planned anew, it would be another campaign."""
    monkeypatch.setattr(jobs, "plan_and_keep", lambda *_, **__: pytest.fail("planned anew"))
    started(world.home, CampaignStep.PIN)
    tags = {CAMPAIGN_TAG: NAME, RETRY_NUMBER_TAG: "1"}
    assert world.run(JOB, tags, target=FACT, days=RANGE, start=True).success
    at = campaign(world.home)
    assert list(at.state.done) == list(STEPS[:5]) and at.state.resumes == 0


def test_a_retry_approves_nothing(world: World) -> None:
    """What its run has approved before it died counts; an approval that was withdrawn does not come back."""
    at = started(world.home, CampaignStep.VALIDATE)
    assert "waits for approval" in failure(world.run(APPROVE_JOB, {RETRY_NUMBER_TAG: "1"}, plan=plan().id))
    assert not at.state.given
    decisions.approve(at)
    assert world.run(APPROVE_JOB, {RETRY_NUMBER_TAG: "1"}, plan=plan().id).success
    assert CampaignStep.NOTIFY in campaign(world.home).state.done


def test_a_run_that_gives_one_of_two_approvals_records_it_and_publishes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run of the second person cuts over."""
    both = plan(PlanTerms(approvals=2, approvers=("ana", "bela")))

    def by_the_person_of(backfill: Backfill, _: str, run: dg.DagsterRun, __: object) -> CampaignRun:
        at = campaign(backfill.settings.home, of=both)
        at.run = run_info(run, CATALOG)
        return at

    monkeypatch.setattr(PlayedBackfill, "campaign", by_the_person_of)
    started(world.home, CampaignStep.VALIDATE, of=both)
    assert world.run(APPROVE_JOB, {"user": "ana"}, plan=both.id).success
    at = campaign(world.home, of=both)
    assert "1 of 2 given" in at.next().reason and CampaignStep.CUT_OVER not in at.state.done
    assert world.run(APPROVE_JOB, {"user": "bela"}, plan=both.id).success
    assert CampaignStep.CUT_OVER in campaign(world.home, of=both).state.done


def test_a_campaign_is_carried_on_by_one_run_at_a_time(world: World) -> None:
    """With two, one day would be rebuilt twice at once."""
    at = started(world.home)
    other = dg.DagsterRun(job_name=JOB, status=dg.DagsterRunStatus.STARTED, tags={CAMPAIGN_TAG: NAME})
    world.instance.add_run(other)
    assert f"is under way already, by the run {other.run_id[:8]}" in failure(world.run(JOB, plan=plan().id, start=True))
    assert not at.state.done
    assert "is under way: the run" in str(world.tick().skip_message)


def test_what_stops_it_is_on_its_page_and_in_the_error_of_the_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With how it goes on; the steps before it have their pages."""

    def stop(at: CampaignRun, *_: object) -> Move:
        record_step(at, CampaignStep.ANNOUNCE, AnnouncedReport())
        raise record_stop(at, CampaignStep.VERIFY_SOURCE, "the source is gone")

    monkeypatch.setattr(jobs, "carry_on", stop)
    assert "was stopped at source_verified: the source is gone" in failure(world.run(JOB, plan=plan().id, start=True))
    assert len(world.pages()) == 2, "the step before it, and what stopped it"
    assert "start it again" in str(world.pages()[0]["to do"])
    assert "it was stopped: the source is gone" in str(world.tick().skip_message)
    assert world.dots() == ["FAILED"]


def test_a_campaign_that_was_stopped_is_taken_up_by_starting_it_again(world: World) -> None:
    at = started(world.home, CampaignStep.PIN)
    record_stop(at, CampaignStep.SHADOW, "too many nulls")
    assert not world.run(JOB, plan=plan().id).success or "too many nulls" in at.next().reason
    assert world.run(JOB, plan=plan().id, start=True).success
    assert campaign(world.home).state.resumes == 1 and CampaignStep.VALIDATE in campaign(world.home).state.done
    assert world.dots() == ["MATERIALIZED"]


def test_the_sensor_carries_on_what_no_run_carries_on(world: World) -> None:
    """Once from each place in its journal: after a command has started or approved it, or after the window."""
    started(world.home, CampaignStep.PIN)
    (request,) = world.tick().run_requests or []
    assert request.run_config == {"ops": {OPS[JOB]: {"config": {"plan": plan().id}}}}
    assert request.tags[CAMPAIGN_TAG] == NAME
    (again,) = world.tick().run_requests or []
    assert again.run_key == request.run_key
    judge_wave(campaign(world.home), 0)
    (moved,) = world.tick().run_requests or []
    assert moved.run_key != request.run_key


def test_a_run_that_dagster_starts_again_is_waited_for(world: World) -> None:
    """It has died, and the one that follows it is not there yet."""
    started(world.home, CampaignStep.PIN)
    tags = {CAMPAIGN_TAG: NAME, "dagster/will_retry": "true"}
    died = dg.DagsterRun(job_name=JOB, status=dg.DagsterRunStatus.FAILURE, tags=tags)
    world.instance.add_run(died)
    assert run_under_way(world.instance, NAME) == died.run_id
    assert not world.tick().run_requests
    last = dg.DagsterRun(job_name=JOB, status=dg.DagsterRunStatus.FAILURE, tags={CAMPAIGN_TAG: NAME})
    world.instance.add_run(last)
    assert run_under_way(world.instance, NAME) == "", "it was started again, and that died for good"
    assert world.tick().run_requests


def test_the_sensor_says_what_a_campaign_waits_for(world: World) -> None:
    at = started(world.home, CampaignStep.VALIDATE)
    assert world.tick().skip_message == f"{NAME}: it waits for approval"
    decisions.approve(at)
    assert len(world.tick().run_requests or []) == 1


def test_damaged_plans_and_notices_hold_up_no_other(dagster_instance: dg.DagsterInstance, tmp_path: Path) -> None:
    """A plan was removed, or kept by other code: each is named at each tick."""
    world = World(dagster_instance, tmp_path, Backfill)
    lost, at = started(tmp_path), started(tmp_path, of=plan(PlanTerms(title="another")))
    storage = at.builder.lake.storage
    storage.write_bytes(f"_plans/{at.plan.id}.json", at.plan.to_json().encode())
    storage.write_bytes("_outbox/due/a.json", b"{")
    (request,) = world.tick().run_requests or []
    assert request.tags[CAMPAIGN_TAG] == at.campaign
    under_way = dg.DagsterRun(job_name=JOB, status=dg.DagsterRunStatus.STARTED, tags={CAMPAIGN_TAG: at.campaign})
    dagster_instance.add_run(under_way)
    words = str(world.tick().skip_message)
    assert f"{lost.campaign}: cannot be carried on: There is no plan" in words
    assert "notice a: not delivered: " in words and "_outbox/due/a.json is damaged" in words


def test_the_sensor_tells_lineage_and_says_that_a_receiver_is_down(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    lakehouse, day = SmallLakehouse(Settings.at(world.home).lakehouse), date(2017, 3, 1)
    lakehouse.publish("p1", {"bronze_sales": {day: [1]}})
    with receiving() as receiver:
        monkeypatch.setenv("OPENLINEAGE_URL", receiver.url)
        assert world.tick().skip_message == "No campaign is under way."
    assert receiver.publications == ["p1"]
    lakehouse.publish("p2", {"bronze_sales": {day: [2]}})
    assert "openlineage takes no events since" in str(world.tick().skip_message)


def test_of_campaigns_that_are_over_only_the_last_entry_is_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sensor looks every ten seconds, and campaigns stay for good."""
    done = started(world.home, CampaignStep.DECOMMISSION)
    given_up = started(world.home, of=plan(PlanTerms(title="given up")))
    day = datetime(2017, 6, 1, tzinfo=UTC)
    given_up.write(JournalEntry(kind="stopped", at=day, reason="ana abandoned it", report=StopReport(abandoned=True)))
    monkeypatch.setattr(PlayedBackfill, "campaign", lambda *_: pytest.fail("is over"))
    words = str(world.tick().skip_message)
    assert f"{done.campaign}: it is finished" in words
    assert f"{given_up.campaign}: it was stopped: ana abandoned it" in words


def test_the_launchpad_opens_with_an_example_that_is_right_at_each_look(tmp_path: Path) -> None:
    """Of the table with the most versions, and its newest published days as they are when it is launched."""
    assert example_target(CATALOG) == FACT
    lakehouse, table = SmallLakehouse(tmp_path), example_target(SMALL_CATALOG)
    job = next(job for job in campaign_jobs(SMALL_TABLES) if job.name == JOB)
    assert job.run_config == {"ops": {OPS[JOB]: {"config": {"target": table, "days": "newest 7"}}}}
    assert dg.validate_run_config(job, {"ops": {OPS[JOB]: {"config": {"plan": "plan-1", "start": True}}}})
    with pytest.raises(InvalidRequest, match=f"No day of {table} is published"):
        days_asked("newest 7", lakehouse.storage, table)
    days = [date(2017, 3, day) for day in (1, 4, 10)]
    lakehouse.publish("p1", {table: {day: [1] for day in days}})
    assert days_asked("newest 7", lakehouse.storage, table) == "2017-03-01..2017-03-10"
    assert days_asked(" newest 2 ", lakehouse.storage, table) == "2017-03-04..2017-03-10"
    assert days_asked(RANGE, lakehouse.storage, table) == RANGE


def test_a_plan_that_cannot_be_started_is_a_failed_run_with_its_page(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    stops = PlanFinding(kind="damaged", severity="stops", message="A day is damaged.", next_step="Put it back.")
    stopped = plan(findings=(stops,))
    monkeypatch.setattr(jobs, "plan_and_keep", lambda *_, **__: (stopped, datetime.now(UTC)))
    assert "A day is damaged." in failure(world.run(JOB, target=FACT, days=RANGE))
    assert "It cannot be started" in str(world.pages()[0]["found"])
    assert world.dots() == ["FAILED"]


def test_a_page_is_named_for_table_days_and_state(world: World) -> None:
    """Also when a command moves the campaign: the sensor sees it, and an earlier name goes."""

    def names() -> list[str]:
        return list(world.instance.get_dynamic_partitions(SENSOR))

    hash_ = plan().id.removeprefix("plan-")[:8]
    world.run(JOB, target=FACT, days=RANGE)
    assert names() == [f"not started: {FACT} {RANGE} ({hash_})"]
    world.run(JOB, plan=plan().id, start=True)
    assert names() == [f"waiting for approval: {FACT} {RANGE} ({hash_})"]
    record_stop(campaign(world.home), CampaignStep.VALIDATE, "ana wants to look again")
    world.tick()
    assert names() == [f"stopped: {FACT} {RANGE} ({hash_})"]
    assert "ana wants to look again" in str(shown_on(world.instance, ASSET, names()[0])[0]["found"])
    shown = len(world.pages())
    world.tick()
    assert len(world.pages()) == shown


def test_an_error_that_is_not_ours_keeps_its_stack_trace(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dagster does not start it again either: the tag asks for that of runs that have died."""
    monkeypatch.setattr(jobs, "carry_on", lambda *_: 1 / 0)
    (event,) = world.run(JOB, plan=plan().id, start=True).get_step_failure_events()
    assert "ZeroDivisionError" in str(event.step_failure_data.error)
    assert world.jobs[JOB].tags["dagster/retry_on_asset_or_op_failure"] == "false"
    assert int(world.jobs[JOB].tags["dagster/max_retries"]) > 0
