"""Measures one way of a hazard: its seconds, and the most memory that this process and its JVM held."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MEGABYTE = 1_000_000
_EVERY_SECONDS = 0.1


@dataclass
class Measured:
    """Of a block of work; both are 0 until it has ended."""

    seconds: float = 0.0
    peak_memory_mb: int = 0


@contextmanager
def metered(spark: SparkSession) -> Iterator[Measured]:
    """Measure the block. What the JVM still holds of the work before it is collected first."""
    from py4j.java_gateway import JVMView

    jvm = spark.sparkContext._jvm
    if isinstance(jvm, JVMView):
        jvm.System.gc()
    measured, ended, peaks = Measured(), threading.Event(), [memory_mb()]
    watcher = threading.Thread(target=_watch, args=(ended, peaks), daemon=True)
    watcher.start()
    started = time.monotonic()
    try:
        yield measured
    finally:
        measured.seconds = time.monotonic() - started
        ended.set()
        watcher.join()
        measured.peak_memory_mb = max(peaks)


def memory_mb() -> int:
    """What this process and its JVM hold now: the largest of its children."""
    own = psutil.Process()
    # A process that is just being started is a copy of its parent for a moment: a sum would have it twice.
    return (_resident(own) + max(map(_resident, own.children(recursive=True)), default=0)) // _MEGABYTE


def _watch(ended: threading.Event, peaks: list[int]) -> None:
    while not ended.wait(_EVERY_SECONDS):
        peaks.append(memory_mb())


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0  # it ended meanwhile
