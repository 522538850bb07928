"""What is published, undone and brought back is asked of the publication log, also where a process died."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from backfill_assets import clock
from backfill_assets.campaign.published import all_entries, published_by
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.campaign.run import CampaignRun
from backfill_assets.campaign.steps import do_step
from backfill_assets.errors import CampaignStopped
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse import campaign_journal as journal
from backfill_assets.lakehouse.campaign_journal import CampaignStep, campaign_of
from backfill_assets.lakehouse.records import Provenance
from backfill_assets.plan.records import Plan, PlanRequest
from backfill_assets.publish.due_notice import DueNotice
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.settings import Settings
from backfill_assets_tests.begun_campaign import begin, going
from backfill_assets_tests.played_lake import no_spark
from backfill_assets_tests.small_lakehouse import SmallLakehouse

pytestmark = pytest.mark.protocol
DAY = date(2017, 3, 1)
MADE = datetime(2017, 6, 1, tzinfo=UTC)
PLAN = Plan(asked=PlanRequest(target="fact_daily_revenue", days=str(DAY)), steps=(), made_at=MADE)
CAMPAIGN, OTHER = campaign_of(PLAN.id), "plan-00000000000000ff"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.at(tmp_path)


@pytest.fixture
def lakehouse(settings: Settings) -> Iterator[SmallLakehouse]:
    """A campaign that was cut over."""
    found = SmallLakehouse(Path(settings.lakehouse))
    with clock.use(found.time):
        found.publish("before", {"fact": {DAY: [1]}})
        asked = found.request("cut", {"fact": {DAY: [2]}})
        found.publish_request(asked.model_copy(update={"provenance": Provenance(campaign=CAMPAIGN)}))
        for kind, step in (("started", ""), ("step", CampaignStep.CUT_OVER.value)):
            report = {"publication": "cut"} if step else {}
            entry = journal.JournalEntry.model_validate({"kind": kind, "step": step, "at": MADE, "report": report})
            journal.write(found.storage, CAMPAIGN, entry)
        yield found


def _undo(lakehouse: SmallLakehouse, publication: str, id: str) -> None:
    """As an undo publishes, and nothing else: its process died before the journal knew."""
    roll_back(
        lakehouse.publisher,
        publication,
        id=id,
        steps=CATALOG.steps,
        provenance=Provenance(campaign=CAMPAIGN, undoes=publication),
    )


def _kinds(lakehouse: SmallLakehouse, campaign: str = CAMPAIGN) -> list[str]:
    entries = journal.entries(lakehouse.storage, campaign)
    return [str(each.kind) for each in all_entries(entries, published_by(lakehouse.publisher.log, campaign))]


def test_what_the_log_says_is_among_the_entries_and_in_no_journal(lakehouse: SmallLakehouse) -> None:
    """Undone, brought back, and undone again. Of one without a journal, the log knows enough."""
    lone = Provenance(campaign="campaign-lone")
    asked = lakehouse.request("lone", {"revenue": {DAY: [1]}}).model_copy(update={"provenance": lone})
    lakehouse.publish_request(asked)
    assert _kinds(lakehouse, "campaign-lone") == ["started", "step"] and _kinds(lakehouse, "campaign-none") == []
    assert _kinds(lakehouse) == ["started", "step"]
    _undo(lakehouse, "cut", "back")
    assert _kinds(lakehouse) == ["started", "step", "rolled back"]
    _undo(lakehouse, "back", "forth")
    _undo(lakehouse, "forth", "back-again")
    assert _kinds(lakehouse)[2:] == ["rolled back", "restored", "rolled back"]
    newest = published_by(lakehouse.publisher.log, CAMPAIGN)[-1]
    assert (newest.entry.reason, newest.cut_over) == ("by back-again", "cut")
    assert len(journal.entries(lakehouse.storage, CAMPAIGN)) == 2


def test_the_plan_of_what_is_published_is_not_under_way(lakehouse: SmallLakehouse) -> None:
    """Its journal knows nothing of that: its process died before."""
    begin(lakehouse.storage, OTHER)
    assert going(lakehouse.storage) == [OTHER]


def test_no_step_goes_on_with_what_was_undone(settings: Settings, lakehouse: SmallLakehouse) -> None:
    """No notice says that something was rebuilt which is not there any more."""
    _undo(lakehouse, "cut", "back")
    builder = Builder.from_settings(settings, CATALOG, no_spark)
    at = CampaignRun(builder, PLAN, RunInfo("r", launched_by="sensor"), print)
    with pytest.raises(CampaignStopped, match="was rolled back by back"):
        do_step(at, CampaignStep.NOTIFY, _Nobody(), lambda _: pytest.fail("nothing is planned"))
    assert at.next().waits


class _Nobody:
    def send(self, notice: DueNotice) -> None:
        pytest.fail(f"no notice {notice.key} is sent")
