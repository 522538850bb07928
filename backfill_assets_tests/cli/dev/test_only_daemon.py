"""A home has one daemon: a second ``make dev`` is refused although the first one is not ready yet."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from backfill_assets.cli.dev.only_daemon import HasDaemon, daemon_file, only_daemon
from backfill_assets.settings import Settings
from backfill_assets.spark.connect_server import free_port

ROOT = Path(__file__).parents[3]
_HOLD = """
import sys, time
from pathlib import Path
from backfill_assets.cli.dev.only_daemon import only_daemon
from backfill_assets.settings import Settings
with only_daemon(Settings.at(Path(sys.argv[1])), "make dev"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_make_dev_is_refused_while_the_first_one_starts(tmp_path: Path) -> None:
    """The first one is noted only when its Spark runs: both would have had a daemon."""
    with only_daemon(Settings.at(tmp_path), "make dev"):
        ended = subprocess.run(
            [sys.executable, "-m", "backfill_assets.cli.dev.dev", "--port", str(free_port())],
            cwd=ROOT,
            env=os.environ | {"BACKFILL_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert (ended.returncode, ended.stdout) == (1, "")
    first, hint = ended.stderr.splitlines()
    assert first == f"`make dev` of {tmp_path} is under way, and has its daemon."
    assert hint.endswith(f"Ctrl-C where it runs, or kill {os.getpid()}.")


def test_one_that_was_killed_keeps_it_for_no_one(tmp_path: Path) -> None:
    settings = Settings.at(tmp_path)
    with subprocess.Popen([sys.executable, "-c", _HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None and other.stdout.readline() == "held\n"
            with pytest.raises(HasDaemon) as error, only_daemon(settings, "backfill demo"):
                pass
        finally:
            other.kill()
    assert f"kill {other.pid}" in str(error.value.hint)
    with only_daemon(settings, "backfill demo"):
        assert f'"pid": {os.getpid()}' in daemon_file(settings).read_text()


def test_one_that_has_not_said_its_name_yet(tmp_path: Path) -> None:
    settings = Settings.at(tmp_path)
    with only_daemon(settings, "make dev"):
        daemon_file(settings).write_text("")
        with pytest.raises(HasDaemon, match="Another command has the daemon"), only_daemon(settings, "make dev"):
            pass


def test_homes_do_not_meet(tmp_path: Path) -> None:
    with only_daemon(Settings.at(tmp_path / "a"), "make dev"), only_daemon(Settings.at(tmp_path / "b"), "make dev"):
        pass
