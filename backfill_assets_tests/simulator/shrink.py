"""The shortest history that fails in the same way: actors, turns, deaths, faults and steps are taken out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from backfill_assets_tests.simulator.play import Played, play_turns
from backfill_assets_tests.simulator.schedule import Turn, joined

Failed = tuple[type[BaseException], str, int]
Turns = Sequence[Turn]
MOST_PLAYS = 600


def how_it_failed(failure: BaseException) -> Failed:
    """The place that raised it: what it says names publications and days, which differ."""
    trace = failure.__traceback__
    assert trace is not None
    while trace.tb_next is not None:
        trace = trace.tb_next
    return type(failure), trace.tb_frame.f_code.co_qualname, trace.tb_lineno


def _how(played: Played) -> object:
    return None if played.failure is None else how_it_failed(played.failure)


def shortest(
    played: Played,
    most: int = MOST_PLAYS,
    progress: Callable[[Played, int], None] = lambda found, plays: None,
    how: Callable[[Played], object] = _how,
) -> Played:
    """``played`` has failed; tries at most so many shorter ones, and tells of each that still fails.

    ``how`` says in which way: what it gives of ``played`` must stay; None is no failure.
    """
    wanted, best, plays = how(played), played, 0
    assert wanted is not None
    found = True
    while found and plays < most:
        found = False
        for shorter in _WAYS:
            at = 0
            while plays < most and at < len(options := shorter(best.turns)):
                turns, plays = options[at], plays + 1
                names = {turn.actor for turn in turns}
                tried = play_turns(best.seed, [name for name in best.actors if name in names], turns)
                if how(tried) == wanted:
                    best, found = tried, True
                    progress(best, plays)
                else:
                    at += 1
    return best


def _without_an_actor(turns: Turns) -> list[Turns]:
    return [[turn for turn in turns if turn.actor != actor] for actor in sorted({turn.actor for turn in turns})]


def _joined(turns: Turns) -> list[Turns]:
    whole = joined(turns)
    return [whole] if len(whole) < len(turns) else []


def _without_a_part(turns: Turns) -> list[Turns]:
    """Large parts first, then single turns."""
    found: list[Turns] = []
    part = len(turns) // 2
    while part:
        found += [[*turns[:at], *turns[at + part :]] for at in range(0, len(turns), part)]
        part //= 2
    return found


def _without_a_switch(turns: Turns) -> list[Turns]:
    """One actor goes on where another was between; either goes first."""
    found: list[Turns] = []
    for at in range(len(turns) - 2):
        first, other, then = turns[at : at + 3]
        if first.actor == then.actor and first.ends == "waits":
            whole = replace(then, steps=first.steps + then.steps)
            found += [[*turns[:at], *pair, *turns[at + 3 :]] for pair in ((whole, other), (other, whole))]
    return found


def _with_a_plainer_turn(turns: Turns) -> list[Turns]:
    return [[*turns[:at], plainer, *turns[at + 1 :]] for at, turn in enumerate(turns) for plainer in _plainer(turn)]


def _plainer(turn: Turn) -> Iterator[Turn]:
    """Without what becomes of it, and with fewer steps."""
    if turn.ends != "waits":
        yield replace(turn, ends="waits")
    for fewer in dict.fromkeys((turn.steps // 2, turn.steps * 3 // 4, turn.steps - 1)):
        if 0 < fewer < turn.steps:
            yield replace(turn, steps=fewer)


_WAYS = (_without_an_actor, _joined, _without_a_part, _without_a_switch, _with_a_plainer_turn)
"""Those that take much away come first."""
