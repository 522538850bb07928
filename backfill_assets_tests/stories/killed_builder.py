"""A process that builds the sales chain through a Spark Connect server, and that dies at a chosen step.

Every place that is reached is printed as ``<place> <what>``; at the first one that is the chosen one, the process kills
itself as if the power had gone.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from backfill_assets.days import DayRange
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.rows import stage as write_rows
from backfill_assets.lakehouse.rows import take_in as take_in_files
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.landing.zone import LandingZone
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.publish.publisher import Publisher
from backfill_assets.rebuild import ingest
from backfill_assets.rebuild import stage as staging
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.lake import Lake
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.settings import Settings
from backfill_assets.spark.session import spark_session

STEPS = ("raw_sales", "bronze_sales", "fact_sales_transactions")
Place = Callable[[str, str], None]


def dying_at(chosen: str, tell: Connection) -> Place:
    """Report every place, and die at the chosen one."""

    def place(name: str, about: str) -> None:
        reached = f"{name} {about}"
        tell.send(reached)
        if reached == chosen:
            os.kill(os.getpid(), signal.SIGKILL)

    return place


def watch_staging(place: Place) -> None:
    """Rows written, and verdicts recorded, are places too; the protocol reports its own."""
    judged = Timeline.judge

    def stage(rows: Any, timeline: Timeline, staged: Any, **how: Any) -> list[AddedFile]:
        written = write_rows(rows, timeline, staged, **how)
        place("staged", timeline.table)
        return written

    def take_in(files: Any, schema: Any, timeline: Timeline, staged: Any, **how: Any) -> None:
        take_in_files(files, schema, timeline, staged, **how)
        place("staged", timeline.table)

    def judge(timeline: Timeline, *verdicts: Any) -> None:
        judged(timeline, *verdicts)
        place("judged", timeline.table)

    for module in (staging, ingest):
        vars(module)["take_in"] = take_in
    vars(staging)["stage"] = stage
    Timeline.judge = judge  # type: ignore[assignment,method-assign]


def told(place: Place) -> Callable[[CrashPoint, str], None]:
    """``20170301t101112-bronze-sales-0a1b2c3d`` is a publication of ``bronze_sales``."""
    return lambda step, about: place(step.value, "_".join(about.split("-")[1:-1]))


def build_chain(home: str, url: str, days: str, chosen: str, tell: Connection) -> None:
    """What the process does, with ``url`` as if it were given in the environment."""
    os.environ["SPARK_REMOTE"] = url
    settings = replace(Settings.at(Path(home)), spark_profile="connect", spark_remote=url)
    place = dying_at(chosen, tell)
    watch_staging(place)
    storage = Storage(str(settings.lakehouse))
    publisher = Publisher(storage, reached=told(place))
    with spark_session(settings, "killed-builder") as spark:
        lake = Lake(
            CATALOG, storage, publisher, LandingZone(settings.landing), lambda: spark, str(settings.token_key_file)
        )
        place("session", "open")
        for table in STEPS:
            Builder(lake).build(CATALOG.step(table), list(DayRange.parse(days)), run=RunInfo("killed"))
