"""Porcupine on histories of the log and of one table: what died, what was put back, and what cannot be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from backfill_assets_tests.simulator.history import History, Operation
from backfill_assets_tests.simulator.judges import Verdict, judged, linearizable
from backfill_assets_tests.simulator.judges.played import publication, read

pytestmark = pytest.mark.protocol

FACT, REPORT = ("fact", "d"), ("report", "d")
FIRST = publication("p1", 1, 2, {FACT: (None, "f1"), REPORT: (None, "r1")}, position=2)
SECOND = publication("p2", 3, 9, {FACT: ("f1", "f2"), REPORT: ("r1", "r2")}, position=5)
ABORTED = publication("p2", 3, 9, {FACT: ("f1", "f2"), REPORT: ("r1", "r2")}, "refused")
PAST = Operation("else", "publish", 3, 4, "ok", {FACT: "mine"}, {FACT: "f1"})
DIED = publication("p2", 3, None, {FACT: ("f1", "f2"), REPORT: ("r1", "r2")}, "unknown")


def of_fact(*values: str | None) -> list[Operation]:
    """Reads of one table, one after the other, while the second publication is on its way."""
    return [read("r", 4 + n, 4 + n, {FACT: value}, pinned=False) for n, value in enumerate(values)]


RIGHT: dict[str, list[Operation]] = {
    "before and after": [SECOND, *of_fact("f1", "f1", "f2")],
    "half of it in tables that are read by themselves": [SECOND, *of_fact("f2"), read("s", 4, 4, {REPORT: "r1"})],
    "aborted and put back": [ABORTED, *of_fact("f1", "f2", "f1"), read("s", 7, 7, {FACT: "f1", REPORT: "r1"})],
    "aborted before it began": [ABORTED, *of_fact("f1", "f1")],
    "died and was put back": [DIED, *of_fact("f2", "f1", "f1")],
    "died and came back to its end": [DIED, *of_fact("f1", "f2"), read("s", 90, 91, {FACT: "f2", REPORT: "r2"})],
    "died and was never there": [DIED, *of_fact("f1", "f1"), read("s", 90, 91, {FACT: "f1", REPORT: "r1"})],
    "put back, but not over the day of another": [
        ABORTED,
        *of_fact("f2", "mine"),
        read("s", 10, 11, {FACT: "mine"}, pinned=False),
        Operation("else", "publish", 4, 5, "ok", {FACT: "mine"}, {FACT: "f2"}),
    ],
    "written past the log, and seen with the next publication": [
        PAST,
        read("s", 5, 6, {FACT: "f1", REPORT: "r1"}, position=2),
        publication("p3", 7, 8, {REPORT: ("r1", "r3")}, position=4),
        read("s", 9, 9, {FACT: "mine", REPORT: "r3"}, position=4),
    ],
    "written past the log, and seen from its version on": [
        replace(PAST, position=4),
        read("s", 5, 6, {FACT: "f1", REPORT: "r1"}, position=3),
        read("s", 5, 6, {FACT: "mine", REPORT: "r3"}, position=4),
        publication("p3", 3, 8, {FACT: ("mine", "mine"), REPORT: ("r1", "r3")}, position=4),
    ],
}

WRONG: dict[str, tuple[list[Operation], str]] = {
    "there, away, and there again": (
        [SECOND, *of_fact("f2", "f1")],
        "fact: 3 of 4 steps can be put in order, then none fits: r's read [5, 5] saw f1 on fact of d, where f2 is",
    ),
    "put back and yet there again": (
        [DIED, *of_fact("f2", "f1", "f2")],
        "fact: 5 of 6 steps can be put in order, then none fits: r's read [6, 6] saw f2 on fact of d, where f1 is",
    ),
    "aborted and left there": (
        [ABORTED, *of_fact("f2"), read("r", 10, 11, {FACT: "f2"}, pinned=False)],
        "fact: 4 of 5 steps can be put in order, then none fits: r's read [10, 11] saw f2 on fact of d, where f1 is",
    ),
    "aborted, and the log shows it": (
        [ABORTED, read("s", 10, 11, {FACT: "f2"})],
        (
            "the log: 1 of 2 steps can be put in order, then none fits: "
            "s's read [10, 11] saw f2 on fact of d, where f1 is"
        ),
    ),
    "half of it in the log": (
        [SECOND, read("s", 5, 6, {FACT: "f2", REPORT: "r1"})],
        (
            "the log: 2 of 3 steps can be put in order, then none fits: "
            "s's read [5, 6] saw r1 on report of d, where r2 is"
        ),
    ),
    "an older head than others have seen": (
        [read("s", 4, 5, {}, position=5), read("s", 6, 7, {FACT: "f1"}, position=3)],
        (
            "the log: 2 of 3 steps can be put in order, then none fits: "
            "s's read [6, 7] is at version 3 of the log, which was at 5"
        ),
    ),
    "closed at a version that others have read past": (
        [read("s", 3, 4, {FACT: "f1"}, position=7), publication("p2", 5, 6, {FACT: ("f1", "f2")}, position=6)],
        (
            "the log: 2 of 3 steps can be put in order, then none fits: "
            "publication p2 is at version 6 of the log, which was at 7"
        ),
    ),
    "written past the log, and seen before its version": (
        [replace(PAST, position=4), read("s", 5, 6, {FACT: "mine"}, position=3)],
        (
            "the log: 1 of 3 steps can be put in order, then none fits: "
            "else's write past the log [3, 4] is at version 4 of the log, which was at 2; "
            "s's read [5, 6] saw mine on fact of d, where f1 is"
        ),
    ),
    "another was there than it replaced": (
        [publication("p2", 3, 4, {FACT: ("f0", "f2")})],
        (
            "the log: 1 of 2 steps can be put in order, then none fits: "
            "publication p2 replaced f0 on fact of d, where f1 is"
        ),
    ),
}


@pytest.fixture(autouse=True)
def _with_go() -> None:
    """In CI, a machine without Go fails."""
    try:
        linearizable.program()
    except linearizable.NotBuilt as error:
        if linearizable.has_to_be_there():
            raise
        pytest.skip(str(error))


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_accepted(name: str) -> None:
    assert linearizable.verdict(History((FIRST, *RIGHT[name]))) == Verdict("porcupine")


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_is_told_in_a_sentence(name: str) -> None:
    operations, sentence = WRONG[name]
    (anomaly,) = linearizable.verdict(History((FIRST, *operations))).anomalies
    assert f"{anomaly.name}: {anomaly.sentence}" == f"not linearizable: {sentence}"


def test_what_takes_too_long_is_not_decided() -> None:
    """Thirty writes at once, each on a day of its own, have as many orders as there are subsets of them."""
    days = [("fact", f"2017-03-{day:02}") for day in range(1, 31)]
    at_once = [publication(f"p{n}", 1, 9, {day: (None, "a")}) for n, day in enumerate(days)]
    told = linearizable.verdict(History((*at_once, read("s", 10, 11, {days[0]: "b"}))), seconds=0.05)
    assert told.anomalies == () and told.undecided == ("the log after 0.05 s",)
    assert str(told) == "porcupine: not decided: the log after 0.05 s"


def test_a_long_history_is_decided_by_the_versions_of_the_log() -> None:
    """Three hundred publications, each with a write past the log before it and a reader after it, all at once."""
    told: list[Operation] = []
    for n in range(300):
        past = Operation(f"else-{n}", "publish", 10, 900, "ok", {FACT: f"m{n}"}, position=3 + n)
        made = publication(f"q{n}", 10, 900, {FACT: (f"m{n}", f"q{n}")}, position=3 + n)
        told += [read(f"r-{n}", 10, 900, {FACT: f"q{n}"}, position=3 + n), made, past]
    assert linearizable.verdict(History((FIRST, *told))) == Verdict("porcupine")
    late = read("s", 10, 900, {FACT: "q7"}, position=8)
    assert not linearizable.verdict(History((FIRST, *told, late))).undecided


def test_without_go_the_other_judges_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linearizable, "BUILT", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JUDGES", raising=False)
    by_cycles, by_porcupine = judged(History((FIRST, ABORTED, read("s", 10, 11, {FACT: "f2"}))))
    assert by_cycles.names == {"G1a, aborted read"}
    assert by_porcupine.undecided[0].startswith("Go is not installed") and not by_porcupine.anomalies
    monkeypatch.setenv("JUDGES", "required")
    with pytest.raises(linearizable.NotBuilt):
        judged(History())
