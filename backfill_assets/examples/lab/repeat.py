"""Hazard 2: a job dies after it has written, and is run again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from typing import TYPE_CHECKING

from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.lab.hazard import Hazard, HazardText
from backfill_assets.examples.lab.plain import PlainLake
from backfill_assets.examples.lab.safe import SafeLake
from backfill_assets.examples.lab.workbench import Played, Workbench
from backfill_assets.examples.sample.real import sales_lines
from backfill_assets.publication.crash_points import CrashPoint, Reached

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DAY = date(2017, 3, 5)
_FILES = 3
TEXT = HazardText(
    name="repeat",
    title="Repeat: a job dies after it has written, and runs again",
    question="What does a second attempt do, when the first one has written its rows and could not say so?",
    events=(
        "Three files of a day land, one after the other. Each is read when it has landed.",
        "With the last one the job dies at its worst moment: its rows are written, that they are is not recorded.",
        "The job is started again. (In the third way its checkpoint is lost before that, in the fourth after it.)",
        "It is started once more, with nothing new to read.",
    ),
    why_wrong="The rows and the record of what was read are two writes. Between them a retry finds rows without a "
    "record, and writes them again; a checkpoint that is gone is a record that is gone.",
    why_safe="What was read is committed with the rows, in one commit of the table. A retry first finishes what the "
    "dead process has begun, and then finds nothing new. There is no other memory that could be lost.",
    careful="A batch that is merged under Delta's `txnAppId` and `txnVersion` is passed over when it comes again. A "
    "new checkpoint counts from 0: it needs a new `txnAppId`, or new batches are passed over as well; then all files "
    "are read and merged once more, which changes no key and rewrites every file. A second table has a commit of its "
    "own.",
    look=("backfill_assets/publication/finish.py", "backfill_assets/stream/batches.py"),
)


class PowerGone(Exception):
    """Ends an attempt where it is, as the end of its process would: what is on disk stays as it is."""


def run(bench: Workbench, day: date = DAY, thin: int = 1) -> Hazard:
    """Play it; of the real lines one in ``thin``."""
    lines = sales_lines(DayRange.of(day))[day][::thin]
    parts = [lines[number::_FILES] for number in range(_FILES)]
    lake = bench.lakehouse("repeat", "this project")
    return Hazard(
        TEXT,
        (
            bench.naive("repeat", "append, then a retry", lambda plain: append_again(plain, parts)),
            bench.naive("repeat", "stream, killed", lambda plain: stream_again(plain, parts)),
            bench.naive("repeat", "stream, checkpoint lost", lambda plain: stream_without_checkpoint(plain, parts)),
            bench.careful("repeat", "MERGE by key", lambda plain: merge_again(plain, parts)),
            bench.safe("repeat", "this project", lake, lambda: published_again(lake, parts)),
        ),
    )


def append_again(lake: PlainLake, parts: Sequence[Sequence[str]]) -> Played:
    """A batch job appends each file and then writes its name into ``done``."""
    done: set[str] = set()
    for number, lines in enumerate(parts):
        lake.landed.drop(DAY, f"part{number}", lines)
        append_new(lake, done, dies=number == len(parts) - 1)
    append_new(lake, done)
    append_new(lake, done)
    return Played()


def append_new(lake: PlainLake, done: set[str], *, dies: bool = False) -> None:
    """One attempt of the job. One that dies has appended its file, and not recorded it."""
    for file in lake.landed.files([DAY]):
        if file.name not in done:
            lake.append(lake.lines_of([file]))
            if dies:
                return
            done.add(file.name)


def stream_again(lake: PlainLake, parts: Sequence[Sequence[str]]) -> Played:
    """The stream appends in ``foreachBatch`` and dies before Spark has recorded the batch in its checkpoint."""
    return _killed(lake, parts, lambda rows, batch: lake.append(rows))


def merge_again(lake: PlainLake, parts: Sequence[Sequence[str]]) -> Played:
    """The stream merges, dies at the same moment, and loses its checkpoint as well."""
    played = _killed(lake, parts, lake.merge_batch)
    lake.lose_checkpoint()
    lake.stream_merging()
    return played


def _killed(lake: PlainLake, parts: Sequence[Sequence[str]], write: Callable[[DataFrame, int], None]) -> Played:
    def write_and_die(rows: DataFrame, batch: int) -> None:
        write(rows, batch)
        raise PowerGone

    *first, last = enumerate(parts)
    for number, lines in first:
        lake.landed.drop(DAY, f"part{number}", lines)
        lake.stream_by_batch(write)
    lake.landed.drop(DAY, f"part{last[0]}", last[1])
    lake.stream_until_it_dies(write_and_die)
    lake.stream_by_batch(write)
    lake.stream_by_batch(write)
    return Played()


def stream_without_checkpoint(lake: PlainLake, parts: Sequence[Sequence[str]]) -> Played:
    """Delta's own sink, which writes each batch once; by the checkpoint, which is lost."""
    for number, lines in enumerate(parts):
        lake.landed.drop(DAY, f"part{number}", lines)
        lake.stream()
    lake.lose_checkpoint()
    lake.stream()
    lake.stream()
    return Played()


def published_again(lake: SafeLake, parts: Sequence[Sequence[str]]) -> Played:
    """The same attempts: the last file's publication dies with its rows in the table and the log not closed.

    The file before it dies earlier, when the log says what will be done and the table is untouched.
    """
    deaths = {len(parts) - 2: CrashPoint.PREPARED, len(parts) - 1: CrashPoint.TABLE_COMMITTED}
    for number, lines in enumerate(parts):
        lake.landed.drop(DAY, f"part{number}", lines)
        if number in deaths:
            stream_until(lake, deaths[number])
        lake.stream([DAY])
    lake.stream([DAY])
    died = " and ".join(f"at '{step.value}'" for step in deaths.values())
    return Played(f"The stream died {died}. There is no checkpoint: each attempt starts from the tables alone.")


def stream_until(lake: SafeLake, step: CrashPoint) -> None:
    """A trigger of the stream that dies at ``step`` of its publication."""
    try:
        lake.stream([DAY], reached=dying_at(step))
    except PowerGone:
        return
    raise InvalidRequest(f"The publication never came to {step.value!r}.")


def dying_at(chosen: CrashPoint) -> Reached:
    def reached(step: CrashPoint, about: str) -> None:
        if step is chosen:
            raise PowerGone

    return reached
