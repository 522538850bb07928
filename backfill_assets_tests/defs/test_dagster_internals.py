"""Names in Dagster that change without notice. Where one of these tests fails after an upgrade, its docstring says what
to do: each part of ``defs/dagster_internals.py`` can be taken out by itself, at the figure that stands there.
"""

from __future__ import annotations

import inspect
import re
import sys
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path
from types import ModuleType, SimpleNamespace

import dagster as dg
import pytest
from dagster._core.storage.event_log.sqlite import sqlite_event_log
from dagster._daemon import controller
from dagster._grpc import server

from backfill_assets.defs import dagster_internals
from backfill_assets.defs.dagster_internals import look_at_backfills_often, start_runs_warm

ROOT = Path(dagster_internals.__file__).parents[2]


def test_the_version_that_was_tried_is_the_locked_one() -> None:
    """Run the tests of ``defs`` and ``stories`` with the new one, then write its number into the module."""
    (tried,) = re.findall(r"Tried with Dagster (\d+\.\d+\.\d+)", str(dagster_internals.__doc__))
    assert dg.__version__ == tried


def test_the_daemon_reads_its_interval_from_the_constant_that_is_set() -> None:
    """Otherwise: drop ``look_at_backfills_often``. The end of a backfill is then waited for up to 30 s instead of 2."""
    assert controller.DEFAULT_DAEMON_INTERVAL_SECONDS == 30
    assert inspect.getsource(controller).count("DEFAULT_DAEMON_INTERVAL_SECONDS") > 1
    module = SimpleNamespace(DEFAULT_DAEMON_INTERVAL_SECONDS=30)
    look_at_backfills_often(module)
    assert module.DEFAULT_DAEMON_INTERVAL_SECONDS == 2
    other = SimpleNamespace()
    look_at_backfills_often(other)
    assert vars(other) == {}, "another Dagster keeps its own"


def test_the_code_server_has_the_names_that_are_replaced() -> None:
    """Otherwise: drop ``start_runs_warm``. Each run then spends two to three seconds on imports."""
    names = vars(server)
    assert names["multiprocessing"].get_context("spawn").get_start_method() == "spawn"
    assert names["get_python_environment_entry_point"]("python") == ["python", "-m", "dagster"]


def test_runs_are_forked_and_a_reloaded_server_forks_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server without the names starts its runs as it does."""
    monkeypatch.setattr(forkserver, "ensure_running", lambda: None)
    found = ModuleType("server")
    vars(found).update(multiprocessing=None, get_python_environment_entry_point=None)
    start_runs_warm(found)
    assert isinstance(found.multiprocessing.get_context("spawn"), ForkServerContext)
    entry = found.get_python_environment_entry_point(sys.executable)
    assert entry == [sys.executable, "-m", dagster_internals.__name__]
    other = SimpleNamespace(multiprocessing="its own")
    start_runs_warm(other)
    assert vars(other) == {"multiprocessing": "its own"}


def test_the_event_log_overrides_what_dagster_calls() -> None:
    """Otherwise: write ``storage: {sqlite: {base_dir: .data/dagster}}`` into ``dagster.yaml``. Nothing is lost: the
    files are Dagster's own. Its share of a backfill is then five times as much.
    """
    sqlite = sqlite_event_log.SqliteEventLogStorage
    for name in ("_connect", "store_event", "store_event_batch"):
        assert callable(getattr(sqlite, name)), name
    assert "with self._db_lock:" in inspect.getsource(sqlite._connect), "a batch takes it once for all of its events"


def test_both_processes_end_at_once() -> None:
    """Before anything else that they do: handlers of what is imported later run first."""
    started = inspect.getsource(dagster_internals).partition('if __name__ == "__main__":')[2]
    assert started.split("\n")[2].strip() == "atexit.register(gc.freeze)"


def test_the_files_of_the_instance_name_what_is_there() -> None:
    """A name that is wrong there is an error of every process of Dagster."""
    named = re.findall(r"module: backfill_assets\.(\S+)\n\s+class: (\S+)", (ROOT / "dagster.yaml").read_text())
    assert named == [("defs.dagster_internals", "LocalStorage"), ("defs.dagster_internals", "LocalRunLauncher")]
    assert all(hasattr(dagster_internals, name) for _, name in named)
