"""``python -m backfill_assets.cli.dev.dev``: Dagster's UI and daemon, and one Spark that all runs share.

Behind ``make dev``. Code server, daemon, UI, letters and Spark are processes of their own: one that ends is started
again, and the others go on. Uses the Spark server that ``SPARK_REMOTE`` names or that ``backfill spark start`` has
started, and leaves it running; otherwise it starts one, which ends with it, however it ends. Arguments go to
``dagster-webserver``.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

from backfill_assets.cli.dev.dagster_home import REPOSITORY, dagster_home
from backfill_assets.cli.dev.dev_parts import DevPart, DevParts
from backfill_assets.cli.dev.only_daemon import only_daemon
from backfill_assets.cli.dev.sessions import start_process
from backfill_assets.cli.dev.taken_port import LAST_PORT, port_of, require_free_port, require_place
from backfill_assets.cli.running_dev import noted_dev, ui_of_arguments
from backfill_assets.errors import BackfillError
from backfill_assets.settings import Settings
from backfill_assets.spark.connect_server import LOOPBACK, ConnectServer, answers, free_port, start_connect_server
from backfill_assets.spark.service import running_service
from backfill_assets.spark.session import KEPT_BY

_COMMAND = "make dev"
_LETTERS_PORT = 3001
_PYTHON = (sys.executable, "-m")
_DAGSTER = "backfill_assets.defs.dagster_internals"
"""Dagster's own commands, with shorter waits."""
_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
_TOGETHER_SECONDS = 1.0
_WORKSPACE = "load_from:\n  - grpc_server: {{host: {host}, port: {port}, location_name: {location}}}\n"


@dataclass(frozen=True)
class DagsterCommands:
    """What is started: the code server takes the address, daemon and UI the workspace file, the UI also arguments."""

    code: tuple[str, ...] = (*_PYTHON, _DAGSTER, "code-server", "start", "--log-level", "warning")
    daemon: tuple[str, ...] = (*_PYTHON, _DAGSTER, "daemon", "run")
    ui: tuple[str, ...] = (*_PYTHON, "dagster_webserver", "--live-data-poll-rate", "2000")
    module: str = "backfill_assets.definitions"
    location: str = "backfill_assets"


def main(arguments: Sequence[str], commands: DagsterCommands | None = None) -> int:
    """Runs until Ctrl-C or its terminal is closed; then all that it started is stopped, the runs before their Spark."""
    _handle_signals(_InterruptOnce())
    make_lives = _is_make_alive()
    try:
        settings = Settings.from_environment()
        ui = ui_of_arguments(arguments)
        require_place(settings, ui)
        home = dagster_home(settings)
        with only_daemon(settings, _COMMAND), TemporaryDirectory() as folder, _one_spark(settings) as spark:
            variables = {"DAGSTER_HOME": str(home), "DAGSTER_IS_DEV_CLI": "1", **spark.variables}
            variables["BACKFILL_UI"] = settings.ui or ui
            letters = _letters(variables, letters_port(arguments))
            chosen, workspace = commands or DagsterCommands(), Path(folder) / "workspace.yaml"
            dagster = _dagster(chosen, workspace, variables)
            serving = _ui((*chosen.ui, "-w", str(workspace), *arguments), variables, settings, ui)
            with noted_dev(settings, ui, spark.variables["SPARK_REMOTE"]):
                _run_until_interrupted([*spark.parts, letters, *dagster, serving], make_lives)
    except BackfillError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


@dataclass(frozen=True)
class _Spark:
    """The Spark settings of the runs, and the server to restart if this command started it."""

    variables: Mapping[str, str]
    parts: tuple[DevPart, ...] = ()


@contextmanager
def _one_spark(settings: Settings) -> Iterator[_Spark]:
    service = running_service(settings)
    if url := settings.spark_remote or (service.url if service else None):
        _say(f"Runs use Spark at {url}, which goes on afterwards.")
        yield _Spark({"SPARK_REMOTE": url})
        return
    _say("Starting Spark ...")
    own = _OwnSpark(settings, start_connect_server(settings))
    try:
        server = own.server
        _say(f"Runs share Spark at {server.url}; it ends with this command. Its log is {server.log}.")
        yield _Spark(
            {"SPARK_REMOTE": server.url, KEPT_BY: _COMMAND}, (DevPart("Spark server", own.start, has_owner=True),)
        )
    finally:
        _handle_signals(signal.SIG_IGN)
        own.server.stop()


@dataclass
class _OwnSpark:
    """The server that this command keeps running, always at the address that the runs have."""

    settings: Settings
    server: ConnectServer

    def start(self) -> subprocess.Popen[bytes]:
        if self.server.process.poll() is not None:
            self.server.stop()
            self.server.log.replace(self.server.log.with_suffix(".before.log"))
            self.server = start_connect_server(self.settings, self.server.port)
        return self.server.process


def _dagster(commands: DagsterCommands, workspace: Path, variables: Mapping[str, str]) -> list[DevPart]:
    """Code server and daemon. The code server keeps its port, so that daemon and UI find it again."""
    port = free_port()
    workspace.write_text(_WORKSPACE.format(host=LOOPBACK, port=port, location=commands.location))
    place = ("-h", LOOPBACK, "-p", str(port), "-m", commands.module, "--location-name", commands.location)

    def process(*command: str, is_ready: Callable[[], bool] = lambda: True) -> Callable[[], subprocess.Popen[bytes]]:
        return lambda: start_process(command, REPOSITORY, variables, is_ready)

    return [
        DevPart("code server", process(*commands.code, *place, is_ready=lambda: answers(port)), has_worker=True),
        DevPart("daemon", process(*commands.daemon, "-w", str(workspace))),
    ]


def _ui(command: Sequence[str], variables: Mapping[str, str], settings: Settings, address: str) -> DevPart:
    """The webserver; it is back after a restart when it answers itself, not the program that has taken its port."""

    def start() -> subprocess.Popen[bytes]:
        require_free_port(settings, address)
        return start_process(command, REPOSITORY, variables)

    return DevPart("UI", start, is_ready=lambda: answers(port_of(address)))


def letters_port(arguments: Sequence[str]) -> int:
    """The port after that of the UI: links that the UI keeps are good after a restart. If it is taken, a free one."""
    place = next((n for n, word in enumerate(arguments[:-1], start=1) if word in ("-p", "--port")), None)
    port = int(arguments[place]) + 1 if place is not None and arguments[place].isdigit() else _LETTERS_PORT
    return free_port() if port > LAST_PORT or answers(port) else port


def _letters(variables: dict[str, str], port: int) -> DevPart:
    """Serves the letters about differences; ``variables`` gain their address, so that the UI links to them."""
    variables["BACKFILL_LETTERS"] = f"http://{LOOPBACK}:{port}"
    command = (sys.executable, "-m", "backfill_assets.cli.dev.letters", "--port", str(port))
    return DevPart("letters", lambda: start_process(command, REPOSITORY, variables, lambda: answers(port)))


def _run_until_interrupted(parts: Sequence[DevPart], goes_on: Callable[[], bool]) -> None:
    running = DevParts(parts, _say)
    try:
        running.start()
        running.watch(goes_on)
    finally:
        # A second signal would leave half of it running.
        _handle_signals(signal.SIG_IGN)
        running.stop()


@dataclass
class _InterruptOnce:
    """Raises KeyboardInterrupt, once for signals that come together.

    A closed terminal sends two within a millisecond: its shell hangs up its jobs, and the kernel those of a shell that
    ends. The second one would interrupt the clean-up, before it has stopped anything.
    """

    last: float = -math.inf

    def __call__(self, _: int, __: FrameType | None) -> None:
        now = time.monotonic()
        if now - self.last > _TOGETHER_SECONDS:
            self.last = now
            raise KeyboardInterrupt


def _is_make_alive() -> Callable[[], bool]:
    """Asks whether the ``make`` that has started this command is there; without one, it always is.

    One that was killed has given its terminal back: Ctrl-C would come here no more.
    """
    make = os.getppid()
    return lambda: "MAKELEVEL" not in os.environ or os.getppid() == make


def _handle_signals(handler: Callable[[int, FrameType | None], object] | signal.Handlers) -> None:
    """Let ``handler`` have what ends this command. What its starter had ignored, as nohup has, stays ignored."""
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _say(message: str) -> None:
    # The terminal may be gone.
    with suppress(OSError):
        print(message, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
