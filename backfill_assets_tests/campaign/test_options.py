"""How a campaign is carried out, as entries of its journal have it."""

from __future__ import annotations

from decimal import Decimal

import pytest

from backfill_assets.campaign.options import Options
from backfill_assets.errors import InvalidRequest
from backfill_assets.limits import Limits
from backfill_assets.plan.waves import Shares

CHOSEN = Options(Shares.parse("5%,100%"), Limits.parse("deviation=2%"), daemon=True, roll_back_if_wrong=True)


def test_what_is_written_down_is_read_back() -> None:
    """By whoever carries the campaign on; whatever else the entry has is no option."""
    assert Options().with_report({**CHOSEN.to_report(), "who": "ana"}) == CHOSEN


def test_what_an_entry_does_not_have_stays_as_it_was() -> None:
    assert CHOSEN.with_report({}) == CHOSEN
    by_command = CHOSEN.with_report({"daemon": False, "limits": "deviation=3%"})
    assert (by_command.daemon, by_command.roll_back_if_wrong, by_command.shares) == (False, True, CHOSEN.shares)
    assert by_command.limits.deviation == Decimal("0.03")


@pytest.mark.parametrize("report", [{"waves": "many"}, {"limits": "deviation"}])
def test_what_cannot_be_read_is_refused(report: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest):
        Options().with_report(report)
