"""Schedules of the simulator on a real disk: what delta-rs does there, the judges of memory find in order."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from backfill_assets_tests.protocol.staging import scratch
from backfill_assets_tests.simulator.actors import ACTORS
from backfill_assets_tests.simulator.actors.builder import BUILDERS
from backfill_assets_tests.simulator.actors.campaigns import CAMPAIGNERS
from backfill_assets_tests.simulator.actors.healing import HEALERS
from backfill_assets_tests.simulator.actors.maintenance import MAINTAINERS
from backfill_assets_tests.simulator.actors.stream import LOOPS
from backfill_assets_tests.simulator.judges.names import anomalies_in
from backfill_assets_tests.simulator.on_disk import WorldOnDisk
from backfill_assets_tests.simulator.play import Played, cast_of, play_in
from backfill_assets_tests.simulator.schedule import Seeded

pytestmark = pytest.mark.protocol
IN_MEMORY = (*BUILDERS, *CAMPAIGNERS, *HEALERS, *MAINTAINERS, "overwriter")
KINDS = [kind for kind in ACTORS if kind not in (*IN_MEMORY, *LOOPS)]
"""All who work on tables of names; what is built begins in memory."""
FEW, MANY = (10, 300), (120, 1_000)


def play_on_disk(seed: int, steps: int) -> Played:
    drawn = Random(f"on disk {seed}").sample(KINDS, 4)
    cast = cast_of(seed, ["publisher", "appender", *drawn])
    with tempfile.TemporaryDirectory(dir=scratch()) as folder:
        world = WorldOnDisk(Path(folder), seed, {name: ACTORS[name.partition("-")[0]] for name in cast})
        return play_in(world, Seeded(seed, steps))


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seeds", [pytest.param(FEW, id="few"), pytest.param(MANY, id="many", marks=pytest.mark.long)])
def test_no_schedule_breaks_a_promise_on_a_disk(seeds: tuple[int, int]) -> None:
    tally, failed = Counter[str](), list[str]()
    for seed in range(1, seeds[0] + 1):
        played = play_on_disk(seed, seeds[1])
        tally += played.tally
        if played.failure is not None:
            failed.append(f"{seed}, {' '.join(played.actors)}: {played.failure!r}")
        failed += [f"{seed}, {name}: {said}" for name, said in anomalies_in(played.history).items()]
    assert not failed, "\n".join(failed)
    needed = ["published", "table committed", "deaths"]
    needed += ["refused", "altered", "log optimised", "foreign add"] if seeds == MANY else []
    assert not [what for what in needed if not tally[what]], tally
