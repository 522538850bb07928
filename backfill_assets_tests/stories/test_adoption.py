"""Work is neither lost nor repeated: what a failed or killed run staged is used by the next one, without Spark."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.days import DayRange
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.publish.publisher import Publisher
from backfill_assets.rebuild.outcome import BuiltDay, DaysFailed
from backfill_assets_tests.strategies.landed_sales import land, sale
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = DayRange.parse("2017-03-01..2017-03-03")
FIRST, BAD, LAST = DAYS


class Killed(BaseException):
    """The process ends here, without any ``except`` or ``finally`` of ours."""


def land_sales(workshop: Workshop, day: date, name: str, sound: int, broken: int = 0) -> None:
    rows = [
        sale(basket_id=f"{day:%d}", product_id=f"{name}{n}", transaction_timestamp=f"{day}T10:00:00Z")
        for n in range(sound)
    ]
    land(workshop.settings.landing, "sales", str(day), name, [*rows, *(f"no JSON {n}" for n in range(broken))])


def killed_before_publishing(workshop: Workshop, monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    def die(publisher: Publisher, publication: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "publish", die)
        with pytest.raises(Killed):
            workshop.build(table, DAYS)


def again(workshop: Workshop, spark: SparkSession) -> Workshop:
    """The next process on the same lakehouse."""
    return Workshop(workshop.settings.home, lambda: spark)


def test_one_bad_day_holds_the_range_back_and_costs_no_work(workshop: Workshop, spark: SparkSession) -> None:
    """Nothing of the range is published; the good days are then adopted; the fixed day alone is computed."""
    land_sales(workshop, FIRST, "a", sound=5)
    land_sales(workshop, BAD, "b", sound=2, broken=21)
    land_sales(workshop, LAST, "c", sound=5)
    workshop.build("raw_sales", DAYS)
    with pytest.raises(DaysFailed, match=rf"1 day[\s\S]* {BAD} few_rejected") as failed:
        workshop.build("bronze_sales", DAYS)
    assert ({day.day for day in failed.value.failed}, failed.value.staged) == ({BAD}, 2)
    assert workshop.states("bronze_sales") == {}

    good = again(workshop, spark)
    assert {built.day: built.rows for built in _bronze(good, [FIRST, LAST])} == {FIRST: 5, LAST: 5}
    assert good.sessions == 0

    land_sales(workshop, BAD, "d", sound=2_100)
    workshop.build("raw_sales", [BAD])
    mended = _bronze(again(workshop, spark), list(DAYS))
    assert {built.day: (built.rows, built.reused) for built in mended} == {
        FIRST: (5, True),
        BAD: (2_102, False),
        LAST: (5, True),
    }


def test_what_a_killed_run_staged_is_published_by_the_next(
    workshop: Workshop, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between staging and publishing, raw and bronze in turn. An unchanged range then asks for no Spark."""
    for day in DAYS:
        land_sales(workshop, day, "a", sound=5)
    killed_before_publishing(workshop, monkeypatch, "raw_sales")
    timelines = _timelines(workshop, "raw_sales")
    assert sum(built.rows for built in again(workshop, spark).build("raw_sales", DAYS).days) == 15
    assert _timelines(workshop, "raw_sales") == timelines, "the staged rows were used, not staged again"

    killed_before_publishing(workshop, monkeypatch, "bronze_sales")
    assert workshop.states("bronze_sales") == {}
    adopting = again(workshop, spark)
    with monkeypatch.context() as patch:
        opened = _schemas_read(patch)
        assert [(built.rows, built.reused) for built in _bronze(adopting, list(DAYS))] == [(5, False)] * 3
    assert sorted(opened) == ["bronze_sales", "quarantine_sales"], "once a timeline, not once a day"
    for table in ("raw_sales", "bronze_sales"):
        assert all(built.reused for built in adopting.build(table, DAYS).days)
    assert adopting.sessions == 0


def test_staged_days_are_not_adopted_once_their_inputs_moved(
    workshop: Workshop, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A late row arrived after the kill: its day is computed from the new state, the others are adopted."""
    for day in DAYS:
        land_sales(workshop, day, "a", sound=5)
    workshop.build("raw_sales", DAYS)
    killed_before_publishing(workshop, monkeypatch, "bronze_sales")
    late = [sale(product_id="late", transaction_timestamp=f"{FIRST}T10:00:00Z")]
    land(workshop.settings.landing, "sales", str(LAST + timedelta(days=1)), "late", late)
    workshop.build("raw_sales", [LAST + timedelta(days=1)])
    after = again(workshop, spark)
    assert {built.day: built.rows for built in _bronze(after, list(DAYS))} == {FIRST: 6, BAD: 5, LAST: 5}
    assert any("1/1 days staged" in message for message in after.messages), after.messages


def _bronze(workshop: Workshop, days: list[date]) -> list[BuiltDay]:
    return [built for built in workshop.build("bronze_sales", days).days if built.table == "bronze_sales"]


def _schemas_read(patch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    schema = Timeline.schema

    def noted(timeline: Timeline) -> str:
        found.append(timeline.table)
        return schema(timeline)

    patch.setattr(Timeline, "schema", noted)
    return found


def _timelines(workshop: Workshop, table: str) -> set[str]:
    folder: Path = workshop.settings.lakehouse / table / "_timelines"
    return {path.name for path in folder.iterdir() if not path.name.startswith("_")}
