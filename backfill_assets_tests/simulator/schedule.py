"""Who goes next, how far, and what becomes of them there: drawn from a seed, or played again as it was written down."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Literal, Protocol

from backfill_assets_tests.simulator.store import FAULTS, Fault

Ending = Literal["waits", "dies"] | Fault
_SIGNS: dict[str, Ending] = {
    "": "waits",
    "!": "dies",
    "!m": "dies in the middle",
    "?f": "fails",
    "?r": "is refused",
    "?l": "loses the answer",
    "?p": "keeps a part",
    "?a": "arrives later",
    "?x": "says it exists",
}
_ENDING = {ending: sign for sign, ending in _SIGNS.items()}
_TURN = re.compile(r"([a-z]+-\d+):(\d+)(\D*)")


@dataclass(frozen=True)
class Turn:
    """``actor`` passes so many steps, and then waits, dies, or meets a call that goes wrong."""

    actor: str
    steps: int
    ends: Ending = "waits"

    def __str__(self) -> str:
        return f"{self.actor}:{self.steps}{_ENDING[self.ends]}"

    @classmethod
    def parse(cls, text: str) -> Turn:
        if (found := _TURN.fullmatch(text)) is None or found[3] not in _SIGNS:
            raise ValueError(f"{text!r} is no turn: write publisher-1:17, and ! if it dies there")
        return cls(found[1], int(found[2]), _SIGNS[found[3]])


class Schedule(Protocol):
    """Who goes next."""

    def next(self, actors: Sequence[str], steps: int) -> Turn | None:
        """One of ``actors``, after so many ``steps`` of all of them; None when there are no more turns."""


class Written:
    """The turns of a schedule that was played before, or of a part of it."""

    def __init__(self, turns: Iterable[Turn]) -> None:
        self._left = list(reversed(list(turns)))

    @classmethod
    def parse(cls, text: str) -> Written:
        return cls(map(Turn.parse, text.split()))

    def next(self, actors: Sequence[str], steps: int) -> Turn | None:
        while self._left:
            turn = self._left.pop()
            if turn.actor in actors:
                return turn
        return None


_RUNS = (1, 3, 12, 40, 160)
"""How far a turn goes on the average: a seed of the first kind is overtaken at each step, one of the last seldom."""


class Seeded:
    """Turns for so many steps. Each seed has a taste: short turns or long ones, many deaths or none."""

    def __init__(self, seed: int, steps: int) -> None:
        self._draw = Random(f"schedule {seed}")
        self._most = steps
        self._run = self._draw.choice(_RUNS)
        self._deaths = self._draw.choice((0.0, 0.02, 0.1)) * min(1.0, self._run / 20)
        self._faults = self._draw.choice((0.0, 0.0, 0.02, 0.1)) * min(1.0, self._run / 20)
        self._favourite = self._draw.random() < 0.3

    def next(self, actors: Sequence[str], steps: int) -> Turn | None:
        if steps >= self._most:
            return None
        draw = self._draw
        passes = min(1 + int(draw.expovariate(1 / self._run)), 4 * self._run)
        number = int(draw.triangular(0, len(actors), 0)) if self._favourite else draw.randrange(len(actors))
        return Turn(actors[min(number, len(actors) - 1)], passes, self._ending())

    def _ending(self) -> Ending:
        chance = self._draw.random()
        if chance < self._deaths:
            return "dies"
        return self._draw.choice(FAULTS) if chance < self._deaths + self._faults else "waits"


def joined(turns: Iterable[Turn]) -> list[Turn]:
    """Turns of one actor that follow each other are one."""
    found: list[Turn] = []
    for turn in turns:
        if found and found[-1].actor == turn.actor and found[-1].ends == "waits":
            found[-1] = replace(turn, steps=found[-1].steps + turn.steps)
        else:
            found.append(turn)
    return found
