from __future__ import annotations

from typing import Any

from backfill_assets.cli.dev.dev import next_ticks

TWO = 1_488_333_600
"""2017-03-01 02:00 UTC"""


def schedule(name: str, at: int, status: str = "RUNNING", description: str | None = "Builds it. And more.") -> Any:
    ticks = {"results": [{"timestamp": at}]}
    return {"name": name, "description": description, "scheduleState": {"status": status}, "futureTicks": ticks}


def test_schedules_that_are_on_come_in_the_order_of_their_next_ticks() -> None:
    """With what they do, in a few words; of sensors, which tick all the time, the names."""
    schedules = [schedule("b", TWO + 7200, description=None), schedule("a", TWO), schedule("off", TWO, "STOPPED")]
    sensors = [{"name": name, "sensorState": {"status": on}} for name, on in (("repairs", "RUNNING"), ("x", "STOPPED"))]
    answer = {"data": {"repositoriesOrError": {"nodes": [{"schedules": schedules, "sensors": sensors}]}}}
    assert list(next_ticks(answer)) == [
        "  Wed 2017-03-01 02:00 UTC  a: Builds it",
        "  Wed 2017-03-01 04:00 UTC  b: ",
        "  all the time: repairs",
    ]
