"""Plays hazards by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from backfill_assets.examples.lab import boundary, collision, repeat, scale, undo
from backfill_assets.examples.lab.hazard import Hazard
from backfill_assets.examples.lab.workbench import Workbench

HAZARDS: dict[str, Callable[[Workbench], Hazard]] = {
    "collision": collision.run,
    "repeat": repeat.run,
    "scale": scale.run,
    "boundary": boundary.run,
    "undo": undo.run,
}


def play(names: Iterable[str], bench: Workbench) -> Iterator[Hazard]:
    """Each hazard when it has been played, on a Spark that is warm."""
    bench.warm_up(boundary.DAY)
    for name in names:
        yield replace(HAZARDS[name](bench), folder=str(bench.folder / name))
