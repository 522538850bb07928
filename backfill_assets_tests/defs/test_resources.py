"""The run's Spark session: started late, shared, closed, and never left behind on a server; who launched it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import uuid4

import dagster as dg
import pytest

from backfill_assets import clock
from backfill_assets.campaign import decisions
from backfill_assets.campaign.course import approved_by
from backfill_assets.campaign.options import Options
from backfill_assets.campaign.run import CampaignRun
from backfill_assets.defs import resources
from backfill_assets.defs.resources import (
    SESSION_TAG,
    Backfill,
    SharedSpark,
    launched_by,
    person_behind,
)
from backfill_assets.errors import InvalidRequest, SparkLost
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse import campaign_journal as journal
from backfill_assets.lakehouse.campaign_journal import STEPS, CampaignStep, JournalEntry, campaign_of
from backfill_assets.lakehouse.campaign_reports import ByPerson
from backfill_assets.lakehouse.plans import keep_plan, planners
from backfill_assets.plan.records import Plan, PlannedStep, PlanRequest
from backfill_assets.rebuild.outcome import UNKNOWN, Person
from backfill_assets.settings import ApprovalRule, Settings
from backfill_assets.state.diagnosis import Cause


@dataclass
class Server:
    """Takes the place of Spark: notes what is opened, interrupted and closed, by session id."""

    calls: list[tuple[str, str | None]] = field(default_factory=list)

    def open(self, _settings: Settings, _app_name: str, session_id: str | None, _options: object) -> Session:
        self.calls.append(("open", session_id))
        return Session(self, session_id)

    def end(self, _settings: Settings, session_id: str) -> None:
        self.calls.append(("end", session_id))


@dataclass
class Session:
    server: Server
    session_id: str | None

    def interruptAll(self) -> None:  # noqa: N802
        self.server.calls.append(("interrupt", self.session_id))

    def stop(self) -> None:
        self.server.calls.append(("stop", self.session_id))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server()
    monkeypatch.setattr(resources, "open_session", server.open)
    monkeypatch.setattr(resources, "end_session", server.end)
    return server


Run = Callable[..., str]


@pytest.fixture
def run(dagster_instance: dg.DagsterInstance, tmp_path: Path) -> Run:
    """Runs a job of one step, and gives its id; with a Spark of its own unless there is a ``remote`` one."""

    def run(remote: str = "", *, uses_spark: bool = True, fails: bool = False) -> str:
        @dg.op
        def work(spark: SharedSpark) -> None:
            if uses_spark:
                assert spark.session() is spark.session()
            if fails:
                raise RuntimeError("The step failed.")

        @dg.job(executor_def=dg.in_process_executor)
        def job() -> None:
            work()

        settings = Settings.from_environment({"BACKFILL_HOME": str(tmp_path), "SPARK_REMOTE": remote})
        shared = {"spark": SharedSpark(settings=settings)}
        return job.execute_in_process(instance=dagster_instance, resources=shared, raise_on_error=False).run_id

    return run


def test_a_run_that_builds_nothing_starts_no_session(server: Server, run: Run) -> None:
    """Starting a JVM takes longer than finding out that nothing has changed."""
    run(uses_spark=False)
    assert server.calls == []


def test_embedded_spark_outlives_the_run(server: Server, run: Run) -> None:
    """It belongs to the process: in one process, the next run uses the same JVM."""
    run_id = run()
    assert server.calls == [("open", run_id)]


@pytest.mark.parametrize("fails", [False, True])
def test_a_connect_session_has_the_runs_id_and_is_closed_with_it(server: Server, run: Run, fails: bool) -> None:
    """A session that stays open keeps its caches and queries on the shared server."""
    run_id = run("sc://here:15002", fails=fails)
    assert server.calls == [("open", run_id), ("interrupt", run_id), ("stop", run_id)]


def test_the_next_run_ends_what_a_dead_run_left_on_the_server(
    server: Server, run: Run, dagster_instance: dg.DagsterInstance
) -> None:
    """Its query would otherwise go on and write to the timeline of a run that is over."""
    ended, tags = dg.DagsterRunStatus.FAILURE, {SESSION_TAG: "open"}
    dead = dagster_instance.add_run(dg.DagsterRun(job_name="job", run_id=str(uuid4()), tags=tags, status=ended))
    run_id = run("sc://here:15002")
    assert server.calls[:2] == [("end", dead.run_id), ("open", run_id)]
    run("sc://here:15002")
    assert server.calls.count(("end", dead.run_id)) == 1


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ({"dagster/backfill": "abc", "user": "ada"}, "backfill abc"),
        ({"dagster/schedule_name": "every_day"}, "schedule every_day"),
        ({"user": "ada"}, "ada"),
        ({}, "manual run"),
    ],
)
def test_who_launched_a_run(tags: dict[str, str], expected: str) -> None:
    """The publication log names a cause that can be looked up."""
    assert launched_by(tags) == expected


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ({"user": "ada"}, Person("ada", "tag user of the Dagster run")),
        ({"user": "ada", "dagster/backfill": "abc"}, Person("ada", "tag user of the Dagster run")),
        ({"user": "ada", "dagster/sensor_name": "campaigns"}, UNKNOWN),
        ({"user": "ada", "dagster/schedule_name": "nightly"}, UNKNOWN),
        ({"user": " "}, UNKNOWN),
        ({}, UNKNOWN),
    ],
)
def test_the_person_behind_a_run_is_whom_its_tag_names(tags: dict[str, str], expected: Person) -> None:
    """Never the user of the operating system: that is the user of Dagster's own process."""
    assert person_behind(tags) == expected


def test_a_run_of_dagster_approves_by_the_rule_of_its_place(tmp_path: Path) -> None:
    """The same question as in `backfill approve`: a run that names no person is no other person."""
    settings = replace(Settings.at(tmp_path), approval_by=ApprovalRule.ANOTHER_PERSON, ui="http://127.0.0.1:3000")
    spark = SharedSpark(settings=settings)
    backfill = Backfill(settings=settings, catalog=CATALOG, spark=spark)
    asked = PlanRequest(target="fact_daily_revenue", days="2017-03-01")
    planned = PlannedStep(tables=(asked.target,), version="v1", rebuild={Cause.MISSING: (asked.days,)})
    plan = Plan(asked=asked, steps=(planned,), made_at=clock.now())
    planners(backfill.storage).create(plan.id, ByPerson(who="ana", known_by="OS user"))
    keep_plan(backfill.storage, plan.id, plan.to_json())
    campaign = campaign_of(plan.id)

    def run_of(**tags: str) -> CampaignRun:
        run = dg.DagsterRun(job_name="campaign", run_id=str(uuid4()), tags=tags)
        return backfill.campaign(campaign, run, print)

    decisions.start(run_of(user="bela"), Options(daemon=True))
    for step in STEPS[: STEPS.index(CampaignStep.CUT_OVER)]:
        journal.write(backfill.storage, campaign, JournalEntry(kind="step", step=step.value, at=clock.now()))
    for tags in ({}, {"user": "ana"}, {"user": "bela"}):
        with pytest.raises(InvalidRequest, match="cannot be approved by"):
            decisions.approve(run_of(**tags))
    decisions.approve(run_of(user="chen"))
    assert run_of().ui == "http://127.0.0.1:3000", "its letter links there"
    assert approved_by(run_of().state) == "chen (tag user of the Dagster run)"


def test_a_lost_session_is_dropped_where_it_was_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An asset asks for Spark by name, and the resource ``backfill`` has one of its own for the jobs."""
    settings = Settings.at(tmp_path)
    own, named = SharedSpark(settings=settings), SharedSpark(settings=settings)
    backfill, dropped, done = Backfill(settings=settings, catalog=CATALOG, spark=own), list[SharedSpark](), list[int]()

    def reconnect(spark: SharedSpark) -> bool:
        dropped.append(spark)
        return True

    def lost_once() -> int:
        done.append(1)
        if len(done) == 1:
            raise SparkLost("The Spark server is gone.")
        return len(done)

    monkeypatch.setattr(SharedSpark, "reconnect", reconnect)
    assert backfill.resume(lost_once, print, named) == len(done) == 1 + 1
    assert dropped[0] is named
