"""When a demo has something to build: a day that is stale, of another version, or unknown to Dagster."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from types import SimpleNamespace

import pytest

from backfill_assets.days import DayRange
from backfill_assets.examples.commands import demo as module
from backfill_assets.examples.commands.demo import BUG, is_to_build
from backfill_assets.plan.status import DayStatus
from backfill_assets.settings import Settings

DAYS = DayRange(date(2017, 3, 1), date(2017, 3, 2))
FRESH, STALE = DayStatus.FRESH, DayStatus.INPUT_CHANGED


@pytest.fixture
def lakehouse(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimpleNamespace:
    """What its logs say: every day fresh, the fact published by v2, and all of it shown by Dagster."""
    found = SimpleNamespace(statuses={}, built_by=dict.fromkeys(DAYS, "v2"), is_shown=True)

    def observed(*_: object) -> object:
        contents = {day: SimpleNamespace(code_version=version) for day, version in found.built_by.items()}
        return SimpleNamespace(contents=lambda _: contents)

    def statuses(steps: object, *_: object) -> dict[str, dict[date, DayStatus]]:
        return {step.name: {day: found.statuses.get((step.name, day), FRESH) for day in DAYS} for step in steps}  # type: ignore[attr-defined]

    monkeypatch.setattr("backfill_assets.published.observed.observe", observed)
    monkeypatch.setattr("backfill_assets.plan.status.day_statuses", statuses)
    monkeypatch.setattr(module, "_shown_by_dagster", lambda *_: found.is_shown)
    found.settings = Settings.at(tmp_path)
    return found


def test_a_lakehouse_in_which_all_is_fresh_and_shown_has_nothing_to_build(lakehouse: SimpleNamespace) -> None:
    assert not is_to_build(lakehouse.settings, DAYS, "")


@pytest.mark.parametrize("table", ["raw_sales", "fact_daily_revenue"])
def test_one_stale_day_of_any_table_is_built(lakehouse: SimpleNamespace, table: str) -> None:
    lakehouse.statuses[table, DAYS.last] = STALE
    assert is_to_build(lakehouse.settings, DAYS, "")


def test_days_of_a_version_that_is_not_asked_for_are_built(lakehouse: SimpleNamespace) -> None:
    """With the bug asked for, the fact is stale by what is current, and yet as it is wanted."""
    assert is_to_build(lakehouse.settings, DAYS, BUG)
    lakehouse.built_by = dict.fromkeys(DAYS, BUG)
    lakehouse.statuses = {("fact_sales_transactions", day): STALE for day in DAYS}
    assert not is_to_build(lakehouse.settings, DAYS, BUG)
    del lakehouse.built_by[DAYS.last]
    assert is_to_build(lakehouse.settings, DAYS, BUG)


def test_days_that_dagster_does_not_show_are_built(lakehouse: SimpleNamespace) -> None:
    """Commands alone published them: a backfill finds them unchanged."""
    lakehouse.is_shown = False
    assert is_to_build(lakehouse.settings, DAYS, "")
