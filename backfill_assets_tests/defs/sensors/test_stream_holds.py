"""A day whose events a gate holds back from a stream is one incident, told once, until it follows."""

# No postponed annotations here: Dagster resolves resources from the annotations themselves.
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.defs.sensors.repairs import repair_sensor
from backfill_assets.model.graph import build_order
from backfill_assets.publish.outbox import due_notices
from backfill_assets.state.diagnosis import Cause
from backfill_assets.stream.lease import HeldEvents, StreamLease, acquire_stream
from backfill_assets.upkeep.incidents import Incident, IncidentBook
from backfill_assets_tests.defs.conftest import DagsterLake
from backfill_assets_tests.defs.small_chain import publish_chain, publish_step
from backfill_assets_tests.defs.small_dataset import SMALL, SMALL_TABLES
from backfill_assets_tests.small_lakehouse import SmallLakehouse

DAY = date(2017, 3, 4)
SENSOR = repair_sensor(SMALL_TABLES)
SINCE = datetime(2017, 6, 1, 9, 40, tzinfo=UTC)
RELEASE = f'backfill raw release bronze_sales {DAY} "REASON"'
BRONZE = next(step for step in SMALL.steps if step.name == "bronze_sales")


class Streamed(DagsterLake):
    """A day of everything, of which a stream has read more sales."""

    number = 0

    def acquire(self) -> StreamLease:
        return acquire_stream(self.lakehouse.storage, "raw_sales", "landing")

    def events_come(self, count: int) -> None:
        """Just now, by the stream."""
        self.number += 1
        self.lakehouse.minutes = (datetime.now(UTC) - datetime(2017, 6, 1, 12, tzinfo=UTC)) / timedelta(minutes=1)
        self.lakehouse.metrics = {"raw_sales": {"received": count}}
        name = f"20170310t120000-stream-raw-sales-{self.number}"
        self.lakehouse.publish(name, {"raw_sales": {DAY: [self.number + 8]}}, mode="append")
        self.lakehouse.metrics = {}

    def follows(self, received: int) -> None:
        """What holds the day back is over: a person has released it, or the source delivered it right."""
        self.lakehouse.metrics = {name: {"from.raw_sales.received": received} for name in BRONZE.table_names}
        for step in (each for each in build_order(SMALL.steps) if not each.source):
            publish_step(self.lakehouse, f"follows{self.number}", step, {DAY: 3})
        self.lakehouse.metrics = {}

    def tick(self) -> str:
        return str(self.evaluate(SENSOR).skip_message)

    def open(self) -> list[Incident]:
        return IncidentBook(self.lakehouse.storage).open()

    def told(self) -> list[str]:
        return sorted(due.key for due in due_notices(self.lakehouse.publisher) if due.notice.incident)


@pytest.fixture
def world(dagster_instance: dg.DagsterInstance, tmp_path: Path) -> Streamed:
    lakehouse = SmallLakehouse(tmp_path / "lakehouse")
    lakehouse.metrics = {"raw_sales": {"received": 20}, "bronze_sales": {"from.raw_sales.received": 20}}
    publish_chain(lakehouse, "p", [DAY])
    return Streamed(tmp_path, dagster_instance, lakehouse)


def held(events: int) -> tuple[HeldEvents, ...]:
    why = f"few_rejected: {events} of {events + 20} rows quarantined, expected at most 20"
    found = HeldEvents(
        table="bronze_sales",
        day=DAY,
        rule="few_rejected",
        why=why,
        events=events,
        since=SINCE,
        version=BRONZE.current,
        rejected=events,
        reasons={"quantity: is not a bigint": events},
        do=RELEASE,
    )
    return (found,)


def test_what_a_stream_holds_back_is_told_once_and_is_over_when_it_follows(world: Streamed) -> None:
    """However many events come, and whether the stream is started anew: its day is not left to it for ever."""
    lease = world.acquire()
    world.events_come(60)
    assert "left to the running stream" in world.tick() and world.open() == []
    lease.beat(state="live", held_back=held(60))
    assert "For a person: bronze_sales 2017-03-04" in world.tick()
    (incident,) = world.open()
    facts = {each.label: each.words for each in incident.facts}
    assert (incident.cause, incident.days, incident.told) == (Cause.HELD_BACK, (DAY,), ("opened",))
    assert incident.words == (
        "60 events of raw_sales reach no table since 2017-06-01 09:40 UTC: few_rejected: 60 of 80 rows quarantined, "
        "expected at most 20 (most: quantity: is not a bigint)"
    )
    assert incident.next_step == (
        f"look at the rows (backfill raw quarantine bronze_sales {DAY}); to publish the day without them: {RELEASE}"
    )
    assert facts["since"] == "2017-06-01 09:40 UTC" and facts["affected"].endswith("; 60 events wait in raw")

    world.events_come(440)
    lease.beat(held_back=held(500))
    world.tick()
    lease.release()
    world.tick()
    lease = world.acquire()
    world.tick()
    (still,) = world.open()
    assert (still.id, still.told, still.words) == (incident.id, ("opened",), incident.words)
    assert len(still.history) == len(incident.history) and world.backfills() == []

    world.follows(received=520)
    lease.beat(held_back=())
    world.events_come(10)
    world.tick()
    assert world.open() == [] and world.told() == [f"{incident.id}-closed", f"{incident.id}-opened"]


def test_what_an_ended_stream_holds_back_is_tried_when_more_rows_have_come(world: Streamed) -> None:
    """From the same rows, a repair would fail the same gate."""
    lease = world.acquire()
    world.events_come(60)
    lease.beat(state="live", held_back=held(60))
    lease.release()
    assert "For a person: bronze_sales" in world.tick() and world.backfills() == []
    world.events_come(10)
    assert "Launched the backfill late_rows_" in world.tick()
