"""What a campaign does when something is wrong: with its inputs, with one day, with what it published, with itself."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from backfill_assets.campaign import decisions
from backfill_assets.campaign.options import Options
from backfill_assets.campaign.run import CampaignRun
from backfill_assets.campaign.staging import judge_wave, stage_wave
from backfill_assets.campaign.steps import do_step
from backfill_assets.days import DayRange
from backfill_assets.errors import CampaignStopped
from backfill_assets.lakehouse.campaign_journal import CampaignStep
from backfill_assets.plan.keep import observe_context_of
from backfill_assets.plan.records import Plan
from backfill_assets.plan.situation import PlanContext
from backfill_assets.plan.waves import Shares
from backfill_assets.publish.senders import LogSender
from backfill_assets.rebuild.walk import shadow
from backfill_assets.spark.computed import computed
from backfill_assets_tests.declared import declared
from backfill_assets_tests.stories.landed_lines import land_lines
from backfill_assets_tests.stories.staged_campaign import FACT, RUN, changed, checksums, steps
from backfill_assets_tests.stories.staged_campaign import LATE_DAY as BAD_DAY
from backfill_assets_tests.stories.test_campaign import campaign, planned
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame


class Carried:
    """A campaign, and the steps of it that a story asks for."""

    def __init__(self, workshop: Workshop, roll_back_if_wrong: bool = False) -> None:
        self.workshop = workshop
        self.notices: list[str] = []
        self.at: CampaignRun = campaign(workshop, planned(workshop))
        decisions.start(self.at, Options(Shares.parse("100%"), roll_back_if_wrong=roll_back_if_wrong))

    def do(self, *chosen: CampaignStep) -> None:
        for step in chosen:
            do_step(self.at, step, LogSender(self.notices.append), self.situation)

    def situation(self, plan: Plan) -> PlanContext:
        return observe_context_of(self.workshop.settings, declared(), plan)

    def up_to_cut_over(self) -> None:
        self.do(CampaignStep.ANNOUNCE, CampaignStep.VERIFY_SOURCE, CampaignStep.PIN)
        judge_wave(self.at, 0, stage_wave(self.at, 0))
        self.do(CampaignStep.SHADOW, CampaignStep.VALIDATE)
        decisions.approve(self.at)


def damage(workshop: Workshop, table: str, day: date) -> None:
    """Half of a published file is gone, as after a disk that was full."""
    held = workshop.states(table)[day]
    files = sorted((workshop.settings.lakehouse / table).glob(f"_timelines/**/day={day}/*.parquet"))
    newest = max(files, key=lambda file: file.stat().st_mtime_ns)
    assert held.content is not None and held.content.rows
    newest.write_bytes(newest.read_bytes()[: newest.stat().st_size // 2])


def test_an_input_that_a_stream_has_brought_rows_for_is_stale_and_not_wrong(wrong: Workshop) -> None:
    """Raw has a row more, and bronze does not follow yet; a damaged file of the same day stops it all the same."""
    story = Carried(wrong)
    land_lines(wrong.settings.landing, BAD_DAY, "late", 1)
    wrong.build("raw_sales", DayRange.of(BAD_DAY))
    story.do(CampaignStep.ANNOUNCE, CampaignStep.VERIFY_SOURCE)
    assert CampaignStep.VERIFY_SOURCE in story.at.state.done
    damage(wrong, "bronze_sales", BAD_DAY)
    with pytest.raises(CampaignStopped, match=f"bronze_sales {BAD_DAY} is not as it was published"):
        story.do(CampaignStep.VERIFY_SOURCE)
    assert story.at.next().reason.startswith("it was stopped: bronze_sales 2017-03-07"), "before anything is staged"


def test_one_day_that_cannot_be_computed_stands_alone_and_the_others_go_on(wrong: Workshop) -> None:
    """The engine's error names no day: the range is halved until the day is found."""
    (fact, *others) = steps()

    def failing(inputs: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
        found = dict(computed(fact.named, inputs))
        bad = F.when(F.col("day") == F.lit(BAD_DAY), F.raise_error(F.lit("a rate of zero")).cast("decimal(18,2)"))
        found[FACT] = found[FACT].withColumn("sales_value", bad.otherwise(F.col("sales_value")))
        return found

    broken = replace(fact, step=replace(fact.step, versions=(replace(fact.named, transform=failing),)))
    done = {
        each.build.step.name: each
        for each in shadow(wrong.builder.lake, "campaign-x", [broken, *others], RUN, wrong.messages.append)
    }
    (bad,) = done[FACT].held_back
    assert bad.day == BAD_DAY and "a rate of zero" in bad.error
    assert done[FACT].staged == tuple(day for day in fact.days if day != BAD_DAY)
    assert {held.day for held in done["fact_daily_revenue"].held_back} == {BAD_DAY}
    assert done["report_monthly_close"].staged == ()


def test_a_publication_that_was_not_reported_is_found_and_a_wrong_one_is_put_back(wrong: Workshop) -> None:
    """The process dies before the journal has it. Rows come and are nothing wrong; then a published file is damaged."""
    old, story = checksums(wrong), Carried(wrong, roll_back_if_wrong=True)
    story.up_to_cut_over()
    journal = wrong.settings.lakehouse / "_campaigns" / story.at.campaign
    before = {entry.name for entry in journal.iterdir()}
    story.do(CampaignStep.CUT_OVER)
    published, brought = story.at.state.cut_over.publication, story.at.state.cut_over.days
    assert brought[FACT] == ("2017-03-01..2017-03-09",)
    (told,) = [entry for entry in journal.iterdir() if entry.name not in before]
    told.unlink()
    new = checksums(wrong)
    assert story.at.next().step is CampaignStep.DOWNSTREAM, "the log says so"

    story.do(CampaignStep.CUT_OVER)

    again = story.at.state.cut_over
    assert (again.publication, again.days) == (published, brought)
    assert checksums(wrong) == new != old
    land_lines(wrong.settings.landing, BAD_DAY, "late", 1)
    for table in ("raw_sales", "bronze_sales"):
        wrong.build(table, DayRange.of(BAD_DAY))
    story.do(CampaignStep.DOWNSTREAM)
    assert checksums(wrong) == new, "stale, and not wrong"
    damage(wrong, "report_monthly_close", date(2017, 3, 1))
    with pytest.raises(CampaignStopped, match=r"report_monthly_close 2017-03-01 .* All of it was put back by"):
        story.do(CampaignStep.DOWNSTREAM)
    assert changed(old, checksums(wrong)).get(FACT, set()) <= {BAD_DAY}, "as it was, but for the late row"
    assert story.at.state.rolled_back is not None
    with pytest.raises(CampaignStopped, match="was rolled back by"):
        story.do(CampaignStep.NOTIFY)
    assert sum(published in notice for notice in story.notices) == 1
