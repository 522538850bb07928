"""Processes that publish two tables and append to two more, and that die at a chosen step.

Served as :mod:`backfill_assets_tests.forks` does, with the words ``ROOT [STEP NUMBER]``: SIGKILL at the NUMBERth time
STEP is reached. Every step that is reached is said, so that it is known where a kill hit.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from backfill_assets import clock
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.records import Notice, Position
from backfill_assets.publish.compact import compact
from backfill_assets.publish.crash_points import COMMITTED, CrashPoint, Reached
from backfill_assets.publish.delivery import deliver
from backfill_assets.publish.publisher import Publisher
from backfill_assets.publish.senders import FileSender
from backfill_assets.upkeep.reclaim import finish_reclaiming, reclaim
from backfill_assets_tests.forks import say, serve
from backfill_assets_tests.protocol.lake import D1, D2, D3, Lake, RowsOfTables

ROUNDS = 3
TOLD = "sent.jsonl"
"""The file that notices are sent to; a publication without a notice is nowhere in it."""


def work(lake: Lake, reached: Reached) -> None:
    """A run: it finishes what a dead run left, then does what is not on the log yet, under ids that say what it is."""
    publisher = lake.publisher(ambushing(lake, reached))
    publisher.recover()
    finish_reclaiming(publisher)
    for number in range(ROUNDS):
        rows = {"fact": {D1: [f"f{number}"], D2: [f"g{number}"]}, "report": {D1: [f"r{number}"], D2: [f"s{number}"]}}
        _once(lake, publisher, f"p{number}", rows)
        _append(lake, publisher, number)
    if not _is_done(publisher, "c"):
        compact(publisher, "raw", [D1, D2, D3], id="c")
    if not _is_done(publisher, "undo"):
        roll_back(publisher, "p2", id="undo", steps=())
    if not lake.rows("report").get(D3):
        ambushed = lake.request("ambushed", {"fact": {D3: ["never"]}, "report": {D3: ["never"]}})
        publisher.publish(ambushed.model_copy(update={"notice": Notice(title="never")}))
    deliver(publisher, FileSender(lake.root / TOLD))
    lake.clock = lake.clock.replace(year=lake.clock.year + 1)
    reclaim(publisher, "fact", clock_checked=True)


def _is_done(publisher: Publisher, id: str) -> bool:
    return publisher.log.outcome(publisher.log.head(), id) == "done"


def _once(lake: Lake, publisher: Publisher, id: str, rows: RowsOfTables) -> None:
    if not _is_done(publisher, id):
        publisher.publish(lake.request(id, rows).model_copy(update={"notice": Notice(title=id)}))


def _append(lake: Lake, publisher: Publisher, number: int) -> None:
    """One offset of a topic, unless it has been taken in."""
    main = MainTable.open(lake.storage, "raw")
    if ((main.transaction("topic") if main else None) or 0) > number:
        return
    position = Position(id="topic", before=number or None, after=number + 1)
    days = {D1: [f"x{number}"], D3: [f"y{number}"]}
    tables = {"raw": days, "raw_more": days}
    publisher.publish(lake.request(f"a{number}", tables, kind="append", positions=(position,)))


def ambushing(lake: Lake, reached: Reached) -> Reached:
    """A foreign writer writes to the second table of ``ambushed`` when any process has committed the first."""

    def ambushed(step: CrashPoint, about: str) -> None:
        between = step == CrashPoint.TABLE_LOADED and about == "ambushed" and not lake.rows("report").get(D3)
        if between and lake.table("fact").transaction_version("ambushed") == COMMITTED:
            lake.foreign_rows("report", {D3: ["foreign"]})
        reached(step, about)

    return ambushed


def killing(step: str, number: int) -> Reached:
    """Report every step, and die at the chosen one as if the power had gone."""
    left = [number]

    def reached(at: CrashPoint, about: str) -> None:
        say(at.value)
        if at.value == step:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return reached


def run(root: str, step: str = "", number: str = "0") -> int:
    lake = Lake(Path(root))
    with clock.use(lake.time):
        work(lake, killing(step, int(number)))
    return 0


if __name__ == "__main__":
    serve(run)
