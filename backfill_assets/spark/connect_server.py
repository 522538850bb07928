"""A Spark Connect server of this machine: one warm JVM for all runs."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from backfill_assets import clock
from backfill_assets.errors import LakehouseUnusable
from backfill_assets.settings import CONNECT_PORT, Settings
from backfill_assets.spark.java import require_java, spark_script
from backfill_assets.spark.session import driver_options

LOOPBACK = "127.0.0.1"
# A process killed with -9 cannot end what it started, but its pipe closes: the shell that reads the pipe then sends the
# signal. A line on the pipe says that there is nothing to end. The shell keeps no other file open, so nobody waits for
# it.
ENDED_WITH_ITS_STARTER = """
exec 3<&0 </dev/null
(read -r ended <&3 || kill -"$0" $$) >/dev/null 2>&1 &
exec 3<&-
exec "$@"
"""
"""For ``sh -c`` with a signal (``TERM``) and a command, which gets the signal when its starter has ended."""


CONNECT_PLUGIN = "org.apache.spark.sql.connect.SparkConnectPlugin"
_SERVER_PORTS = range(20_000, 32_000)
_PORTS_TRIED = 100
_DRIVER = Path(__file__).parent / "submitted" / "connect_driver.py"


@dataclass(frozen=True)
class ConnectServer:
    port: int
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def url(self) -> str:
        return f"sc://{LOOPBACK}:{self.port}"

    def stop(self) -> None:
        end_process(self.process)


@contextmanager
def connect_server(
    settings: Settings, port: int | None = None, options: Mapping[str, str] | None = None, *, profile: str = "connect"
) -> Iterator[ConnectServer]:
    server = start_connect_server(settings, port, options, profile=profile)
    try:
        yield server
    finally:
        server.stop()


def start_connect_server(
    settings: Settings,
    port: int | None = None,
    options: Mapping[str, str] | None = None,
    timeout_seconds: float = 120,
    *,
    profile: str = "connect",
    outlives_starter: bool = False,
) -> ConnectServer:
    """Returns once it answers; it ends with this process, unless ``outlives_starter``. Output goes to
    ``<home>/spark-connect.log``. Raises ``LakehouseUnusable``.
    """
    require_java()
    chosen = free_port() if port is None else port
    if answers(chosen):
        hint = "Stop the program that does, or choose another port."
        raise LakehouseUnusable(f"Something answers on {LOOPBACK}:{chosen} already.", hint=hint)
    profile_of_servers = replace(settings, spark_profile=profile)
    log = settings.home / "spark-connect.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    process = _launch(profile_of_servers, chosen, options or {}, log, outlives_starter=outlives_starter)
    server = ConnectServer(chosen, process, log)
    try:
        # A server of another home may have taken the port first.
        wait_until(
            lambda: answers(chosen) and _listens(server), "The Spark Connect server", [process], log, timeout_seconds
        )
    except BaseException:
        server.stop()
        raise
    return server


def dismiss_watch(process: subprocess.Popen[bytes]) -> None:
    if process.stdin and not process.stdin.closed:
        with suppress(OSError), process.stdin as pipe:
            pipe.write(b"ended\n")


def free_port() -> int:
    """Below the ephemeral ones (from 32768 on Linux, 49152 elsewhere), which any connection may take. Raises
    ``LakehouseUnusable``.
    """
    for port in sorted(_SERVER_PORTS, key=lambda _: clock.between(0, 1))[:_PORTS_TRIED]:
        with closing(socket.socket()) as probe, suppress(OSError):
            probe.bind((LOOPBACK, port))
            return port
    hint = "End the programs that hold them, or name a port."
    raise LakehouseUnusable(f"None of {_PORTS_TRIED} ports tried on {LOOPBACK} is free.", hint=hint)


def start_daemon(
    command: Sequence[str], settings: Settings, log: Path, variables: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Without variables of another Spark; :data:`ENDED_WITH_ITS_STARTER` gets a pipe."""
    elsewhere = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "MASTER")
    environment = {name: value for name, value in os.environ.items() if name not in elsewhere}
    profile = {"SPARK_CONF_DIR": str(settings.spark_conf / settings.spark_profile), "PYSPARK_PYTHON": sys.executable}
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE if ENDED_WITH_ITS_STARTER in command else subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment | profile | dict(variables or {}),
            # Ctrl-C is for the starter, who ends its runs before their server.
            start_new_session=True,
        )


def end_process(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    dismiss_watch(process)


def wait_until(
    done: Callable[[], bool], what: str, processes: Iterable[subprocess.Popen[bytes]], log: Path, timeout_seconds: float
) -> None:
    """Raises ``LakehouseUnusable`` with the end of ``log``."""
    deadline = clock.seconds() + timeout_seconds
    while not done():
        if clock.seconds() > deadline or any(process.poll() is not None for process in processes):
            last_words = "\n".join(log.read_text(errors="replace").splitlines()[-8:])
            raise LakehouseUnusable(f"{what} did not come up:\n{last_words}", hint=f"Everything it said is in {log}.")
        clock.sleep(0.1)


def _launch(
    settings: Settings, port: int, options: Mapping[str, str], log: Path, *, outlives_starter: bool
) -> subprocess.Popen[bytes]:
    serving = {
        "spark.plugins": CONNECT_PLUGIN,
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.connect.grpc.binding.port": str(port),
    }
    confs = [f"{key}={value}" for key, value in (driver_options(settings, options) | serving).items()]
    command = [
        *(() if outlives_starter else ("sh", "-c", ENDED_WITH_ITS_STARTER, "TERM")),
        spark_script("spark-submit"),
        *(part for conf in confs for part in ("--conf", conf)),
        str(_DRIVER),
    ]
    return start_daemon(command, settings, log)


def _listens(server: ConnectServer) -> bool:
    with suppress(psutil.Error):
        process = psutil.Process(server.process.pid)
        return any(
            each.status == psutil.CONN_LISTEN and each.laddr.port == server.port
            for one in (process, *process.children(recursive=True))
            for each in one.net_connections("tcp")
        )
    return False


def answers(port: int) -> bool:
    """False if a socket got this very port, and connects to itself."""
    with closing(socket.socket()) as probe:
        probe.settimeout(1)
        return probe.connect_ex((LOOPBACK, port)) == 0 and probe.getsockname() != (LOOPBACK, port)


def _serve() -> None:
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with suppress(KeyboardInterrupt), connect_server(Settings.from_environment(), port=CONNECT_PORT) as running:
        print(f"Spark Connect answers: export SPARK_REMOTE={running.url} (Ctrl-C ends it)", flush=True)
        running.process.wait()


if __name__ == "__main__":
    _serve()
