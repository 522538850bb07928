"""How a campaign is carried out, as entries of its journal have it."""

from __future__ import annotations

from decimal import Decimal

import pytest

from backfill_assets.campaign.options import Options
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.campaign_reports import BegunReport
from backfill_assets.limits import Limits
from backfill_assets.plan.waves import Shares
from backfill_assets.rebuild.outcome import Person

CHOSEN = Options(Shares.parse("5%,100%"), Limits.parse("deviation=2%"), daemon=True, roll_back_if_wrong=True)


def test_what_is_written_down_is_read_back() -> None:
    """By whoever carries the campaign on; whatever else the entry has is no option."""
    assert Options().changed_by(CHOSEN.report(Person("ana"))) == CHOSEN


def test_what_an_entry_does_not_have_stays_as_it_was() -> None:
    assert CHOSEN.changed_by(BegunReport()) == CHOSEN
    by_command = CHOSEN.changed_by(BegunReport(daemon=False, limits="deviation=3%"))
    assert (by_command.daemon, by_command.roll_back_if_wrong, by_command.shares) == (False, True, CHOSEN.shares)
    assert by_command.limits.deviation == Decimal("0.03")


@pytest.mark.parametrize("report", [BegunReport(waves="many"), BegunReport(limits="deviation")])
def test_what_cannot_be_read_is_refused(report: BegunReport) -> None:
    with pytest.raises(InvalidRequest):
        Options().changed_by(report)
