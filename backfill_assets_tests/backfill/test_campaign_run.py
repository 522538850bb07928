"""What a campaign refuses before it begins and when it is approved, and the days that it holds: no Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.backfill import campaign_days as campaign_days_of_log
from backfill_assets.backfill.breaker import Limits
from backfill_assets.backfill.campaign_course import CampaignStep
from backfill_assets.backfill.campaign_days import HELD_BACK_DAYS, campaign_days, held_back_days
from backfill_assets.backfill.campaign_run import CampaignRun, Options
from backfill_assets.backfill.plan import Asked, Plan, PlannedStep, Why
from backfill_assets.build import Builder
from backfill_assets.build.outcome import RunInfo
from backfill_assets.build.shadow import HeldBack
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.campaign_journal import JournalEntry
from backfill_assets.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.protocol
MADE = datetime(2017, 6, 1, tzinfo=UTC)
FIRST, BAD, LAST = date(2017, 3, 1), date(2017, 3, 2), date(2017, 3, 3)
FACT = PlannedStep(
    tables=("fact_daily_revenue",), version="v1", rebuild={Why.CODE_CHANGED: ("2017-03-01..2017-03-03",)}
)
PLAN = Plan(asked=Asked(target="fact_daily_revenue", days=f"{FIRST}..{LAST}"), steps=(FACT,), made_at=MADE)


@pytest.fixture
def at(tmp_path: Path) -> CampaignRun:
    """A campaign that nobody has started; a core hour has no price."""
    return CampaignRun(Builder.from_settings(Settings.at(tmp_path), _no_spark), PLAN, RunInfo("r"), print)


def test_money_cannot_be_limited_without_a_price(at: CampaignRun) -> None:
    """It would never be exceeded."""
    with pytest.raises(InvalidRequest, match="nobody knows what a core hour costs"):
        at.start(Options(limits=Limits.parse("money=5")))
    assert not at.course.started
    at.price_per_core_second = Decimal("0.0001")
    at.start(Options(limits=Limits.parse("money=5")))
    assert at.course.started


def test_days_that_are_held_back_have_to_be_left_out_knowingly(at: CampaignRun) -> None:
    """Not after three failed runs of the cut-over, and not by silence."""
    at.start(Options())
    at.done(CampaignStep.VALIDATE, _told())
    with pytest.raises(InvalidRequest, match=f"held back: fact_daily_revenue {BAD}: a gate") as refused:
        at.approve()
    assert "--without-held-back" in str(refused.value.hint) and at.course.approved is None
    at.approve(without_held_back=True)
    assert at.options.without_held_back


def test_the_days_of_a_campaign_are_staged_held_back_published_or_left(at: CampaignRun) -> None:
    """Before it is started there are none; what was held back is forgotten when it begins again."""
    storage = at.builder.lake.storage
    assert campaign_days(storage, PLAN) == []
    at.start(Options())
    (found,) = campaign_days(storage, PLAN)
    assert (found.table, found.left, found.held_back) == ("fact_daily_revenue", (FIRST, BAD, LAST), ())
    at.write(JournalEntry(kind="wave", wave=0, told=_told(), at=MADE))
    (found,) = campaign_days(storage, PLAN)
    assert (found.held_back, found.left, found.published) == ((BAD,), (FIRST, LAST), ())
    at.done(CampaignStep.CUT_OVER, {"publication": "p", "days": {"fact_daily_revenue": [f"{FIRST}", f"{LAST}"]}})
    (found,) = campaign_days(storage, PLAN)
    assert (found.published, found.held_back, found.left) == ((FIRST, LAST), (BAD,), ())
    at.write(JournalEntry(kind="rolled back", at=MADE))
    at.start(Options())
    (found,) = campaign_days(storage, PLAN)
    assert found.left == (FIRST, BAD, LAST)


def test_a_day_that_passed_before_it_was_held_back_is_not_staged(
    at: CampaignRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each day is in one place: what it reads was held back after its own gates had passed."""
    monkeypatch.setattr(campaign_days_of_log, "_newest_verdicts", lambda *_: {FIRST: True, BAD: True, LAST: False})
    at.start(Options())
    at.write(JournalEntry(kind="wave", wave=0, told=_told(), at=MADE))
    (found,) = campaign_days(at.builder.lake.storage, PLAN)
    assert (found.staged, found.held_back, found.left) == ((FIRST,), (BAD, LAST), ())


def _told() -> dict[str, object]:
    held = [HeldBack("fact_daily_revenue", BAD, error="a gate")]
    return {"held_back": [f"fact_daily_revenue {BAD}: a gate"], HELD_BACK_DAYS: held_back_days(held)}


def _no_spark() -> SparkSession:
    pytest.fail("no Spark is needed for that")
