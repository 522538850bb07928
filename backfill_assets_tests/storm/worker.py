"""One process of a storm: its actor's deed again and again, until the time is over or until it is killed."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
from deltalake.exceptions import DeltaError

from backfill_assets.errors import BackfillError
from backfill_assets.lakehouse.storage import Storage
from backfill_assets_tests.simulator import chain
from backfill_assets_tests.simulator.world import RETENTION_DAYS, Life
from backfill_assets_tests.storm.actors import DEEDS, PAUSES
from backfill_assets_tests.storm.clock import StormClock
from backfill_assets_tests.storm.notes import Notes, file_of
from backfill_assets_tests.storm.real_world import RealWorld

OVER = "over"
"""A file among the notes: a storm that has seen enough ends before its time."""
_OWN = 1_000_000


@dataclass(frozen=True)
class Place:
    """Where a storm takes place. ``pace`` is how much slower than a disk the store is; ``variables`` lead to it."""

    root: str
    notes: Path
    seed: int
    began: float
    pace: float = 1.0
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def clock(self) -> StormClock:
        return StormClock(self.began)


def run(place: Place, actor: str, number: int, until: float, once: bool) -> None:
    """The main function of a process: the life ``number`` of an actor, until a moment (s since 1970), or for one deed.

    A refusal is an answer; so is a file that is gone for one that was stopped for longer than files are kept. Anything
    else that is raised is a finding.
    """
    os.environ.update(place.variables)
    notes = Notes(file_of(place.notes, actor, number))
    # The fork server has the environment of its first use: what is drawn comes from the seed alone.
    own = Random(f"{actor} {number}").randrange(1, 1_000_000) * _OWN
    with place.clock.ruling(), pytest.MonkeyPatch.context() as patch:
        chain.computed_in_memory(patch)
        world = RealWorld(Storage(place.root), place.clock, notes, own)
        life, over = Life(world, actor, number), place.notes / OVER
        while time.time() < until and not over.exists() and _goes_on(life, world, place) and not once:
            time.sleep(life.draw.random() / 20 + PAUSES.get(actor.rpartition("-")[0], 0.0))


def _goes_on(life: Life, world: RealWorld, place: Place) -> bool:
    """Do its deed; False if it ended in what is no answer."""
    life.deeds += 1
    life.draw = Random(f"{place.seed} {life.id} {life.deeds}")
    began = world.clock.now()
    try:
        DEEDS[life.name.rpartition("-")[0]](life)
    except BackfillError as error:
        world.told_of(life, error)
    except Exception as error:
        slept = world.clock.now() - began > timedelta(days=RETENTION_DAYS)
        if not (slept and isinstance(error, OSError | DeltaError)):
            world.record.write("failed", why=traceback.format_exc()[-3000:])
            return False
        world.tally["slept too long"] += 1
        world.record.told(life.id, "unknown")
    world.record.write("deed", tally={what: count for what, count in world.tally.items() if count})
    world.tally.clear()
    return True
