"""``python -m backfill_assets.cli.dev``: the Dagster UI and daemon of this home, and one Spark that all its runs share.

Behind ``make dev``. Uses the Spark server that ``SPARK_REMOTE`` names or that ``backfill spark start`` has started, and
leaves it running; otherwise it starts one, which ends with it, however it ends. Arguments go to ``dagster dev``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from backfill_assets.cli.dagster_home import REPOSITORY, dagster_home
from backfill_assets.cli.demo_processes import stop_with_all_it_started
from backfill_assets.errors import BackfillError
from backfill_assets.settings import Settings

_DAGSTER = (str(Path(sys.executable).with_name("dagster")), "dev", "--workspace", "workspace.yaml")


def main(arguments: Sequence[str], dagster: Sequence[str] = _DAGSTER) -> int:
    """Runs until Ctrl-C; then everything that it started is stopped, the runs before their Spark."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        settings = Settings.from_environment()
        home = dagster_home(settings)
        with _one_spark(settings) as url:
            return _run([*dagster, *arguments], {"DAGSTER_HOME": str(home), "SPARK_REMOTE": url})
    except BackfillError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


@contextmanager
def _one_spark(settings: Settings) -> Iterator[str]:
    from backfill_assets.lakehouse.connect_server import connect_server
    from backfill_assets.lakehouse.spark_service import running_service

    service = running_service(settings)
    if url := settings.spark_remote or (service.url if service else None):
        _tell(f"Runs use Spark at {url}, which goes on afterwards.")
        yield url
        return
    _tell("Starting Spark ...")
    with connect_server(settings) as server:
        _tell(f"Runs share Spark at {server.url}; it ends with this command. Its log is {server.log}.")
        yield server.url


def _run(command: Sequence[str], variables: dict[str, str]) -> int:
    # A session of its own: Ctrl-C comes to us, and we end it once, in order.
    process = subprocess.Popen(command, cwd=REPOSITORY, env=os.environ | variables, start_new_session=True)
    try:
        return process.wait()
    finally:
        # A second Ctrl-C would leave half of it running.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        stop_with_all_it_started(process)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _tell(message: str) -> None:
    print(message, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
