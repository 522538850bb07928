"""A home's Spark server, and its cluster, that outlive their command; noted in a file."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from backfill_assets import clock
from backfill_assets.errors import LakehouseUnusable
from backfill_assets.lakehouse.document import Documents
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.settings import Settings
from backfill_assets.spark.connect_server import (
    CONNECT_PLUGIN,
    LOOPBACK,
    answers,
    end_process,
    free_port,
    start_connect_server,
    start_daemon,
    wait_until,
)
from backfill_assets.spark.java import require_java, spark_script
from backfill_assets.spark.session import run_a_job

STANDALONE = "standalone"
_NOTE = "spark-connect"
_PATIENCE_SECONDS = 20.0


@dataclass(frozen=True)
class SparkProcess:
    """``java_class`` in the command line tells it from others of its number."""

    pid: int
    java_class: str

    def runs(self) -> bool:
        return self.java_class in command_line(self.pid)


@dataclass(frozen=True)
class SparkService:
    """``processes`` are in the order of stopping."""

    url: str
    profile: str
    log: str
    started: str
    processes: tuple[SparkProcess, ...]
    home: str
    """Copying the folder copies the note."""

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0


def record_file(settings: Settings) -> Path:
    return settings.home / f"{_NOTE}.json"


def _notes(settings: Settings) -> Documents[SparkService]:
    return Documents(Storage(str(settings.home)), ".", SparkService)


def running_service(settings: Settings) -> SparkService | None:
    noted = _read_record(settings)
    return noted if noted and noted.processes[0].runs() else None


def start_service(settings: Settings, port: int | None, profile: str) -> SparkService:
    """Waits until the server, on the loopback interface, has run a job; ``standalone`` adds a master and two workers.
    Raises ``LakehouseUnusable`` if one runs.
    """
    if running := running_service(settings):
        hint = f"Use it: export SPARK_REMOTE={running.url}. To start another: backfill spark stop"
        raise LakehouseUnusable(f"A Spark server is running already, at {running.url}.", hint=hint)
    stop_service(settings)
    cluster = start_standalone_cluster(settings) if profile == STANDALONE else None
    try:
        return _start(settings, port, profile, cluster)
    except BaseException:
        if cluster:
            cluster.stop()
        raise


def _start(settings: Settings, port: int | None, profile: str, cluster: StandaloneCluster | None) -> SparkService:
    options = {"spark.master": cluster.url} if cluster else {}
    server = start_connect_server(settings, port, options, profile=profile, outlives_starter=True)
    service = SparkService(
        url=server.url,
        profile=profile,
        log=str(server.log),
        started=clock.now().isoformat(timespec="seconds"),
        processes=(SparkProcess(server.process.pid, CONNECT_PLUGIN), *(cluster.processes() if cluster else ())),
        home=str(settings.home.resolve()),
    )
    try:
        _notes(settings).replace(_NOTE, service)
        run_a_job(replace(settings, spark_remote=service.url, spark_profile=profile))
    except BaseException:
        stop_service(settings)
        raise
    return service


def stop_service(settings: Settings) -> SparkService | None:
    """Waits for a free port. None if nothing ran."""
    noted = _read_record(settings)
    stopped = [_end(process) for process in noted.processes] if noted else []
    if noted and any(stopped):
        # The kernel empties the command line of an ending process some time before it closes its sockets.
        _wait_while(lambda: reachable(noted))
    record_file(settings).unlink(missing_ok=True)
    return noted if any(stopped) else None


def reachable(service: SparkService) -> bool:
    """Processes may hang."""
    return answers(service.port)


def _end(process: SparkProcess) -> bool:
    if not process.runs():
        return False
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)
        _wait_while(process.runs)
    return True


def _wait_while(condition: Callable[[], bool]) -> None:
    deadline = clock.seconds() + _PATIENCE_SECONDS
    while condition() and clock.seconds() < deadline:
        clock.sleep(0.1)


def _read_record(settings: Settings) -> SparkService | None:
    with suppress(LakehouseUnusable):
        noted = _notes(settings).get(_NOTE)
        return noted if noted and noted.processes and noted.home == str(settings.home.resolve()) else None
    return None


def command_line(pid: int) -> str:
    """Empty if ended, even as a zombie."""
    try:
        return " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return ""


# ------------------------------------------------------------------ a standalone cluster

_MASTER, _WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
_WORKERS = 2
_WORKER_MEMORY = "1g"
_REGISTERED = "Successfully registered with master"


@dataclass(frozen=True)
class StandaloneCluster:
    url: str
    master: subprocess.Popen[bytes]
    workers: tuple[subprocess.Popen[bytes], ...]

    def processes(self) -> list[SparkProcess]:
        return [*(SparkProcess(worker.pid, _WORKER) for worker in self.workers), SparkProcess(self.master.pid, _MASTER)]

    def stop(self) -> None:
        for process in (*self.workers, self.master):
            end_process(process)


def start_standalone_cluster(settings: Settings, timeout_seconds: float = 120) -> StandaloneCluster:
    """Waits for workers: each has half of the cores, and memory for one executor. Output goes to ``<home>/spark/``.
    Raises ``LakehouseUnusable``.
    """
    require_java()
    folder = settings.home / "spark"
    folder.mkdir(parents=True, exist_ok=True)
    here = replace(settings, spark_profile="standalone")
    port = free_port()
    url = f"spark://{LOOPBACK}:{port}"
    master = _launch(here, _MASTER, ["--port", str(port)], folder / "master.log")
    cluster = StandaloneCluster(url, master, ())
    try:
        _wait(lambda: answers(port), cluster, folder / "master.log", timeout_seconds)
        logs = [folder / f"worker-{number}.log" for number in range(1, _WORKERS + 1)]
        size = ["--cores", str(max(1, (os.cpu_count() or 2) // _WORKERS)), "--memory", _WORKER_MEMORY]
        for log in logs:
            arguments = [*size, "--work-dir", str(folder / log.stem), url]
            cluster = replace(cluster, workers=(*cluster.workers, _launch(here, _WORKER, arguments, log)))
        for log in logs:
            _wait(lambda log=log: _REGISTERED in log.read_text(errors="replace"), cluster, log, timeout_seconds)  # type: ignore[misc]
    except BaseException:
        cluster.stop()
        raise
    return cluster


def _launch(settings: Settings, java_class: str, arguments: list[str], log: Path) -> subprocess.Popen[bytes]:
    command = [spark_script("spark-class"), java_class, "--host", LOOPBACK, "--webui-port", "0", *arguments]
    return start_daemon(command, settings, log, {"SPARK_LOCAL_IP": LOOPBACK, "SPARK_DAEMON_MEMORY": "256m"})


def _wait(done: Callable[[], bool], cluster: StandaloneCluster, log: Path, timeout_seconds: float) -> None:
    wait_until(done, "The standalone cluster", (cluster.master, *cluster.workers), log, timeout_seconds)
