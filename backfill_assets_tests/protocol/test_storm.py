"""A short storm of processes and kills, and the judge of storms against findings that were planted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backfill_assets_tests.protocol.storm import place, storm
from backfill_assets_tests.protocol.storm_tally import Found, Judge, Line, Told

D = "2017-03-01"
FOREIGN_D = "2017-03-09"


@pytest.mark.parametrize(
    ("seconds", "on_s3"), [(12, False), pytest.param(120, True, marks=pytest.mark.long)], ids=["folder", "s3"]
)
def test_a_storm_loses_nothing_and_doubles_nothing(tmp_path: Path, seconds: float, on_s3: bool) -> None:
    """In full: ``make storm SECONDS=180``."""
    tallies = tmp_path / "tallies"
    tallies.mkdir()
    with place(tmp_path, on_s3=on_s3) as root:
        report = storm(root, tallies, seconds, 20170301, ends_early=not on_s3)
    print("\n".join(report.lines()))
    assert report.wrong == []
    assert report.kills.total() > 2 and report.folded > 0
    assert min(report.total(("done",), role) for role in ("publisher of one", "publisher of two", "appender")) > 0
    assert report.total(("read",)) > 0


LINES: list[Line] = [
    {"what": "tried", "role": "two", "id": "p1", "rows": {"left": {D: ["a"]}, "right": {D: ["a"]}}},
    {"what": "done", "role": "two", "id": "p1"},
    {"what": "tried", "role": "two", "id": "p2", "rows": {"left": {D: ["b"]}, "right": {D: ["b"]}}},
    {"what": "tried", "role": "undo", "id": "u", "undoes": "p2"},
    {"what": "done", "role": "undo", "id": "u"},
    {"what": "refused", "role": "two", "id": "p3"},
    {"what": "done", "role": "append", "id": "a", "source": "topic", "to": 2},
    {"what": "foreign tried", "role": "f", "names": ["foreign-kept-1"]},
    {"what": "foreign done", "role": "f", "names": ["foreign-kept-1"]},
    {"what": "tried", "role": "switcher", "id": "s1", "switches": {"left": "v1"}},
    {"what": "tried", "role": "switcher", "id": "s2", "switches": {"left": "v2"}},
    {"what": "tried", "role": "undo", "id": "u2", "undoes": "s2"},
    {"what": "naming", "role": "names", "id": "t1", "name": "one", "at": 1.0},
    {"what": "named", "role": "names", "id": "t1", "name": "one", "at": 2.0},
    {"what": "naming", "role": "names", "id": "t1", "name": "two", "at": 3.0},
    {"what": "named", "role": "names", "id": "t1", "name": "two", "at": 5.0},
    {"what": "naming", "role": "names", "id": "t2", "name": "one", "at": 4.0},
    {"what": "named", "role": "names", "id": "t2", "name": "one", "at": 6.0},
]
ROWS = {
    "left": {D: Counter(["a"])},
    "right": {D: Counter(["a"])},
    "raw": {D: Counter(["topic:0", "topic:1"])},
    "fact": {FOREIGN_D: Counter(["foreign-kept-1"])},
}
FOUND = Found(
    entries=(
        *(("p1", "done"), ("p2", "done"), ("u", "done"), ("p3", "aborted"), ("a", "done")),
        *(("s1", "done"), ("s2", "done"), ("u2", "done")),
    ),
    rows=ROWS,
    positions={"topic": 2},
    switches={"left": "v1"},
    timelines=(("t1", "two"), ("t2", "one")),
)


def _judge(found: Found, *more: Line) -> list[str]:
    return Judge(Told([*LINES, *more]), found, ("left", "right"), "raw").judge()


def _rows(**tables: dict[str, Counter[str]]) -> Callable[[Found], Found]:
    return lambda found: replace(found, rows={**found.rows, **tables})


def test_what_is_as_it_was_answered_is_right() -> None:
    """An undo brings back what was there before; a publication that was killed before its answer may be done."""
    assert _judge(FOUND) == []


@pytest.mark.parametrize(
    ("plant", "said"),
    [
        (lambda found: replace(found, open=("p9",)), "open after recovery"),
        (lambda found: replace(found, entries=found.entries[1:]), "p1 was acknowledged"),
        (lambda found: replace(found, entries=(*found.entries, ("p3", "done"))), "p3 was refused, and is done"),
        (lambda found: replace(found, entries=found.entries[:2]), "u was acknowledged"),
        (lambda found: replace(found, switches={"left": "v2"}), "'v2'} are current, and {'left': 'v1'} were made so"),
        (lambda found: replace(found, timelines=(("t1", "two"), ("t2", "two"))), "timelines share a name"),
        (lambda found: replace(found, timelines=(("t1", "two"),)), r"timeline t2 is \[''\]"),
        (lambda found: replace(found, timelines=(("t1", "one"), ("t2", "one"))), r"timeline t1 is \['one'\]"),
        (_rows(left={D: Counter(["a", "a"])}), "left 2017-03-01: 1 \\(a\\) too much"),
        (_rows(left={D: Counter[str]()}), "1 \\(a\\) lost"),
        (_rows(left={D: Counter(["b"])}), "not of the same publications"),
        (_rows(raw={D: Counter(["topic:0"])}), "1 \\(topic:1\\) lost"),
        (_rows(raw={D: Counter(["topic:0", "topic:0", "topic:1"])}), "1 \\(topic:0\\) too much"),
        (lambda found: replace(found, positions={"topic": 1}), "2 was acknowledged"),
        (_rows(fact={}), "foreign rows are lost"),
        (_rows(fact={FOREIGN_D: Counter({"foreign-kept-1": 2})}), "there twice"),
    ],
)
def test_what_is_wrong_is_said(plant: Callable[[Found], Found], said: str) -> None:
    """Each promise is judged: a judge that says yes to everything would let any storm pass."""
    assert any(re.search(said, each) for each in _judge(plant(FOUND)))


@pytest.mark.parametrize(("saw", "is_right"), [("u", True), ("compact-1", True), ("p2", False), ("", False)])
def test_a_lost_update_is_said(saw: str, is_right: bool) -> None:
    """Who replaces a day has seen what it replaces; the undo was the last one to touch this day."""
    line = {"what": "tried", "role": "two", "id": "p4", "rows": {"left": {D: ["a"]}, "right": {D: ["a"]}}}
    found = replace(FOUND, entries=(*FOUND.entries, ("p4", "done")))
    assert (_judge(found, {**line, "saw": {"left": {D: saw}}}) == []) == is_right


def test_a_name_that_another_timeline_had_all_along_is_said() -> None:
    """It was named before the second began, and no one had tried to take its name from it."""
    third = {"role": "names", "id": "t3", "name": "two"}
    lines = [{**third, "what": "naming", "at": 7.0}, {**third, "what": "named", "at": 8.0}]
    gone = [{**line, "name": "", "at": at} for line, at in zip(lines, (9.0, 10.0), strict=True)]
    assert _judge(FOUND, *lines, *gone) == ["t3 got the name of t1, which had it"]
    left: Line = {"what": "naming", "role": "names", "id": "t1", "name": "", "at": 6.5}
    assert _judge(FOUND, left, *lines, *gone) == []


def test_what_was_noted_late_came_about_before() -> None:
    """A process is stopped between its deed and its note. Meanwhile others delete the timeline, and take its name."""
    deeds = (("t1", "", 7.0, 8.0), ("t1", "three", 7.5, 9.0), ("t3", "three", 8.2, 8.4))
    lines: list[Line] = [
        {"what": what, "role": "names", "id": id, "name": name, "at": at}
        for id, name, begun, done in deeds
        for what, at in (("naming", begun), ("named", done))
    ]
    assert _judge(replace(FOUND, timelines=(("t2", "one"), ("t3", "three"))), *lines) == []


@pytest.mark.parametrize("what", ["torn", "failed"])
def test_what_a_process_has_seen_counts(what: str) -> None:
    """A torn read, and an error that is no refusal."""
    line: dict[str, Any] = {"what": what, "role": "reader", "why": "because"}
    (said,) = _judge(FOUND, line)
    assert "because" in said
