"""On a cluster, a worker may die before it answers, and a task may be done twice at once: one answer counts."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.lakehouse.day_files import DayFolders, write_days
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.settings import Settings
from backfill_assets.spark import service
from backfill_assets.spark.connect_server import LOOPBACK, connect_server, start_daemon
from backfill_assets.spark.java import spark_script
from backfill_assets.spark.session import spark_session
from backfill_assets.spark.workers import in_workers
from backfill_assets_tests.conftest import SMALL_SPARK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

DAY, TASKS, ROWS = date(2017, 3, 1), 8, 1_000
FILES = pa.schema([("task", pa.int64()), ("number", pa.int64())])
SPECULATES = {
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.2",
}
STRAGGLES_SECONDS = 15


@pytest.fixture
def two_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """One machine under two names: Spark starts a task once more on another host only."""

    def launched(settings: Settings, java_class: str, arguments: list[str], log: Path) -> subprocess.Popen[bytes]:
        host = "localhost" if log.stem == "worker-2" else LOOPBACK
        command = [spark_script("spark-class"), java_class, "--host", host, "--webui-port", "0", *arguments]
        return start_daemon(command, settings, log, {"SPARK_LOCAL_IP": host, "SPARK_DAEMON_MEMORY": "256m"})

    monkeypatch.setattr(service, "_launch", launched)


@contextmanager
def cluster(settings: Settings) -> Iterator[SparkSession]:
    workers = service.start_standalone_cluster(settings)
    options = SMALL_SPARK | SPECULATES | {"spark.master": workers.url}
    try:
        with (
            connect_server(settings, options=options, profile="standalone") as server,
            spark_session(
                replace(settings, spark_profile="standalone", spark_remote=server.url), "dying-workers"
            ) as session,
        ):
            yield session
    finally:
        workers.stop()


def written_twice(root: Path, fate: Callable[[int], None]) -> Callable[[int], list[AddedFile]]:
    """Writes the file of a task; the first to do so meets its ``fate`` before it can answer."""
    folders = DayFolders(str(root), "facts", "write-id=w1", FILES)

    def work(task: int) -> list[AddedFile]:
        rows = pa.table({"task": [task] * ROWS, "number": list(range(ROWS)), "day": [DAY] * ROWS}).to_batches()
        files = write_days(rows, folders, f"part-{uuid4().hex[:12]}")
        try:
            (root / f"first-{task}").touch(exist_ok=False)
        except FileExistsError:
            return files
        fate(task)
        return files

    return work


def dies(task: int) -> None:
    if task % 3 == 0:
        os.kill(os.getpid(), signal.SIGKILL)


def straggles(task: int) -> None:
    if task == 1:
        time.sleep(STRAGGLES_SECONDS)


@pytest.mark.usefixtures("two_hosts")
@pytest.mark.parametrize(("fate", "twice"), [(dies, {0, 3, 6}), (straggles, {1})])
def test_one_attempt_of_each_task_counts(
    settings: Settings, tmp_path: Path, fate: Callable[[int], None], twice: set[int]
) -> None:
    with cluster(settings) as spark:
        answers = in_workers(spark, written_twice(tmp_path, fate), range(TASKS))
    named = [tmp_path / "facts" / file.path for files in answers for file in files]
    rows = [row for path in named for row in pq.read_table(path, schema=FILES).to_pylist()]
    assert Counter(row["task"] for row in rows) == dict.fromkeys(range(TASKS), ROWS)
    left = [path for path in tmp_path.glob("facts/*/*/*.parquet") if path not in named]
    assert {pq.read_table(path, schema=FILES).column("task")[0].as_py() for path in left} == twice
