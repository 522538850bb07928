"""An extension beside others that keep publishing: the days that it could not publish are left, and say so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, cast

from backfill_assets.days import TableDay
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.records import DayContent
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.publisher import Conflict, Pin, Published, Publisher
from backfill_assets.rebuild.builder import silent
from backfill_assets.rebuild.extension.earlier_states import InputMemory
from backfill_assets.rebuild.extension.extend import ExtendResult, GrownDay, _Call
from backfill_assets.rebuild.lake import Lake
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.stage import StagedTableDay

STEP = CATALOG.step("bronze_sales")
ONE, TWO, THREE = (date(2017, 3, day) for day in (1, 2, 3))
PIN = Pin({}, {}, {})


@dataclass
class Call(_Call):
    """One whose days are extended already: no Spark."""

    def stage(self, days: Sequence[date]) -> None:
        build = self.build_of(STEP)
        for day in days:
            content = DayContent(rows=1, checksum="1", code_version=STEP.current, inputs="")
            build.staged[day] = [StagedTableDay(name, day, (), content, (), PIN, "") for name in build.tables]
            self.grown[TableDay(STEP.name, day)] = GrownDay(STEP.name, day, "extended")

    def request(self, name: str) -> Any:
        return None


def extended(tmp_path: Path, publish: Callable[[object], Published | Conflict]) -> ExtendResult:
    publisher = Publisher(Storage(str(tmp_path)))
    publisher.publish = publish  # type: ignore[method-assign,assignment]
    lake = Lake(CATALOG, publisher.storage, publisher, cast("Any", None), cast("Any", None), "")
    return Call(lake, [STEP], RunInfo("stream"), silent, InputMemory()).run_days([ONE, TWO, THREE], "stream", 0.0)


def moving(*moved: date) -> Callable[[object], Published | Conflict]:
    """Another day is published by others at each try; then they stop."""
    left = list(moved)

    def publish(request: object) -> Published | Conflict:
        return Conflict({STEP.name: frozenset({left.pop(0)})}) if left else Published("p", {})

    return publish


def test_a_day_that_keeps_moving_is_left_and_the_others_are_published(tmp_path: Path) -> None:
    result = extended(tmp_path, moving(ONE, ONE, ONE))
    assert result.publication == "p" and result.left.keys() == {ONE}
    assert {day.day for day in result.days} == {TWO, THREE}


def test_days_that_the_last_try_did_not_publish_are_left_too(tmp_path: Path) -> None:
    """A stream goes on with the days that are left: of any other it would show stale facts until more events come."""
    result = extended(tmp_path, moving(ONE, ONE, ONE, TWO))
    assert result.publication == "" and result.days == ()
    assert result.left.keys() == {ONE, TWO, THREE}
