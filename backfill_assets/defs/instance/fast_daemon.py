"""``python -m backfill_assets.defs.instance.fast_daemon``: ``dagster-daemon`` with a short interval for backfills.

Dagster's own interval is a constant of 30 seconds: a person who watches one backfill waits that long for its end.
"""

from __future__ import annotations

from typing import Any

from backfill_assets.cli.quick_end import end_at_once
from backfill_assets.defs.private_dagster import daemon_modules

EVERY_SECONDS = 2
_INTERVAL = "DEFAULT_DAEMON_INTERVAL_SECONDS"
_CLI, _CONTROLLER = daemon_modules()


def shorten_interval(module: Any = _CONTROLLER) -> None:
    """Set the constant that the backfill daemon reads when its loop begins. Without it, Dagster's interval stays."""
    if hasattr(module, _INTERVAL):
        setattr(module, _INTERVAL, EVERY_SECONDS)


if __name__ == "__main__":
    end_at_once()
    shorten_interval()
    _CLI.main()
