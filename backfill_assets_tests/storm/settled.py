"""What comes before a storm and after it, in a process of its own each."""

from __future__ import annotations

from backfill_assets.publish.crash_points import nowhere
from backfill_assets.publish.delivery import deliver
from backfill_assets.publish.outbox import due_notices
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets.upkeep.reclaim import finish_reclaiming
from backfill_assets_tests.simulator import chain
from backfill_assets_tests.simulator.actors.builder import first_build
from backfill_assets_tests.simulator.world import Life
from backfill_assets_tests.storm.names import note_kept

_ROUNDS = 10


def begin(life: Life) -> None:
    """What builders begin with."""
    first_build(life)


def settle(life: Life) -> None:
    """A new process finishes what is open, sends what is due, and builds what is stale: nothing is left half done."""
    publisher = life.publisher()
    publisher.recover()
    finish_reclaiming(publisher)
    assert not publisher.log.head().state.open, "entries are left open"
    days = sorted(life.world.landed())
    for step in chain.COMPUTED if days else ():
        builder = Builder(chain.lake_of(life.watched(nowhere)))
        builder.build(step, step.cadence.starts(days), run=chain.RUN, version=AS_PUBLISHED)
    for _ in range(_ROUNDS):  # one round has its time, which a slow store may take for a few of them
        done = deliver(publisher, life.world)
        if not (left := due_notices(publisher)):
            break
    assert not left, f"{len(left)} notices are due after {_ROUNDS} rounds: {done}"
    note_kept(life)
