"""What the steps of a campaign report of a stream beside it: up to where inputs and published days were read."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from backfill_assets.campaign import decisions
from backfill_assets.campaign.options import Options
from backfill_assets.campaign.run import CampaignRun
from backfill_assets.campaign.steps import do_step, pin_watermarks
from backfill_assets.errors import NotDelivered
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse import campaign_journal as journal
from backfill_assets.lakehouse.campaign_journal import CampaignStep, JournalEntry
from backfill_assets.lakehouse.campaign_reports import CutOverReport
from backfill_assets.lakehouse.plans import keep_plan
from backfill_assets.plan.records import Pinned, Plan, PlannedStep, PlanRequest
from backfill_assets.publish.due_notice import DueNotice
from backfill_assets.publish.outbox import due_notices
from backfill_assets.publish.publisher import Published
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.settings import Settings
from backfill_assets.state.diagnosis import Cause
from backfill_assets_tests.begun_campaign import going
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.played_lake import no_spark
from backfill_assets_tests.streamed_lakehouse import BRONZE, QUARANTINE, RAW, StreamedLakehouse

if TYPE_CHECKING:
    from backfill_assets.plan.situation import PlanContext

pytestmark = pytest.mark.protocol
FIRST, SECOND = date(2017, 3, 1), date(2017, 3, 2)
DAYS = f"{FIRST}..{SECOND}"
PLAN = Plan(
    asked=PlanRequest(target=BRONZE, days=DAYS),
    steps=(PlannedStep(tables=(BRONZE, QUARANTINE), version="v1", rebuild={Cause.CODE_CHANGED: (DAYS,)}),),
    pinned=(Pinned(table=RAW, version=1, days=(DAYS,)),),
    made_at=datetime(2017, 6, 1, tzinfo=UTC),
)
STAGED_FROM = "partition 0 up to offset 10"


def streamed(home: Path) -> StreamedLakehouse:
    """Two days, up to offset 10."""
    found = StreamedLakehouse(home / "lakehouse")
    found.stream("batch-1", {FIRST: [1], SECOND: [2]}, {0: (0, 10)})
    return found


def campaign(home: Path) -> CampaignRun:
    return CampaignRun(Builder.from_settings(Settings.at(home), CATALOG, no_spark), PLAN, RunInfo("r"), print)


def cut_over(lakehouse: StreamedLakehouse, at: CampaignRun) -> None:
    """Staged from batch 1, published after batch 2."""
    staged = lakehouse.bronze_of("cut-over", {FIRST: [1], SECOND: [2]}, lakehouse.pin([FIRST, SECOND]))
    lakehouse.stream("batch-2", {SECOND: [3]}, {0: (10, 15)})
    provenance = staged.provenance.model_copy(update={"campaign": at.campaign})
    published = lakehouse.publish_request(staged.model_copy(update={"provenance": provenance}))
    assert isinstance(published, Published)


def test_the_pinned_inputs_are_written_down_with_their_boundary(tmp_path: Path) -> None:
    """Where the inputs stand when the campaign begins."""
    streamed(tmp_path)
    nothing_landed = cast("PlanContext", SimpleNamespace(landed={}))
    report = pin_watermarks(campaign(tmp_path), lambda plan: nothing_landed)
    assert report.read_up_to == (f"raw_sales {DAYS} at version 1: topic orders: {STAGED_FROM}",)


def test_the_cut_over_reports_up_to_where_its_days_were_read(tmp_path: Path) -> None:
    """Not up to where raw was when it was published."""
    lakehouse, at = streamed(tmp_path), campaign(tmp_path)
    decisions.start(at, Options())
    cut_over(lakehouse, at)
    report = do_step(at, CampaignStep.CUT_OVER, _Down(), None)  # type: ignore[arg-type]
    assert isinstance(report, CutOverReport)
    (line,) = report.read_up_to
    assert line == f"{BRONZE}, {QUARANTINE} {DAYS} from raw_sales version 1: topic orders: {STAGED_FROM}"


def test_the_command_shows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the cut-over what was planned; then what was read."""
    backfill = Backfill(tmp_path, monkeypatch)
    lakehouse = streamed(backfill.home)
    at = campaign(backfill.home)
    keep_plan(lakehouse.storage, PLAN.id, PLAN.to_json())
    assert "boundaries" not in backfill.json("status", PLAN.id)
    cut_over(lakehouse, at)
    for kind, step, report in (
        ("started", "", {}),
        ("step", CampaignStep.CUT_OVER.value, {"publication": "cut-over", "days": {BRONZE: [DAYS]}}),
    ):
        entry = JournalEntry.model_validate({"kind": kind, "at": PLAN.made_at, "step": step, "report": report})
        journal.write(lakehouse.storage, at.campaign, entry)
    (boundary,) = backfill.json("status", PLAN.id)["boundaries"]
    assert (boundary["table"], boundary["days"]) == ([BRONZE, QUARANTINE], [DAYS])
    assert (boundary["raw"], boundary["versions"], boundary["next_offset"]) == ("raw_sales", [1], 10)


class _Down:
    def send(self, due: DueNotice) -> None:
        raise NotDelivered("the webhook is down")


def test_a_campaign_that_is_given_up_sends_nothing_more_and_is_open_when_it_is_taken_up_again(tmp_path: Path) -> None:
    """`backfill status` shows it on its tables again, repairs leave them to it, and maintenance keeps its timelines."""
    lakehouse, at = streamed(tmp_path), campaign(tmp_path)
    keep_plan(lakehouse.storage, PLAN.id, PLAN.to_json())
    decisions.start(at, Options())
    do_step(at, CampaignStep.ANNOUNCE, _Down(), None)  # type: ignore[arg-type]
    assert going(lakehouse.storage) == [PLAN.id] and due_notices(lakehouse.publisher)
    decisions.give_up(at)
    assert not going(lakehouse.storage) and not due_notices(lakehouse.publisher)
    decisions.start(at, Options())
    assert going(lakehouse.storage) == [PLAN.id]
