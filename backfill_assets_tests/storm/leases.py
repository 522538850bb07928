"""Streams that want one lease, and whether two ever had it at once."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from backfill_assets.stream.lease import LEASE_SECONDS, acquire_stream
from backfill_assets_tests.simulator.actors.stream import stream
from backfill_assets_tests.simulator.world import RAW, Life
from backfill_assets_tests.storm.notes import LifeTold
from backfill_assets_tests.storm.real_world import notes_of

_MOST = 8
_SECOND = 1_000_000_000
LASTS = LEASE_SECONDS * _SECOND
"""By the real clock (ns)."""


def stream_with_a_lease(life: Life) -> None:
    """As long as it has the lease; one that was stopped finds it taken. Each beat that succeeds is noted."""
    held = acquire_stream(life.storage, RAW[0], "the topic")
    notes = notes_of(life)
    number = f"{life.id}/{life.deeds}"
    with held.renewed():
        for _ in range(life.draw.randint(1, _MOST)):
            before = time.monotonic_ns()
            held.beat(state="live", batches=held.status.batches + 1)
            notes.write("beat", lease=number, before=before)
            stream(life)


def wrong_leases(lives: Sequence[LifeTold]) -> Iterator[str]:
    """Between two beats of one lease, no more than it lasts apart, it was held all the time: nobody else had a beat."""
    beats = sorted((line["before"], line["at"], line["lease"]) for life in lives for line in life.of("beat"))
    last: dict[str, tuple[int, int]] = {}
    for number, (before, at, lease) in enumerate(beats):
        if lease in last and before - last[lease][0] < LASTS:
            _, since = last[lease]
            between = [each for each in beats[:number] if each[2] != lease and each[0] > since and each[1] < before]
            yield from (f"{lease} had the lease, and so had {other}" for _, _, other in between)
        last[lease] = before, at
