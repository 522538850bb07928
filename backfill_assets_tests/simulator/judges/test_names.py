"""What is found has a name: each name is one of a sentence that a judge of steps really says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from backfill_assets_tests.simulator.history import History
from backfill_assets_tests.simulator.judges.names import NAMES, anomalies_in, name_of
from backfill_assets_tests.simulator.judges.played import publication, read

pytestmark = pytest.mark.protocol

SAID = {
    "p-1 was announced, and is not done": "said what never happened",
    "raw: {'x/raw/1': 1} count twice": "rows that count twice",
    "raw: {'x/raw/1': 1} are lost": "lost rows",
    "fact 3: {'a.parquet'} both added and removed": "a day that Spark loses",
}


@pytest.mark.parametrize("said", SAID)
def test_a_sentence_has_the_name_of_what_is_wrong(said: str) -> None:
    assert name_of(AssertionError(said)) == SAID[said]


def test_what_has_no_name_is_told_as_it_is() -> None:
    assert name_of(AssertionError("something else")) == "something else"
    assert name_of(KeyError("fact")) == "ended in KeyError"


def test_every_name_is_of_a_sentence_in_the_simulator() -> None:
    """A judge that says it in other words takes its name with it."""
    here = Path(__file__)
    sources = [path for path in here.parents[1].rglob("*.py") if path.name not in ("names.py", here.name)]
    said = "\n".join(re.sub(r"\{[^{}]*\}", "X", path.read_text()) for path in sources)
    assert [part for each in NAMES for part in each.split("|") if not re.search(part.rstrip("$"), said)] == []


def test_of_a_history_each_anomaly_is_named_with_its_sentence() -> None:
    first = publication("p1", 1, 2, {("fact", "d"): (None, "f1")}, position=2)
    found = anomalies_in(History((first, read("r", 3, 4, {("fact", "d"): None}))))
    assert "which publication p1 wrote" in found["G-single in real time, stale read"]
