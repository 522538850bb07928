"""The five hazards: what lands when, and each way to deal with it.

``texts.toml`` says what happens and why. All ways play equal events in order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from backfill_assets.campaign.undo_days import UndoAction
from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.lab.lakes import (
    BRONZE,
    FACT,
    OVERTAKEN,
    QUARANTINE,
    RAW,
    Files,
    PlainLake,
    SafeLake,
    newest_versions,
    sold_at,
)
from backfill_assets.examples.lab.ways import Arrangement, PlainWay, SafeWay
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.rebuild.outcome import STAGED_AGAIN
from backfill_assets.text import format_count

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    Write = Callable[[DataFrame, int], None]

Lines = Mapping[date, list[str]]
SUNDAY = date(2017, 3, 5)


class PowerGone(Exception):
    """Ends an attempt like its process."""


def apart(lines: Sequence[str], every: int) -> tuple[list[str], list[str]]:
    return list(lines[::every]), [line for number, line in enumerate(lines) if number % every]


# ---------------------------------------------------------------------- collision


def two_files(lines: Lines) -> Files:
    files = {}
    for day, of_day in lines.items():
        later, first = apart(of_day, 5)
        files[day] = {"first": first, "later": later}
    return files


def collide_replacing(lake: PlainLake) -> None:
    _collide(lake, lake.stream, lambda rows, day: lake.replace_days(rows, [day]))


def collide_appending(lake: PlainLake) -> None:
    _collide(lake, lake.stream, lambda rows, day: lake.append(rows))


def collide_merging(lake: PlainLake) -> None:
    _collide(lake, lake.stream_merging, lambda rows, day: lake.merge(rows))


def _collide(lake: PlainLake, stream: Callable[[], None], write: Callable[[DataFrame, date], None]) -> None:
    saturday, sunday = lake.days
    lake.land("first")
    stream()
    rows = lake.source([saturday])
    lake.land("later", saturday)
    stream()
    write(rows, saturday)
    lake.land("later", sunday)
    write(lake.source([sunday]), sunday)
    stream()


def collide_publishing(lake: SafeLake) -> str:
    saturday, sunday = lake.days
    lake.land("first")
    lake.stream(lake.days)

    def saturday_moves() -> None:
        lake.land("later", saturday)
        lake.stream([saturday])

    lake.build(BRONZE, lake.days, when_staged=saturday_moves, force=True)
    lake.land("later", sunday)
    lake.build(RAW, [sunday], when_staged=lambda: lake.stream([sunday]))
    lake.build(BRONZE, [sunday])
    lake.stream([sunday])
    again = format_count(lake.reported(STAGED_AGAIN), "time")
    other = format_count(lake.reported(OVERTAKEN), "time")
    return f"Refused and staged again: {again}. Files that the stream had read before the backfill: {other}."


COLLISION = Arrangement(
    DayRange(date(2017, 3, 4), SUNDAY),
    two_files,
    (
        PlainWay("replaceWhere", collide_replacing),
        PlainWay("append", collide_appending),
        PlainWay("MERGE by key", collide_merging, careful=True),
        SafeWay("this project", collide_publishing),
    ),
)


# ------------------------------------------------------------------------- repeat

_PARTS = ("part0", "part1", "part2")


def three_files(lines: Lines) -> Files:
    return {day: {name: of_day[n :: len(_PARTS)] for n, name in enumerate(_PARTS)} for day, of_day in lines.items()}


def repeat_appending(lake: PlainLake) -> None:
    done: set[str] = set()
    for name in _PARTS:
        lake.land(name)
        _append_new(lake, done, dies=name == _PARTS[-1])
    _append_new(lake, done)
    _append_new(lake, done)


def _append_new(lake: PlainLake, done: set[str], *, dies: bool = False) -> None:
    for file in lake.landed():
        if file.name not in done:
            lake.append(lake.lines_of([file]))
            if dies:
                return
            done.add(file.name)


def repeat_streaming(lake: PlainLake) -> None:
    """Appends in ``foreachBatch``, and dies before Spark records the batch."""
    _killed(lake, lambda rows, batch: lake.append(rows))


def repeat_merging(lake: PlainLake) -> None:
    """Merges, dies at that moment, and loses its checkpoint too."""
    _killed(lake, lake.merge_batch)
    lake.lose_checkpoint()
    lake.stream_merging()


def _killed(lake: PlainLake, write: Write) -> None:
    from pyspark.errors import StreamingQueryException

    def write_and_die(rows: DataFrame, batch: int) -> None:
        write(rows, batch)
        raise PowerGone

    for name in _PARTS[:-1]:
        lake.land(name)
        lake.stream_by_batch(write)
    lake.land(_PARTS[-1])
    with suppress(StreamingQueryException):
        lake.stream_by_batch(write_and_die)
    lake.stream_by_batch(write)
    lake.stream_by_batch(write)


def repeat_without_checkpoint(lake: PlainLake) -> None:
    """Delta's own sink writes once by checkpoint, which is lost."""
    for name in _PARTS:
        lake.land(name)
        lake.stream()
    lake.lose_checkpoint()
    lake.stream()
    lake.stream()


def repeat_publishing(lake: SafeLake) -> str:
    """The last publication dies with rows in the table, the one before with the table untouched."""
    deaths = {_PARTS[1]: CrashPoint.PREPARED, _PARTS[2]: CrashPoint.TABLE_COMMITTED}
    for name in _PARTS:
        lake.land(name)
        if name in deaths:
            _stream_until(lake, deaths[name])
        lake.stream(lake.days)
    lake.stream(lake.days)
    died = " and ".join(f"at '{step.value}'" for step in deaths.values())
    return f"The stream died {died}. There is no checkpoint: each attempt starts from the tables alone."


def _stream_until(lake: SafeLake, chosen: CrashPoint) -> None:
    def reached(step: CrashPoint, about: str) -> None:
        if step is chosen:
            raise PowerGone

    try:
        lake.stream(lake.days, reached=reached)
    except PowerGone:
        return
    raise InvalidRequest(f"The publication never came to {chosen.value!r}.")


REPEAT = Arrangement(
    DayRange.of(SUNDAY),
    three_files,
    (
        PlainWay("append, then a retry", repeat_appending),
        PlainWay("stream, killed", repeat_streaming),
        PlainWay("stream, checkpoint lost", repeat_without_checkpoint),
        PlainWay("MERGE by key", repeat_merging, careful=True),
        SafeWay("this project", repeat_publishing),
    ),
)


# -------------------------------------------------------------------------- scale

SLICE_DAYS = 5
_JOB = "backfill lab scale"
_MOST_IN_A_TASK = "spark.sql.files.maxPartitionBytes"


def with_a_bad_line(lines: Lines) -> Files:
    """In a small day: Spark reads large files first."""
    day = sorted(lines, key=lambda each: sum(map(len, lines[each])))[len(lines) // 10]
    *others, last = lines[day]
    bad = json.dumps(json.loads(last) | {"quantity": "many"}, separators=(",", ":"))
    return {each: {"sales": [*others, bad] if each == day else of_day} for each, of_day in lines.items()}


def one_big_job(lake: PlainLake) -> str:
    lake.land("sales")
    with _a_task_for_each_file(lake.spark):
        done = _until_it_fails(lake)
        lake.replace_days(_newest(lake.source(), strict=False))
    lake.days_computed, lake.days_thrown_away = done + len(lake.days), done
    return f"The first attempt failed when it had read {done} of {len(lake.days)} days; nothing of them was kept."


@contextmanager
def _a_task_for_each_file(spark: SparkSession) -> Iterator[None]:
    """Like files of usual size; Spark would put small ones together."""
    before = spark.conf.get(_MOST_IN_A_TASK) or ""
    spark.conf.set(_MOST_IN_A_TASK, "1")
    try:
        yield
    finally:
        spark.conf.set(_MOST_IN_A_TASK, before)


def _until_it_fails(lake: PlainLake) -> int:
    from pyspark.errors import PySparkException

    lake.spark.sparkContext.setJobGroup(_JOB, "one big job")
    try:
        lake.replace_days(_newest(lake.source(), strict=True))
    except PySparkException:
        return _done_tasks(lake)
    finally:
        lake.spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    raise InvalidRequest("The bad line did not stop the job.")


def _done_tasks(lake: PlainLake) -> int:
    tracker = lake.spark.sparkContext.statusTracker()
    jobs = [job for id in tracker.getJobIdsForGroup(_JOB) if (job := tracker.getJobInfo(id))]
    stages = [stage for job in jobs for id in job.stageIds if (stage := tracker.getStageInfo(id))]
    return max((stage.numCompletedTasks for stage in stages if stage.numFailedTasks), default=0)


def _newest(rows: DataFrame, *, strict: bool) -> DataFrame:
    from pyspark.sql import functions as F

    quantity = F.col("quantity").cast("bigint") if strict else F.col("quantity").try_cast("bigint")
    typed = rows.withColumn("quantity", quantity).withColumn("sales_value", F.col("sales_value").cast("decimal(18,2)"))
    return newest_versions(typed)


def take_in_slices(lake: SafeLake) -> str:
    lake.land("sales")
    slices = [lake.days[first : first + SLICE_DAYS] for first in range(0, len(lake.days), SLICE_DAYS)]
    for days in slices:
        lake.build(RAW, days)
    lake.days_computed = len(lake.days)
    return f"{format_count(len(slices), 'slice')} of {SLICE_DAYS} days."


def rebuild_twice(lake: SafeLake) -> str:
    def power_gone() -> None:
        raise PowerGone

    with suppress(PowerGone):
        lake.build(BRONZE, lake.days, when_staged=power_gone)
    lake.build(BRONZE, lake.days)
    adopted = lake.staged_before()
    lake.days_computed, lake.days_thrown_away = len(lake.days), 0 if adopted else len(lake.days)
    return f"It died with {adopted} of {len(lake.days)} days staged, and the next one used them."


SCALE = Arrangement(
    # Fifty: a rebuild stages 45 days in its first chunk, which is where it is stopped.
    DayRange(date(2017, 3, 1), date(2017, 4, 19)),
    with_a_bad_line,
    (
        PlainWay("one big job", one_big_job),
        SafeWay("this project: take in", take_in_slices, (RAW,)),
        SafeWay("this project: rebuild", rebuild_twice, (f"{BRONZE} + {QUARANTINE}",)),
    ),
    one_line_of=2,
)


# ----------------------------------------------------------------------- boundary

LOADED = datetime(2017, 3, 5, 15, tzinfo=UTC)
STREAMED = LOADED + timedelta(hours=2)
OVERLAP = timedelta(hours=4)


def arrivals(lines: Lines) -> Files:
    (day,) = lines
    late, prompt = apart(lines[day], 25)
    files = {
        "history": [line for line in prompt if sold_at(line) < LOADED],
        "meanwhile": [line for line in prompt if LOADED <= sold_at(line) < STREAMED],
        "late": late,
        "live": [line for line in prompt if sold_at(line) >= STREAMED],
    }
    return {day: files}


def from_now(lake: PlainLake) -> None:
    _by_time(lake, STREAMED)


def with_an_overlap(lake: PlainLake) -> None:
    _by_time(lake, LOADED - OVERLAP)


def _by_time(lake: PlainLake, begin: datetime) -> None:
    _load_then_stream(
        lake,
        lambda rows: lake.append(_sold(rows, "<", LOADED)),
        lambda: lake.stream(lambda rows: _sold(rows, ">=", begin)),
    )


def boundary_merging(lake: PlainLake) -> None:
    _load_then_stream(lake, lake.merge, lake.stream_merging)


def _load_then_stream(lake: PlainLake, load: Callable[[DataFrame], None], stream: Callable[[], None]) -> None:
    """The load plans its read before more lands."""
    lake.land("history")
    history = lake.source()
    lake.land("meanwhile")
    load(history)
    for name in ("late", "live"):
        stream()
        lake.land(name)
    stream()


def _sold(rows: DataFrame, comparison: str, moment: datetime) -> DataFrame:
    return rows.where(f"cast(transaction_timestamp AS timestamp) {comparison} timestamp '{moment.isoformat()}'")


def boundary_publishing(lake: SafeLake) -> str:
    lake.land("history")
    lake.build(RAW, lake.days, when_staged=lambda: lake.land("meanwhile"))
    boundary = format_count(lake.positions(), "file")
    for name in ("late", "live"):
        lake.stream(lake.days)
        lake.land(name)
    lake.stream(lake.days)
    return f"The load wrote its boundary down: {boundary} read. At the end {RAW} has read {lake.positions()}."


BOUNDARY = Arrangement(
    DayRange.of(SUNDAY),
    arrivals,
    (
        PlainWay("from now", from_now),
        PlainWay("with an overlap", with_an_overlap),
        PlainWay("MERGE by key", boundary_merging, careful=True),
        SafeWay("this project", boundary_publishing),
    ),
)


# --------------------------------------------------------------------------- undo

WRONG = "v1"
"""Converts at the previous day's rate."""
_DONE = {UndoAction.PUT_BACK: "put back", UndoAction.RESTATE: "staged again with the rows since"}


def friday_in_thirds(lines: Lines) -> Files:
    friday = max(lines)
    thirds = {name: lines[friday][n::3] for n, name in enumerate(("first", "meanwhile", "after"))}
    return {day: thirds if day == friday else {"first": of_day} for day, of_day in lines.items()}


def undo_restoring(lake: PlainLake) -> None:
    _undo(lake, lake.restore)


def undo_merging(lake: PlainLake) -> None:
    _undo(lake, lambda _: lake.merge(lake.source()))


def _undo(lake: PlainLake, undo: Callable[[int], None]) -> None:
    from deltalake import DeltaTable
    from pyspark.sql import functions as F

    lake.land("first")
    lake.stream_merging()
    before = DeltaTable(lake.table).version()
    twice = (F.col("sales_value").cast("double") * 2).cast("string")
    lake.merge(lake.source().withColumn("sales_value", twice))
    lake.land("meanwhile")
    lake.stream_merging()
    undo(before)
    lake.land("after")
    lake.stream_merging()


def undo_campaign(lake: SafeLake) -> str:
    thursday, friday = lake.days
    lake.take_in_rates(DayRange(thursday, friday))
    lake.land("first")
    _follow(lake, lake.days)
    campaign = lake.cut_over(lake.days, WRONG)
    lake.land("meanwhile")
    _follow(lake, [friday])
    done = lake.undo(campaign)
    lake.land("after")
    _follow(lake, [friday])
    days = ", ".join(f"{format_count(done[action], 'day')} {words}" for action, words in _DONE.items())
    return f"Of the facts, {days}."


def _follow(lake: SafeLake, days: Sequence[date]) -> None:
    lake.stream(days)
    lake.build(FACT, days)


UNDO = Arrangement(
    # Not a weekend, whose rates are those of the day before: both versions would agree.
    DayRange(date(2017, 3, 2), date(2017, 3, 3)),
    friday_in_thirds,
    (
        PlainWay("MERGE, then RESTORE", undo_restoring),
        PlainWay("MERGE by key, old logic again", undo_merging, careful=True),
        SafeWay("this project", undo_campaign, (RAW, BRONZE, FACT)),
    ),
)

HAZARDS: Mapping[str, Arrangement] = {
    "collision": COLLISION,
    "repeat": REPEAT,
    "scale": SCALE,
    "boundary": BOUNDARY,
    "undo": UNDO,
}
