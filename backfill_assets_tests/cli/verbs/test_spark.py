"""The Spark server that runs share: started once, found again, and never taken for another process."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from backfill_assets.spark.connect_server import CONNECT_PLUGIN, answers, free_port
from backfill_assets_tests.cli.command import Backfill

ROOT = Path(__file__).parents[3]


def _note(home: Path, pid: int) -> Path:
    """What ``start`` leaves, of a process with this number."""
    home.mkdir(parents=True, exist_ok=True)
    file = home / "spark-connect.json"
    process = {"pid": pid, "java_class": CONNECT_PLUGIN}
    texts = {"profile": "connect", "log": "l", "started": "s", "home": str(home.resolve())}
    told = {"url": "sc://127.0.0.1:1", "processes": [process], **texts}
    file.write_text(json.dumps(told))
    return file


def test_nothing_started_is_said_and_exits_with_1(backfill: Backfill) -> None:
    """A script waits for it by the exit code; stopping twice is no error."""
    found = backfill.json("spark", "status", exit_code=1)
    assert (found["running"], found["answers"]) == (False, False)
    assert "backfill spark start" in backfill("spark", "status", exit_code=1).stdout
    assert "No Spark server" in backfill("spark", "stop").stdout


def test_a_note_of_another_process_or_half_a_note_is_no_server(backfill: Backfill) -> None:
    """After a restart of the machine the number belongs to another process, which must not be stopped.

    Half a file of a machine that lost power must not keep Spark from starting.
    """
    file = _note(backfill.home, os.getpid())
    assert backfill.json("spark", "status", exit_code=1)["running"] is False
    assert "No Spark server" in backfill("spark", "stop").stdout
    assert not file.exists()
    for damaged in ("", "{", "[]", '{"processes": [{"pid": 1}]}', '{"processes": []}'):
        file.write_text(damaged)
        assert backfill.json("spark", "status", exit_code=1)["running"] is False


@pytest.fixture
def server() -> Iterator[subprocess.Popen[str]]:
    """A process that looks like a Spark server; it is there once its command line can be read."""
    command = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)", CONNECT_PLUGIN]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None and started.stdout.readline() == "up\n"
        yield started
        started.kill()


def test_the_server_of_another_home_is_not_stopped_from_a_copy_of_it(
    backfill: Backfill, server: subprocess.Popen[str], tmp_path: Path
) -> None:
    """`cp -a` copies the note as well."""
    file = _note(backfill.home, server.pid)
    assert backfill.json("spark", "status", exit_code=1)["running"] is True, "its port does not answer"
    file.write_text(json.dumps({**json.loads(file.read_text()), "home": str(tmp_path / "original")}))
    assert backfill.json("spark", "status", exit_code=1)["running"] is False
    assert "No Spark server" in backfill("spark", "stop").stdout
    assert server.poll() is None


def test_a_port_that_something_else_has_is_named(backfill: Backfill, port: int) -> None:
    """Spark would take the next port without a word, and clients would talk to the process that has this one."""
    told = backfill("spark", "start", "connect", port, exit_code=1)
    assert "answers on 127.0.0.1" in told.stderr and "another port" in told.stderr


def test_stopped_means_that_its_port_is_free(backfill: Backfill, server: subprocess.Popen[str]) -> None:
    """A process that ends has no command line any more some time before its sockets are closed."""
    with socket.create_server(("127.0.0.1", 0)) as still_open:
        port = still_open.getsockname()[1]
        file = _note(backfill.home, server.pid)
        file.write_text(file.read_text().replace("sc://127.0.0.1:1", f"sc://127.0.0.1:{port}"))
        threading.Timer(0.5, still_open.close).start()
        assert f":{port}" in backfill("spark", "stop").stdout
        assert not answers(port)


@pytest.mark.spark
def test_started_in_the_background_used_and_stopped(backfill: Backfill) -> None:
    """It outlives the command that started it; a second start says where it is; after stop, nothing is left."""
    port = free_port()
    command = [sys.executable, "-c", "from backfill_assets.cli import main; main()"]
    start = [*command, "spark", "start", "connect", str(port), "--json"]
    done = subprocess.run(start, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    started = json.loads(done.stdout)
    try:
        assert (started["answers"], started["url"]) == (True, f"sc://127.0.0.1:{port}")
        again = backfill("spark", "start", "connect", port, exit_code=1).stderr
        assert f"running already, at sc://127.0.0.1:{port}" in again
        assert backfill.json("spark", "status")["processes"] == started["processes"]
    finally:
        stopped = backfill("spark", "stop")
    assert f":{port}" in stopped.stdout and not answers(port)
    backfill("spark", "status", exit_code=1)
