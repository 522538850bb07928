"""Whatever is played one thing after the other is accepted by all judges; with one value spoiled, it is named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from backfill_assets_tests.simulator.history import History, Key, Operation
from backfill_assets_tests.simulator.judges import cycles, linearizable
from backfill_assets_tests.simulator.judges.played import played
from backfill_assets_tests.simulator.judges.verdict import Verdict, named
from backfill_assets_tests.strategies.how_many import drawn

pytestmark = pytest.mark.protocol

SEEDS = st.integers(0, 2**32)


def verdicts(history: History) -> tuple[Verdict, Verdict]:
    return cycles.verdict(history), linearizable.verdict(history)


@settings(max_examples=drawn(20))
@given(SEEDS, st.integers(1, 60))
def test_what_was_played_is_right_however_it_overlaps(seed: int, steps: int) -> None:
    """With deaths, aborts, and writes past the log."""
    by_cycles, by_porcupine = verdicts(played(seed, steps))
    assert by_cycles.anomalies == by_porcupine.anomalies == ()


def spoiled(history: History) -> Iterator[tuple[Operation, Operation]]:
    """Operations that were alone, each with one that saw or replaced on a day what came earlier, later or never."""
    values: dict[Key, set[str | None]] = {}
    for each in history:
        for key, written in each.writes.items():
            values.setdefault(key, {None}).add(written)
    for each in history:
        if each.outcome != "ok" or not each.pinned or _beside_a_publication(each, history):
            continue
        for key, value in (each.reads or each.replaced).items():
            for other in sorted(values.get(key, set()) - {value, each.writes.get(key)}, key=str):
                told = {**(each.reads or each.replaced), key: other}
                yield each, replace(each, reads=told) if each.reads else replace(each, replaced=told)


def _beside_a_publication(each: Operation, history: History) -> bool:
    return any(
        other is not each and other.kind == "publish" and other.begin < each.begin < (other.end or 0)
        for other in history
    )


@settings(max_examples=drawn(20))
@given(SEEDS, st.integers(5, 60), st.data())
def test_one_spoiled_value_is_named_by_each_judge(seed: int, steps: int, data: st.DataObject) -> None:
    history = played(seed, steps, deaths=False, overlapping=False)
    cases = list(spoiled(history))
    assume(cases)
    was, wrong = data.draw(st.sampled_from(cases), label="was, and is told as")
    by_cycles, by_porcupine = verdicts(History(tuple(wrong if each is was else each for each in history)))
    assert by_cycles.anomalies and by_porcupine.anomalies
    assert named(wrong) in str(by_cycles)
