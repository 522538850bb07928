"""A Spark Connect server ends with the process that started it: an orphan would hold a gigabyte and a port for good."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from backfill_assets.errors import LakehouseUnusable
from backfill_assets.settings import Settings
from backfill_assets.spark import connect_server as servers
from backfill_assets.spark.connect_server import LOOPBACK, answers, connect_server, free_port
from backfill_assets_tests.conftest import SMALL_SPARK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STARTER = """
import sys, time
from pathlib import Path
from backfill_assets.spark.connect_server import start_connect_server
from backfill_assets.settings import Settings
from backfill_assets_tests.conftest import SMALL_SPARK
print(start_connect_server(Settings.at(Path(sys.argv[1])), options=SMALL_SPARK).process.pid, flush=True)
time.sleep(600)
"""


def test_the_port_of_a_server_is_never_one_that_a_connection_is_given() -> None:
    """Between the choice and the start of the server, anything on the machine may open a connection."""
    with closing(socket.create_server((LOOPBACK, 0))) as given:
        (_, port) = given.getsockname()
    assert all(20_000 <= free_port() < 32_000 < port for _ in range(50))


def test_a_taken_port_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(socket.create_server((LOOPBACK, 0))) as taken:
        (_, port) = taken.getsockname()
        monkeypatch.setattr(servers, "_SERVER_PORTS", [port] * 100)
        with pytest.raises(LakehouseUnusable, match="None of 100 ports tried"):
            free_port()


def test_a_socket_that_meets_itself_is_no_answer() -> None:
    """It is given the port that it asks for, one time in the thousands: a server seemed to be up that was not."""
    port = _free_port_of_connections()
    assert not any(answers(port) for _ in range(30_000))


def _free_port_of_connections() -> int:
    """Linux gives connections even ports before odd ones, which servers get."""
    for port in range(40_000, 50_000, 2):
        with suppress(OSError), closing(socket.create_server((LOOPBACK, port))):
            return port
    raise AssertionError("No even port is free.")


def test_the_server_of_another_home_is_not_taken_for_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both were started at once, on one port: the first answers while the second is still to find it taken."""
    with ExitStack() as stack:

        def launch(*_: object, **__: object) -> subprocess.Popen[bytes]:
            stack.enter_context(closing(socket.create_server((LOOPBACK, port))))
            (tmp_path / "spark-connect.log").write_text("Address already in use")
            return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.5)"])

        port = free_port()
        monkeypatch.setattr(servers, "require_java", lambda: None)
        monkeypatch.setattr(servers, "_launch", launch)
        with pytest.raises(LakehouseUnusable, match="did not come up:\nAddress already in use"):
            servers.start_connect_server(Settings.at(tmp_path), port)


def test_a_server_that_a_child_of_its_process_runs_is_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Spark's script does it: whether it becomes Java or starts it is its own business."""
    serves = f"import socket, time; s = socket.create_server(({LOOPBACK!r}, {(port := free_port())})); time.sleep(60)"
    command = ["sh", "-c", '"$@" & wait', "sh", sys.executable, "-c", serves]
    monkeypatch.setattr(servers, "require_java", lambda: None)
    monkeypatch.setattr(servers, "_launch", lambda *_, **__: subprocess.Popen(command))
    server = servers.start_connect_server(Settings.at(tmp_path), port, timeout_seconds=30)
    (child,) = psutil.Process(server.process.pid).children()
    child.terminate()
    server.stop()
    assert server.url == f"sc://{LOOPBACK}:{port}"


@pytest.mark.spark
def test_a_server_ends_with_a_starter_that_was_killed(tmp_path: Path, settings: Settings) -> None:
    """Kill -9 runs no handler and no ``finally``: only the closed pipe shows it."""
    command = [sys.executable, "-c", _STARTER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=settings.spark_conf.parent) as starter:
        assert starter.stdout is not None
        server = int(starter.stdout.readline())
        assert psutil.pid_exists(server)
        starter.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 30
    while psutil.pid_exists(server) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not psutil.pid_exists(server)


@pytest.mark.spark
def test_nothing_is_left_of_a_server_that_was_killed(tmp_path: Path, settings: Settings) -> None:
    """Its JVM has started Python, which only waits for its end; a shell waits for the end of the starter."""
    with connect_server(Settings.at(tmp_path), options=SMALL_SPARK) as server:
        children = [child.pid for child in psutil.Process(server.process.pid).children()]
        assert children
        server.process.kill()
    deadline = time.monotonic() + 10
    while any(map(psutil.pid_exists, children)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(psutil.pid_exists, children))


@pytest.mark.spark
def test_sessions_share_the_code_that_spark_generates(connect_spark: SparkSession) -> None:
    """With classes of its own, each session would compile again what is there already: seconds of each run."""
    assert connect_spark.conf.get("spark.sql.artifact.isolation.enabled") == "false"
    assert connect_spark.conf.get("spark.sql.artifact.isolation.alwaysApplyClassloader") == "false"
