"""Each of two is overtaken at every step by all of the other, and then goes on or is dead: small, complete, the same.

The seeds look widely and by chance; this looks at little, and at all of it.
"""

from __future__ import annotations

import pytest

from backfill_assets_tests.simulator.actors.builder import BUILDERS
from backfill_assets_tests.simulator.play import Played, play_turns
from backfill_assets_tests.simulator.schedule import Ending, Turn
from backfill_assets_tests.simulator.store import FAULTS

pytestmark = pytest.mark.protocol
SEED = 7
PAIRS = (
    "publisher-1 publisher-2",
    "publisher-1 recoverer-1",
    "publisher-1 undo-1",
    "publisher-1 foreign-1",
    "publisher-1 person-1",
    "publisher-1 alterer-1",
    "publisher-1 optimiser-1",
    "alterer-1 publisher-1",
    "claimer-1 claimer-2",
    "leaser-1 leaser-2",
    "publisher-1 reclaimer-1",
    "undo-1 publisher-1",
    "appender-1 appender-2",
    "stream-1 stream-2",
    "facts-1 raw-1",
    "compactor-1 appender-1",
    "switcher-1 switcher-2",
    "reclaimer-1 publisher-1",
    "deliverer-1 deliverer-2",
    "campaign-1 builder-1",
    "builder-1 source-1",
    "traveller-1 campaign-1",
    "undoer-1 builder-1",
    "rewinder-1 undoer-1",
    "namer-1 traveller-1",
    "standby-1 builder-1",
    "bringer-1 source-1",
)
BEFORE = (Turn("appender-8", 200), Turn("publisher-8", 330))
"""Something is there: rows of a source, and publications."""
BUILT = (Turn("campaign-8", 450), Turn("rewinder-8", 150))
"""Beside what was built at first, a campaign and a timeline."""
LONGEST, OTHERS = 400, 250
FEW = (LONGEST // 2, LONGEST)
"""The steps at which the first one is overtaken in small: at one of them it waits, and at the other it dies."""


def play(pair: str, step: int, ends: Ending) -> Played:
    first, second = pair.split()
    before = BUILT if first.partition("-")[0] in BUILDERS else BEFORE
    turns = [*before, Turn(first, step, ends), Turn(second, OTHERS)]
    return play_turns(SEED, list(dict.fromkeys(turn.actor for turn in turns)), turns)


@pytest.mark.parametrize("pair", PAIRS)
def test_whoever_is_overtaken_and_wakes_up_late_or_never_breaks_no_promise(pair: str) -> None:
    """A slow writer that wakes up is where a publication is most easily undone or done twice."""
    endings: tuple[Ending, Ending] = ("waits", "dies") if PAIRS.index(pair) % 2 else ("dies", "waits")
    for step, ends in zip(FEW, endings, strict=True):
        _require_unbroken(pair, step, ends)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("ends", ["waits", "dies", *FAULTS])
@pytest.mark.parametrize("pair", PAIRS)
def test_overtaken_at_every_step_nobody_breaks_a_promise(pair: str, ends: Ending) -> None:
    for step in range(1, LONGEST + 1):
        _require_unbroken(pair, step, ends)


def _require_unbroken(pair: str, step: int, ends: Ending) -> None:
    played = play(pair, step, ends)
    assert played.failure is None, f"{played.line}: {played.failure}"
