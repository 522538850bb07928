"""Plays seeds, and of one that fails the shortest history: ``make simulate SEED=7 SEEDS=500 STEPS=1500 ACTORS=...``."""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from backfill_assets.text import format_duration
from backfill_assets_tests.simulator.actors import ACTORS
from backfill_assets_tests.simulator.play import STEPS, Played, cast_of, play_seed, play_turns
from backfill_assets_tests.simulator.schedule import Turn
from backfill_assets_tests.simulator.shrink import shortest

_EVERY_SECONDS = 2.0
_AT_ONCE = 8


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0 when every seed was played to its end."""
    asked = (parser := _parser()).parse_args(arguments)
    kinds = asked.actors.split()
    if strangers := [kind for kind in kinds if kind.partition("-")[0] not in ACTORS]:
        parser.error(f"there is no actor {', '.join(strangers)}; they are {', '.join(ACTORS)}")
    if asked.turns:
        turns = list(map(Turn.parse, asked.turns.split()))
        return _shown(play_turns(asked.seed, cast_of(asked.seed, kinds), turns), asked.history)
    if asked.seeds == 1:
        played = play_seed(asked.seed, asked.steps, kinds)
        return _failed(played) if played.failure is not None else _shown(played, asked.history)
    return _many(range(asked.seed, asked.seed + asked.seeds), asked.steps, kinds, asked.processes)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1, help="so many, from SEED on")
    parser.add_argument("--steps", type=int, default=STEPS, help="of each seed")
    parser.add_argument("--actors", default="", help=f"of {', '.join(ACTORS)}; without, each seed draws its own")
    parser.add_argument("--turns", default="", help="a schedule that was printed before")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--history", type=Path, help="where to write what was asked and answered, as lines of JSON")
    return parser


def _many(seeds: range, steps: int, kinds: list[str], processes: int) -> int:
    began = told = time.monotonic()
    tally, failed, done, passed = Counter[str](), list[int](), 0, 0
    with ProcessPoolExecutor(processes) as pool:
        results = pool.map(partial(_summary, steps=steps, kinds=kinds), seeds, chunksize=_AT_ONCE)
        for seed, (taken, fine, counts) in zip(seeds, results, strict=True):
            done, passed = done + 1, passed + taken
            tally.update(counts)
            if not fine:
                failed.append(seed)
                print(f"seed {seed} FAILS", flush=True)
            now = time.monotonic()
            if now - told > _EVERY_SECONDS or done == len(seeds):
                told, left = now, (now - began) / done * (len(seeds) - done)
                print(
                    f"{done:,}/{len(seeds):,} seeds, {passed:,} steps, {passed / (now - began) * 60:,.0f} a minute,"
                    f" {len(failed)} failed, ETA {format_duration(left)}",
                    flush=True,
                )
    print("\n".join(f"{count:9,}  {what}" for what, count in sorted(tally.items(), key=lambda each: -each[1])))
    return _failed(play_seed(failed[0], steps, kinds)) if failed else 0


def _summary(seed: int, steps: int, kinds: list[str]) -> tuple[int, bool, Counter[str]]:
    played = play_seed(seed, steps, kinds)
    counts = Counter({what: count for what, count in played.tally.items() if not what.startswith("died at ")})
    return played.steps, played.failure is None, counts


def _failed(played: Played) -> int:
    assert played.failure is not None
    print(f"seed {played.seed} fails after {played.steps:,} steps: {played.failure}\nLooking for the shortest ...")
    best = shortest(played, progress=_told)
    assert best.failure is not None
    traceback.print_exception(best.failure)
    print(f"{len(best.turns)} turns of {len(best.actors)} actors, {best.steps:,} steps:\n{best.line}")
    return 1


def _told(found: Played, plays: int) -> None:
    print(f"  {plays} plays: {len(found.turns)} turns of {len(found.actors)} actors", flush=True)


def _shown(played: Played, history: Path | None) -> int:
    print("\n".join(f"{count:7,}  {what}" for what, count in sorted(played.tally.items())))
    print(f"seed {played.seed}: {played.steps:,} steps, {len(played.history.operations)} operations")
    if history is not None:
        history.write_text(played.history.to_json())
    if played.failure is not None:
        traceback.print_exception(played.failure)
    return int(played.failure is not None)


if __name__ == "__main__":
    sys.exit(main())
