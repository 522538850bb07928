"""Ways of playing a hazard, and the workbench that counts them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets import clock
from backfill_assets.days import DayRange
from backfill_assets.examples.lab.counts import Hazard, WayCounts, hazard_texts
from backfill_assets.examples.lab.lakes import BRONZE, PLAIN, RAW, Files, PlainLake, SafeLake
from backfill_assets.examples.sample.real import sales_lines
from backfill_assets.rebuild.lake import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class PlainWay:
    name: str
    play: Callable[[PlainLake], str | None]
    careful: bool = False


@dataclass(frozen=True)
class SafeWay:
    """A hazard's safe ways share a lakehouse."""

    name: str
    play: Callable[[SafeLake], str]
    tables: tuple[str, ...] = (RAW, BRONZE)


@dataclass(frozen=True)
class Arrangement:
    days: DayRange
    files: Callable[[Mapping[date, list[str]]], Files]
    ways: tuple[PlainWay | SafeWay, ...]
    one_line_of: int = 1
    """Plays one real line in so many."""


@dataclass(frozen=True)
class Workbench:
    spark: SparkSession
    folder: Path
    step: Progress
    progress: Progress

    def warm_up(self, day: date) -> None:
        """Uncounted: the first way would pay for loading classes."""
        self.step("Spark warms up ...")
        files, home = {day: {"first": sales_lines(DayRange.of(day))[day][:1]}}, self.folder / "warm-up"
        plain, safe = PlainLake(self.spark, home / "plain", files), SafeLake(self.spark, home / "safe", files)
        plain.land("first")
        plain.stream()
        plain.replace_days(plain.source())
        safe.land("first")
        safe.stream([day])

    def play(self, name: str, hazard: Arrangement, one_line_of: int = 0) -> Hazard:
        thin = one_line_of or hazard.one_line_of
        files = hazard.files({day: lines[::thin] for day, lines in sales_lines(hazard.days).items()})
        safe = SafeLake(self.spark, self._home(name, "this project"), files, self.progress)
        counted = []
        for way in hazard.ways:
            self.step(f"{name}: {way.name} ...")
            if isinstance(way, SafeWay):
                safe.forget_work()
                counted.append(self._count(way.name, safe, partial(way.play, safe), way.tables))
            else:
                plain = PlainLake(self.spark, self._home(name, way.name), files)
                found = self._count(way.name, plain, partial(way.play, plain), (PLAIN,))
                note = f"MERGE wrote {plain.rows_again():,} rows that were there already." if way.careful else ""
                counted.append(replace(found, careful=way.careful, note=note or found.note))
        return Hazard(hazard_texts()[name], tuple(counted), str(self.folder / name))

    def _count(
        self, way: str, lake: PlainLake | SafeLake, play: Callable[[], str | None], tables: Sequence[str]
    ) -> WayCounts:
        started = clock.seconds()
        note = play()
        return WayCounts(
            way=way,
            safe=isinstance(lake, SafeLake),
            events=lake.sent.total(),
            tables=tuple(lake.count(table) for table in tables),
            seconds=clock.seconds() - started,
            source=lake.read,
            days_computed=lake.days_computed,
            days_thrown_away=lake.days_thrown_away,
            note=note or "",
        )

    def _home(self, hazard: str, way: str) -> Path:
        name = "-".join("".join(letter if letter.isalnum() else " " for letter in way.lower()).split())
        home = self.folder / hazard / name
        home.mkdir(parents=True)
        return home
