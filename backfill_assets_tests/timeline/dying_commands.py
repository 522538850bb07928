"""Processes that each run one command, and die at its beginning or after a chosen write.

Served as :mod:`backfill_assets_tests.forks` does, with the words ``HOME KILL_AT WORD...``: one kills itself with
SIGKILL at the place of that number; 0 is never. A place is the beginning, and each write that is done; how many were
reached is in a file of the home.

Days are staged without Spark: the rows of a day are made up, from what it is computed from.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from datetime import date
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from backfill_assets.cli import foreground, main
from backfill_assets.lakehouse.records import DayContent
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import StagedAs, Timeline
from backfill_assets.rebuild import step_build
from backfill_assets.rebuild.stage import Chunk, StagedTableDay, record_verdicts
from backfill_assets_tests.forks import serve
from backfill_assets_tests.small_lakehouse import staged_rows

REACHED = "reached.txt"
IMPORTED = (
    *("pandas", "rich.table", "backfill_assets.rebuild.builder", "backfill_assets.timeline.build"),
    *("backfill_assets.cli.verbs.timeline", "backfill_assets.cli.campaigns"),
    *("backfill_assets.campaign.run", "backfill_assets.campaign.timeline_plan", "backfill_assets.plan.keep"),
)
"""What commands import when they run."""


def run(home: str, kill_at: str, *words: str) -> int:
    """The exit code of the command, whose output goes to standard error."""
    os.environ["BACKFILL_HOME"] = home
    _count_writes(Path(home) / REACHED, int(kill_at))
    setattr(foreground, "foreground_spark", lambda *_: object())  # noqa: B010 - it is another type
    setattr(step_build, "write_chunk", _stage_without_spark)  # noqa: B010
    result = CliRunner().invoke(main, words)
    print(result.output, file=sys.stderr)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code


def _count_writes(reached: Path, kill_at: int) -> None:
    count = [0]

    def at_a_write() -> None:
        count[0] += 1
        reached.write_text(str(count[0]))
        if count[0] == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def dying(write: Callable[..., Any]) -> Callable[..., Any]:
        def written(*arguments: Any, **named: Any) -> Any:
            result = write(*arguments, **named)
            at_a_write()
            return result

        return written

    at_a_write()
    for name in ("put_if_absent", "write_bytes", "replace_bytes", "delete"):
        setattr(Storage, name, dying(getattr(Storage, name)))
    for name in ("_add", "judge"):
        setattr(Timeline, name, dying(getattr(Timeline, name)))


def _stage_without_spark(
    spark: object, storage: Storage, chunk: Chunk, timelines: Mapping[str, Timeline], judging: object
) -> Future[list[StagedTableDay]]:
    """Each day has one row, whose id is made of the fingerprint of its inputs."""
    ids = {day: int(chunk.wanted[day].inputs[:8], 16) for day in chunk.days}
    judged: Future[list[StagedTableDay]] = Future()
    judged.set_result([day for table, timeline in timelines.items() for day in _staged(chunk, table, timeline, ids)])
    return judged


def _staged(chunk: Chunk, table: str, timeline: Timeline, ids: Mapping[date, int]) -> list[StagedTableDay]:
    made_of = {day: chunk.wanted[day].input_fingerprint for day in chunk.days}
    files, schema = staged_rows(timeline, {day: [id] for day, id in ids.items()})
    timeline.add(files, schema, {day: StagedAs(input_fingerprint=made_of[day]) for day in chunk.days})
    days = []
    for day in chunk.days:
        content = DayContent(1, str(ids[day]), chunk.version.name, inputs=chunk.wanted[day].inputs)
        days.append(StagedTableDay(table, day, (), content, (), chunk.pin, schema))
    return record_verdicts(timeline, days, made_of)


if __name__ == "__main__":
    for name in IMPORTED:
        importlib.import_module(name)
    serve(run)
