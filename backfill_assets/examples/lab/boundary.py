"""Hazard 4: history is loaded up to now, and the stream goes on from now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from backfill_assets.days import DayRange
from backfill_assets.examples.lab.events import sold_at
from backfill_assets.examples.lab.hazard import Hazard, HazardText
from backfill_assets.examples.lab.plain import PlainLake
from backfill_assets.examples.lab.safe import RAW, SafeLake
from backfill_assets.examples.lab.workbench import Played, Workbench
from backfill_assets.examples.sample.real import sales_lines
from backfill_assets.text import format_count

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DAY = date(2017, 3, 5)
LOADED = datetime(2017, 3, 5, 15, tzinfo=UTC)
"""Up to when history is loaded: by the clock of who starts the load."""
STREAMED = LOADED + timedelta(hours=2)
"""When the stream starts: the load took two hours."""
OVERLAP = timedelta(hours=4)
"""How much earlier the stream begins in the second naive way, to be sure."""
_LATE = 25
"""One line in so many lands after the others of its hour."""
TEXT = HazardText(
    name="boundary",
    title="Boundary: history first, then live",
    question="Which rows fall between a load of history and the stream that goes on from there, and which are in both?",
    events=(
        f"Lines sold before {LOADED:%H:%M} have landed, but for some that are late. History is loaded up to there.",
        f"The load takes two hours. Lines sold from {LOADED:%H:%M} to {STREAMED:%H:%M} land meanwhile.",
        f"The stream starts, from {STREAMED:%H:%M} on.",
        "The late lines land.",
        f"Lines sold after {STREAMED:%H:%M} land.",
    ),
    why_wrong="A time says when an event was sold, not whether it was read: what lands during the load, and what "
    "lands late, is on neither side of the boundary, and an overlap has everything in it twice.",
    why_safe="The boundary is what has been read: each landed file is a position that is committed with its rows, by "
    "the load and by the stream alike. What the one has, the other passes over; what neither has, the next one reads.",
    careful="Without a boundary there is no gap: the stream reads everything from the first file on, and merges it by "
    "key. All of history is read and written twice, before the stream comes to what is new.",
    look=("backfill_assets/landing/zone.py", "backfill_assets/rebuild/ingest.py"),
)
Drops = Mapping[str, Sequence[str]]
"""The lines by the name of the file that they land in, in order."""


def run(bench: Workbench, day: date = DAY, thin: int = 1) -> Hazard:
    """Play it; of the real lines one in ``thin``."""
    drops = arrivals(sales_lines(DayRange.of(day))[day][::thin])
    lake = bench.lakehouse("boundary", "this project")
    return Hazard(
        TEXT,
        (
            bench.naive("boundary", "from now", lambda plain: by_time(plain, drops, STREAMED)),
            bench.naive("boundary", "with an overlap", lambda plain: by_time(plain, drops, LOADED - OVERLAP)),
            bench.careful("boundary", "MERGE by key", lambda plain: by_key(plain, drops)),
            bench.safe("boundary", "this project", lake, lambda: by_positions(lake, drops)),
        ),
    )


def arrivals(lines: Sequence[str]) -> Drops:
    """Which lines land before the load, during it, late, and live."""
    late, prompt = lines[::_LATE], [line for number, line in enumerate(lines) if number % _LATE]
    return {
        "history": [line for line in prompt if sold_at(line) < LOADED],
        "meanwhile": [line for line in prompt if LOADED <= sold_at(line) < STREAMED],
        "late": late,
        "live": [line for line in prompt if sold_at(line) >= STREAMED],
    }


def by_time(lake: PlainLake, drops: Drops, begin: datetime) -> Played:
    """A batch loads what was sold before the load; the stream appends what was sold from ``begin`` on."""
    lake.landed.drop(DAY, "history", drops["history"])
    history = sold(lake.source([DAY]), None, LOADED)
    lake.landed.drop(DAY, "meanwhile", drops["meanwhile"])
    lake.append(history)
    for name in ("late", "live"):
        lake.stream(lambda rows: sold(rows, begin, None))
        lake.landed.drop(DAY, name, drops[name])
    lake.stream(lambda rows: sold(rows, begin, None))
    return Played()


def by_key(lake: PlainLake, drops: Drops) -> Played:
    """The load merges what is there; the stream begins with the first file, and merges all of them."""
    lake.landed.drop(DAY, "history", drops["history"])
    history = lake.source([DAY])
    lake.landed.drop(DAY, "meanwhile", drops["meanwhile"])
    lake.merge(history)
    for name in ("late", "live"):
        lake.stream_merging()
        lake.landed.drop(DAY, name, drops[name])
    lake.stream_merging()
    return Played()


def sold(rows: DataFrame, begin: datetime | None, end: datetime | None) -> DataFrame:
    """The rows that were sold in ``begin <= moment < end``."""
    from pyspark.sql import functions as F

    moment = F.col("transaction_timestamp").cast("timestamp")
    from_begin = rows if begin is None else rows.where(moment >= F.lit(begin.isoformat()).cast("timestamp"))
    return from_begin if end is None else from_begin.where(moment < F.lit(end.isoformat()).cast("timestamp"))


def by_positions(lake: SafeLake, drops: Drops) -> Played:
    """The batch takes in the files that are there; the stream takes in those that no publication has read."""
    lake.landed.drop(DAY, "history", drops["history"])
    lake.take_in([DAY], when_staged=lambda: lake.landed.drop(DAY, "meanwhile", drops["meanwhile"]))
    boundary = lake.positions()
    for name in ("late", "live"):
        lake.stream([DAY])
        lake.landed.drop(DAY, name, drops[name])
    lake.stream([DAY])
    files = format_count(boundary, "file")
    return Played(f"The load wrote its boundary down: {files} read. At the end {RAW} has read {lake.positions()}.")
