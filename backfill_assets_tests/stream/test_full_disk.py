"""A disk fills up while a stream writes: a clear error, nothing lost, and a new start goes on when there is room."""

from __future__ import annotations

import secrets
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.lakehouse.storage import Storage
from backfill_assets.state.stream_positions import topic_positions
from backfill_assets.state.view import View
from backfill_assets_tests.stream.killed_commands import Processes
from backfill_assets_tests.stream.small_stream import Topic, sale

if TYPE_CHECKING:
    from backfill_assets_tests.stream.broker import Broker

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

_ON_A_SMALL_DISK = """
mount -t tmpfs -o size=6m small "$1" || exit 99
cp "$2/token.key" "$1/"
shift
results=$1
shift
"$@" >"$results/full.out" 2>"$results/full.err"
echo $? >"$results/full.status"
mount -o remount,size=200m "$BACKFILL_HOME"
"$@" >"$results/roomy.out" 2>"$results/roomy.err"
echo $? >"$results/roomy.status"
cp -R "$BACKFILL_HOME/lakehouse" "$results/"
"""
"""Runs a command on a disk of its own of 6 MB, seen by this script alone, and again when it has room for 200 MB."""


@dataclass(frozen=True)
class Run:
    """What a command wrote, and how it ended."""

    results: Path
    name: str

    @property
    def status(self) -> int:
        return int((self.results / f"{self.name}.status").read_text())

    @property
    def published(self) -> int:
        """Batches."""
        return (self.results / f"{self.name}.out").read_text().count('"event": "batch"')

    @property
    def error(self) -> str:
        return (self.results / f"{self.name}.err").read_text()

    @property
    def message(self) -> str:
        """The error that a person reads at the end, after what Spark logs of it: two lines."""
        return "\n".join(self.error.splitlines()[-2:])


def _require_own_mounts() -> None:
    tried = ["unshare", "--user", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "small", "/mnt"]
    if shutil.which("unshare") is None or subprocess.run(tried, capture_output=True, check=False).returncode:
        pytest.skip("this machine lets no process mount a small disk of its own")


@pytest.mark.long
def test_a_disk_that_fills_up_is_named_and_no_event_is_lost(kafka_broker: Broker, tmp_path: Path) -> None:
    """It is full in the middle: some batches are published before, and the others after a new start."""
    _require_own_mounts()
    topic = Topic.new(kafka_broker)
    topic.send(sale(number, product_id=secrets.token_hex(10_000)) for number in range(400))
    disk, results = tmp_path / "disk", tmp_path / "results"
    disk.mkdir()
    results.mkdir()
    (results / "token.key").write_text("a key for the test of a full disk")
    command = [sys.executable, "-c", "from backfill_assets.cli import main; main()", "stream", "raw_sales"]
    options = ["--from-beginning", "--available-now", "--no-follow", "--batch", "100", "--json"]
    subprocess.run(
        [
            *("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", _ON_A_SMALL_DISK, "sh"),
            *(str(disk), str(results), *command, "--from", str(topic.source), *options),
        ],
        env=Processes(disk).environment(),
        check=True,
    )
    full, roomy = Run(results, "full"), Run(results, "roomy")
    assert full.status == 1 and "the disk is full" in full.message and "Free some space" in full.message
    assert (roomy.status, roomy.published > 0, full.published > 0) == (0, True, True), roomy.error
    storage = Storage(str(results / "lakehouse"))
    rows = View.newest(storage).rows("raw_sales")
    assert rows is not None
    read = Counter((row["source_file"], row["source_line"]) for row in rows.to_pylist())
    assert read == topic.sent
    assert topic_positions(storage, "sales", topic.name).next_offsets == {0: 200, 1: 200}
