"""Each anomaly is found by its name, with the shortest way to it; what is right is not named."""

from __future__ import annotations

import pytest

from backfill_assets_tests.simulator.history import History, Operation
from backfill_assets_tests.simulator.judges import cycles
from backfill_assets_tests.simulator.judges.played import publication, read

FACT, REPORT, RATES = ("fact", "d"), ("report", "d"), ("rates", "d")
FIRST = publication("p1", 1, 2, {FACT: (None, "f1"), REPORT: (None, "r1")})
SECOND = publication("p2", 3, 9, {FACT: ("f1", "f2"), REPORT: ("r1", "r2")})
ABORTED = publication("p2", 3, 9, {FACT: ("f1", "f2"), REPORT: ("r1", "r2")}, "refused")
DIED = publication("p2", 3, None, {FACT: ("f1", "f2"), REPORT: ("r1", "r2")}, "unknown")

WRONG = {
    "G0, write cycle": (
        (
            publication("p2", 3, 9, {FACT: ("f1", "f2"), REPORT: ("r3", "r2")}),
            publication("p3", 3, 9, {FACT: ("f2", "f3"), REPORT: ("r1", "r3")}),
        ),
        (
            "publication p2 replaced r3 of publication p3 on report of d; "
            "publication p3 replaced f2 of publication p2 on fact of d"
        ),
    ),
    "G1a, aborted read": (
        (ABORTED, read("r", 10, 11, {FACT: "f2"})),
        "r's read [10, 11] saw f2 on fact of d, which publication p2 wrote, and that was aborted",
    ),
    "G1b, intermediate read": (
        (
            publication("p2", 3, None, {FACT: ("f1", "f2")}, "unknown"),
            publication("p2", 5, 9, {FACT: ("f1", "f3")}),
            read("r", 6, 7, {FACT: "f2"}),
        ),
        "r's read [6, 7] saw f2 on fact of d, which publication p2 replaced by f3 itself",
    ),
    "G1c, circular flow": (
        (
            publication("p2", 3, 9, {FACT: ("f1", "f2")}, made_of={RATES: "x3"}),
            publication("p3", 3, 9, {RATES: (None, "x3")}, made_of={FACT: "f2"}),
        ),
        "publication p2 saw x3 of publication p3 on rates of d; publication p3 saw f2 of publication p2 on fact of d",
    ),
    "G-single, read skew": (
        (SECOND, read("r", 5, 6, {FACT: "f2", REPORT: "r1"})),
        (
            "r's read [5, 6] saw r1 on report of d, which publication p2 replaced; "
            "r's read [5, 6] saw f2 of publication p2 on fact of d"
        ),
    ),
    "G-single, lost update": (
        (publication("p2", 3, 9, {FACT: ("f1", "f2")}), publication("p3", 3, 9, {FACT: ("f1", "f3")})),
        "publication p2 and publication p3 both replaced f1 on fact of d",
    ),
    "G2, anti-dependency cycle": (
        (
            publication("p2", 3, 9, {FACT: ("f1", "f2")}),
            publication("p3", 3, 9, {REPORT: ("r1", "r3")}),
            read("r", 5, 6, {FACT: "f2", REPORT: "r1"}),
            read("s", 5, 6, {FACT: "f1", REPORT: "r3"}),
        ),
        (
            "r's read [5, 6] saw r1 on report of d, which publication p3 replaced; "
            "s's read [5, 6] saw r3 of publication p3 on report of d; "
            "s's read [5, 6] saw f1 on fact of d, which publication p2 replaced; "
            "r's read [5, 6] saw f2 of publication p2 on fact of d"
        ),
    ),
    "G-single in real time, stale read": (
        (SECOND, read("r", 10, 11, {FACT: "f1", REPORT: "r1"})),
        (
            "r's read [10, 11] saw f1 on fact of d, which publication p2 replaced; "
            "publication p2 had ended at 9, before r's read [10, 11] began at 10"
        ),
    ),
    "G1c in real time, read from the future": (
        (publication("p2", 8, 9, {FACT: ("f1", "f2")}), read("r", 5, 6, {FACT: "f2"})),
        (
            "r's read [5, 6] saw f2 of publication p2 on fact of d; "
            "r's read [5, 6] had ended at 6, before publication p2 began at 8"
        ),
    ),
    "G0 in real time": (
        (publication("p2", 8, 9, {FACT: ("f1", "f2")}), publication("p3", 5, 6, {FACT: ("f2", "f3")})),
        (
            "publication p3 replaced f2 of publication p2 on fact of d; "
            "publication p3 had ended at 6, before publication p2 began at 8"
        ),
    ),
    "G-single in real time": (
        (
            publication("p2", 3, 4, {FACT: ("f1", "f2")}),
            publication("p3", 5, 6, {REPORT: ("r1", "r3")}, made_of={FACT: "f1"}),
        ),
        (
            "publication p3 saw f1 on fact of d, which publication p2 replaced; "
            "publication p2 had ended at 4, before publication p3 began at 5"
        ),
    ),
    "G2 in real time": (
        (
            publication("p2", 3, 20, {FACT: ("f1", "f2")}),
            publication("p3", 3, 20, {REPORT: ("r1", "r3")}),
            read("r", 5, 15, {FACT: "f2", REPORT: "r1"}),
            read("s", 5, 6, {REPORT: "r3"}),
            read("t", 8, 9, {FACT: "f1"}),
        ),
        (
            "r's read [5, 15] saw r1 on report of d, which publication p3 replaced; "
            "s's read [5, 6] saw r3 of publication p3 on report of d; "
            "s's read [5, 6] had ended at 6, before t's read [8, 9] began at 8; "
            "t's read [8, 9] saw f1 on fact of d, which publication p2 replaced; "
            "r's read [5, 15] saw f2 of publication p2 on fact of d"
        ),
    ),
    "a value that nobody wrote": (
        (read("r", 5, 6, {FACT: "half of f1"}),),
        "r's read [5, 6] saw half of f1 on fact of d, which nobody wrote",
    ),
}
"""After ``FIRST``, which is right; the sentence is that of the shortest case."""


@pytest.mark.parametrize("name", WRONG)
def test_each_anomaly_is_found_by_its_name(name: str) -> None:
    operations, sentence = WRONG[name]
    found = {anomaly.name: anomaly.sentence for anomaly in cycles.verdict(History((FIRST, *operations))).anomalies}
    assert found == {name: sentence}


RIGHT: dict[str, tuple[Operation, ...]] = {
    "read while it is published": (SECOND, read("r", 5, 6, {FACT: "f1", REPORT: "r1"}), read("s", 5, 6, {FACT: "f2"})),
    "died and was never there": (DIED, read("r", 90, 91, {FACT: "f1", REPORT: "r1"})),
    "died and came later": (DIED, read("r", 5, 6, {FACT: "f1"}), read("r", 90, 91, {FACT: "f2", REPORT: "r2"})),
    "died, and others replaced the same": (DIED, publication("p3", 5, 6, {FACT: ("f1", "f3")})),
    "died, and others went on from it": (DIED, publication("p3", 5, 6, {FACT: ("f2", "f3"), REPORT: ("r2", "r3")})),
    "aborted, and others replaced the same": (ABORTED, publication("p3", 20, 21, {FACT: ("f1", "f3")})),
    "written past the log, not yet seen by those who pin it": (
        Operation("else", "publish", 3, 4, "ok", {FACT: "mine"}, {FACT: "f1"}),
        read("r", 5, 6, {FACT: "f1"}),
        publication("p3", 7, 8, {FACT: ("mine", "f3")}),
        read("r", 9, 9, {FACT: "f3"}),
    ),
    "made of what was replaced meanwhile": (
        publication("p2", 3, 6, {FACT: ("f1", "f2")}),
        publication("p3", 5, 9, {REPORT: ("r1", "r3")}, made_of={FACT: "f1"}),
        read("r", 10, 11, {FACT: "f2", REPORT: "r3"}),
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_not_named(name: str) -> None:
    assert cycles.verdict(History((FIRST, *RIGHT[name]))).anomalies == ()


def test_readers_who_pin_nothing_are_counted_and_not_judged() -> None:
    """Two saw half a publication, one what was aborted; who read one table only is not asked here."""
    half = [read(name, 5, 6, {FACT: "f2", REPORT: "r1"}, pinned=False) for name in "rs"]
    undone = publication("p3", 20, 29, {RATES: (None, "x3")}, "refused")
    aborted = read("t", 23, 24, {RATES: "x3", FACT: "f2"}, pinned=False)
    of_one_table = read("u", 40, 41, {FACT: "f1"}, pinned=False)
    told = cycles.verdict(History((FIRST, SECOND, undone, *half, aborted, of_one_table)))
    assert told.anomalies == () and told.seen == {"G-single, read skew": 2, "G1a, aborted read": 1}


def test_what_publications_do_among_themselves_is_nothing_that_those_readers_saw() -> None:
    operations, _ = WRONG["G0, write cycle"]
    told = cycles.verdict(History((FIRST, *operations, read("r", 20, 21, {FACT: "f3", REPORT: "r2"}, pinned=False))))
    assert told.names == {"G0, write cycle"} and told.seen == {}


def test_what_died_is_proven_by_what_came_after_it() -> None:
    """Nobody has seen the first of two that died, but the second replaced it, and was seen."""
    second = publication("p3", 4, None, {FACT: ("f2", "f3")}, "unknown")
    later = (read("r", 5, 6, {FACT: "f3"}), read("s", 7, 8, {FACT: "f1"}))
    (anomaly,) = cycles.verdict(History((FIRST, DIED, second, *later))).anomalies
    assert anomaly.sentence == (
        "s's read [7, 8] saw f1 on fact of d, which publication p2 replaced; "
        "publication p3 replaced f2 of publication p2 on fact of d; "
        "r's read [5, 6] saw f3 of publication p3 on fact of d; "
        "r's read [5, 6] had ended at 6, before s's read [7, 8] began at 7"
    )


def test_the_shortest_cycle_is_told_and_all_who_saw_one_are_counted() -> None:
    """One is stale by way of what died before, two directly; others end between what they missed and their reads."""
    third = publication("p3", 10, 11, {FACT: ("f2", "f3")})
    stale = [read(name, 20, 21, {FACT: value}) for name, value in (("s", "f1"), ("r", "f2"), ("t", "f2"))]
    between = read("u", 5, 15, {REPORT: "r2"})
    (anomaly,) = cycles.verdict(History((FIRST, DIED, third, between, *stale))).anomalies
    assert anomaly.times == 3 and len(anomaly.operations) == 2
    assert str(anomaly).startswith("G-single in real time, stale read (3): r's read [20, 21] saw f2")
