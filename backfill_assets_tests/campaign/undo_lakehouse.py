"""A lakehouse that is played with by runs, campaigns and undos, while rows arrive and processes die.

Seven days over a weekend, of two weeks. Facts take the rate of the day before (``v1``) or of the
day (``v2``); there are no rates at weekends, so that both agree there. The last day is left to be built.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, cast

import pytest

from backfill_assets import clock
from backfill_assets.campaign.cutover import cut_over
from backfill_assets.campaign.rollback import require_in_force, roll_back, undoable
from backfill_assets.campaign.undo import undo
from backfill_assets.clock import MachineClock
from backfill_assets.days import Cadence, DayRange, TableDay
from backfill_assets.errors import BackfillError
from backfill_assets.lakehouse.named_timelines import create_timeline, find_timeline, kept_timelines
from backfill_assets.lakehouse.records import Position, Publication
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.zone import LandingZone
from backfill_assets.model.declaration import Layer, Reads, Source, Step, Version
from backfill_assets.plan.make import make_plan
from backfill_assets.plan.records import PlanRequest, Scope
from backfill_assets.publish.log import PublicationLog
from backfill_assets.publish.publisher import Published, Publisher
from backfill_assets.rebuild.builder import Builder, silent
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets.rebuild.lake import Lake
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.step_look import StepRequest
from backfill_assets.rebuild.walk import shadow
from backfill_assets.state.view import moment_before
from backfill_assets.timeline.build import forward
from backfill_assets.timeline.rewind import RewindRequest, rewound_timeline
from backfill_assets_tests.campaign.undo_oracle import Judge, Names, Torn, names_of
from backfill_assets_tests.clock import FakeClock
from backfill_assets_tests.declared import catalog_of
from backfill_assets_tests.protocol.staging import change, scratch, stage
from backfill_assets_tests.simulator.arrow_engine import (
    ArrowEngine,
    ArrowRows,
    WatchedStorage,
    measured_change,
    staged_by_arrow,
)
from backfill_assets_tests.simulator.chain import named_table
from backfill_assets_tests.simulator.chain_plans import plan_context, publish_timeline, shadow_steps

DAYS = tuple(DayRange.parse("2017-03-30..2017-04-05"))
THURSDAY, FRIDAY, SATURDAY, SUNDAY, MONDAY, TUESDAY, LAST = DAYS
EQUAL_DAYS = (SATURDAY, SUNDAY)
LOOK_BACK = 3
RUN = RunInfo("a-run", launched_by="ana")
DONE, REFUSED, DIED = "done", "refused", "died"
Work = Callable[[Lake], object]
Arrival = Literal["late row", "correction", "deletion", "rate"]
Reach = Literal["raw", "bronze", "reports"]
"""How far what has arrived is built before anything else is done."""


def _version(table: str, cadence: Cadence, name: str, *reads: Reads) -> Version:
    def transform(inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        read: dict[str, ArrowRows] = {each.table: inputs[each.table] for each in reads}
        rows = {each: {day: tuple(names) for day, names in found.days.items()} for each, found in read.items()}
        first = read[reads[0].table]
        periods = map(cadence.period, cadence.starts(first.days))
        return {table: ArrowRows(first.engine, {each.first: names_of(table, reads, each, rows) for each in periods})}

    return Version(name, name, reads, transform)


def _raw(name: str) -> Step:
    return Step((named_table(name, "raw"),), source=Source(name, "day", ("name",), "name", ("name", "day")))


def _step(name: str, layer: Layer, versions: Mapping[str, Sequence[Reads]], cadence: Cadence = Cadence.DAILY) -> Step:
    made = tuple(_version(name, cadence, version, *reads) for version, reads in versions.items())
    return Step((named_table(name, layer),), made, current=made[-1].name, cadence=cadence)


RAW, RAW_RATES = _raw("raw"), _raw("raw_rates")
BRONZE = _step("bronze", "bronze", {"v1": [Reads("raw")]})
RATES = _step("rates", "bronze", {"v1": [Reads("raw_rates")]})
FACT = _step(
    "fact",
    "fact",
    {
        "v1": [Reads("bronze"), Reads("rates", first=-LOOK_BACK, last=-1)],
        "v2": [Reads("bronze"), Reads("rates", first=-LOOK_BACK)],
    },
)
DAILY = _step("daily", "report", {"v1": [Reads("fact")]})
WEEKLY = _step("weekly", "report", {"v1": [Reads("fact", partial=True), Reads("daily", partial=True)]}, Cadence.WEEKLY)
STEPS = (RAW, RAW_RATES, BRONZE, RATES, FACT, DAILY, WEEKLY)
CATALOG = catalog_of(STEPS)
RATE_DAYS = tuple(DayRange(DAYS[0] - timedelta(days=LOOK_BACK), DAYS[-1]))


def days_of(step: Step, days: Sequence[date] = DAYS) -> list[date]:
    """The days of ``step`` that ``days`` of sales are built into or from."""
    return list(RATE_DAYS) if step in (RAW_RATES, RATES) else step.cadence.starts(days)


class Died(BaseException):
    """A process ends here."""


class Life:
    """Passes so many crash points and ends at the next; a process that has ended reaches nothing any more."""

    def __init__(self, points: int | None = None) -> None:
        self.left = points

    @property
    def has_ended(self) -> bool:
        return self.left is not None and self.left < 0

    def __call__(self, *_: object) -> None:
        if self.left is not None:
            self.left -= 1
            if self.has_ended:
                raise Died


class UndoLakehouse:
    """One lakehouse in a folder, what has landed for it, and who judges each of its publications."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.storage = Storage(str(root))
        self.time: FakeClock | MachineClock = FakeClock(datetime.now(UTC))
        self.log = PublicationLog(self.storage)
        self.judge = Judge(STEPS)
        self.landed: dict[str, dict[date, list[str]]] = {"raw": {}, "raw_rates": {}}
        self.begun_with = 0
        """How many publications are those of the first build, which is never undone."""
        self._keys = 0
        self._campaigns = 0

    def copy(self) -> UndoLakehouse:
        """Another lakehouse with the same past, in a temporary folder."""
        other = UndoLakehouse(Path(tempfile.mkdtemp(prefix="undo-histories-", dir=scratch())))
        shutil.copytree(self.root, other.root, dirs_exist_ok=True)
        other.judge = self.judge.copy()
        other.landed = {table: {day: list(names) for day, names in days.items()} for table, days in self.landed.items()}
        other.begun_with, other._keys = self.begun_with, self._keys
        return other

    def remove(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)

    def begin(self) -> None:
        """Everything by v1, but for the last day of facts and what is computed from it."""
        rates = {day: [f"rate.1={7 + number}"] if day.weekday() < 5 else [] for number, day in enumerate(RATE_DAYS)}
        works = [self._land("raw", {day: [self._row(), self._row()] for day in DAYS}), self._land("raw_rates", rates)]
        works += [self.build(step, days_of(step), "v1") for step in (BRONZE, RATES)]
        works += [self.build(step, days_of(step, DAYS[:-1]), "v1") for step in (FACT, DAILY, WEEKLY)]
        assert self.do(*works) == DONE
        self.begun_with = len(self.judge.seen)

    # ---------------------------------------------------------------- deeds

    def do(self, *works: Work, dies_after: int | None = None) -> str:
        """Do them one after the other until one is refused, and judge what was published.

        A process that dies is followed by a new one, which finishes what it finds and types the same again.
        """
        life = Life(dies_after)
        with clock.use(self.time):
            outcome = self._do(works, life)
        return DIED if life.has_ended else outcome

    def _do(self, works: Iterable[Work], life: Life) -> str:
        lake = self.lake(life)
        for work in works:
            try:
                outcome = self._type(work, lake)
            except Died:
                lake = self.lake(Life())
                lake.publisher.recover()
                outcome = self._type(work, lake)
            if outcome == REFUSED:
                return REFUSED
        return DONE

    def _type(self, work: Work, lake: Lake) -> str:
        """Do it, and judge all that was published since the last time: by it, or by the recovery before it."""
        found, outcome = self.judge.look(self.log), DONE
        try:
            work(lake)
        except BackfillError as error:
            if more := self.judge.look(self.log):
                raise Torn(f"{more[0]} was published by what was refused: {error}") from error
            outcome = REFUSED
        self.judge.judge([*found, *self.judge.look(self.log)], self.landed)
        return outcome

    def lake(self, life: Life) -> Lake:
        storage = WatchedStorage(str(self.root), reached=life)
        publisher = Publisher(storage, reached=life)
        engine = cast("Any", ArrowEngine(life))
        return Lake(CATALOG, storage, publisher, LandingZone(self.root / "landing"), lambda: engine, "")

    # ---------------------------------------------------------------- what arrives

    def arrive(self, what: Arrival, day: date, reach: Reach = "bronze", number: int = 0) -> list[Work]:
        """A late row, a newer version of one, a row that its source takes back, or another rate."""
        if what == "rate":
            table, day = "raw_rates", day if day.weekday() < 5 else FRIDAY
            name = f"rate.{len(self.landed[table][day]) + 1}={self._new_number() + 100}"
        else:
            table, name = "raw", self._sales_name(what, day, number)
        built = {"raw": [], "bronze": [self.build(RATES if what == "rate" else BRONZE)], "reports": self.build_all()}
        return [self._land(table, {day: [name]}), *built[reach]]

    def _sales_name(self, what: Arrival, day: date, number: int) -> str:
        there = self.landed["raw"][day]
        gone = {name[1:] for name in there if name.startswith("-")}
        keys = sorted({name.partition(".")[0] for name in there if not name.startswith("-")} - gone)
        if not keys or what == "late row":
            return self._row()
        key = keys[number % len(keys)]
        return f"-{key}" if what == "deletion" else f"{key}.{len(there)}={self._new_number()}"

    def _row(self) -> str:
        number = self._new_number()
        return f"{number}.1={number * 10}"

    def _new_number(self) -> int:
        self._keys += 1
        return self._keys

    def _land(self, table: str, rows: Mapping[date, Sequence[str]]) -> Work:
        """Appended once, with the position of their source."""
        position = Position(id=f"landed {table} {self._new_number()}", before=None, after=1)

        def work(lake: Lake) -> object:
            own = self.landed[table]
            for day, names in rows.items():
                own[day] = [*own.get(day, ()), *(name for name in names if name not in own.get(day, ()))]
            timeline = stage(self.storage, table, lake.new_id("raw"), rows)
            made = measured_change(change(timeline, rows, mode="append", positions=(position,)), rows)
            outcome = lake.publisher.publish(Publication(id=lake.new_id("raw"), kind="append", tables=(made,)))
            assert isinstance(outcome, Published) or outcome.passed == (position.id,)
            return outcome

        return work

    # ---------------------------------------------------------------- what is done

    def build(self, step: Step, days: Sequence[date] | None = None, version: str = AS_PUBLISHED) -> Work:
        return lambda lake: Builder(lake).build(step, days or days_of(step), run=RUN, version=version)

    def build_all(self) -> list[Work]:
        """Everything that is computed, by the versions that it is published with."""
        return [self.build(step) for step in STEPS if step.source is None]

    def campaign(
        self,
        version: str,
        days: Sequence[date],
        *,
        whole: bool = False,
        between: Sequence[Work] = (),
        again: bool = False,
    ) -> list[Work]:
        """Staged and cut over, with what happens ``between``; staged ``again`` after that as well."""
        self._campaigns += 1
        name, planned = f"campaign-{self._campaigns:02}", list[StepRequest]()
        scope = Scope.WHOLE if whole else Scope.ONWARDS
        asked = PlanRequest(target="fact", days=f"{days[0]}..{days[-1]}", version=version, scope=scope)

        def staged(lake: Lake) -> object:
            planned[:] = planned or shadow_steps(STEPS, make_plan(asked, plan_context(lake, STEPS)))
            return shadow(lake, name, planned, RUN, silent)

        def brought(lake: Lake) -> object:
            return cut_over(lake, name, planned, RUN, silent)

        return [staged, *between, *([staged] if again else ()), brought]

    def roll_back(self, publication: str) -> Work:
        """As the command does it: a campaign's together with what arrived since, a run's by its files."""

        def work(lake: Lake) -> object:
            lake.publisher.recover()
            prepared = undoable(lake.publisher, publication)
            require_in_force(lake.publisher, prepared)
            if prepared.publication.provenance.campaign:
                return undo(lake, publication, RUN, silent)
            return roll_back(lake.publisher, publication, id=lake.new_id("rollback"), steps=STEPS)

        return work

    def undoable(self, *, whole: bool = False) -> list[str]:
        """Publications that may be rolled back, in their order: none of the first build; campaigns' if ``whole``."""
        since = [each for each in self.judge.seen[self.begun_with :] if each.made.kind != "append"]
        return [each.made.id for each in since if each.is_whole or not whole]

    def undos(self) -> list[str]:
        return [each.made.id for each in self.judge.seen if each.made.provenance.undoes]

    def names(self, table: str, day: date) -> Names:
        """The rows that main shows."""
        return self.judge.shown.of(TableDay(table, day))

    # ---------------------------------------------------------------- timelines

    def timelines(self, *, gone_forward: bool = False) -> list[str]:
        kept = kept_timelines(self.storage, clock.now())
        return [each.name for each in kept if each.versions or not gone_forward]

    def rewind(self, name: str, table: str, publication: str, days: DayRange | None) -> Work:
        """``table`` and what is computed from it, as they were before ``publication``."""

        def work(lake: Lake) -> object:
            moment = moment_before(lake.storage, publication)
            asked = RewindRequest(name, [table], days)
            return create_timeline(lake.storage, rewound_timeline(lake.storage, STEPS, asked, moment, clock.now()))

        return work

    def forward(self, name: str, version: str) -> Work:
        def work(lake: Lake) -> object:
            found = find_timeline(lake.storage, name, clock.now())
            chosen = version if "fact" in found.targets else ""
            return forward(lake, found, chosen, RUN, silent)

        return work

    def publish(self, name: str) -> Work:
        self._campaigns += 1
        campaign = f"campaign-{self._campaigns:02}"
        return lambda lake: publish_timeline(lake, STEPS, find_timeline(lake.storage, name, clock.now()), campaign)

    # ---------------------------------------------------------------- the end

    def end(self) -> None:
        """What is not made of what main shows is run once more: then everything is what raw alone makes of it."""
        for step in (step for step in STEPS if step.source is None):
            if not self.judge.is_fresh(step, days_of(step)):
                assert self.do(self.build(step)) == DONE
                assert self.judge.is_fresh(step, days_of(step))
        self.judge.all_from_raw(self.landed)


@contextmanager
def begun_lakehouse(root: Path) -> Iterator[UndoLakehouse]:
    """Its first build is done; days are staged without a JVM."""
    with pytest.MonkeyPatch.context() as patch:
        staged_by_arrow(patch)
        found = UndoLakehouse(root)
        found.begin()
        with clock.use(found.time):
            yield found
