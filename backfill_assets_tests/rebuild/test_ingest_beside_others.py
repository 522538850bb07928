"""An ingest beside others: it ends, and the others let it pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, cast

import pytest

from backfill_assets.errors import PublicationRefused
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.records import Publication
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.publish.holds import all_holds
from backfill_assets.publish.promote import silent
from backfill_assets.publish.publisher import Conflict, Published, Publisher
from backfill_assets.rebuild.lake import Lake
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.raw_change import RawChange, RawWriter, StagedChange
from backfill_assets_tests.protocol.staging import stage

NOTHING = RawChange(())


@dataclass
class Ingest(RawWriter):
    """One whose rows are staged already and whose gates pass: no Spark."""

    timeline: Timeline | None = None

    def adopted(self, change: RawChange) -> StagedChange:
        return StagedChange(change, self.timeline, self.timeline.files() if self.timeline else ())

    def measured(self, *about: object) -> dict[Any, Any]:
        return {}

    def judge(self, *about: object) -> None:
        pass

    def request(self, *about: object) -> Publication:
        return Publication(id="ingest", kind="append", tables=())


def ingest(tmp_path: Path, publish: Callable[[object, object], Published | Conflict]) -> Ingest:
    storage = Storage(str(tmp_path))
    publisher = Publisher(storage)
    publisher.publish = publish  # type: ignore[method-assign,assignment]
    step = CATALOG.step("raw_sales")
    timeline = stage(storage, "raw_sales", "staged", {date(2017, 3, 1): ["a"]})
    lake = Lake(CATALOG, storage, publisher, cast("Any", None), cast("Any", None), "")
    return Ingest(lake, step, RunInfo("", ""), silent, timeline=timeline)


def test_an_ingest_beside_a_steady_appender_ends(tmp_path: Path) -> None:
    """Rows keep arriving while it looks for supersessions: it gives up with a reason, and its rows stay staged."""
    tries: list[object] = []

    def moved(request: object, _: object) -> Conflict:
        tries.append(request)
        assert len(tries) < 100, "without bound"
        return Conflict({}, reasons=("raw_sales gained rows",))

    with pytest.raises(PublicationRefused, match="raw_sales: rows arrived 20 times"):
        ingest(tmp_path, moved).carry_out(lambda: NOTHING)
    assert all_holds(Storage(str(tmp_path))) == []


def test_after_several_times_others_are_asked_to_let_it_pass(tmp_path: Path) -> None:
    """The days that it searches are held while it tries again, and released with the publication."""
    storage = Storage(str(tmp_path))
    held: list[int] = []

    def publish(request: object, _: object) -> Published | Conflict:
        held.append(len(all_holds(storage)))
        return Published("p", {}) if len(held) == 5 else Conflict({}, reasons=("raw_sales gained rows",))

    assert ingest(tmp_path, publish).carry_out(lambda: NOTHING)
    assert held == [0, 0, 0, 1, 1]
    assert all_holds(storage) == []


def test_a_change_that_others_keep_taking_in_is_looked_for_again_each_time(tmp_path: Path) -> None:
    """Then its own words are said, after as many tries."""
    looks: list[RawChange] = []

    def look() -> RawChange:
        looks.append(NOTHING)
        return NOTHING

    passed = Conflict(passed=("landed:sales:a",), reasons=("raw_sales has already taken in landed:sales:a",))
    with pytest.raises(PublicationRefused, match="took in the same files"):
        ingest(tmp_path, lambda *_: passed).carry_out(look)
    assert len(looks) == 20
    assert all_holds(Storage(str(tmp_path))) == []
