"""How many seeds it takes until the simulator finds a mutant, of those of ``mutants`` that a seed draws.

``python -m backfill_assets_tests.simulator.drawn --seed 1 --mutants 30 --seeds 1000`` draws among patches of the rooms
that decide what is published, plays each on a copy of the package, and prints a table. Nobody has chosen a seed or a
cast for it: a mutant that is not found here breaks what the simulator does not play, and its own test kills it.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random

from backfill_assets_tests.mutants.run import HERE, read
from backfill_assets_tests.simulator.taken_out import Found, search

ROOMS = ("publish", "state", "rebuild")
_PATH = re.compile(rf"^\+\+\+ (?:b/)?backfill_assets/(?:{'|'.join(ROOMS)})/", re.MULTILINE)


def drawn(seed: int, count: int) -> list[str]:
    """Names of mutants."""
    names = [patch.stem for patch in sorted(HERE.glob("*.patch")) if _PATH.search(patch.read_text())]
    return sorted(Random(seed).sample(names, count))


def line(name: str, found: Found | None, seeds: range) -> str:
    breaks = read(HERE / f"{name}.patch").breaks
    if found is None:
        return f"| `{name}` | {breaks} | not within {len(seeds):,} | |"
    return f"| `{name}` | {breaks} | {found.seed - seeds.start + 1} | {found.anomaly} |"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="which mutants are drawn")
    parser.add_argument("--mutants", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=1000, help="the most that are played of each")
    parser.add_argument("--steps", type=int, default=400, help="of each seed")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args(arguments)
    seeds = range(1, asked.seeds + 1)

    def play(name: str) -> str:
        return line(name, search(name, seeds, afterwards=False, steps=asked.steps, plays=0), seeds)

    print("| mutant | what it breaks | seeds | seen as |\n|---|---|---:|---|")
    with ThreadPoolExecutor(asked.processes) as pool:
        for text in pool.map(play, drawn(asked.seed, asked.mutants)):
            print(text, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
