"""A short storm of real processes; and its judges, on what it has left, against wrongs that are planted there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.publish.files import LOG_TABLE
from backfill_assets_tests.simulator.play import cast_of
from backfill_assets_tests.storm.actors import DEFAULT
from backfill_assets_tests.storm.judged import judge_folder
from backfill_assets_tests.storm.leases import LASTS, wrong_leases
from backfill_assets_tests.storm.names import wrong_names
from backfill_assets_tests.storm.notes import LifeTold, Line, told_in
from backfill_assets_tests.storm.played import Report, place_of, storm
from backfill_assets_tests.storm.processes import Storm

pytestmark = pytest.mark.protocol
SEED = 20170301
FEW = ("publisher", "publisher", "appender", "undo", "reader", "foreign", "platform", "folder", "lease")
MUST = ("publisher", "appender", "reader")


def _enough(played: Storm) -> bool:
    """Each of those who must has been answered, the log was trimmed, and the storm has killed."""
    if played.kills.total() < 3:
        return False
    lives = told_in(played.place.notes)
    answered = {life.kind for life in lives for line in life.of("told") if line["outcome"] == "ok"}
    trimmed = any(line["tally"].get("commits trimmed") for life in lives for line in life.of("deed"))
    return trimmed and answered >= set(MUST)


def _played(folder: Path, kinds: Sequence[str], seconds: float, *, on_s3: bool = False, **how: Any) -> Report:
    with place_of(folder, SEED, on_s3=on_s3) as place:
        report = storm(place, cast_of(SEED, kinds), seconds, 0.8, **how)
    print("\n".join(report.lines()))
    return report


@dataclass(frozen=True)
class Left:
    """The folder of a storm, and what was said of it."""

    folder: Path
    report: Report


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Left:
    folder = tmp_path_factory.mktemp("storm")
    return Left(folder, _played(folder, FEW, 240, enough=_enough))


def test_a_storm_loses_nothing_and_doubles_nothing(short: Left) -> None:
    """In full: ``make storm SECONDS=180``."""
    report = short.report
    assert report.wrong == []
    assert report.undecided == [] or all("Go is not installed" in each for each in report.undecided)
    assert report.kills.total() > 2 and report.tally["commits trimmed"] > 0
    assert all(report.answers[kind, "ok"] > 0 for kind in MUST)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("on_s3", [False, True], ids=["folder", "s3"])
def test_everybody_at_once(tmp_path: Path, on_s3: bool) -> None:
    report = _played(tmp_path, DEFAULT, 120, on_s3=on_s3)
    assert report.wrong == []
    assert report.kills.total() > 2
    assert all(report.answers[kind, "ok"] > 0 for kind in ("publisher", "appender", "reader"))


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_what_is_built_rewound_and_undone_at_once_is_what_raw_makes(tmp_path: Path) -> None:
    """In full: ``make storm ACTORS="source builder campaign undoer rewinder traveller reader"``."""
    kinds = ("source", "builder", "campaign", "campaign", "undoer", "rewinder", "traveller", "reader")
    report = _played(tmp_path, kinds, 90)
    assert report.wrong == []
    assert report.kills.total() > 2
    assert all(report.answers[kind, "ok"] > 0 for kind in ("source", "builder", "campaign"))


# ------------------------------------------------------------------ planted wrongs


@pytest.fixture
def copied(short: Left, tmp_path: Path) -> Path:
    """Its notes and commits, to be changed."""
    for name in ("notes", "kept"):
        shutil.copytree(short.folder / name, tmp_path / name)
    return tmp_path


def _said(folder: Path) -> str:
    judgement, verdicts = judge_folder(folder / "notes", folder / "kept")
    return "\n".join([*judgement.wrong, *(str(each) for verdict in verdicts for each in verdict.anomalies)])


def _changed(folder: Path, change: Callable[[list[dict[str, Any]]], bool]) -> None:
    """Change the lines of the first life in which there is something to change."""
    for file in sorted((folder / "notes").glob("*.jsonl")):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        if change(lines):
            file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
            return
    pytest.fail("there was nothing to change")


def _published(lines: list[dict[str, Any]]) -> Iterator[tuple[int, int]]:
    """Where a publication was asked for and acknowledged."""
    asked: int | None = None
    for number, line in enumerate(lines):
        if line["what"] == "asks":
            asked = number if line["publication"] else None
        elif line["what"] == "told" and asked is not None:
            if line["outcome"] == "ok":
                yield asked, number
            asked = None


def _acknowledges_what_is_not(lines: list[dict[str, Any]]) -> bool:
    for asked, _ in _published(lines):
        lines[asked]["publication"] = "p-nobody-1"
        return True
    return False


def _refuses_what_is_done(lines: list[dict[str, Any]]) -> bool:
    for _, told in _published(lines):
        lines[told]["outcome"] = "refused"
        return True
    return False


def _tears(lines: list[dict[str, Any]]) -> bool:
    """A row is missing in what somebody has read."""
    for line in lines:
        for day in line["rows"] if line["what"] == "sees" else ():
            line["rows"][day].popitem()
            return True
    return False


def _reads_late(lines: list[dict[str, Any]]) -> bool:
    """What a pinned reader saw first is what it saw last of all."""
    pins = [number for number, line in enumerate(lines) if line["what"] == "pins" and line["versions"]]
    if len(pins) < 2 or lines[pins[0]]["values"] == lines[pins[-1]]["values"]:
        return False
    asked, told = pins[0] - 1, next(n for n in range(pins[0], len(lines)) if lines[n]["what"] == "told")
    if lines[asked]["what"] != "asks" or lines[told]["outcome"] != "ok":
        return False
    lines[asked]["at"], lines[told]["at"] = 10**18, 10**18 + 1
    return True


def _hears(lines: list[dict[str, Any]]) -> bool:
    lines.append({"what": "heard", "at": 1, "key": "p-nobody-1"})
    return True


@pytest.mark.parametrize(
    ("plant", "said"),
    [
        (_acknowledges_what_is_not, "p-nobody-1 was acknowledged, and is not done"),
        (_refuses_what_is_done, "was refused, and is done"),
        (_tears, "torn read"),
        (_reads_late, "stale read"),
        (_hears, "was announced, and is not done"),
    ],
)
def test_what_processes_were_told_wrong_is_found(
    copied: Path, plant: Callable[[list[dict[str, Any]]], bool], said: str
) -> None:
    _changed(copied, plant)
    assert said in _said(copied)


def test_a_row_that_is_there_twice_is_found(copied: Path) -> None:
    file = next(each for each in sorted((copied / "kept" / "fact").rglob("*.parquet")) if pq.read_table(each).num_rows)
    rows = pq.read_table(file)
    pq.write_table(pa.concat_tables([rows, rows.slice(0, 1)]), file)
    assert ": model " in _said(copied)


def test_an_entry_that_is_lost_is_found(copied: Path) -> None:
    """The newest publication that was acknowledged is gone from the log, as after a disk that forgets."""
    commits = sorted((copied / "kept" / LOG_TABLE / "_delta_log").glob("*.json"))
    for commit in commits[len(commits) // 2 :]:
        commit.unlink()
    assert "the log ends before its end" in _said(copied)


def test_a_commit_of_nobody_is_found(copied: Path) -> None:
    """Somebody's wish is forgotten: a commit that nobody asked for is no better than a foreign one that hides."""

    def forget(lines: list[dict[str, Any]]) -> bool:
        for asked, _ in _published(lines):
            lines[:] = [each for each in lines if each.get("id") != lines[asked]["publication"]]
            return True
        return False

    _changed(copied, forget)
    assert "KeyError" in (said := _said(copied)) or "whose commit is it?" in said


# ------------------------------------------------------------------ names and leases


def _lives(*lines: Line) -> list[LifeTold]:
    return [LifeTold("names-1", 1, lines)]


def _name(id: str, name: str, begun: int, done: int) -> list[dict[str, Any]]:
    told = {"id": id, "name": name}
    return [{"what": "naming", "at": begun, **told}, {"what": "named", "at": done, **told}]


def _kept(*timelines: tuple[str, str]) -> Mapping[str, Any]:
    return {"what": "kept", "at": 1_000, "timelines": [list(each) for each in timelines]}


NAMED = [*_name("t1", "one", 10, 20), *_name("t1", "two", 30, 50), *_name("t2", "one", 40, 60)]


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        ((("t1", "two"), ("t2", "one")), []),
        ((("t1", "two"), ("t2", "two")), ["timelines share a name", "timeline t2 is ['two']"]),
        ((("t1", "two"),), ["timeline t2 is ['']"]),
        ((("t1", "one"), ("t2", "one")), ["timelines share a name", "timeline t1 is ['one']"]),
    ],
)
def test_names_are_those_that_were_acknowledged(kept: tuple[tuple[str, str], ...], said: list[str]) -> None:
    found = sorted(wrong_names(_lives(*NAMED, _kept(*kept))))
    assert len(found) == len(said) and all(any(part in each for each in found) for part in said)


def test_a_name_that_another_timeline_had_all_along_is_said() -> None:
    """It was named before the second began, and no one had tried to take its name from it."""
    third = [*_name("t3", "two", 70, 80), *_name("t3", "", 90, 100)]
    kept = _kept(("t1", "two"), ("t2", "one"))
    assert list(wrong_names(_lives(*NAMED, *third, kept))) == ["t3 got the name of t1, which had it"]
    left = {"what": "naming", "at": 65, "id": "t1", "name": ""}
    assert list(wrong_names(_lives(*NAMED, left, *third, kept))) == []


def test_what_was_noted_late_came_about_before() -> None:
    """A process is stopped between its deed and its note. Meanwhile others delete the timeline, and take its name."""
    deeds = (("t1", "", 70, 80), ("t1", "three", 75, 90), ("t3", "three", 82, 84))
    lines = [line for each in deeds for line in _name(*each)]
    assert list(wrong_names(_lives(*NAMED, *lines, _kept(("t2", "one"), ("t3", "three"))))) == []


@pytest.mark.parametrize(("lasts", "is_wrong"), [(LASTS - 1, True), (LASTS + 1, False)])
def test_a_lease_that_two_had_at_once_is_said(lasts: int, is_wrong: bool) -> None:
    """Between two beats that are no further apart than a lease lasts, nobody else has one."""
    beats = [("a", 0, 1), ("b", 5, 6), ("a", lasts, lasts + 1)]
    lives = _lives(*({"what": "beat", "lease": lease, "before": b, "at": at} for lease, b, at in beats))
    assert list(wrong_leases(lives)) == (["a had the lease, and so had b"] if is_wrong else [])
