"""Builders in the foreground, and their progress."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import click

from backfill_assets import clock
from backfill_assets.cli.running_dev import shared_spark
from backfill_assets.cli.wiring import current_catalog, current_settings
from backfill_assets.settings import logs_as_json
from backfill_assets.text import escape_controls

if TYPE_CHECKING:
    from types import FrameType

    from pyspark.sql import SparkSession

    from backfill_assets.rebuild.builder import Builder
    from backfill_assets.rebuild.lake import Lake
    from backfill_assets.rebuild.outcome import RunInfo
    from backfill_assets.settings import Settings

_JAVA_OBJECTS = "py4j/java_gateway.py"
_CONNECTIONS = "py4j/clientserver.py"
_A_MOMENT_SECONDS = 0.01
PROGRESS = "backfill_assets.progress"
_IN_LOGS_TOO = ("Warning: ", "Waiting: ")


@contextmanager
def foreground_builder(options: Mapping[str, str] | None = None) -> Iterator[Builder]:
    """Starts Spark once a day has to be computed; with ``options``, always one of its own."""
    from backfill_assets.rebuild.builder import Builder

    # Spark settings apply to a whole server: a shared one keeps its own.
    settings = current_settings()
    chosen, keeper = shared_spark(settings) if options is None else (settings, "")
    with ExitStack() as stack:

        @cache
        def spark() -> SparkSession:
            return foreground_spark(chosen, stack, options, keeper)

        yield Builder.from_settings(chosen, current_catalog(), spark)


@contextmanager
def foreground_lake() -> Iterator[Lake]:
    with foreground_builder() as builder:
        yield builder.lake


def foreground_spark(
    settings: Settings, stack: ExitStack, options: Mapping[str, str] | None = None, keeper: str = ""
) -> SparkSession:
    from backfill_assets.spark.session import spark_session

    own = "BACKFILL_SHARED_SPARK=never starts one of its own"
    report_step(f"Using the Spark of {keeper} at {settings.spark_remote}; {own}" if keeper else "Starting Spark ...")
    return _interruptible(stack.enter_context(spark_session(settings, "backfill", None, options)))


def run_info(command: str) -> RunInfo:
    from backfill_assets.rebuild.environment import git_commit
    from backfill_assets.rebuild.outcome import RunInfo, os_person

    person = os_person()
    id, commit = str(UUID(clock.token(16))), git_commit(current_catalog().folder)
    return RunInfo(id, commit, f"{person.name}: {command}", person)


def report_progress(message: str) -> None:
    if message.startswith(_IN_LOGS_TOO) or logs_as_json():
        report_step(message)
    elif sys.stderr.isatty():
        click.echo(f"  {escape_controls(message)}", err=True)


def report_step(message: str) -> None:
    if logs_as_json():
        warns = message.startswith(_IN_LOGS_TOO[0])
        logging.getLogger(PROGRESS).log(logging.WARNING if warns else logging.INFO, message)
        return
    before = "  " if sys.stderr.isatty() else f"{clock.now():%H:%M:%SZ} "
    for line in message.split("\n"):
        click.echo(f"{before}{escape_controls(line)}", err=True)


def _interruptible(session: SparkSession) -> SparkSession:
    """PySpark answers Ctrl-C with a call to the busy JVM, and logs a stack trace when that fails."""
    signal.signal(signal.SIGINT, interrupt)
    silence_py4j()
    return session


def silence_py4j() -> None:
    """py4j logs interrupted calls to the root logger, which notices use."""
    logging.getLogger("py4j").propagate = False
    logging.getLogger().addFilter(_is_not_from_py4j)


def _is_not_from_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, outside finalizers of PySpark, which would swallow it."""
    if not _is_collecting(frame):
        _abandon_calls(frame)
        raise KeyboardInterrupt
    again = threading.Timer(_A_MOMENT_SECONDS, os.kill, [os.getpid(), number])  # noqa: TID251 - the signal is its own
    again.daemon = True
    again.start()


def _abandon_calls(frame: FrameType | None) -> None:
    """Close the interrupted call's socket, so that py4j opens another: to shut it down it would use a connection whose
    network error may replace the interrupt.
    """
    for each in _frames(frame):
        if each.f_code.co_name == "send_command" and each.f_code.co_filename.endswith(_CONNECTIONS):
            connection = each.f_locals["self"]
            if connection.socket is not None:
                os.close(connection.socket.detach())
                connection.socket = None


def _is_collecting(frame: FrameType | None) -> bool:
    return any(
        each.f_code.co_name == "<lambda>" and each.f_code.co_filename.endswith(_JAVA_OBJECTS) for each in _frames(frame)
    )


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
