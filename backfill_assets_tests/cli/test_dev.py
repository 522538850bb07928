"""What ``make dev`` starts ends with it: Ctrl-C leaves no JVM, and no process of Dagster's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_STAND_IN = """
import json, os, subprocess, sys, time
child = subprocess.Popen(["sleep", "600"])
told = {name: os.environ[name] for name in ("SPARK_REMOTE", "DAGSTER_HOME")}
print(json.dumps(told | {"own": os.getpid(), "child": child.pid}), flush=True)
time.sleep(600)
"""
_DEV = """
import sys
from backfill_assets.cli.dev import main
sys.exit(main(["-c", sys.argv[1]], dagster=[sys.executable]))
"""


@pytest.mark.spark
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="the JVM is found by its open log, below /proc")
def test_everything_that_it_started_ends_with_it(tmp_path: Path) -> None:
    """A stand-in for Dagster has a child, as Dagster has runs; the Spark that both were told of is gone afterwards."""
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_REMOTE"}
    with subprocess.Popen(
        [sys.executable, "-c", _DEV, _STAND_IN],
        env=environment | {"BACKFILL_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    ) as dev:
        assert dev.stdout is not None
        told = next(json.loads(line) for line in dev.stdout if line.startswith("{"))
        server = _server_of(tmp_path)
        assert told["DAGSTER_HOME"] == str(tmp_path / "dagster")
        assert told["SPARK_REMOTE"].startswith("sc://127.0.0.1:") and server
        dev.send_signal(signal.SIGINT)
        assert dev.wait(timeout=60) == 130
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline and any(_runs(pid) for pid in (told["own"], told["child"], server)):
        time.sleep(0.1)
    assert not [pid for pid in (told["own"], told["child"], server) if _runs(pid)]


def _server_of(home: Path) -> int:
    """The JVM whose log is in this home: no other process has that file open."""
    log = (home / "spark-connect.log").stat()
    for output in Path("/proc").glob("[0-9]*/fd/1"):
        try:
            found = output.stat()
        except OSError:
            continue
        if (found.st_dev, found.st_ino) == (log.st_dev, log.st_ino):
            return int(output.parts[2])
    return 0


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
