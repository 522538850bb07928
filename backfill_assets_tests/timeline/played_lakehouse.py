"""A lakehouse that is played with: what is done to it by the real code, beside all models that it may have become.

A deed that is done alone has one outcome. One that died may have come about or not, and so may one that stands still
while others go on: every possible model is kept, and after each deed those that main and the timelines agree with
remain. There must be one.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import cast

from backfill_assets import clock
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.days import Cadence, DayRange
from backfill_assets.errors import BackfillError
from backfill_assets.lakehouse.named_timelines import (
    NamedTimeline,
    create_timeline,
    delete_timeline,
    find_timeline,
    kept_timelines,
)
from backfill_assets.lakehouse.records import DayContent, Position, Publication, TableChange
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.zone import LandingZone
from backfill_assets.model.declaration import Step
from backfill_assets.publish.publisher import Published, Publisher
from backfill_assets.rebuild.builder import Builder, silent
from backfill_assets.rebuild.lake import Lake
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.step_look import StepRequest
from backfill_assets.state.view import View, find_moment, moment_before
from backfill_assets.timeline.build import forward, run_on
from backfill_assets.timeline.opened import OpenedTimeline
from backfill_assets.timeline.rewind import RewindRequest, rewound_timeline
from backfill_assets.upkeep.reclaim import reclaim
from backfill_assets_tests.clock import FakeClock
from backfill_assets_tests.declared import catalog_of
from backfill_assets_tests.protocol.actor import Actor
from backfill_assets_tests.protocol.audit import log_rows
from backfill_assets_tests.protocol.staging import change, scratch, stage
from backfill_assets_tests.simulator.arrow_engine import (
    FACT,
    REPORT,
    STEPS,
    ArrowEngine,
    fact_names,
    measured,
    report_names,
)
from backfill_assets_tests.simulator.chain_plans import publish_timeline
from backfill_assets_tests.timeline import sequential_model as model
from backfill_assets_tests.timeline.sequential_model import Model

DAYS = tuple(DayRange.parse("2017-03-04..2017-03-07"))
"""Two days of one week, and two of the next."""
WEEKS = (date(2017, 2, 27), date(2017, 3, 6))
RETENTION_DAYS = 1
RUN = RunInfo("a-run")
Rows = Mapping[str, Mapping[date, tuple[str, tuple[str, ...]]]]
"""The version and the rows of each published day, by table."""
Stale = Mapping[str, set[date]]
"""The days, by table, that a timeline names as stale."""
Work = Callable[[Lake], object]


@dataclass(frozen=True)
class WatchedStorage(Storage):
    """Storage in which a process may also die around each file that is written once."""

    reached: Callable[[str], None] = field(default=lambda step: None, compare=False)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self.reached("to be written once")
        written = super().put_if_absent(path, data)
        self.reached("written once")
        return written


@dataclass(frozen=True)
class Candidate:
    """A model that the lakehouse may have become, and the outcomes in it of deeds that have not ended.

    An outcome is empty while the deed has not come about.
    """

    model: Model
    outcomes: Mapping[int, str]
    begun: Mapping[int, Model]
    """What the lakehouse was when each of them began."""


@dataclass
class Deed:
    """Something that is being done, by the real code and by the model."""

    number: int
    actor: Actor
    modelled: model.Deed
    since: int
    """How often rows had arrived when it began."""
    alone: bool = True
    """False if another deed was under way at some time."""
    outcome: str = ""


class PlayedLakehouse:
    """One lakehouse in a folder, and the models that it may have become."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.root.mkdir(exist_ok=True)
        self.storage = Storage(str(self.root))
        self.time = FakeClock(datetime.now(UTC))
        self.candidates = [Candidate(Model(), {}, {})]
        self.deeds: dict[int, Deed] = {}
        self._reader = self.publisher()
        """One process that reads all the time: what it has read of the log, it has."""
        self._deeds = 0
        self._rows = 0
        self._read: dict[tuple[str, int], tuple[Rows, Stale]] = {}

    def copy(self) -> PlayedLakehouse:
        """Another lakehouse with the same past, in a temporary folder."""
        other = PlayedLakehouse(Path(tempfile.mkdtemp(prefix="histories-", dir=scratch())))
        shutil.copytree(self.root, other.root, dirs_exist_ok=True)
        other.time.moment, other.candidates = self.time.moment, list(self.candidates)
        other._deeds, other._rows = self._deeds, self._rows
        return other

    def remove(self) -> None:
        for deed in self.deeds.values():
            deed.actor.crash()
        shutil.rmtree(self.root, ignore_errors=True)

    # ---------------------------------------------------------------- deeds

    def do(self, work: Work, modelled: Callable[[int], model.Deed], *, dies_after: int | None = None) -> str:
        """Do it to its end, or until it has passed ``dies_after`` crash points; returns how it ended."""
        deed = self.begin(work, modelled, passing=dies_after)
        if dies_after is not None and not deed.actor.finished:
            deed.actor.crash()
            deed.outcome = "died"
        return self.end(deed)

    def begin(self, work: Work, modelled: Callable[[int], model.Deed], passing: int | None = None) -> Deed:
        """Start it, and let it pass so many crash points, or all."""
        self._deeds += 1
        number = self._deeds
        since = min(len(each.model.raws) for each in self.candidates) - 1
        actor = Actor(f"deed {number}", lambda actor: self._work(number, actor, work))
        deed = Deed(number, actor, modelled(number), since, alone=not self.deeds)
        for other in self.deeds.values():
            other.alone = False
        self.deeds[number] = deed
        self.candidates = [
            Candidate(each.model, {**each.outcomes, number: ""}, {**each.begun, number: each.model})
            for each in self.candidates
        ]
        with clock.use(self.time):
            actor.advance()
            while not actor.finished and (passing is None or passing > 0):
                actor.advance()
                passing = None if passing is None else passing - 1
        return deed

    def _work(self, number: int, actor: Actor, work: Work) -> None:
        try:
            work(self.lake(actor.reached))
            self.deeds[number].outcome = model.DONE
        except BackfillError as error:
            actor.refusal = error
            self.deeds[number].outcome = model.REFUSED

    def end(self, deed: Deed) -> str:
        """Let it run to its end, and judge what the lakehouse has become."""
        with clock.use(self.time):
            deed.actor.run_out()
        if deed.actor.error is not None:
            raise deed.actor.error
        self._come_about()
        if deed.outcome != "died":
            self.candidates = [each for each in self.candidates if self._fits(deed, each.outcomes[deed.number])]
            assert self.candidates, f"deed {deed.number} is {deed.outcome}: {deed.actor.refusal}"
            self._forget([deed.number])
        self.judge()
        return deed.outcome

    def _fits(self, deed: Deed, outcome: str) -> bool:
        if outcome == "" and not deed.alone:
            return deed.outcome == model.REFUSED  # others were in its way
        return outcome in (deed.outcome, model.EITHER)

    def _come_about(self) -> None:
        """Each deed that has not come about may do so now, in any order, from raw as of any time since it began."""
        todo, found = list(self.candidates), list(self.candidates)
        while todo:
            each = todo.pop()
            for number in (number for number, outcome in each.outcomes.items() if not outcome):
                for came in self._results(each, self.deeds[number]):
                    if came not in found:
                        found.append(came)
                        todo.append(came)
        self.candidates = found

    def _results(self, each: Candidate, deed: Deed) -> Iterator[Candidate]:
        """What becomes of it by ``deed``, by what it may have looked at and by the raw rows that it may have read."""
        looked_at = [each.model] if deed.alone else [each.model, each.begun[deed.number]]
        for planned, raw in itertools.product(looked_at, model.raw_choices(each.model, deed.since)):
            after, outcome = deed.modelled(each.model, raw, planned)
            yield replace(each, model=after, outcomes={**each.outcomes, deed.number: outcome})
            if outcome == model.EITHER:
                yield replace(each, outcomes={**each.outcomes, deed.number: model.REFUSED})

    def _forget(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            del self.deeds[number]
        self.candidates = [
            Candidate(
                each.model,
                {key: value for key, value in each.outcomes.items() if key in self.deeds},
                {key: value for key, value in each.begun.items() if key in self.deeds},
            )
            for each in self.candidates
        ]

    # -------------------------------------------------------------- judgement

    def judge(self) -> None:
        """Main as readers of the log's map see it, and each timeline with what it reads through to."""
        self._come_about()
        main, lines, closed = self.main(), self.lines(), len(self.publications())
        found: list[Candidate] = []
        for each in self.candidates:
            if _differences(each.model, main, lines, closed) is None and each not in found:
                found.append(each)
        assert found, "\n".join(str(_differences(each.model, main, lines, closed)) for each in self.candidates)
        self.candidates = found
        if not self._reader.log.head().state.open:
            self._forget([number for number, deed in self.deeds.items() if deed.outcome == "died"])

    def recover(self) -> None:
        """A new process finishes what others left."""
        self.publisher().recover()
        self.judge()

    def main(self) -> Rows:
        view, log = View.newest(self.storage), self._reader.log
        states = log.day_states(log.head()) if view.versions else {}
        found: dict[str, dict[date, tuple[str, tuple[str, ...]]]] = {}
        for table in ("raw", "fact", "report"):
            rows = view.rows(table)
            names = _by_day(rows.to_pylist() if rows is not None else [])
            days = {key.day: state.content for key, state in states.items() if key.table == table and state.content}
            assert names.keys() <= days.keys()
            assert all(content.rows == len(names.get(day, ())) for day, content in days.items())
            found[table] = {day: (content.code_version, names.get(day, ())) for day, content in sorted(days.items())}
        return found

    def lines(self) -> dict[str, tuple[Rows, Stale]]:
        """What each timeline shows, and which days it names as stale. All others of its own agree with the rest."""
        kept = kept_timelines(self.storage, clock.now())
        for each in kept:
            named = [f"{table}/{file.path}" for table, days in each.days.items() for d in days for file in d.files]
            assert not self.storage.missing(named), f"files of {each.name} are gone"
            if (each.id, each.revision) not in self._read:
                rows, stale = self.rows_of(each), self.stale_of(each)
                assert not (torn := _torn(each, rows, stale)), f"{each.name} shows {torn} beside {rows}, without a word"
                self._read[each.id, each.revision] = rows, stale
        return {each.name: self._read[each.id, each.revision] for each in kept}

    def rows_of(self, timeline: NamedTimeline) -> Rows:
        """By the files that are read when it is opened."""
        opened = OpenedTimeline(self.storage, timeline)
        found: dict[str, dict[date, tuple[str, tuple[str, ...]]]] = {}
        for table in opened.tables:
            held = {day: each.content for day, each in opened.held(table).items() if each.content}
            names = _by_day(opened.dataset(table).to_table().to_pylist())
            assert names.keys() <= held.keys()
            found[table] = {day: (content.code_version, names.get(day, ())) for day, content in held.items()}
        return found

    def stale_of(self, timeline: NamedTimeline) -> Stale:
        found = OpenedTimeline(self.storage, timeline).stale_days(STEPS)
        return {table: set(days) for table, days in found.items()}

    def publications(self) -> list[str]:
        """Those that are done, in the order in which they were closed."""
        rows = log_rows(self._reader.log, "closed", columns=["publication", "outcome", "event"])
        return [row["publication"] for row in rows if row["outcome"] == "done"]

    def read_again(self) -> None:
        """Forget what was read of timelines, so that the next judgement opens each of them anew."""
        self._read.clear()
        self.judge()

    # ---------------------------------------------------------------- work

    def publisher(self) -> Publisher:
        return Publisher(self.storage, retention_days=RETENTION_DAYS)

    def lake(self, reached: Callable[..., None]) -> Lake:
        storage = WatchedStorage(str(self.root), reached=reached)
        publisher = Publisher(storage, retention_days=RETENTION_DAYS, reached=reached)
        return Lake(
            catalog_of(STEPS),
            storage,
            publisher,
            LandingZone(self.root / "landing"),
            lambda: cast("object", ArrowEngine(reached)),  # type: ignore[arg-type,return-value]
            "",
        )

    def days_pass(self) -> None:
        self.time.moment += timedelta(days=RETENTION_DAYS, hours=1)
        self.do(lambda _: None, lambda _: model.days_pass)

    def new_rows(self, day: date, count: int) -> tuple[str, ...]:
        self._rows += count
        return tuple(f"{day.day}/{number}" for number in range(self._rows - count, self._rows))

    def land(self, day: date, names: tuple[str, ...]) -> Work:
        """Rows arrive in raw: appended once, with the position of their source."""

        def work(lake: Lake) -> object:
            timeline = stage(self.storage, "raw", lake.new_id("raw"), {day: names})
            first = int(names[0].rpartition("/")[2])
            position = Position(id=f"landed {first}", before=None, after=1)
            made = change(timeline, {day: names}, mode="append", positions=(position,))
            publication = Publication(
                id=lake.new_id("raw"), kind="append", tables=(measured_change(made, {day: names}),)
            )
            assert isinstance(lake.publisher.publish(publication), Published)
            return None

        return work

    def run_fact(self, days: Iterable[date], version: str) -> Work:
        return lambda lake: Builder(lake).build(FACT, list(days), run=RUN, version=version)

    def run_report(self, weeks: Iterable[date]) -> Work:
        return lambda lake: Builder(lake).build(REPORT, list(weeks), run=RUN)

    def roll_back(self, which: int) -> Work:
        publication = self.publications()[which]
        return lambda lake: roll_back(lake.publisher, publication, id=lake.new_id("rollback"), steps=STEPS)

    def reclaim(self) -> Work:
        return lambda lake: [reclaim(lake.publisher, table, clock_checked=True) for table in ("raw", "fact", "report")]

    def rewind(self, name: str, target: str, which: int, *, before: bool, days: DayRange | None) -> Work:
        publication = self.publications()[which]

        def work(lake: Lake) -> object:
            moment = (
                moment_before(lake.storage, publication) if before else find_moment(lake.storage, publication, target)
            )
            asked = RewindRequest(name, [target], days)
            return create_timeline(lake.storage, rewound_timeline(lake.storage, STEPS, asked, moment, clock.now()))

        return work

    def forward(self, name: str, version: str, other: str | None, *, arrivals: bool = True) -> Work:
        def work(lake: Lake) -> object:
            timeline = find_timeline(lake.storage, name, clock.now())
            return forward(lake, timeline, version, RUN, silent, arrivals=arrivals, other=other, by="ana")

        return work

    def run_on(self, name: str, step: Step, days: Iterable[date], version: str) -> Work:
        asked = StepRequest(step, list(days), version)
        return lambda lake: run_on(lake, find_timeline(lake.storage, name, clock.now()), [asked], RUN, silent)

    def publish(self, name: str, campaign: str) -> Work:
        return lambda lake: publish_timeline(lake, STEPS, find_timeline(lake.storage, name, clock.now()), campaign)

    def delete(self, name: str) -> Work:
        return lambda lake: delete_timeline(lake.storage, find_timeline(lake.storage, name, clock.now()), clock.now())


def measured_change(made: TableChange, rows: Mapping[date, Iterable[str]]) -> TableChange:
    """With the metrics that the days of a build have."""
    days = tuple(day.model_copy(update={"content": _content(rows[day.day])}) for day in made.days)
    return made.model_copy(update={"days": days})


def _content(names: Iterable[str]) -> DayContent:
    figures = measured(names)
    return DayContent(rows=figures.pop("rows"), checksum=str(figures.pop("checksum")), metrics=figures)


def _by_day(rows: Iterable[Mapping[str, object]]) -> dict[date, tuple[str, ...]]:
    found: dict[date, list[str]] = {}
    for row in rows:
        found.setdefault(cast("date", row["day"]), []).append(str(row["name"]))
    return {day: tuple(sorted(names)) for day, names in found.items()}


def _torn(timeline: NamedTimeline, rows: Rows, stale: Stale) -> list[tuple[str, date]]:
    """Its own days that are not named as stale, and are not what plain Python makes of what it shows."""
    found = []
    for table, made_again in (("fact", _fact_of), ("report", _report_of)):
        for day in timeline.held(table).keys() & rows.get(table, {}).keys() - stale.get(table, set()):
            version, names = rows[table][day]
            if names != made_again(rows, day, version):
                found.append((table, day))
    return found


def _fact_of(rows: Rows, day: date, version: str) -> tuple[str, ...]:
    return fact_names(version, rows["raw"][day][1])


def _report_of(rows: Rows, week: date, _: str) -> tuple[str, ...]:
    facts = rows.get("fact", {})
    return report_names(name for day in Cadence.WEEKLY.period(week) for name in facts.get(day, ("", ()))[1])


def _differences(expected: Model, main: Rows, lines: Mapping[str, tuple[Rows, Stale]], closed: int) -> str | None:
    if len(expected.published) != closed:
        return f"{closed} publications are done, expected {len(expected.published)}"
    if _rows(expected.main) != main:
        return f"main is {main}, expected {_rows(expected.main)}"
    stale = {name: line.stale for name, line in expected.lines.items()}
    if stale != (named := {name: days for name, (_, days) in lines.items()}):
        return f"timelines name as stale {named}, expected {stale}"
    wanted = {name: _rows(line.tables) for name, line in expected.lines.items()}
    found = {name: dict(line) for name, (line, _) in lines.items()}
    if _without_empty(wanted) != _without_empty(found):
        return f"timelines are {found}, expected {wanted}"
    return None


def _rows(tables: model.Tables) -> Rows:
    return {table: {day: (each.version, each.rows) for day, each in days.items()} for table, days in tables.items()}


def _without_empty(lines: Mapping[str, Rows]) -> dict[str, Rows]:
    return {name: {table: days for table, days in line.items() if days} for name, line in lines.items()}
