"""Work is neither lost nor repeated: what a failed or killed run staged is used by the next one, without Spark."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backfill_assets.days import DayRange
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.publish.publisher import Publisher
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.outcome import BuiltDay, DaysFailed
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.death import Died
from backfill_assets_tests.strategies.landed_sales import land, sale
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = DayRange.parse("2017-03-01..2017-03-03")
FIRST, BAD, LAST = DAYS


def _line(day: date, product: str, **values: str) -> dict[str, str | None]:
    return sale(basket_id=f"{day:%d}", product_id=product, transaction_timestamp=f"{day}T10:00:00Z", **values)


def land_sales(workshop: Workshop, day: date, name: str, sound: int, broken: int = 0) -> None:
    """``broken`` lines have an amount that is none."""
    lines = [_line(day, f"{name}{number}") for number in range(sound)]
    lines += [_line(day, f"{name}{number}", sales_value="1,5") for number in range(sound, sound + broken)]
    land(workshop.settings.landing, "sales", str(day), name, lines)


def killed_before_publishing(workshop: Workshop, monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    def die(publisher: Publisher, *asked: object) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "publish", die)
        with pytest.raises(Died):
            workshop.build(table, DAYS)


def again(workshop: Workshop, spark: SparkSession) -> Workshop:
    """The next process on the same lakehouse."""
    return Workshop(workshop.settings.home, lambda: spark)


def test_one_bad_day_holds_the_range_back_and_costs_no_work(
    workshop: Workshop, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of the range is published; one command then publishes the good days; the fixed day alone is computed."""
    backfill = Backfill(workshop.settings.home, monkeypatch)
    land_sales(workshop, FIRST, "a", sound=5)
    land_sales(workshop, BAD, "b", sound=2, broken=21)
    land_sales(workshop, LAST, "c", sound=5)
    workshop.build("raw_sales", DAYS)
    with pytest.raises(DaysFailed, match=rf"1 day[\s\S]* {BAD} few_rejected: 21 of 23 rows quarantined") as failed:
        workshop.build("bronze_sales", DAYS)
    assert ({day.day for day in failed.value.failed}, failed.value.staged) == ({BAD}, 2)
    assert "2 staged days passed; the next run uses them" in str(failed.value)
    assert workshop.states("bronze_sales") == {}
    assert backfill.statuses("bronze_sales", "--days", DAYS)["bronze_sales"] == {"missing": [str(DAYS)]}

    with monkeypatch.context() as patch:
        patch.setattr("backfill_assets.cli.foreground.foreground_spark", lambda *_: pytest.fail("Spark is started"))
        (ran,) = backfill.json("run", "bronze_sales", "--days", FIRST, "--days", LAST)["steps"]
    assert (ran["periods"], ran["unchanged"], ran["rows"]) == (2, 0, 10)
    assert backfill.statuses("bronze_sales", "--days", DAYS)["bronze_sales"] == {
        "fresh": [str(FIRST), str(LAST)],
        "missing": [str(BAD)],
    }

    corrected = [_line(BAD, f"b{number}") for number in range(2, 23)]
    land(workshop.settings.landing, "sales", str(BAD), "b-corrected", corrected)
    workshop.build("raw_sales", [BAD])
    mended = _bronze(again(workshop, spark), list(DAYS))
    assert {built.day: (built.rows, built.reused) for built in mended} == {
        FIRST: (5, True),
        BAD: (23, False),
        LAST: (5, True),
    }
    said = backfill("status").stdout
    assert "lacks" not in said and "rejected" not in said, "rejected lines that came again, sound, are missing nowhere"


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


def test_an_interrupted_run_publishes_nothing_and_only_what_moved_since_is_computed(
    workshop: Workshop, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C after two of three chunks, each of a day. Then a late row arrives for one of the days that are staged."""
    for day in DAYS:
        land_sales(workshop, day, "a", sound=5)
    workshop.build("raw_sales", DAYS)
    with monkeypatch.context() as patch:
        patch.setattr(decide, "_MOST_DAYS", 1)
        _interrupt_after_verdicts(patch, 4)
        said = Backfill(workshop.settings.home, monkeypatch)("run", "bronze_sales", "--days", DAYS, exit_code=130)
    assert "Interrupted while bronze_sales was built: nothing of it was published." in said.stderr
    assert "Run the same command again: days that were staged are used as they are." in said.stderr
    assert "Traceback" not in said.stderr
    assert workshop.states("bronze_sales") == {}

    late = [sale(product_id="late", transaction_timestamp=f"{FIRST}T10:00:00Z")]
    land(workshop.settings.landing, "sales", str(LAST + timedelta(days=1)), "late", late)
    workshop.build("raw_sales", [LAST + timedelta(days=1)])
    after = again(workshop, spark)
    assert {built.day: built.rows for built in _bronze(after, list(DAYS))} == {FIRST: 6, BAD: 5, LAST: 5}
    assert any("taken over from an earlier run" in message for message in after.messages), after.messages


def _interrupt_after_verdicts(patch: pytest.MonkeyPatch, count: int) -> None:
    """A signal, as Ctrl-C sends it; a chunk has a verdict in each of the two tables of the step."""
    judge, judged = Timeline.judge, list[str]()

    def then_interrupted(timeline: Timeline, *verdicts: Any) -> None:
        judge(timeline, *verdicts)
        judged.append(timeline.table)
        if len(judged) == count:
            os.kill(os.getpid(), signal.SIGINT)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    patch.setattr(Timeline, "judge", then_interrupted)


def _bronze(workshop: Workshop, days: Sequence[date]) -> list[BuiltDay]:
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
