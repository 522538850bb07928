"""``python -m backfill_assets.defs.instance.fast_daemon``: ``dagster-daemon`` with a short interval for backfills.

Dagster's own interval is 30 seconds and no setting: a person who watches one backfill waits that long for its end.
"""

from __future__ import annotations

from typing import Any

from dagster._daemon import cli, controller

EVERY_SECONDS = 5
_INTERVAL = "DEFAULT_DAEMON_INTERVAL_SECONDS"


def shorten_interval(module: Any = controller) -> None:
    """The backfill daemon reads this constant when its loop begins; if it moves, the interval is Dagster's own."""
    if hasattr(module, _INTERVAL):
        setattr(module, _INTERVAL, EVERY_SECONDS)


if __name__ == "__main__":
    shorten_interval()
    cli.main()
