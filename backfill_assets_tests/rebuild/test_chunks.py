"""A long build in chunks: the next one is written while the one before is judged, and all of them are taken.

Days of one step of names, built as ever; a transform and a gate of its own say when what is done. No JVM starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from threading import Event
from typing import Any, ClassVar

import pytest

from backfill_assets import clock
from backfill_assets.days import DayRange
from backfill_assets.lakehouse.records import Publication
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import DayFacts, DayRule, Dimension, GateFinding, Reads, Step, Version
from backfill_assets.publish.publisher import Publisher
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.outcome import BuildResult, DaysFailed, adopted_line
from backfill_assets_tests.clock import NOON, FakeClock
from backfill_assets_tests.declared import catalog_of
from backfill_assets_tests.simulator import chain
from backfill_assets_tests.simulator.chain import computed_in_memory
from backfill_assets_tests.simulator.staging import change, stage

pytestmark = pytest.mark.protocol
DAYS = tuple(DayRange.parse("2016-12-01..2017-03-01"))
"""Two chunks of as many days as one has at most, and a third of a single day."""
FIRST = (DAYS[0], DAYS[45], DAYS[90])
"""The first day of each chunk: its number is among the rows of its day, and of no other one."""
SECONDS_OF_A_CHUNK = 100_000


def _is_done(_: int) -> None:
    """Without anything else."""


@dataclass(frozen=True)
class Judged(DayRule):
    """Calls ``judging`` with how many rows a day has, in the thread that judges."""

    judging: Callable[[int], None]
    name_format: ClassVar[str] = "judged"
    dimension: ClassVar[Dimension] = "completeness"

    def judge(self, facts: DayFacts) -> GateFinding:
        self.judging(facts.count("rows"))
        return GateFinding(True, "", "", "")


def _slowly(inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The names that have landed."""
    clock.sleep(SECONDS_OF_A_CHUNK)
    return {"names": inputs["landed"]}


@dataclass
class Building:
    """A lakehouse with a raw row a day, and one more for each chunk before on the first day of a chunk."""

    storage: Storage
    time: FakeClock
    """It sleeps once for each chunk that is written."""
    said: list[str] = field(default_factory=list)

    def land(self, days: Sequence[date] = DAYS) -> None:
        rows = {day: tuple(f"{day}/{n}" for n in range(1 + _marks(day))) for day in days}
        made = change(stage(self.storage, "landed", "raw", rows), rows, mode="append")
        self.publisher.publish(Publication(id="raw", kind="append", tables=(made,)))

    @property
    def publisher(self) -> Publisher:
        return Publisher(self.storage)

    def build(self, judging: Callable[[int], None]) -> BuildResult:
        table = replace(chain.CLEAN.tables[0], name="names", rules=(Judged(judging=judging),))
        step = Step((table,), (Version("v1", "", (Reads("landed"),), _slowly),), "v1")
        lake = replace(chain.lake_of(self.publisher), catalog=catalog_of([chain.LANDED, step]))
        return Builder(lake).build(step, DAYS, run=chain.RUN, progress=self.said.append)


def _marks(day: date) -> int:
    """The number of a chunk, from 1, on its first day; else 0."""
    return FIRST.index(day) + 1 if day in FIRST else 0


@pytest.fixture
def building(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Building]:
    computed_in_memory(monkeypatch)
    time = FakeClock(NOON)
    with clock.use(time):
        yield Building(Storage(str(tmp_path)), time)


def test_a_chunk_is_judged_while_the_next_one_is_written(building: Building) -> None:
    """Each verdict waits until the chunk after it is being written: one after the other, it would wait in vain."""
    building.land()
    writing = {number: Event() for number in (1, 2, 3)}

    def judging(rows: int) -> None:
        after = writing.get(rows) if rows > 1 else None  # the rows of a chunk's first day are its number and one
        assert after is None or after.wait(20), "the next chunk is not written yet"

    def begins_to_write() -> None:
        writing[len(building.time.slept)].set()

    building.time.at_sleep = begins_to_write
    result = building.build(judging)
    assert [day.day for day in result.days] == list(DAYS) and not any(day.reused for day in result.days)
    assert [line.split(",")[0] for line in building.said] == [f"names: {n}/91 days staged" for n in (45, 90, 91)]


@pytest.mark.parametrize(("bad", "kept"), [(1, 45), (2, 46), (3, 90)])
def test_a_chunk_that_cannot_be_judged_ends_the_build(building: Building, bad: int, kept: int) -> None:
    """Also the last one, after which nothing is written. The others are kept, for a build that comes after it."""
    building.land()

    def judging(rows: int) -> None:
        if rows == bad + 1:
            raise ValueError(f"chunk {bad} cannot be read")

    with pytest.raises(ValueError, match=f"chunk {bad} cannot be read"):
        building.build(judging)
    assert building.publisher.log.head().state.versions.keys() == {"landed"}
    assert len(building.build(_is_done).days) == len(DAYS)
    assert adopted_line("names", kept) in building.said


def test_more_than_a_day_is_left(building: Building) -> None:
    """In seconds as ever."""
    building.land()
    building.build(_is_done)
    assert building.said[0] == "names: 45/91 days staged, ETA 204444 s"


def test_days_that_lack_an_input_are_none_of_an_earlier_run(building: Building) -> None:
    """Nothing is said to have been staged for them, neither by this one nor before it."""
    for _ in range(2):
        with pytest.raises(DaysFailed):
            building.build(_is_done)
    assert building.said == []
