"""A process that streams into a table while it has the lease, which it takes, renews, loses and gives back."""

from __future__ import annotations

from backfill_assets import clock
from backfill_assets.errors import AnotherStreamRuns
from backfill_assets.stream.lease import LEASE_SECONDS, StreamLease, acquire_stream
from backfill_assets_tests.simulator.world import PlayedLife

_TABLES, _MOST = ("raw", "raw", "raw_more"), 5


def hold_lease(life: PlayedLife) -> None:
    """Two may start at once; one that slept for longer than its lease lasts wakes up beside the next."""
    table, stream = life.draw.choice(_TABLES), life.new_id("stream")
    leases = life.world.leases
    with leases.asks(table, stream) as told:
        lease = acquire_stream(life.storage, table, stream)
        told(lease.status.until, life.world.clock.moment)
    life.world.tally["leases"] += 1
    try:
        for _ in range(life.draw.randint(1, _MOST)):
            life.reached("beats")
            if life.draw.random() < 0.3:
                clock.sleep(life.draw.choice([1, LEASE_SECONDS - 1, LEASE_SECONDS + 1]))
            _beat(life, lease, table, stream)
    except AnotherStreamRuns:
        life.world.tally["leases lost"] += 1
    leases.ended(table, stream)
    lease.release()


def _beat(life: PlayedLife, lease: StreamLease, table: str, stream: str) -> None:
    with life.world.leases.asks(table, stream) as told:
        lease.beat(state="live")
        told(lease.status.until, life.world.clock.moment)
