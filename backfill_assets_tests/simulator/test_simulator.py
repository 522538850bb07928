"""The simulator itself: no seed breaks a promise, the same one is the same history, and a failure gets shorter."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.lakehouse import delta_log
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.publish.publisher import Publisher
from backfill_assets_tests.simulator.__main__ import main as simulate
from backfill_assets_tests.simulator.history import History
from backfill_assets_tests.simulator.judges.__main__ import main as judge
from backfill_assets_tests.simulator.judges.names import anomalies_in
from backfill_assets_tests.simulator.play import Played, play_seed, play_turns
from backfill_assets_tests.simulator.schedule import Seeded, Turn, Written
from backfill_assets_tests.simulator.shrink import how_it_failed, shortest
from backfill_assets_tests.simulator.store import FAULTS

pytestmark = pytest.mark.protocol

FEW, MANY = (*range(1, 29), 36, 39), range(1, 2_001)
"""The last of the few are for mutants that no other one of them shows."""
BOOKS = ("publisher", "publisher", "bookkeeper", "undo", "stream", "compactor")
BROKEN_WITHIN = range(20, 200)
_PLAY = """
from backfill_assets_tests.simulator.play import play_seed
print(play_seed(3).digest)
"""


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seeds", [pytest.param(FEW, id="few"), pytest.param(MANY, id="many", marks=pytest.mark.long)])
def test_no_seed_breaks_a_promise(seeds: Sequence[int]) -> None:
    """Everybody works, is overtaken, meets a storage that fails, and dies; each step is judged beside the model.

    What was asked and answered is judged too, by libraries of others.
    """
    tally, failed = Counter[str](), list[str]()
    for seed in seeds:
        played = play_seed(seed)
        tally += played.tally
        if played.failure is not None:
            failed.append(f"make simulate SEED={seed}: {played.failure}")
        failed += [f"SEED={seed}, {name}: {said}" for name, said in anomalies_in(played.history).items()]
    assert not failed, "\n".join(failed)
    steps = {step.value for step in CrashPoint}
    assert not [step for step in (*steps, "published", "refused", "foreign add", *FAULTS) if not tally[step]], tally
    assert seeds == FEW or not [step for step in steps if not tally[f"died at {step}"]], tally


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "seeds", [pytest.param((1,), id="few"), pytest.param(range(1, 301), id="many", marks=pytest.mark.long)]
)
def test_nobody_changes_a_day_that_is_closed(seeds: Sequence[int]) -> None:
    """Somebody closes and reopens days beside those who publish, undo, append and compact."""
    tally = Counter[str]()
    for seed in seeds:
        played = play_seed(seed, 900, BOOKS)
        tally += played.tally
        assert played.failure is None and not anomalies_in(played.history), f"SEED={seed}: {played.failure}"
    assert tally["closed"] and tally["reopened"] and tally["DaysClosed"] and tally["published"], tally


def test_the_same_seed_is_the_same_history_in_any_process() -> None:
    """Bit for bit, whatever order sets have there, and whatever was played before."""
    salt = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    elsewhere = subprocess.run(
        [sys.executable, "-c", _PLAY],
        env={**os.environ, "PYTHONHASHSEED": salt},
        capture_output=True,
        text=True,
        check=True,
    )
    assert elsewhere.stdout.splitlines() == [play_seed(3).digest]


SLEEPER = ["publisher-1", "reader-1", "engine-1", "builder-1", "time-1", "recoverer-1", "alterer-1"]
CLEANED_UP_MEANWHILE = (
    "publisher-1:119 builder-1:32 publisher-1:24 time-1:6 reader-1:12 publisher-1:81 engine-1:9 reader-1:56 "
    "engine-1:29 alterer-1:19"
)


def test_who_sleeps_between_the_names_of_a_log_and_its_files_reads_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine has cleaned up what a publisher was about to read."""

    def slept() -> Played:
        return play_turns(116748, SLEEPER, list(map(Turn.parse, CLEANED_UP_MEANWHILE.split())))

    assert slept().failure is None
    monkeypatch.setattr(delta_log, "_read_while_listed", lambda listed, read: read(*listed()))
    assert slept().failure is None, "the table is opened again"
    monkeypatch.setattr(MainTable, "_while_kept", lambda _: nullcontext())
    assert isinstance(slept().failure, FileNotFoundError)


def test_turns_that_are_written_down_play_the_same_history() -> None:
    played = play_seed(5)
    again = play_turns(5, played.actors, list(map(Turn.parse, " ".join(map(str, played.turns)).split())))
    assert again.history == played.history and again.steps == played.steps
    assert History.from_json(played.history.to_json()) == played.history


def test_a_history_has_each_question_and_its_answer_in_their_order() -> None:
    """Ordinals are unique, and a process asks one thing after the other."""
    operations = play_seed(5).history.operations
    ordinals = [at for each in operations for at in (each.begin, each.end) if at is not None]
    assert len(set(ordinals)) == len(ordinals)
    of_process: dict[str, list[tuple[int, int | None]]] = {}
    for each in sorted(operations, key=lambda each: each.begin):
        of_process.setdefault(each.process, []).append((each.begin, each.end))
    for asked in of_process.values():
        assert all(end is not None and end < begin for (_, end), (begin, _) in pairwise(asked))
    assert {each.kind for each in operations} == {"publish", "read"}


def _no_conflicts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Publisher, "_conflict_of", lambda *_: None)


def _first_failure() -> Played:
    return next(played for played in map(play_seed, BROKEN_WITHIN) if played.failure is not None)


def test_the_shortest_history_has_only_what_the_failure_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two who publish the same day; and the line that is printed plays it again."""
    _no_conflicts(monkeypatch)
    found = _first_failure()
    best = shortest(found, most=60)
    assert best.failure is not None and found.failure is not None
    assert how_it_failed(best.failure) == how_it_failed(found.failure)
    assert len(best.turns) < len(found.turns) / 2 and len(best.actors) <= 3
    turns: Any = best.line.partition('TURNS="')[2].rstrip('"')
    again = play_turns(best.seed, best.actors, list(map(Turn.parse, turns.split())))
    assert again.failure is not None and again.history == best.history


def test_turns_are_read_as_they_are_written() -> None:
    for text in ("publisher-1:17", "undo-2:0!", "reader-1:3?l", "publisher-1:4!m", "time-1:1?p"):
        assert str(Turn.parse(text)) == text
    with pytest.raises(ValueError, match="is no turn"):
        Turn.parse("publisher")


def test_each_seed_has_another_schedule() -> None:
    drawn = [[str(Seeded(seed, 100).next(["a", "b"], 0)) for _ in range(1)] for seed in range(20)]
    assert len({each for (each,) in drawn}) > 10
    assert Written([Turn("gone", 1), Turn("a", 2)]).next(["a"], 0) == Turn("a", 2)


def test_a_history_is_kept_and_judged_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And an actor that is not there is named."""
    kept = tmp_path / "history.jsonl"
    assert simulate(["--seed", "7", "--steps", "400", "--actors", "publisher undo reader", "--history", str(kept)]) == 0
    assert "seed 7: " in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["judges", str(kept)])
    assert judge() == 0 and "porcupine" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        simulate(["--actors", "publisher ghost"])
    assert "there is no actor ghost" in capsys.readouterr().err
