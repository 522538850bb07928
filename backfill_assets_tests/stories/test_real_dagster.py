"""A campaign, a repair and a fanned-out backfill by Dagster's own processes and real Spark, killed with -9 on the way.

Nothing is done by hand here: a person clicks, the daemon does the rest. One Spark Connect server serves all.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pandas as pd
import pytest
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
    BACKFILL_ID_TAG,
)
from deltalake import DeltaTable, write_deltalake

from backfill_assets.campaign.course import state_of
from backfill_assets.days import DayRange
from backfill_assets.defs.campaigns.jobs import CAMPAIGN_TAG
from backfill_assets.defs.campaigns.pages import APPROVE_JOB, JOB, OPS
from backfill_assets.defs.specs import FORCE_TAG
from backfill_assets.lakehouse.campaign_journal import CampaignStep, entries, plan_of
from backfill_assets.spark.connect_server import ConnectServer
from backfill_assets.state.history import history
from backfill_assets_tests import oracle
from backfill_assets_tests.stories.against_pandas import assert_published
from backfill_assets_tests.stories.dagster_chain import DagsterChain
from backfill_assets_tests.stories.real_dagster import MakeDev, RealDagster
from backfill_assets_tests.stories.real_lines import land_sold
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = DayRange.parse("2017-03-02..2017-03-05")
"""Thursday to Sunday; the old logic is wrong on the first two."""
STORES = (356, 296, 343)
FACT = "fact_sales_transactions"
DAILY = ("bronze_sales", "quarantine_sales", FACT, "fact_daily_revenue", "report_department_revenue")
REBUILT = (FACT, "fact_daily_revenue", "report_department_revenue", "report_store_ranking", "report_monthly_close")
ALL, DAEMON = "everything", "the daemon"
BEFORE_APPROVAL = {
    f"journal {CampaignStep.ANNOUNCE}": ALL,
    f"journal {CampaignStep.VERIFY_SOURCE}": DAEMON,
    f"journal {CampaignStep.PIN}": ALL,
    f"staged {FACT}": DAEMON,
    "journal wave 0": ALL,
    "staged report_store_ranking": DAEMON,
    "journal wave 1": ALL,
    f"journal {CampaignStep.SHADOW}": DAEMON,
    f"journal {CampaignStep.VALIDATE}": ALL,
}
AFTER_IT = {
    f"journal {CampaignStep.CUT_OVER}": DAEMON,
    f"journal {CampaignStep.DOWNSTREAM}": ALL,
    f"journal {CampaignStep.NOTIFY}": DAEMON,
}
"""What is killed with the run that dies there, in the order in which a campaign of two waves comes to it."""


def nothing() -> None:
    """Kill nothing more, or do nothing."""


@dataclass
class Played:
    """A lakehouse, the processes on it, and what Dagster remembers of them."""

    workshop: Workshop
    dagster: RealDagster
    instance: dg.DagsterInstance

    def assert_published(self, version: oracle.Version) -> None:
        """Every line and every sum, of all tables: half of a publication would be neither version."""
        lines = oracle.transactions(DAYS.first, DAYS.last, version)
        assert_published(self.workshop, pd.DataFrame(lines[lines["store_id"].isin(STORES)]))

    def start_campaign(self, waves: str) -> str:
        """What is written into the launchpad of the job; the campaign's name."""
        asked = {"target": FACT, "days": str(DAYS), "version": "v2", "start": True, "waves": waves}
        run = self.dagster.launch(JOB, OPS[JOB], asked)
        self.wait_for(lambda: CAMPAIGN_TAG in self.run(run).tags, "the plan")
        return self.run(run).tags[CAMPAIGN_TAG]

    def approve(self, campaign: str) -> None:
        """By the job of that name; a click too many is refused, or finds it done."""
        if not self.has_done(CampaignStep.CUT_OVER, campaign):
            self.dagster.launch(APPROVE_JOB, OPS[APPROVE_JOB], {"plan": plan_of(campaign)})

    def has_done(self, step: CampaignStep, campaign: str) -> bool:
        found = state_of(campaign, entries(self.workshop.builder.lake.storage, campaign))
        return step in found.done

    def assert_is_cut_over(self, campaign: str) -> None:
        """Once, for all tables and days, and one notice was sent."""
        self.wait_for(lambda: self.has_done(CampaignStep.NOTIFY, campaign), "the end of the campaign")
        published = self.publications()
        (publication,) = published[FACT]
        assert all(publication in found for found in published.values()), "all tables by the same one"
        told = history(self.workshop.builder.lake.storage)
        assert [each.publication for each in told if (each.campaign, each.outcome) == (campaign, "done")] == [
            publication
        ]
        assert self.notices().count(publication) == 1
        self.assert_published("v2")
        self.assert_statuses_are_true()
        self.assert_nothing_is_under_way()

    def run(self, run_id: str) -> dg.DagsterRun:
        found = self.instance.get_run_by_id(run_id)
        assert found is not None
        return found

    def wait_for(self, what: Callable[[], object], named: str) -> None:
        self.dagster.wait_for(what, named)

    def publications(self) -> dict[str, set[str]]:
        """Those whose days of each rebuilt table are published now."""
        return {table: {state.publication for state in self.workshop.states(table).values()} for table in REBUILT}

    def notices(self) -> list[str]:
        lines = (self.workshop.settings.home / "notices.jsonl").read_text().splitlines()
        return [json.loads(line)["key"] for line in lines]

    def assert_statuses_are_true(self) -> None:
        """Materialized is published: each day of each table, by the publication that it has."""
        chain = DagsterChain(self.workshop, self.instance)
        self.wait_for(
            lambda: all(chain.told(table) == chain.published(table) for table in (*DAILY, *REBUILT)),
            "Dagster to know every publication",
        )
        chain.assert_true()

    def assert_nothing_is_under_way(self) -> None:
        """No run is left as started, and no publication open."""
        self.wait_for(lambda: all(run.is_finished for run in self.instance.get_runs()), "every run to end")
        assert not self.workshop.builder.lake.publisher.log.head().state.open

    def the_next_run_dies(self, place: str, kill_too: Callable[[], None], by: Callable[[], None] = nothing) -> None:
        """... at ``place``, which ``by`` brings it to, and more is killed with it; all of it comes back."""
        self.dagster.let_a_run_die(place)
        by()
        self.wait_for(self.dagster.has_died, f"a run to die at {place}")
        kill_too()
        self.dagster.start()


@dataclass
class Stage:
    """Where stories are played: history as the old logic made it, and the Spark that everybody shares."""

    history: Path
    spark: SparkSession
    url: str

    @contextmanager
    def play(self, home: Path, kind: type[RealDagster] = RealDagster) -> Iterator[Played]:
        shutil.copytree(self.history, home)
        workshop = Workshop(home, lambda: self.spark)
        variables = {
            "BACKFILL_HOME": str(home),
            "BACKFILL_NOTICES": f"file:{home / 'notices.jsonl'}",
            "BACKFILL_POLICY": "multi_run:2",
            "SPARK_REMOTE": self.url,
        }
        dagster = kind(workshop.settings, variables)
        with dagster.processes(), dg.DagsterInstance.from_config(str(dagster.home)) as instance:
            yield Played(workshop, dagster, instance)


@pytest.fixture(scope="module")
def stage(
    tmp_path_factory: pytest.TempPathFactory, connect_server_for_tests: ConnectServer, connect_spark: SparkSession
) -> Stage:
    home = tmp_path_factory.mktemp("history") / "home"
    workshop = Workshop(home, lambda: connect_spark)
    land_sold(DAYS, workshop.settings.landing, STORES)
    workshop.build_all(DAYS, "v1")
    workshop.build_reports(DAYS)
    return Stage(home, connect_spark, connect_server_for_tests.url)


def damage_and_repair(played: Played) -> None:
    damaged, version, contents = str(DAYS.first), published_version(played), played.workshop.contents()
    fact = DeltaTable(str(played.workshop.settings.lakehouse / FACT))
    played.dagster.let_a_run_die(f"staged {FACT}")
    write_deltalake(fact, fact.to_pyarrow_table(filters=[("day", "=", DAYS.first)]).slice(0, 3), mode="append")
    played.wait_for(played.dagster.has_died, "the repair to die")
    played.dagster.kill_daemon()
    played.dagster.start()
    played.wait_for(lambda: len(repairs(played)) > 1 and have_ended(repairs(played)), "the repair to be done")

    first = f"Repair: {FACT} {damaged}: foreign write"
    assert [each.title for each in repairs(played)] == [first, f"{first} (attempt 2)"]
    outcomes = [each.status for each in repairs(played)]
    assert outcomes == [BulkActionStatus.COMPLETED_FAILED, BulkActionStatus.COMPLETED_SUCCESS]
    assert played.workshop.contents() == contents
    played.assert_published(version)
    played.assert_statuses_are_true()
    played.assert_nothing_is_under_way()


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_campaign_that_is_killed_in_each_step_and_then_a_range_that_is_fanned_out(
    stage: Stage, tmp_path: Path
) -> None:
    """The run dies when its work is done and the journal does not say so yet, or half way in a wave."""
    with stage.play(tmp_path / "home") as played:
        before, campaign = played.publications(), played.start_campaign("50%,100%")
        kill = {ALL: played.dagster.kill_everything, DAEMON: played.dagster.kill_daemon}
        for place, what in BEFORE_APPROVAL.items():
            played.the_next_run_dies(place, kill[what])
            assert played.publications() == before
        played.wait_for(lambda: played.has_done(CampaignStep.VALIDATE, campaign), "the validation")
        played.assert_published("v1")
        for place, what in AFTER_IT.items():
            played.the_next_run_dies(place, kill[what], lambda: played.approve(campaign))
            played.assert_published("v2")
        played.assert_is_cut_over(campaign)
        played.dagster.let_no_run_die()
        fan_out_over_runs(played)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_campaign_and_a_repair_by_make_dev(stage: Stage, tmp_path: Path) -> None:
    """The command that people start, with the intervals that they have; killed twice, and started again."""
    with stage.play(tmp_path / "home", MakeDev) as played:
        campaign = played.start_campaign("100%")
        played.the_next_run_dies(f"staged {FACT}", played.dagster.kill_everything)
        played.wait_for(lambda: played.has_done(CampaignStep.VALIDATE, campaign), "the validation")
        played.assert_published("v1")
        played.approve(campaign)
        played.assert_is_cut_over(campaign)
        damage_and_repair(played)


def fan_out_over_runs(played: Played) -> None:
    """The policy ``multi_run:2``, in the dialog of a range: two runs at once on one Spark, each with two days."""
    version, contents = published_version(played), played.workshop.contents()
    before = played.publications()
    backfill = played.dagster.backfill(DAILY, [str(day) for day in DAYS], {FORCE_TAG: "played"})
    played.wait_for(lambda: have_ended([found(played, backfill)]), "the backfill to end")

    assert found(played, backfill).status is BulkActionStatus.COMPLETED_SUCCESS
    runs = played.instance.get_runs(filters=dg.RunsFilter(tags={BACKFILL_ID_TAG: backfill}))
    days = list(map(str, DAYS))
    assert sorted(
        (run.tags[ASSET_PARTITION_RANGE_START_TAG], run.tags[ASSET_PARTITION_RANGE_END_TAG]) for run in runs
    ) == [(days[0], days[1]), (days[2], days[3])]
    assert len(played.publications()[FACT] - before[FACT]) == len(runs), "computed and published again, by both"
    assert played.workshop.contents() == contents, "what one run had made of all of them"
    played.assert_published(version)
    played.assert_statuses_are_true()
    played.assert_nothing_is_under_way()


def published_version(played: Played) -> oracle.Version:
    """What the fact was built by: the old logic never takes the rate of the day itself."""
    fact = played.workshop.read(FACT)
    return "v2" if (fact["rate_day"] == fact["day"]).any() else "v1"


def found(played: Played, backfill: str) -> PartitionBackfill:
    told = played.instance.get_backfill(backfill)
    assert told is not None
    return told


def repairs(played: Played) -> list[PartitionBackfill]:
    """Oldest first."""
    return [each for each in played.instance.get_backfills() if str(each.title).startswith("Repair")][::-1]


def have_ended(backfills: list[PartitionBackfill]) -> bool:
    return all(each.status is not BulkActionStatus.REQUESTED for each in backfills)
