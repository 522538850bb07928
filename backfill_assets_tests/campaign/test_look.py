"""The journal of a campaign follows the publication log, also where a process died between the two."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from backfill_assets import clock
from backfill_assets.campaign.look import catch_up
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
from backfill_assets_tests.played_lake import no_spark
from backfill_assets_tests.small_lakehouse import SmallLakehouse

pytestmark = pytest.mark.protocol
DAY = date(2017, 3, 1)
MADE = datetime(2017, 6, 1, tzinfo=UTC)
PLAN = Plan(asked=PlanRequest(target="fact_daily_revenue", days=str(DAY)), steps=(), made_at=MADE)
CAMPAIGN = campaign_of(PLAN.id)


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


def _kinds(lakehouse: SmallLakehouse) -> list[str]:
    return [str(entry.kind) for entry in journal.entries(lakehouse.storage, CAMPAIGN)][2:]


def test_the_journal_gets_what_the_log_says_and_only_once(lakehouse: SmallLakehouse) -> None:
    """Undone, brought back, and undone again. One without a journal gets none."""
    lone = Provenance(campaign="campaign-lone")
    asked = lakehouse.request("lone", {"revenue": {DAY: [1]}}).model_copy(update={"provenance": lone})
    lakehouse.publish_request(asked)
    for campaign in (CAMPAIGN, "campaign-none", lone.campaign):
        catch_up(lakehouse.publisher, campaign, "me")
    assert _kinds(lakehouse) == [] and list(journal.newest_entries(lakehouse.storage)) == [CAMPAIGN]
    _undo(lakehouse, "cut", "back")
    for _ in range(2):
        catch_up(lakehouse.publisher, CAMPAIGN, "me")
        assert _kinds(lakehouse) == ["rolled back"]
    _undo(lakehouse, "back", "forth")
    catch_up(lakehouse.publisher, CAMPAIGN, "me")
    _undo(lakehouse, "forth", "back-again")
    catch_up(lakehouse.publisher, CAMPAIGN, "me")
    assert _kinds(lakehouse) == ["rolled back", "restored", "rolled back"]
    assert journal.entries(lakehouse.storage, CAMPAIGN)[-1].reason == "by back-again"


def test_no_step_goes_on_with_what_was_undone(settings: Settings, lakehouse: SmallLakehouse) -> None:
    """No notice says that something was rebuilt which is not there any more."""
    _undo(lakehouse, "cut", "back")
    builder = Builder.from_settings(settings, CATALOG, no_spark)
    at = CampaignRun(builder, PLAN, RunInfo("r", launched_by="sensor"), print)
    with pytest.raises(CampaignStopped, match="was rolled back by back"):
        do_step(at, CampaignStep.NOTIFY, _Nobody(), lambda _: pytest.fail("nothing is planned"))
    assert _kinds(lakehouse) == ["rolled back"]
    assert at.next().waits


class _Nobody:
    def send(self, notice: DueNotice) -> None:
        pytest.fail(f"no notice {notice.key} is sent")
