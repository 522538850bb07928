"""A day that came weeks late, as people see it: published, yellow, and with numbers that stay when it is reused."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.days import DayRange
from backfill_assets_tests.defs.conftest import evaluated
from backfill_assets_tests.stories.dagster_chain import DagsterChain, dagster_chain
from backfill_assets_tests.strategies.landed_sales import land, sale
from backfill_assets_tests.workshop import Workshop

DAY, ARRIVAL = DayRange.parse("2017-03-01..2017-03-01"), DayRange.parse("2017-03-21..2017-03-21")
BRONZE = ("bronze_sales", "quarantine_sales")


def _quality(chain: DagsterChain) -> tuple[float, bool]:
    """The number that is plotted, and whether the chart says that the day came late."""
    metadata = chain.newest("bronze_sales")[str(DAY.first)].metadata
    return float(str(metadata["quality_score"].value)), "timeliness   ░░░░░░░░░░ 0/1" in str(metadata["quality"].value)


def test_a_day_that_came_weeks_late_is_published_with_a_warning(
    workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Late rows have to get in. The check is a warning, and a second run, which computes nothing, shows the same."""
    late = [sale(basket_id=str(number)) for number in range(30)]
    land(workshop.settings.landing, "sales", str(ARRIVAL.first), "late", late)
    workshop.build("raw_sales", ARRIVAL)
    with dagster_chain(workshop, tmp_path / "dagster", monkeypatch) as chain:
        first = chain.run(DAY, *BRONZE)
        (late_rows,) = evaluated(chain.instance, first.run_id, "bronze_sales", "arrived_within")
        others = [each for table in BRONZE for each in evaluated(chain.instance, first.run_id, table)]
        assert first.success and set(chain.published("bronze_sales")) == {str(DAY.first)}
        assert (late_rows.passed, late_rows.severity) == (False, dg.AssetCheckSeverity.WARN)
        assert "30 of 30 rows arrived more than 7 days" in str(late_rows.description)
        assert {each.check_name for each in others if not each.passed} == {"arrived_within"}
        judged = _quality(chain)
        assert judged == (7 / 8, True)
        sessions = workshop.sessions
        assert chain.run(DAY, *BRONZE).success and workshop.sessions == sessions
        assert _quality(chain) == judged
