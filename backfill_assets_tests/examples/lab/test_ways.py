"""What a way took: seconds, and the most memory that was seen while it ran."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from backfill_assets.examples.lab import ways

NO_JVM = cast("Any", SimpleNamespace(sparkContext=SimpleNamespace(_jvm=None)))


def test_the_peak_is_seen_though_it_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    held: Iterator[int] = iter([100, 700, 200])
    passed = threading.Event()

    def memory_mb() -> int:
        now = next(held, 0)
        if not now:
            passed.set()
        return now

    monkeypatch.setattr(ways, "memory_mb", memory_mb)
    with ways.metered(NO_JVM) as measured:
        assert passed.wait(15)
    assert measured.peak_memory_mb == 700
    assert 0.2 <= measured.seconds < 15


def test_memory_is_at_least_that_of_this_process() -> None:
    """Its largest child comes on top."""
    own = psutil.Process(os.getpid()).memory_info().rss // 1_000_000
    assert ways.memory_mb() >= own // 2
