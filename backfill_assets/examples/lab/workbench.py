"""Plays the ways of a hazard one after the other, each in a scratch folder of its own, and counts what came of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.days import DayRange
from backfill_assets.examples.lab.hazard import TableCount, WayCounts
from backfill_assets.examples.lab.meter import metered
from backfill_assets.examples.lab.plain import PlainLake
from backfill_assets.examples.lab.safe import BRONZE, RAW, SafeLake
from backfill_assets.examples.sample.real import sales_lines
from backfill_assets.rebuild.lake import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Played:
    """What a way reports of itself, besides what is counted from outside."""

    note: str = ""
    days_computed: int = 0
    days_thrown_away: int = 0


@dataclass(frozen=True)
class Workbench:
    """``step`` reports which way is played, ``progress`` what happens within it."""

    spark: SparkSession
    folder: Path
    step: Progress
    progress: Progress

    def warm_up(self, day: date) -> None:
        """Run each way once with a single line, uncounted: the first way would pay for loading classes otherwise."""
        self.step("Spark warms up ...")
        line, home = sales_lines(DayRange.of(day))[day][0], self.folder / "warm-up"
        plain, safe = PlainLake(self.spark, home / "plain"), SafeLake(self.spark, home / "safe")
        plain.landed.drop(day, "first", [line])
        plain.stream()
        plain.replace_days(plain.source([day]), [day])
        safe.landed.drop(day, "first", [line])
        safe.stream([day])

    def lakehouse(self, hazard: str, way: str) -> SafeLake:
        """A new lakehouse of this project."""
        return SafeLake(self.spark, self._home(hazard, way), self.progress)

    def naive(self, hazard: str, way: str, play: Callable[[PlainLake], Played]) -> WayCounts:
        """Play ``way`` on a plain table of its own."""
        lake = PlainLake(self.spark, self._home(hazard, way))
        return self._play(hazard, way, lake, lambda: play(lake), lambda: (lake.count(),))

    def careful(self, hazard: str, way: str, play: Callable[[PlainLake], Played]) -> WayCounts:
        """The same for a way that is to be right; its note is what its merges cost."""
        lake = PlainLake(self.spark, self._home(hazard, way))
        found = self._play(hazard, way, lake, lambda: play(lake), lambda: (lake.count(),))
        return replace(found, careful=True, note=f"MERGE wrote {lake.rows_again():,} rows that were there already.")

    def safe(
        self, hazard: str, way: str, lake: SafeLake, play: Callable[[], Played], tables: Sequence[str] = (RAW, BRONZE)
    ) -> WayCounts:
        """Play ``way`` on ``lake``, and compare its ``tables`` with the events."""
        lake.forget_reads()
        return self._play(hazard, way, lake, play, lambda: lake.count(*tables))

    def _play(
        self,
        hazard: str,
        way: str,
        lake: PlainLake | SafeLake,
        play: Callable[[], Played],
        count: Callable[[], tuple[TableCount, ...]],
    ) -> WayCounts:
        self.step(f"{hazard}: {way} ...")
        with metered(self.spark) as measured:
            played = play()
        return WayCounts(
            way=way,
            safe=isinstance(lake, SafeLake),
            events=lake.landed.sent.total(),
            tables=count(),
            seconds=measured.seconds,
            peak_memory_mb=measured.peak_memory_mb,
            source=lake.read,
            days_computed=played.days_computed,
            days_thrown_away=played.days_thrown_away,
            note=played.note,
        )

    def _home(self, hazard: str, way: str) -> Path:
        """Made of the way's words, so that ``--keep`` leaves folders that a person can find."""
        name = "-".join("".join(letter if letter.isalnum() else " " for letter in way.lower()).split())
        home = self.folder / hazard / name
        home.mkdir(parents=True)
        return home
