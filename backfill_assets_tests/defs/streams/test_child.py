"""The process of a stream: stopped as by Ctrl-C, with its last words, and never left behind by a run that is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from backfill_assets.defs.streams.child import StreamChild
from backfill_assets.errors import StreamFailed

pytestmark = pytest.mark.story

_INTERRUPTIBLE = """
import os, pathlib, sys, time
out = pathlib.Path(sys.argv[1])
try:
    out.write_text("started " + os.environ.get("GIVEN", "") + os.environ.get("TAKEN", "-"))
    time.sleep(60)
except KeyboardInterrupt:
    out.write_text("interrupted")
"""


def python(script: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", script, *map(str, arguments)]


def wait_until(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert condition()


def _says(file: Path, begin: str) -> bool:
    return file.exists() and file.read_text().startswith(begin)


def test_it_is_stopped_as_by_ctrl_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It can publish what it has, and ends with success."""
    monkeypatch.setenv("TAKEN", "sc://somewhere")
    out = tmp_path / "out"
    child = StreamChild.start(python(_INTERRUPTIBLE, out), {"GIVEN": "run", "TAKEN": None}, lambda line: None)
    wait_until(lambda: _says(out, "started run-"))
    assert child.wait(0) is None
    child.stop()
    assert (out.read_text(), child.process.returncode) == ("interrupted", 0)
    child.require_success("raw_sales")


def test_one_that_fails_has_last_words() -> None:
    """The last lines of its errors; all that it writes is passed on."""
    lines: list[str] = []
    script = "import sys; print('hello'); sys.exit('\\n'.join(str(n) for n in range(100)))"
    child = StreamChild.start(python(script), {}, lines.append)
    assert child.wait(20) == 1
    child.stop()
    assert "hello\n" in lines and len(lines) == 101
    with pytest.raises(StreamFailed) as failed:
        child.require_success("raw_sales")
    assert str(failed.value).startswith("The stream of raw_sales ended with exit code 1.\n80\n81\n")
    assert "materialize this asset again" in str(failed.value)


def test_one_that_was_killed_says_so() -> None:
    child = StreamChild.start(python("import time; time.sleep(60)"), {}, lambda line: None)
    child.process.send_signal(signal.SIGKILL)
    assert child.wait(20) == -signal.SIGKILL
    child.stop()
    with pytest.raises(StreamFailed, match=r"was killed by signal 9.\nIt wrote no error."):
        child.require_success("raw_sales")


def test_it_ends_with_a_run_that_is_killed(tmp_path: Path) -> None:
    """Otherwise a stream would go on that Dagster knows nothing of, and hold the table."""
    out = tmp_path / "out"
    run = f"""
import time
from backfill_assets.defs.streams.child import StreamChild
StreamChild.start({python(_INTERRUPTIBLE, out)!r}, {{}}, print)
time.sleep(60)
"""
    starter = subprocess.Popen(python(run))
    wait_until(lambda: _says(out, "started"), 60)
    starter.kill()
    starter.wait()
    wait_until(lambda: _says(out, "interrupted"))
