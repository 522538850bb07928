"""A Spark standalone cluster on this machine: one master and two workers, reachable from here only."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from backfill_assets.settings import Settings
from backfill_assets.spark.connect_server import LOOPBACK, answers, end_process, free_port, start_daemon, wait_until
from backfill_assets.spark.java import require_java, spark_script

_MASTER, _WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
_WORKERS = 2
_WORKER_MEMORY = "1g"
_REGISTERED = "Successfully registered with master"


@dataclass(frozen=True)
class StandaloneCluster:
    """``url`` is what ``spark.master`` takes."""

    url: str
    master: subprocess.Popen[bytes]
    workers: tuple[subprocess.Popen[bytes], ...]

    def processes(self) -> list[tuple[int, str]]:
        """Process number and main class of each, the workers first."""
        return [*((worker.pid, _WORKER) for worker in self.workers), (self.master.pid, _MASTER)]

    def stop(self) -> None:
        """End the workers, then the master."""
        for process in (*self.workers, self.master):
            end_process(process)


def start_standalone_cluster(settings: Settings, timeout_seconds: float = 120) -> StandaloneCluster:
    """Start the three processes and wait until the workers have registered; raises ``LakehouseUnusable`` if not.

    Each worker has half of the cores, and memory for one executor of the profile. Output goes to ``<home>/spark/``.
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
