"""Hazard 3: one big job over many days."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date
from typing import TYPE_CHECKING

from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.lab.hazard import Hazard, HazardText
from backfill_assets.examples.lab.plain import PlainLake, newest_versions
from backfill_assets.examples.lab.repeat import PowerGone
from backfill_assets.examples.lab.safe import BRONZE, QUARANTINE, RAW, SafeLake
from backfill_assets.examples.lab.workbench import Played, Workbench
from backfill_assets.examples.sample.real import sales_lines
from backfill_assets.rebuild.outcome import ADOPTED
from backfill_assets.text import format_count

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAYS = DayRange(date(2017, 3, 1), date(2017, 4, 19))
"""Fifty: a rebuild stages 45 days in its first chunk, which is where it is stopped."""
SLICE_DAYS = 5
TEXT = HazardText(
    name="scale",
    title="Scale: one big job over many days",
    question="What does one job over all days cost when it fails shortly before its end?",
    events=(
        "Fifty days have landed. One line among them has the quantity `many`, in one of the files that are read last.",
        "All days are rebuilt: lines are typed, and the newest version of each is kept.",
        "The rebuild ends early, when most of it is done.",
        "It is started again, and comes to its end.",
    ),
    why_wrong="One job is one transaction: it has all days or none. One bad line at its end costs everything before "
    "it, and each attempt reads the whole source again. What it reads at once grows with the days.",
    why_safe="The source is taken in once, in slices, into raw: columns that every rebuild reads in its place. A bad "
    "line goes to quarantine. What was staged before the rebuild ended is used by the next one.",
    careful="Not played: a loop over slices of days, each merged by key, loses a slice and no more, and `try_cast` "
    "lets the line pass; where it went is for the loop to write down. It reads the source again each time, slow or "
    "gone as that may be.",
    cost="On days this small this project takes longer than a job that runs twice: each slice is staged, judged and "
    "published, and its files are opened four times, three of them to be sure that they are whole and unchanged. A "
    "JVM takes the memory that it may have: at this size it says little. [Performance](../performance.md) has larger "
    "days.",
    look=("backfill_assets/rebuild/replace.py", "backfill_assets/rebuild/decide.py"),
)
Lines = Mapping[date, Sequence[str]]
_JOB = "backfill lab scale"
_MOST_IN_A_TASK = "spark.sql.files.maxPartitionBytes"


def run(bench: Workbench, days: DayRange = DAYS, thin: int = 2) -> Hazard:
    """Play it; of the real lines one in ``thin``."""
    lines = with_a_bad_line({day: found[::thin] for day, found in sales_lines(days).items()})
    lake = bench.lakehouse("scale", "this project")
    return Hazard(
        TEXT,
        (
            bench.naive("scale", "one big job", lambda plain: one_job(plain, lines)),
            bench.safe("scale", "this project: take in", lake, lambda: taken_in(lake, lines), (RAW,)),
            bench.safe(
                "scale", "this project: rebuild", lake, lambda: rebuilt(lake, days), (f"{BRONZE} + {QUARANTINE}",)
            ),
        ),
    )


def with_a_bad_line(lines: Lines) -> Lines:
    """A line of one of the smallest days gets a quantity that is no number: Spark reads large files first."""
    day = sorted(lines, key=lambda each: sum(map(len, lines[each])))[len(lines) // 10]
    *others, last = lines[day]
    return {**lines, day: [*others, json.dumps(json.loads(last) | {"quantity": "many"}, separators=(",", ":"))]}


def one_job(lake: PlainLake, lines: Lines) -> Played:
    """Read all days of the source, keep the newest version of each line, replace all days; fail, fix it, and again."""
    land(lake, lines)
    days = list(lines)
    with a_task_for_each_file(lake.spark):
        done = until_it_fails(lake, days)
        lake.replace_days(newest(lake.source(days), strict=False), days)
    note = f"The first attempt failed when it had read {done} of {len(days)} days; nothing of them was kept."
    return Played(note, days_computed=done + len(days), days_thrown_away=done)


@contextmanager
def a_task_for_each_file(spark: SparkSession) -> Iterator[None]:
    """As files of a day's size have it; these are so small that Spark would put half of them into one task."""
    before = spark.conf.get(_MOST_IN_A_TASK) or ""
    spark.conf.set(_MOST_IN_A_TASK, "1")
    try:
        yield
    finally:
        spark.conf.set(_MOST_IN_A_TASK, before)


def until_it_fails(lake: PlainLake, days: Sequence[date]) -> int:
    """The attempt that meets the bad line; returns how many days it had read."""
    from pyspark.errors import PySparkException

    lake.spark.sparkContext.setJobGroup(_JOB, "one big job")
    try:
        lake.replace_days(newest(lake.source(days), strict=True), days)
    except PySparkException:
        return done_tasks(lake)
    finally:
        lake.spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    raise InvalidRequest("The bad line did not stop the job.")


def done_tasks(lake: PlainLake) -> int:
    """How many tasks of the job's failed stage were done, by Spark's own record; there is one for each day."""
    tracker = lake.spark.sparkContext.statusTracker()
    jobs = [job for id in tracker.getJobIdsForGroup(_JOB) if (job := tracker.getJobInfo(id))]
    stages = [stage for job in jobs for id in job.stageIds if (stage := tracker.getStageInfo(id))]
    return max((stage.numCompletedTasks for stage in stages if stage.numFailedTasks), default=0)


def newest(rows: DataFrame, *, strict: bool) -> DataFrame:
    """The newest version of each line, with its numbers typed; a ``strict`` cast fails on what is no number."""
    from pyspark.sql import functions as F

    quantity = F.col("quantity").cast("bigint") if strict else F.col("quantity").try_cast("bigint")
    typed = rows.withColumn("quantity", quantity).withColumn("sales_value", F.col("sales_value").cast("decimal(18,2)"))
    return newest_versions(typed)


def taken_in(lake: SafeLake, lines: Lines) -> Played:
    """Each slice of days goes into raw in a publication of its own. A rebuild never reads the source again."""
    land(lake, lines)
    slices = [list(part) for part in DayRange(min(lines), max(lines)).split(SLICE_DAYS)]
    for part in slices:
        lake.take_in(part)
    return Played(f"{format_count(len(slices), 'slice')} of {SLICE_DAYS} days.", days_computed=len(lines))


def rebuilt(lake: SafeLake, days: DayRange) -> Played:
    """The rebuild dies when its first chunk is judged, and the next is staged. Another one goes on from there."""
    with suppress(PowerGone):
        lake.rebuild(list(days), when_staged=power_gone)
    before = lake.reported(ADOPTED)
    lake.rebuild(list(days))
    adopted = lake.staged_before() if lake.reported(ADOPTED) > before else 0
    note = f"It died with {adopted} of {len(days)} days staged, and the next one used them."
    return Played(note, days_computed=len(days), days_thrown_away=0 if adopted else len(days))


def power_gone() -> None:
    raise PowerGone


def land(lake: PlainLake | SafeLake, lines: Lines) -> None:
    for day, found in lines.items():
        lake.landed.drop(day, "sales", found)
