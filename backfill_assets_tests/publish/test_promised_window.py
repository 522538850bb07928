"""The rollback window that was promised with a publication: stored with it, and obeyed if another is set later."""

from __future__ import annotations

import json
import os
from datetime import timedelta

import pytest

from backfill_assets.campaign.rollback import roll_back
from backfill_assets.errors import PublicationRefused
from backfill_assets.lakehouse.plans import keep_plan
from backfill_assets.upkeep.maintenance import Maintenance
from backfill_assets.upkeep.maintenance_plan import Chore
from backfill_assets.upkeep.reclaim import reclaim
from backfill_assets_tests.protocol.lake import D1, Lake

pytestmark = pytest.mark.protocol
PLAN = "plan-0123456789abcdef"


def _kept_for(lake: Lake, table: str) -> set[str]:
    configuration = lake.table(table).metadata().configuration
    return {configuration[name] for name in ("delta.logRetentionDuration", "delta.deletedFileRetentionDuration")}


def _a_day_replaced_with_a_window_of(lake: Lake, days: int) -> None:
    lake.publish("p1", {"t": {D1: ["a"]}})
    lake.retention_days = days
    lake.publish("p2", {"t": {D1: ["b"]}})


def test_a_promised_window_is_obeyed_by_maintenance_with_a_shorter_one(lake: Lake) -> None:
    """Someone lowers the setting, or one of two machines has another: what was promised can be rolled back."""
    _a_day_replaced_with_a_window_of(lake, 90)
    lake.retention_days = 7
    lake.clock += timedelta(days=80)
    assert reclaim(lake.publisher(), "t", clock_checked=True) == []
    roll_back(lake.publisher(), "p2", id="back", steps=())
    assert lake.rows("t") == {D1: ["a"]}


def test_when_the_promised_window_is_over_its_files_go(lake: Lake) -> None:
    _a_day_replaced_with_a_window_of(lake, 90)
    lake.retention_days = 7
    lake.clock += timedelta(days=92)
    with pytest.raises(PublicationRefused, match="files are kept for 90 days"):
        roll_back(lake.publisher(), "p2", id="back", steps=())
    log, data = reclaim(lake.publisher(), "t", clock_checked=True)
    assert log == f"t/_timelines/p1-0/_delta_log/{0:020d}.json" and data.startswith(f"t/_timelines/p1-0/day={D1}/")
    assert lake.rows("t") == {D1: ["b"]}


def test_the_properties_of_a_table_follow_the_window(lake: Lake) -> None:
    """Raised by the next publication, not only at creation; lowered by maintenance when no promise needs them."""
    _a_day_replaced_with_a_window_of(lake, 90)
    found = lake.publisher().log.find_prepared("p2")
    assert found is not None and found[0].window_days == 90, "a head that is rebuilt from the rows has it as well"
    assert lake.head.promised["90"] - lake.clock == timedelta(days=90)
    assert _kept_for(lake, "t") == {"interval 90 days"}
    lake.retention_days = 7
    lake.publish("p3", {"t": {D1: ["c"]}})
    assert _kept_for(lake, "t") == {"interval 90 days"}
    lake.clock += timedelta(days=92)
    tended = Maintenance(lake.publisher(), ["t"], timeline_days=14)
    tasks = [task for task in tended.plan() if task.chore is Chore.KEEP]
    tended.carry_out(tasks, print)
    assert len(tasks) == 1 and _kept_for(lake, "t") == {"interval 7 days"}


def test_a_kept_plan_pins_what_it_was_made_from(lake: Lake) -> None:
    """It was shown to someone who may start it within the window: what it compares with is there until then."""
    lake.publish("p1", {"t": {D1: ["a"]}})
    version = lake.head.versions["t"]
    (path,) = lake.state("t").active
    lake.table("t").delete()
    lake.publish("p2", {"t": {D1: ["b"]}})
    lake.clock += timedelta(days=40)
    keep_plan(lake.storage, PLAN, json.dumps({"pinned": [{"table": "t", "version": version}]}))
    os.utime(lake.root / "_plans" / f"{PLAN}.json", (lake.clock.timestamp(), lake.clock.timestamp()))
    assert reclaim(lake.publisher(), "t", clock_checked=True) == []
    assert lake.storage.exists(f"t/{path}")
