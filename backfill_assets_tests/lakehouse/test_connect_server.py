"""A Spark Connect server ends with the process that started it: an orphan would hold a gigabyte and a port for good."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from backfill_assets.settings import Settings

_STARTER = """
import sys, time
from pathlib import Path
from backfill_assets.lakehouse.connect_server import start_connect_server
from backfill_assets.settings import Settings
from backfill_assets_tests.conftest import SMALL_SPARK
print(start_connect_server(Settings.at(Path(sys.argv[1])), options=SMALL_SPARK).process.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.spark
def test_a_server_ends_with_a_starter_that_was_killed(tmp_path: Path, settings: Settings) -> None:
    """Kill -9 runs no handler and no ``finally``: only the closed pipe tells."""
    command = [sys.executable, "-c", _STARTER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=settings.spark_conf.parent) as starter:
        assert starter.stdout is not None
        server = int(starter.stdout.readline())
        assert _runs(server)
        starter.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 30
    while _runs(server) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _runs(server)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
