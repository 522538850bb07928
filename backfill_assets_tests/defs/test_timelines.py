"""The asset ``timelines`` has a partition for each timeline, which says what it holds; the sensor keeps it true."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path

import dagster as dg
import pytest

from backfill_assets import clock
from backfill_assets.defs.specs import UNDER_THE_HOOD
from backfill_assets.defs.timelines import ASSET, report_timelines, timelines_spec
from backfill_assets.errors import LakehouseUnusable
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.named_timelines import (
    create_timeline,
    delete_timeline,
    find_timeline,
    kept_timelines,
    rename_timeline,
)
from backfill_assets.state.view import find_moment
from backfill_assets.timeline.rewind import RewindRequest, new_timeline, rewound_timeline
from backfill_assets_tests.defs.conftest import shown_on
from backfill_assets_tests.small_lakehouse import SmallLakehouse

REVENUE = "fact_daily_revenue"
FIRST, SECOND = date(2017, 3, 1), date(2017, 3, 2)


class Shown:
    """What Dagster shows after each tick of the sensor."""

    def __init__(self, lakehouse: SmallLakehouse, instance: dg.DagsterInstance) -> None:
        self.lakehouse, self.instance = lakehouse, instance
        self.cursor: Mapping[str, str] = {}
        self.unreadable: list[str] = []

    def tick(self) -> int:
        changes, self.unreadable, self.cursor = report_timelines(self.instance, self.lakehouse.storage, self.cursor)
        return changes

    @property
    def names(self) -> set[str]:
        return set(self.instance.get_dynamic_partitions(ASSET))

    def page(self, name: str) -> dict[str, object]:
        return shown_on(self.instance, ASSET, name)[0]


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[Shown]:
    """On ``back`` the second day is as it was before its second publication."""
    lakehouse = SmallLakehouse(tmp_path)
    lakehouse.publish("one", {REVENUE: {FIRST: [1, 2], SECOND: [3]}})
    lakehouse.publish("two", {REVENUE: {SECOND: [4, 5]}}, code="v2")
    moment = find_moment(lakehouse.storage, "one", REVENUE)
    asked = RewindRequest("back", (REVENUE,), by="ana")
    create_timeline(
        lakehouse.storage, rewound_timeline(lakehouse.storage, CATALOG.steps, asked, moment, lakehouse.now())
    )
    with dg.DagsterInstance.ephemeral() as instance:
        yield Shown(lakehouse, instance)


def test_the_page_of_a_timeline_has_its_days_and_what_to_type(shown: Shown) -> None:
    assert shown.tick() == 1 and shown.names == {"back"}
    page = shown.page("back")
    assert (page["days"], page["differ from main"]) == (1, 1)
    said = " ".join(str(page["timeline"]).split())
    assert f"| {REVENUE} | 1 | 1 | 1 | v1 | {SECOND} |" in said
    for words in ("**by**: ana", "rewound to publication one", "backfill diff main back"):
        assert words in said
    assert shown.tick() == 0, "nothing has changed"
    shown.lakehouse.publish("three", {REVENUE: {SECOND: [3]}})
    assert shown.tick() == 1 and shown.page("back")["differ from main"] == 0


def test_partitions_are_the_timelines_that_are_kept(shown: Shown) -> None:
    storage, now = shown.lakehouse.storage, clock.now()
    shown.tick()
    made = create_timeline(storage, new_timeline(storage, "trial", "ana", now))
    assert shown.tick() == 1 and shown.names == {"back", "trial"}
    assert "backfill run TABLE --days A..B --on trial" in str(shown.page("trial")["timeline"])
    renamed = rename_timeline(storage, made, "second-trial", now)
    assert shown.tick() == 2 and shown.names == {"back", "second-trial"}
    delete_timeline(storage, renamed, now)
    assert shown.tick() == 1 and shown.names == {"back"}
    create_timeline(storage, new_timeline(storage, "gone", "ana", now).model_copy(update={"keep_until": now}))
    assert shown.tick() == 0, "its age is reached"


def test_a_timeline_that_cannot_be_read_hides_no_other(shown: Shown) -> None:
    """Its newest revision is of a later version, or half of a file: its partition stays, and the tick says why."""
    storage, now = shown.lakehouse.storage, clock.now()
    made = [create_timeline(storage, new_timeline(storage, name, "ana", now)) for name in ("first", "second")]
    assert shown.tick() == 3
    path = f"_named_timelines/{made[0].name}/000001.json"
    storage.write_bytes(path, b'{"of": "a later version"}')
    delete_timeline(storage, made[1], now)
    shown.lakehouse.publish("three", {REVENUE: {SECOND: [3]}})
    assert shown.tick() == 1 and shown.page("back")["differ from main"] == 0
    assert shown.names == {"back", "first", "second"}, "one of them is the one that cannot be read"
    (why,) = shown.unreadable
    assert path in why and "is damaged, or of a later version" in why
    assert find_timeline(storage, "back", now).name == "back"
    with pytest.raises(LakehouseUnusable, match="is damaged, or of a later version"):
        find_timeline(storage, "first", now)
    with pytest.raises(LakehouseUnusable, match="is damaged, or of a later version"):
        kept_timelines(storage, now)
    storage.delete(path)
    assert shown.tick() == 1 and shown.names == {"back", "first"} and shown.unreadable == []


def test_no_run_materializes_it() -> None:
    spec = timelines_spec()
    assert spec.group_name == UNDER_THE_HOOD and isinstance(spec.partitions_def, dg.DynamicPartitionsDefinition)
