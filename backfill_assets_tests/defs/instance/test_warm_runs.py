"""Runs are forks of a process that has imported everything: this hangs on names in Dagster's own code server."""

from __future__ import annotations

import sys
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from types import ModuleType, SimpleNamespace

import pytest

from backfill_assets.defs.instance import warm_runs
from backfill_assets.defs.private_dagster import code_server_modules


def test_dagsters_code_server_has_the_names_that_are_replaced() -> None:
    """Without them runs would start as slowly as before, and nothing would say so."""
    _, server = code_server_modules()
    assert server.multiprocessing.get_context("spawn").get_start_method() == "spawn"
    assert server.get_python_environment_entry_point("python") == ["python", "-m", "dagster"]


def test_runs_are_forked_and_a_reloaded_server_forks_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forkserver, "ensure_running", lambda: None)
    server = ModuleType("server")
    vars(server).update(multiprocessing=None, get_python_environment_entry_point=None)
    warm_runs.start_runs_warm(server)
    assert isinstance(server.multiprocessing.get_context("spawn"), ForkServerContext)
    assert server.get_python_environment_entry_point(sys.executable) == [sys.executable, "-m", warm_runs.__name__]


def test_another_dagster_starts_runs_as_it_does() -> None:
    """What it does not have is not put into it."""
    server = SimpleNamespace(multiprocessing="its own")
    warm_runs.start_runs_warm(server)
    assert vars(server) == {"multiprocessing": "its own"}
