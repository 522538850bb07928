"""What commands that build in the foreground share: a builder whose Spark starts when first needed, and progress."""

from __future__ import annotations

import getpass
import logging
import os
import signal
import sys
import threading
from contextlib import ExitStack
from functools import cache
from typing import TYPE_CHECKING
from uuid import uuid4

import click

if TYPE_CHECKING:
    from types import FrameType

    from pyspark.sql import SparkSession

    from backfill_assets.build import Builder, RunInfo
    from backfill_assets.settings import Settings

_JAVA_OBJECTS = "py4j/java_gateway.py"
_A_MOMENT_SECONDS = 0.01


def foreground_builder(settings: Settings, stack: ExitStack) -> Builder:
    """A builder whose Spark session, if one is needed, ends with ``stack``; Ctrl-C stops it without stack traces."""
    from backfill_assets.build import Builder
    from backfill_assets.lakehouse.session import spark_session

    @cache
    def spark() -> SparkSession:
        tell("Starting Spark ...")
        return _interruptible(stack.enter_context(spark_session(settings, "backfill")))

    return Builder.from_settings(settings, spark)


def run_info(command: str) -> RunInfo:
    """Who builds: the person, the command and the commit; the run has a name of its own."""
    from backfill_assets.build import RunInfo
    from backfill_assets.build.commit import git_commit

    return RunInfo(str(uuid4()), git_commit(), f"{getpass.getuser()}: {command}")


def tell(message: str) -> None:
    """Progress is for a person who watches; a log keeps the result."""
    if sys.stderr.isatty():
        click.echo(f"  {message}", err=True)


def _interruptible(session: SparkSession) -> SparkSession:
    """PySpark answers Ctrl-C with a call to a JVM that is busy, and logs stack traces of it; we only want to stop."""
    signal.signal(signal.SIGINT, interrupt)
    logging.getLogger().addHandler(logging.NullHandler())
    return session


def interrupt(number: int, frame: FrameType | None) -> None:
    """Stop the command, a moment later if this moment is none in which Python listens.

    Whatever is raised while an object of PySpark's is collected is ignored by Python, and with it would be Ctrl-C: some
    moments in a hundred are such moments while columns are built.
    """
    if not _is_collecting(frame):
        raise KeyboardInterrupt
    again = threading.Timer(_A_MOMENT_SECONDS, os.kill, [os.getpid(), number])
    again.daemon = True
    again.start()


def _is_collecting(frame: FrameType | None) -> bool:
    """PySpark's objects are collected by a function without a name in py4j's module of Java objects."""
    while frame is not None:
        if frame.f_code.co_name == "<lambda>" and frame.f_code.co_filename.endswith(_JAVA_OBJECTS):
            return True
        frame = frame.f_back
    return False
