"""``python -m backfill_assets.defs.instance.warm_runs code-server start``: ``dagster``, with runs that start at once.

A code server of Dagster starts a new Python for each run, which spends two to three seconds on imports. Here one
process has imported everything beforehand, and each run is a fork of it. Runs have the code of the server that starts
them: after a change, *Reload* gives both the new one.
"""

from __future__ import annotations

import multiprocessing
import sys
from multiprocessing import forkserver
from types import SimpleNamespace
from typing import Any

from backfill_assets.cli.quick_end import end_at_once
from backfill_assets.defs.private_dagster import code_server_modules

_NAME = "backfill_assets.defs.instance.warm_runs"
_IMPORTED = ("dagster._grpc.impl", "backfill_assets.defs.location")
"""Not the definitions: what opens tables may not be open when a process is forked."""
_CONTEXT, _COMMAND = "multiprocessing", "get_python_environment_entry_point"


def start_runs_warm(server: Any) -> None:
    """Let ``server``, Dagster's module, fork its runs, also in the process that a reload starts.

    Without the names that are replaced here, runs start as Dagster starts them.
    """
    if hasattr(server, _CONTEXT) and hasattr(server, _COMMAND):
        vars(server)[_CONTEXT] = SimpleNamespace(get_context=_warm_context)
        vars(server)[_COMMAND] = lambda python: [python, "-m", _NAME]


def _warm_context(_: str) -> Any:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(_IMPORTED))
    # Its imports go on while the server has its own.
    forkserver.ensure_running()
    return context


if __name__ == "__main__":
    end_at_once()
    cli, grpc_server = code_server_modules()
    start_runs_warm(grpc_server)
    sys.argv[0] = "dagster"
    cli.main()
