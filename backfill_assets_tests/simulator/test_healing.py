"""What runs by itself repairs nothing that is right, nothing twice or against a person, and comes to rest after faults.

The judge is asked with rules taken out of the package: a seed that is kept shows what each of them keeps away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from backfill_assets.rebuild.step_look import StepLooking
from backfill_assets.state.rolled_back import Undo
from backfill_assets.upkeep import heal, repair
from backfill_assets.upkeep.trouble import RepairContext
from backfill_assets_tests.simulator.actors.healing import HEALERS
from backfill_assets_tests.simulator.actors.maintenance import MAINTAINERS
from backfill_assets_tests.simulator.judges.names import anomalies_in
from backfill_assets_tests.simulator.play import Played, play_seed, play_turns
from backfill_assets_tests.simulator.schedule import Turn

pytestmark = pytest.mark.protocol

ALONE = (*HEALERS, "source")
CASTS: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "alone": (ALONE, ("repairs", "healed: files lost", "healed: foreign write", "healed: late rows")),
    "among others": (
        (*ALONE, "builder", "undoer", "campaign", "reader", "person", "time"),
        ("healed: table cannot be read", "healed: files lost", "backfills done"),
    ),
    "beside maintenance": (
        (*HEALERS, *MAINTAINERS, "source", "builder", "foreign", "publisher", "reader"),
        ("repairs", "versions without files", "plans opened"),
    ),
    "maintenance": (
        ("engine", "keeper", "publisher", "stream", "reader"),
        ("maintained: pin to the newest version", "versions without files", "commits cleaned up"),
    ),
}
"""Who plays, and what must have happened."""
FEW, MANY = range(1, 5), range(1, 501)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", CASTS)
@pytest.mark.parametrize("seeds", [pytest.param(FEW, id="few"), pytest.param(MANY, id="many", marks=pytest.mark.long)])
def test_what_runs_by_itself_comes_to_rest(seeds: Sequence[int], name: str) -> None:
    """While tables lose files, others write to them, rows come late, engines clean up, and any process dies.

    A repair is launched for what is wrong alone; one table that cannot be read stops no other; then nothing is open.
    """
    cast, happens = CASTS[name]
    tally, failed = Counter[str](), list[str]()
    for seed in seeds:
        played = play_seed(seed, kinds=cast)
        tally += played.tally
        if played.failure is not None:
            failed.append(f'make simulate SEED={seed} ACTORS="{" ".join(cast)}": {played.failure}')
        failed += [f"SEED={seed}, {anomaly}: {said}" for anomaly, said in anomalies_in(played.history).items()]
    assert not failed, "\n".join(failed)
    assert not [each for each in (*happens, "deaths") if not tally[each]], tally


def test_a_day_that_a_person_takes_away_while_its_repair_is_proven_is_no_incident_any_more() -> None:
    """No watchdog reads a day that is published no more: it was waited for without end."""
    cast = (*ALONE, "builder", "undoer", "campaign", "reader", "person")
    assert play_seed(2053, kinds=cast).failure is None


ROLLED_BACK_MEANWHILE = "undoer-1:1 vandal-1:9 healer-1:1"
"""A person rolls back a day whose repair is launched and has not run."""


def _after_launch() -> Played:
    turns = list(map(Turn.parse, ROLLED_BACK_MEANWHILE.split()))
    return play_turns(117470, ("vandal-1", "undoer-1", "healer-1"), turns)


def test_a_repair_that_waits_leaves_what_a_person_has_rolled_back_since(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _after_launch().failure is None
    monkeypatch.setattr(StepLooking, "undone", lambda *_: {})
    assert "which a person has rolled back" in str(_after_launch().failure)


# ------------------------------------------------------------------ rules taken out


def _all_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(repair, "_met", lambda *_: None)


def _what_is_right(patch: pytest.MonkeyPatch) -> None:
    """A repair takes a day more along, which nothing has touched."""
    made = repair._repair

    def more(seen: RepairContext, group: Any) -> repair.Repair:
        found = made(seen, group)
        days = {table: tuple(sorted({*days, *seen.published[table]})) for table, days in found.days.items()}
        return replace(found, days=days)

    patch.setattr(repair, "_repair", more)


def _against_a_person(patch: pytest.MonkeyPatch) -> None:
    """Neither the decision of a repair nor its build asks what a rollback holds."""
    patch.setattr(Undo, "cause", None)


def _launched_once(patch: pytest.MonkeyPatch) -> None:
    """What is written and was not launched, since a look has died, is forgotten."""
    patch.setattr(heal, "launches", lambda _: ())


def _one_stops_all(patch: pytest.MonkeyPatch) -> None:
    """Where a table cannot be read, nothing is decided."""
    decided = repair.repairs_needed

    def nothing(seen: RepairContext) -> repair.RepairDecision:
        found = decided(seen)
        return replace(found, launch=()) if found.unreadable else found

    patch.setattr(heal, "repairs_needed", nothing)


TAKEN_OUT: tuple[tuple[Callable[[pytest.MonkeyPatch], None], int, Sequence[str], str], ...] = (
    (_all_at_once, 1, ALONE, "at once"),
    (_what_is_right, 1, ALONE, "builds what is right"),
    (_against_a_person, 23, (*ALONE, "undoer"), "which a person has rolled back"),
    (_launched_once, 1, ALONE, "and wait for nobody"),
    (_one_stops_all, 2, ALONE, "and wait for nobody"),
)


@pytest.mark.parametrize(
    ("take_out", "seed", "cast", "said"), TAKEN_OUT, ids=[each[0].__name__.strip("_") for each in TAKEN_OUT]
)
def test_a_rule_that_is_taken_out_is_missed(
    monkeypatch: pytest.MonkeyPatch,
    take_out: Callable[[pytest.MonkeyPatch], None],
    seed: int,
    cast: Sequence[str],
    said: str,
) -> None:
    take_out(monkeypatch)
    played = play_seed(seed, kinds=cast)
    assert played.failure is not None and said in str(played.failure)
