"""``backfill dev`` restarts its Spark, and what it starts ends with it: no JVM is left, and no process of Dagster's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from itertools import takewhile
from pathlib import Path
from typing import Any

import psutil
import pytest

from backfill_assets.spark.connect_server import answers
from backfill_assets_tests.waiting import wait_until

_PART = """
import json, os, socket, subprocess, sys, time
child = subprocess.Popen(["sleep", "600"])
if "-p" in sys.argv:
    listening = socket.create_server(("127.0.0.1", int(sys.argv[sys.argv.index("-p") + 1])))
known = ("SPARK_REMOTE", "DAGSTER_HOME", "BACKFILL_SPARK_KEPT_BY", "BACKFILL_LETTERS", "BACKFILL_UI")
report = {name: os.environ[name] for name in known}
os.write(1, (json.dumps(report | {"own": os.getpid(), "child": child.pid}) + "\\n").encode())
time.sleep(600)
"""
_DEV = """
import sys
from backfill_assets.cli.dev.dev import DagsterCommands, Location, serve
from backfill_assets.settings import Settings
part = (sys.executable, "-c", sys.argv[1])
sys.exit(serve(Settings.from_environment(), 39172, Location("any", "any"), DagsterCommands(part, part, part)))
"""


@pytest.mark.spark
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="the JVM is found by its open log, below /proc")
def test_its_spark_is_started_again_and_everything_ends_with_it(tmp_path: Path) -> None:
    """Other programs play Dagster's parts, each with a child, as Dagster has runs; Spark's JVM is the real one."""
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_REMOTE"}
    with subprocess.Popen(
        [sys.executable, "-c", _DEV, _PART],
        env=environment | {"BACKFILL_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
        start_new_session=True,
    ) as dev:
        try:
            assert dev.stdout is not None
            lines = iter(dev.stdout)
            assert f"All that Dagster says is in {tmp_path / 'dev.log'}" in next(lines)
            wait_until(lambda: len(_said(tmp_path)) == 3)
            parts = _said(tmp_path)
            killed = _server_of(tmp_path)
            for told in parts:
                assert told["DAGSTER_HOME"] == str(tmp_path / "dagster")
                assert told["SPARK_REMOTE"] == parts[0]["SPARK_REMOTE"]
                assert told["BACKFILL_UI"] == "http://127.0.0.1:39172", "letters link to it"
                assert told["BACKFILL_SPARK_KEPT_BY"] == "backfill dev"
                assert answers(int(told["BACKFILL_LETTERS"].rpartition(":")[2])), "letters are served before it is used"
            os.kill(killed, signal.SIGKILL)
            said = list(takewhile(lambda line: not line.startswith("The Spark server is back"), lines))
            assert [line for line in said if line.startswith("The ")] == [
                "The Spark server was killed by signal 9. Starting it again ...\n"
            ]
            assert answers(int(parts[0]["SPARK_REMOTE"].rpartition(":")[2])), "at the address that its runs know"
            server = _server_of(tmp_path)
            started = [server, *(told[name] for told in parts for name in ("own", "child"))]
            assert all(psutil.pid_exists(pid) for pid in started)
            dev.send_signal(signal.SIGINT)
            assert dev.wait(timeout=60) == 130
        finally:
            if dev.poll() is None:
                dev.send_signal(signal.SIGINT)
    wait_until(lambda: not any(map(psutil.pid_exists, started)))


def _said(home: Path) -> list[dict[str, Any]]:
    """What the parts have written: it is in the log alone, since a person needs none of it."""
    log = home / "dev.log"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


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
