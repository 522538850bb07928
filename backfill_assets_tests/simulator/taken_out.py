"""A rule of the protocol is taken out of a copy of the package, and everybody is played on that copy.

A process of its own plays it: this module, with the copy first on its path. Judges of steps stop at the first thing
that is wrong. Seen ``afterwards``, their assertions are left out (``python -O``): everything goes on to its end, and
what was asked and answered is judged, by libraries of others alone.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import backfill_assets
from backfill_assets_tests.mutants.run import HERE, TREE
from backfill_assets_tests.simulator.judges.names import anomalies_in, name_of
from backfill_assets_tests.simulator.play import STEPS, Played, play_seed, play_turns
from backfill_assets_tests.simulator.schedule import Turn
from backfill_assets_tests.simulator.shrink import shortest

MOST_PLAYS = 400
_GIT = shutil.which("git") or "git"
_PACKAGE = "backfill_assets"


@dataclass(frozen=True)
class Found:
    """What the schedule ``turns`` of ``seed`` shows; ``afterwards`` by the history alone."""

    anomaly: str
    seed: int
    turns: str
    steps: int
    afterwards: bool = False
    said: str = ""
    """The sentence of the judge."""

    @property
    def actors(self) -> list[str]:
        """Who plays, in the order in which they begin."""
        return list(dict.fromkeys(turn.actor for turn in map(Turn.parse, self.turns.split())))


@contextmanager
def without(patch: str) -> Iterator[Path]:
    """A folder with the package as ``mutants/<patch>.patch`` breaks it."""
    with tempfile.TemporaryDirectory(prefix=f"without-{patch}-") as name:
        folder = Path(name)
        shutil.copytree(TREE / _PACKAGE, folder / _PACKAGE)
        command = [_GIT, "apply", "--whitespace=nowarn", str(HERE / f"{patch}.patch")]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        yield folder


def search(
    patch: str,
    seeds: range,
    kinds: Sequence[str] = (),
    *,
    afterwards: bool,
    steps: int = STEPS,
    plays: int = MOST_PLAYS,
) -> Found | None:
    """The first of ``seeds`` that shows something, and the shortest history that shows the same, of so many ``plays``.

    Among those who are of ``kinds``; without, each seed draws its own.
    """
    asked = {
        "seeds": [seeds.start, seeds.stop],
        "kinds": list(kinds),
        "afterwards": afterwards,
        "steps": steps,
        "plays": plays,
    }
    found = json.loads(_played_in(patch, asked, afterwards=afterwards))
    return Found(**found) if found else None


def shortened(patch: str, seed: int, turns: str, *, afterwards: bool) -> Found | None:
    """The same of a schedule that a person has written; None where it shows nothing."""
    asked = {"written": [seed, turns], "afterwards": afterwards}
    found = json.loads(_played_in(patch, asked, afterwards=afterwards))
    return Found(**found) if found else None


def play_again(patch: str, kept: Sequence[Found]) -> list[dict[str, str]]:
    """What each of ``kept`` shows, by name and with the judge's sentence; they are all seen at once, or afterwards."""
    asked = {"kept": [asdict(each) for each in kept], "afterwards": kept[0].afterwards}
    named: list[dict[str, str]] = json.loads(_played_in(patch, asked, afterwards=kept[0].afterwards))
    return named


def _played_in(patch: str, asked: object, *, afterwards: bool) -> str:
    with without(patch) as folder:
        command = [sys.executable, *(["-O"] if afterwards else []), "-m", __name__]
        environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{TREE}"}
        done = subprocess.run(
            command, cwd=folder, env=environment, input=json.dumps(asked), capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise RuntimeError(f"{patch} could not be played: {done.stderr}")
    return done.stdout.splitlines()[-1]


# ------------------------------------------------------------------ in the process that plays


def _shown(played: Played, *, afterwards: bool) -> dict[str, str]:
    if afterwards:
        return anomalies_in(played.history)
    return {} if played.failure is None else {name_of(played.failure): str(played.failure)}


def _shows(name: str, afterwards: bool, played: Played) -> bool | None:
    return name in _shown(played, afterwards=afterwards) or None


def _first(histories: Iterable[Played], plays: int = MOST_PLAYS, *, afterwards: bool) -> Found | None:
    for played in histories:
        if shown := _shown(played, afterwards=afterwards):
            name = next(iter(shown))
            best = shortest(played, plays, how=partial(_shows, name, afterwards))
            said = _shown(best, afterwards=afterwards)[name]
            return Found(name, played.seed, " ".join(map(str, best.turns)), best.steps, afterwards, said)
    return None


def _written(seed: int, text: str) -> Played:
    turns = list(map(Turn.parse, text.split()))
    return play_turns(seed, list(dict.fromkeys(turn.actor for turn in turns)), turns)


def main() -> None:
    """Reads what is asked for as JSON, and answers in a line of it."""
    if Path(backfill_assets.__file__).parent.parent != Path.cwd():
        raise RuntimeError(f"{backfill_assets.__file__} is not the copy in {Path.cwd()}")
    match json.load(sys.stdin):
        case {"seeds": [first, stop], "kinds": kinds, "afterwards": afterwards, "steps": steps, "plays": plays}:
            histories = (play_seed(seed, steps, kinds) for seed in range(first, stop))
            found = _first(histories, plays, afterwards=afterwards)
            print(json.dumps(asdict(found) if found else None))
        case {"written": [seed, turns], "afterwards": afterwards}:
            found = _first([_written(seed, turns)], afterwards=afterwards)
            print(json.dumps(asdict(found) if found else None))
        case {"kept": kept, "afterwards": afterwards}:
            shown = [_shown(_written(each["seed"], each["turns"]), afterwards=afterwards) for each in kept]
            print(json.dumps(shown))


if __name__ == "__main__":
    main()
