"""Hazard 5: a backfill was wrong, and is undone while the stream goes on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import TYPE_CHECKING

from backfill_assets.campaign.undo_days import UndoAction
from backfill_assets.days import DayRange
from backfill_assets.examples.lab.collision import Lines, drop_all
from backfill_assets.examples.lab.hazard import Hazard, HazardText
from backfill_assets.examples.lab.plain import PlainLake
from backfill_assets.examples.lab.safe import BRONZE, FACT, RAW, SafeLake
from backfill_assets.examples.lab.workbench import Played, Workbench
from backfill_assets.examples.sample.real import sales_lines
from backfill_assets.text import format_count

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DAYS = DayRange(date(2017, 3, 2), date(2017, 3, 3))
"""Not at a weekend: the rates of its days are those of the day before, and both versions give the same."""
FRIDAY = DAYS.last
_DROPS = ("first", "meanwhile", "after")
WRONG = "v1"
"""The version of the facts that converts at the rate of the day before."""
TEXT = HazardText(
    name="undo",
    title="Undo: a backfill is taken back beside a live stream",
    question="A backfill was wrong. What becomes of the rows that the stream has brought since, when it is undone?",
    events=(
        "Lines of a Thursday and a Friday land. The stream takes them in.",
        "A backfill computes both days again, by wrong logic.",
        "A file with more lines of the Friday lands. The stream takes it in.",
        "The backfill is undone.",
        "The last lines of the Friday land. The stream goes on.",
    ),
    why_wrong="`RESTORE` puts back a state of the whole table: what the stream has written since is gone with the "
    "backfill. The stream does not bring it again, for its checkpoint says that it was read.",
    careful="The days computed again from the source by the old logic, and merged by key: every row is there, and has "
    "its old values. That takes as long as the backfill did, needs the old code and the whole source, and readers "
    "have the wrong rows until it ends; so has every table that was made of them meanwhile. What the wrong logic has "
    "added under keys of its own stays.",
    why_safe="A day to which no rows came gets the files back that it had: no data is moved. A day that gained rows "
    "is staged again from raw by the version that it had before, and judged. All of it is published at once, and "
    "refused if another row comes before that.",
    look=("backfill_assets/campaign/undo.py", "backfill_assets/campaign/undo_days.py"),
)


def run(bench: Workbench, days: DayRange = DAYS, thin: int = 1) -> Hazard:
    """Play it; of the real lines one in ``thin``."""
    files = {day: parts(lines[::thin], last=day == FRIDAY) for day, lines in sales_lines(days).items()}
    lake = bench.lakehouse("undo", "this project")
    return Hazard(
        TEXT,
        (
            bench.naive("undo", "MERGE, then RESTORE", lambda plain: restored(plain, files)),
            bench.careful("undo", "MERGE by key, old logic again", lambda plain: merged_again(plain, files)),
            bench.safe("undo", "this project", lake, lambda: undone(lake, files), (RAW, BRONZE, FACT)),
        ),
    )


def parts(lines: list[str], *, last: bool) -> Lines:
    """All lines of a day land first, but on the last day, of which two of three land later."""
    return {name: lines[n :: len(_DROPS)] for n, name in enumerate(_DROPS)} if last else {"first": lines}


def restored(lake: PlainLake, files: dict[date, Lines]) -> Played:
    """The table goes back to the version that it had before the backfill."""
    return _plain(lake, files, lake.restore)


def merged_again(lake: PlainLake, files: dict[date, Lines]) -> Played:
    """All of both days is read again, and merged."""
    return _plain(lake, files, lambda _: lake.merge(lake.source(list(DAYS))))


def _plain(lake: PlainLake, files: dict[date, Lines], undo: Callable[[int], None]) -> Played:
    drop_all(lake, files, "first")
    lake.stream_merging()
    before = lake.version()
    lake.merge(wrong(lake.source(list(DAYS))))
    lake.landed.drop(FRIDAY, "meanwhile", files[FRIDAY]["meanwhile"])
    lake.stream_merging()
    undo(before)
    lake.landed.drop(FRIDAY, "after", files[FRIDAY]["after"])
    lake.stream_merging()
    return Played()


def wrong(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return rows.withColumn("sales_value", (F.col("sales_value").cast("double") * 2).cast("string"))


def undone(lake: SafeLake, files: dict[date, Lines]) -> Played:
    """A campaign brings facts by the wrong version, and is undone as ``backfill rollback`` does it."""
    lake.take_in_rates(DAYS)
    drop_all(lake, files, "first")
    _follow(lake, list(DAYS))
    campaign = lake.cut_over(list(DAYS), WRONG)
    lake.landed.drop(FRIDAY, "meanwhile", files[FRIDAY]["meanwhile"])
    _follow(lake, [FRIDAY])
    ways = lake.undo(campaign)
    lake.landed.drop(FRIDAY, "after", files[FRIDAY]["after"])
    _follow(lake, [FRIDAY])
    days = ", ".join(f"{format_count(ways[way], 'day')} {words}" for way, words in _DONE.items())
    return Played(f"Of the facts, {days}.")


_DONE = {UndoAction.PUT_BACK: "put back", UndoAction.STAGE_AGAIN: "staged again with the rows since"}


def _follow(lake: SafeLake, days: list[date]) -> None:
    lake.stream(days)
    lake.build_facts(days)
