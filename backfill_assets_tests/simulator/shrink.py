"""The shortest history that fails in the same way: actors, turns, deaths, faults and steps are taken out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from backfill_assets_tests.simulator.play import Played, play_turns
from backfill_assets_tests.simulator.schedule import Turn, joined

Failed = tuple[type[BaseException], str, int]
MOST_PLAYS = 600


def how_it_failed(failure: BaseException) -> Failed:
    """The place that raised it: what it says names publications and days, which differ."""
    trace = failure.__traceback__
    assert trace is not None
    while trace.tb_next is not None:
        trace = trace.tb_next
    return type(failure), trace.tb_frame.f_code.co_qualname, trace.tb_lineno


def shortest(
    played: Played, most: int = MOST_PLAYS, progress: Callable[[Played, int], None] = lambda found, plays: None
) -> Played:
    """``played`` has failed; tries at most so many shorter ones, and tells of each that still fails."""
    assert played.failure is not None
    wanted, best, plays = how_it_failed(played.failure), played, 0
    found = True
    while found and plays < most:
        found = False
        for turns in _shorter(best.turns):
            plays += 1
            names = {turn.actor for turn in turns}
            tried = play_turns(best.seed, [name for name in best.actors if name in names], turns)
            if tried.failure is not None and how_it_failed(tried.failure) == wanted:
                best, found = tried, True
                progress(best, plays)
                break
            if plays >= most:
                break
    return best


def _shorter(turns: Sequence[Turn]) -> Iterator[list[Turn]]:
    """Histories that are less, the much shorter ones first."""
    for actor in sorted({turn.actor for turn in turns}):
        yield [turn for turn in turns if turn.actor != actor]
    if len(whole := joined(turns)) < len(turns):
        yield whole
    part = len(turns) // 2
    while part:
        yield from ([*turns[:at], *turns[at + part :]] for at in range(0, len(turns), part))
        part //= 2
    for at, turn in enumerate(turns):
        yield from ([*turns[:at], plainer, *turns[at + 1 :]] for plainer in _plainer(turn))
    for at in range(len(turns) - 2):
        if turns[at].actor == turns[at + 2].actor and turns[at].ends == "waits":  # one switch less
            yield [*turns[:at], turns[at + 1], turns[at], *turns[at + 2 :]]


def _plainer(turn: Turn) -> Iterator[Turn]:
    """Without what becomes of it, and with fewer steps."""
    if turn.ends != "waits":
        yield replace(turn, ends="waits")
    for fewer in dict.fromkeys((turn.steps // 2, turn.steps * 3 // 4, turn.steps - 1)):
        if 0 < fewer < turn.steps:
            yield replace(turn, steps=fewer)
