"""The storage goes wrong at each call of each operation, or the machine loses its power: main ends as without it.

Every one ends as if nothing had been or with an error that names what failed. The next process recovers, the same is
typed again, and every judge looks at every call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random

import pytest

from backfill_assets_tests.simulator.faults import (
    FAULTS,
    WRITES,
    Case,
    cases_of,
    cuts_of,
    main,
    pairs_of,
    play,
    said_of,
    sound,
)
from backfill_assets_tests.simulator.operations import OPERATIONS
from backfill_assets_tests.simulator.store import Files

pytestmark = pytest.mark.protocol

WRITTEN = {
    "publish": {"write", "put if absent", "create", "commit", "delete", "keep"},
    "approve": {"write", "put if absent", "replace", "commit", "delete", "keep"},
    "rollback": {"write", "commit", "keep"},
    "undo": {"write", "replace", "commit", "delete", "keep"},
    "rewind": {"put if absent", "keep"},
    "forward": {"put if absent", "keep"},
    "take-in": {"write", "create", "commit", "keep"},
    "batch": {"write", "create", "commit", "keep"},
    "fold": {"write", "commit", "checkpoint", "delete", "keep"},
    "reclaim": {"write", "commit", "delete", "delete folder", "keep"},
    "reclaim-log": {"write", "commit", "delete", "keep"},
}
"""The kinds of call by which each operation changes what is stored; all of them read, list and look besides."""
READ = {"read", "files", "sizes"}
FEW_PAIRS, MANY_PAIRS = 1, 200
FEW_CUTS, MANY_CUTS = 2, 3
operations = pytest.mark.parametrize("operation", OPERATIONS)


def _require_fine(cases: Iterable[Case]) -> None:
    found = {case.line: said for case in cases if (said := said_of(case))}
    assert not found, "\n".join(f"{line}\n    {said}" for line, said in found.items())


def _one_of_each(operation: str) -> list[Case]:
    """One call for each fault, of all calls that it can strike: other ones for each operation."""
    of_fault: dict[str, list[Case]] = {fault: [] for fault in FAULTS}
    for case, _ in cases_of(operation):
        of_fault[case.first.ends].append(case)
    draw = Random(operation)
    return [draw.choice(cases) for cases in of_fault.values() if cases]


@operations
def test_each_kind_of_call_meets_each_fault_that_can_strike_it(operation: str) -> None:
    """What follows would pass by itself if an operation made no calls any more."""
    counts = Counter((call.name, case.first.ends) for case, call in cases_of(operation))
    kinds = {call.name for call in sound(operation).calls}
    assert kinds & WRITES == WRITTEN[operation] and kinds >= READ
    wanted = {(kind, fault) for kind in kinds for fault, strikes in FAULTS.items() if strikes(kind)}
    assert all(counts[each] > 0 for each in wanted) and counts.keys() == wanted
    assert sum(counts.values()) > 200


@operations
def test_main_ends_as_without_the_fault(operation: str) -> None:
    """One call for each fault, some losses of power, and some faults that are followed by another."""
    cuts = list(cuts_of(operation, [0]))
    chosen = [*Random(operation).sample(cuts[:-1], FEW_CUTS), cuts[-1]]
    _require_fine([*_one_of_each(operation), *pairs_of(operation, range(FEW_PAIRS)), *chosen])


@pytest.mark.long
@pytest.mark.timeout(7200)
@operations
def test_main_ends_as_without_the_fault_at_each_call(operation: str) -> None:
    singles = [case for case, _ in cases_of(operation)]
    _require_fine([*singles, *pairs_of(operation, range(MANY_PAIRS)), *cuts_of(operation, range(MANY_CUTS))])


def test_a_disk_that_is_not_told_to_keep_anything_loses_what_was_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss of power is one: without ``Storage.keep``, the same cases break."""
    monkeypatch.setattr(Files, "keep", lambda held, paths: None)
    assert any(said_of(Case.parse(f"batch:10000~{seed}")) for seed in range(3))


def test_a_line_is_read_as_it_is_written_and_plays_the_case_again(capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("rollback:17?l", "batch:4", "take-in:12?x,3?f", "publish:40~2", "fold:9!m"):
        assert str(Case.parse(text)) == text
    with pytest.raises(ValueError, match="is no case: write rollback:17"):
        Case.parse("nothing:3")
    (case,) = [case for case, call in cases_of("batch") if call.name == "commit" and case.first.ends == "fails"][-1:]
    assert main([str(case)]) == 0
    assert "commit" in capsys.readouterr().out and play(case).told is not None
