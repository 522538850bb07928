"""``make storm-of-timelines SECONDS=180``: campaigns, undos and timelines on one lakehouse at once, killed and stopped.

Each process is one person: rows arrive; days are built; a campaign is staged, cut over and rolled back; a timeline is
rewound, goes forward, and is published, renamed or deleted. Rows are names (:mod:`undo_oracle`), so plain Python knows
what each publication had to bring. Afterwards a new process recovers and builds what is stale. Exit code 0: what was
acknowledged is there once, no publication was torn, no name is shared, and all is what raw alone makes of it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, cast

import pytest

from backfill_assets import clock
from backfill_assets.clock import MachineClock
from backfill_assets.days import DayRange, TableDay
from backfill_assets.errors import BackfillError
from backfill_assets.lakehouse.named_timelines import delete_timeline, find_timeline, kept_timelines, rename_timeline
from backfill_assets.landing.zone import LandingZone
from backfill_assets.publish.publisher import Publisher
from backfill_assets.rebuild.lake import Lake
from backfill_assets_tests.campaign.undo_lakehouse import CATALOG, DAYS, STEPS, Life, UndoLakehouse, Work, days_of
from backfill_assets_tests.campaign.undo_oracle import Judge, Seen, Shown, Torn
from backfill_assets_tests.protocol.storm import Storm
from backfill_assets_tests.protocol.storm_tally import Tally, Told
from backfill_assets_tests.protocol.storm_workers import StormClock
from backfill_assets_tests.simulator.arrow_engine import ArrowEngine, staged_by_arrow

_NAMES = ("one", "two", "three")
_PACE = 4.0
"""A campaign is some ten publications and stagings: kills and stops are so much rarer than in the other storm."""
_OWN = 1_000_000
"""Each process numbers rows and campaigns from a multiple of it on."""


class SharedLakehouse(UndoLakehouse):
    """One of the processes of a lakehouse, which work by the real clock; ``number`` is of this process alone."""

    def __init__(self, root: Path, number: int = 0) -> None:
        super().__init__(root)
        self.time = MachineClock()
        self._keys = self._campaigns = number * _OWN

    def lake(self, life: Life) -> Lake:
        publisher, engine = Publisher(self.storage, reached=life), cast("Any", ArrowEngine(life))
        return Lake(CATALOG, self.storage, publisher, LandingZone(self.root / "landing"), lambda: engine, "")


class Person:
    """Does one thing after the other, and notes it before and after."""

    def __init__(self, lakehouse: SharedLakehouse, tally: Tally, role: str, seed: str) -> None:
        self.lakehouse, self.tally, self.role = lakehouse, tally, role
        self.random = random.Random(seed)

    def act(self) -> None:
        self.lakehouse.judge.look(self.lakehouse.log)
        _DEEDS[self.role](self)

    def do(self, what: str, *works: Work, **told: object) -> None:
        self.tally.write("tried", role=self.role, deed=what, **told)
        for work in works:
            work(self.lakehouse.lake(Life()))
        self.tally.write("done", role=self.role, deed=what, **told)

    def some_days(self) -> tuple[date, ...]:
        first = self.random.randrange(len(DAYS))
        return DAYS[first : first + self.random.randrange(1, 4)]

    def newest(self, *, whole: bool) -> str | None:
        found = self.lakehouse.undoable(whole=whole)
        return self.random.choice(found[-4:]) if found else None


def rows_arrive(person: Person) -> None:
    """One row or rate, which no other process has; it is in raw once if this is acknowledged."""
    played, day = person.lakehouse, person.random.choice(DAYS)
    number = played._new_number()
    is_rate = day.weekday() < 5 and person.random.random() < 0.3
    table, name = (
        ("raw_rates", f"rate.{number}={number % 90 + 10}") if is_rate else ("raw", f"{number}.1={number % 70}")
    )
    person.do("land", played._land(table, {day: [name]}), name=name, table=table, day=str(day))
    time.sleep(person.random.random() / 2)


def build(person: Person) -> None:
    person.do("build", *person.lakehouse.build_all())


def run_a_campaign(person: Person) -> None:
    whole, version = person.random.random() < 0.5, person.random.choice(("v1", "v2"))
    person.do("campaign", *person.lakehouse.campaign(version, person.some_days(), whole=whole))


def undo(person: Person) -> None:
    if publication := person.newest(whole=person.random.random() < 0.7):
        person.do("undo", person.lakehouse.roll_back(publication))
    time.sleep(person.random.random() / 2)


def go_through_time(person: Person) -> None:
    """Rewind under a name that others want, go forward there, publish it; rename and delete what is there."""
    played, name = person.lakehouse, person.random.choice(_NAMES)
    kept = [each.name for each in kept_timelines(played.storage, clock.now())]
    if len({*kept}) < len(kept):
        person.tally.write("torn", role=person.role, why=f"timelines share a name: {kept}")
    chosen = person.random.random()
    if name not in kept:
        if publication := person.newest(whole=False):
            days = DayRange(DAYS[0], DAYS[-1]) if chosen < 0.5 else None
            person.do("rewind", played.rewind(name, "fact", publication, days))
    elif chosen < 0.4:
        person.do("forward", played.forward(name, person.random.choice(("v1", "v2"))))
    elif chosen < 0.65:
        person.do("publish", played.publish(name))
    elif chosen < 0.8:
        found, other = find_timeline(played.storage, name, clock.now()), person.random.choice(_NAMES)
        person.do("rename", lambda lake: rename_timeline(lake.storage, found, other, clock.now()))
    else:
        found = find_timeline(played.storage, name, clock.now())
        person.do("delete", lambda lake: delete_timeline(lake.storage, found, clock.now()))


_DEEDS: Mapping[str, Callable[[Person], None]] = {
    "source": rows_arrive,
    "nightly build": build,
    "campaign": run_a_campaign,
    "undo": undo,
    "timelines": go_through_time,
}


def run(
    root: str, tallies: str, role: str, name: str, began: float, until: float, pace: float, variables: Mapping[str, str]
) -> None:
    """The main function of a process. A refusal is an answer; anything else that is raised is a finding."""
    os.environ.update(variables)
    tally, number = Tally(Path(tallies) / f"{name}.jsonl"), int(name.rpartition("-")[2])
    with pytest.MonkeyPatch.context() as patch:
        staged_by_arrow(patch)
        person = Person(SharedLakehouse(Path(root), number), tally, role, name)
        while time.time() < until:
            try:
                person.act()
            except BackfillError as error:
                tally.write("refused", role=role, why=str(error)[:300])
            except Exception:
                tally.write("failed", role=role, why=traceback.format_exc()[-1500:])
                return
            time.sleep(person.random.random() / 20)


def begin(root: str, tallies: Path, shown: StormClock) -> None:
    SharedLakehouse(Path(root)).begin()


def findings(root: str, told: Told) -> Iterator[str]:
    """What is wrong with what a new process finds, after it has recovered and has built what is stale."""
    for line in (*told.of("torn"), *told.of("failed")):
        yield f"{line['role']} {line['what']}: {line['why']}"
    played = SharedLakehouse(Path(root))
    lake = played.lake(Life())
    lake.publisher.recover()
    if still := lake.publisher.log.head().state.open:
        yield f"entries are open after recovery: {sorted(still)}"
    for work in played.build_all():
        work(played.lake(Life()))
    played.judge.look(played.log)
    yield from _wrong_rows(played.judge, told)
    yield from (found for seen in played.judge.seen if (found := _torn(played.judge, seen)))
    landed = {table: dict(played.judge.shown.names.get(table, {})) for table in ("raw", "raw_rates")}
    try:
        played.judge.all_from_raw(landed)
    except Torn as torn:
        yield str(torn)
    names = [each.name for each in kept_timelines(played.storage, clock.now())]
    if len({*names}) < len(names):
        yield f"timelines share a name: {names}"
    if stale := [step.name for step in STEPS if step.source is None and not played.judge.is_fresh(step, days_of(step))]:
        yield f"{stale} are stale after everything was built"


def _wrong_rows(judge: Judge, told: Told) -> Iterator[str]:
    """Raw has what was acknowledged, nothing that was never tried, and nothing twice."""
    there = [
        name for table in ("raw", "raw_rates") for names in judge.shown.names.get(table, {}).values() for name in names
    ]
    tried, done = ({line["name"] for line in told.of(what) if line.get("deed") == "land"} for what in ("tried", "done"))
    if lost := sorted(done.difference(there)):
        yield f"{len(lost)} acknowledged rows are lost: {lost[:3]}"
    if twice := sorted({name for name in there if there.count(name) > 1}):
        yield f"{len(twice)} rows are there twice: {twice[:3]}"
    ours = {name for name in there if int(name.partition("=")[0].replace("rate.", "").partition(".")[0]) >= _OWN}
    if unknown := sorted(ours - tried):
        yield f"{len(unknown)} rows were never landed: {unknown[:3]}"


def _torn(judge: Judge, seen: Seen) -> str:
    """What a publication brought that is not what main shows beside it makes; raw may have gained rows meanwhile."""
    for key in (key for key in seen.days if judge.is_computed(seen.after, key)):
        reads_raw = any(each.table.startswith("raw") for each in judge.inputs(seen.after, key))
        if not reads_raw and all(seen.after.of(key) != judge.wanted(shown, key) for shown in _beside(seen)):
            return f"{seen} brings {judge.difference(seen.after, TableDay(key.table, key.day))}"
    return ""


def _beside(seen: Seen) -> Iterator[Shown]:
    """What main showed beside what the publication brings, from when it was prepared until it was closed."""
    yield seen.after
    for shown in seen.meanwhile:
        names = {table: dict(days) for table, days in shown.names.items()}
        for key in seen.days:
            names.setdefault(key.table, {})[key.day] = seen.after.of(key)
        yield replace(seen.after, names=names)


def storm(root: str, tallies: Path, seconds: float, seed: int) -> tuple[Storm, Told, list[str]]:
    """Play one, and judge it."""
    played = Storm(
        *(root, tallies, seconds, seed, _PACE),
        roles=(*_DEEDS, "campaign", "timelines"),
        publishers=("campaign", "source"),
        work=run,
        begins=begin,
    )
    with pytest.MonkeyPatch.context() as patch:
        staged_by_arrow(patch)
        played.play()
        told = Told.read(tallies)
        return played, told, [*played.ended, *findings(root, told)]


def lines(played: Storm, told: Told) -> Iterator[str]:
    counts = told.count()
    yield f"{'role':14} {'done':>6} {'refused':>8} {'killed':>7} {'stopped':>8}"
    for role in _DEEDS:
        done, refused = counts[role, "done"], counts[role, "refused"]
        yield f"{role:14} {done:6} {refused:8} {played.kills[role]:7} {played.stops[role]:8}"
    deeds = sorted({str(line["deed"]) for line in told.of("done")})
    yield ", ".join(f"{deed} {sum(line['deed'] == deed for line in told.of('done'))}" for deed in deeds)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make storm-of-timelines")
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the kills and of every choice")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        tallies = Path(folder) / "tallies"
        tallies.mkdir()
        played, told, wrong = storm(str(Path(folder) / "lakehouse"), tallies, asked.seconds, asked.seed)
        if asked.json:
            print(json.dumps({"seed": asked.seed, "kills": dict(played.kills), "wrong": wrong}, indent=2))
        else:
            print(
                "\n".join([f"Seed {asked.seed}.", *lines(played, told), *(wrong or ["Nothing lost, doubled or torn."])])
            )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
