"""What ``backfill dev`` starts: code server, daemon, UI, letters and Spark, each restarted alone.

A Spark server of ``SPARK_REMOTE`` or ``backfill spark start`` is left running; one started here ends with it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, NamedTuple
from urllib.request import Request, urlopen

import psutil

from backfill_assets import clock
from backfill_assets.cli.dev.dagster_home import dagster_home
from backfill_assets.cli.dev.dev_log import DevLog
from backfill_assets.cli.dev.only_daemon import only_daemon, require_free_port, require_place
from backfill_assets.cli.dev.sessions import living_sessions, start_process, stop_sessions
from backfill_assets.cli.running_dev import noted_dev
from backfill_assets.errors import BackfillError, InvalidRequest
from backfill_assets.settings import Settings, of_project
from backfill_assets.spark.connect_server import LOOPBACK, ConnectServer, answers, free_port, start_connect_server
from backfill_assets.spark.service import command_line, running_service
from backfill_assets.spark.session import KEPT_BY
from backfill_assets.ui_addresses import FIRST_PAGE

LOOK_EVERY_SECONDS = 0.5
MOST_EARLY_ENDS = 5
_EARLY_SECONDS = 20.0


class DevPartEnded(BackfillError):
    """A part ended :data:`MOST_EARLY_ENDS` times in a row right after its start."""


@dataclass
class DevPart:
    """A process in a session of its own.

    ``has_worker``: a child does the work. ``has_owner``: its owner stops it. ``is_ready``: when the part can be
    used.
    """

    name: str
    start: Callable[[], subprocess.Popen[bytes]]
    has_worker: bool = False
    has_owner: bool = False
    is_ready: Callable[[], bool] = lambda: True
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    early_ends: int = 0
    is_awaited: bool = False

    def ending(self) -> str:
        if self.process is None:
            return ""
        code = self.process.poll()
        if code is not None:
            return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        old_enough = clock.seconds() - self.started > _EARLY_SECONDS
        lost = self.has_worker and old_enough and _is_alone(self.process)
        return "lost the process that does its work" if lost else ""


@dataclass
class DevParts:
    parts: Sequence[DevPart]
    say: Callable[[str], None]
    last_words: Callable[[], str] = lambda: ""
    _sessions: list[subprocess.Popen[bytes]] = field(default_factory=list)
    """Sessions with living members: runs outlive their code server."""

    def start(self) -> None:
        for part in self.parts:
            self._start(part)

    def watch(self, goes_on: Callable[[], bool] = lambda: True) -> None:
        while goes_on():
            self.restart_ended()
            clock.sleep(LOOK_EVERY_SECONDS)

    def restart_ended(self) -> bool:
        self._sessions = living_sessions(self._sessions)
        ended = [(part, how) for part in self.parts if (how := part.ending())]
        for part, how in ended:
            self._restart(part, how)
        for part in self.parts:
            self._report_back(part)
        return bool(ended)

    def stop(self) -> None:
        stop_sessions(self._sessions)

    def _restart(self, part: DevPart, how: str) -> None:
        part.early_ends = part.early_ends + 1 if clock.seconds() - part.started < _EARLY_SECONDS else 1
        if part.early_ends >= MOST_EARLY_ENDS:
            raise DevPartEnded(
                f"The {part.name} {how}, {part.early_ends} times in a row within {_EARLY_SECONDS:.0f} s of its start.",
                hint=f"Put right why, and start the command again. {self.last_words()}".rstrip(),
            )
        self.say(f"The {part.name} {how}. Starting it again ...")
        if part.process is not None and part.process.poll() is None:
            os.kill(part.process.pid, signal.SIGKILL)
        try:
            self._start(part)
        except BackfillError as error:
            # The next check counts this as one more early end.
            part.started = clock.seconds()
            self.say(str(error))
        else:
            part.is_awaited = True

    def _report_back(self, part: DevPart) -> None:
        if part.is_awaited and not part.ending() and part.is_ready():
            part.is_awaited = False
            self.say(f"The {part.name} is back.")

    def _start(self, part: DevPart) -> None:
        part.process = part.start()
        part.started = clock.seconds()
        if not part.has_owner:
            self._sessions.append(part.process)


def _is_alone(process: subprocess.Popen[bytes]) -> bool:
    try:
        children = psutil.Process(process.pid).children()
    except psutil.NoSuchProcess:
        return False
    return process.poll() is None and not any(command_line(child.pid) for child in children)


# ------------------------------------------------------------------ parts

_COMMAND, _LOG = "backfill dev", "dev.log"
_LAST_PORT = 65535
_PYTHON = (sys.executable, "-m")
_DAGSTER = "backfill_assets.defs.dagster_internals"
_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
_WORKSPACE = "load_from:\n  - grpc_server: {{host: {host}, port: {port}, location_name: {location}}}\n"


@dataclass(frozen=True)
class DagsterCommands:
    code: tuple[str, ...] = (*_PYTHON, _DAGSTER, "code-server", "start", "--log-level", "warning")
    daemon: tuple[str, ...] = (*_PYTHON, _DAGSTER, "daemon", "run")
    ui: tuple[str, ...] = (*_PYTHON, _DAGSTER, "webserver", "--live-data-poll-rate", "2000")


class Location(NamedTuple):
    module: str
    name: str

    @classmethod
    def of_project(cls, folder: Path) -> Location:
        """Raises :class:`InvalidRequest` if none is named."""
        module = of_project(folder, "dagster", "module_name")
        if not module:
            raise InvalidRequest(
                f"No code location is named in {folder}.",
                hint="Go to the folder of the project, or name it in pyproject.toml: module_name under [tool.dagster]. "
                "backfill init FOLDER writes a project that does.",
            )
        return cls(module, of_project(folder, "dagster", "code_location_name") or module)


def serve(settings: Settings, port: int, location: Location, commands: DagsterCommands | None = None) -> int:
    """Serve the UI at ``port`` until Ctrl-C or a closed terminal."""
    _handle_signals(_interrupt_once)
    make_lives, ui, letters = _is_make_alive(), f"http://{LOOPBACK}:{port}", letters_port(port)
    variables = {
        "BACKFILL_LAKEHOUSE": str(settings.lakehouse),
        "BACKFILL_UI": settings.ui or ui,
        "BACKFILL_LETTERS": f"http://{LOOPBACK}:{letters}",
    }
    try:
        require_place(settings, port)
        _require_metrics(settings)
        variables |= {"DAGSTER_HOME": str(dagster_home(settings)), "DAGSTER_IS_DEV_CLI": "1"}
        log = DevLog(settings.home / _LOG, _say)
        with (
            only_daemon(settings, _COMMAND),
            TemporaryDirectory() as folder,
            log.followed() as written,
            _one_spark(settings) as (spark, parts),
        ):
            variables |= spark
            start = _Start(variables, written)
            serve_letters = (*_PYTHON, "backfill_assets.cli.dev.letters", str(letters))
            workspace = Path(folder) / "workspace.yaml"
            beside = [
                start.part("letters", serve_letters, lambda: answers(letters)),
                *_metrics(settings, start),
                *_dagster(commands or DagsterCommands(), location, workspace, port, start),
            ]
            threading.Thread(target=_say_next_ticks, args=(settings, port), daemon=True).start()
            with noted_dev(settings, ui, spark["SPARK_REMOTE"]):
                _run_until_interrupted(DevParts([*parts, *beside], _say, log.last_lines), make_lives)
    except KeyboardInterrupt:
        return 130
    return 0


@contextmanager
def _one_spark(settings: Settings) -> Iterator[tuple[Mapping[str, str], Sequence[DevPart]]]:
    service = running_service(settings)
    if url := settings.spark_remote or (service.url if service else None):
        _say(f"Runs use Spark at {url}, which goes on afterwards.")
        yield {"SPARK_REMOTE": url}, ()
        return
    _say("Starting Spark ...")
    own = _OwnSpark(settings, start_connect_server(settings))
    try:
        server = own.server
        _say(f"Runs share Spark at {server.url}; it ends with this command. Its log is {server.log}.")
        yield {"SPARK_REMOTE": server.url, KEPT_BY: _COMMAND}, [DevPart("Spark server", own.start, has_owner=True)]
    finally:
        _handle_signals(signal.SIG_IGN)
        own.server.stop()


@dataclass
class _OwnSpark:
    settings: Settings
    server: ConnectServer

    def start(self) -> subprocess.Popen[bytes]:
        if self.server.process.poll() is not None:
            self.server.stop()
            self.server.log.replace(self.server.log.with_suffix(".before.log"))
            self.server = start_connect_server(self.settings, self.server.port)
        return self.server.process


def _dagster(
    commands: DagsterCommands, location: Location, workspace: Path, ui_port: int, start: _Start
) -> list[DevPart]:
    """The code server keeps its port across restarts: others find it by that."""
    port = free_port()
    workspace.write_text(_WORKSPACE.format(host=LOOPBACK, port=port, location=location.name))
    place = ("-h", LOOPBACK, "-p", str(port), "-m", location.module, "--location-name", location.name)
    ui = (*commands.ui, "-w", str(workspace), "--host", LOOPBACK, "--port", str(ui_port))

    def start_ui() -> subprocess.Popen[bytes]:
        require_free_port(ui_port)
        return start.process(ui)

    return [
        start.part("code server", (*commands.code, *place), lambda: answers(port), has_worker=True),
        start.part("daemon", (*commands.daemon, "-w", str(workspace))),
        DevPart("UI", start_ui, is_ready=lambda: answers(ui_port)),
    ]


def _require_metrics(settings: Settings) -> None:
    if settings.metrics_port is not None:
        from backfill_assets.cli.prometheus_text import require_extra

        require_extra()
        if answers(settings.metrics_port):
            raise InvalidRequest(
                f"Port {settings.metrics_port} is taken by another program.",
                hint="End it, or name another port in BACKFILL_METRICS_PORT.",
            )


def _metrics(settings: Settings, start: _Start) -> list[DevPart]:
    if (port := settings.metrics_port) is None:
        return []
    _say(f"Prometheus finds figures on http://{LOOPBACK}:{port}/metrics.")
    serves = (*_PYTHON, "backfill_assets.cli.dev.metrics_server", str(port))
    return [start.part("metrics", serves, lambda: answers(port))]


def letters_port(ui_port: int) -> int:
    """The port after the UI's, so that links survive a restart; a free one if it is taken."""
    return free_port() if ui_port >= _LAST_PORT or answers(ui_port + 1) else ui_port + 1


@dataclass(frozen=True)
class _Start:
    variables: Mapping[str, str]
    log: IO[str]

    def process(self, command: Sequence[str], is_ready: Callable[[], bool] = lambda: True) -> subprocess.Popen[bytes]:
        return start_process(command, Path.cwd(), self.variables, is_ready, self.log)

    def part(
        self,
        name: str,
        command: Sequence[str],
        is_ready: Callable[[], bool] = lambda: True,
        *,
        has_worker: bool = False,
    ) -> DevPart:
        return DevPart(name, lambda: self.process(command, is_ready), has_worker)


def _run_until_interrupted(running: DevParts, goes_on: Callable[[], bool]) -> None:
    try:
        running.start()
        running.watch(goes_on)
    finally:
        _handle_signals(signal.SIG_IGN)
        running.stop()


def _interrupt_once(*_: object) -> None:
    """A closed terminal sends two signals; the second would interrupt the clean-up."""
    _handle_signals(signal.SIG_IGN)
    raise KeyboardInterrupt


def _is_make_alive() -> Callable[[], bool]:
    """After a killed ``make``, Ctrl-C no longer reaches this process."""
    make = os.getppid()
    return lambda: "MAKELEVEL" not in os.environ or os.getppid() == make


def _handle_signals(handler: Callable[..., object] | signal.Handlers) -> None:
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _say(message: str) -> None:
    # The terminal may be gone.
    with suppress(OSError):
        print(message, flush=True)


# ------------------------------------------------------------------ what Dagster does by itself

_QUERY = """{ repositoriesOrError { ... on RepositoryConnection { nodes {
  schedules { name description scheduleState { status } futureTicks(limit: 1) { results { timestamp } } }
  sensors { name sensorState { status } }
} } } }"""
_TIMEOUT_SECONDS = 60


def _say_next_ticks(settings: Settings, port: int) -> None:
    while not answers(port):
        clock.sleep(LOOK_EVERY_SECONDS)
    ui = f"http://{LOOPBACK}:{port}"
    _say(f"The UI is on {ui}{FIRST_PAGE}. Ctrl-C stops everything.")
    try:
        ticks = ask_next_ticks(ui) if settings.automation else []
        is_on = "What is launched by itself from now on, where something is due:"
        _say("\n".join([is_on, *ticks]) if ticks else "BACKFILL_AUTOMATION is off: nothing is launched by itself.")
    except (OSError, LookupError, TypeError, ValueError) as error:
        _say(f"{ui}/automation has what is launched by itself, and when. It could not be asked: {error}.")


def ask_next_ticks(ui: str) -> list[str]:
    """The next tick of each schedule, and of the sensors, at ``ui``.

    Raises ``OSError`` if unreachable, ``LookupError`` or ``ValueError`` for an unexpected answer.
    """
    asked = json.dumps({"query": _QUERY}).encode()
    request = Request(f"{ui}/graphql", asked, {"Content-Type": "application/json"})  # noqa: S310 - our own UI
    with urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310
        return list(next_ticks(json.load(answer)))


def next_ticks(answer: Mapping[str, Any]) -> Iterator[str]:
    nodes = answer["data"]["repositoriesOrError"]["nodes"]
    found = [
        (tick["timestamp"], schedule["name"], (schedule["description"] or "").partition(". ")[0].rstrip("."))
        for node in nodes
        for schedule in node["schedules"]
        if schedule["scheduleState"]["status"] == "RUNNING"
        for tick in schedule["futureTicks"]["results"]
    ]
    for at, name, what in sorted(found):
        yield f"  {datetime.fromtimestamp(at, UTC):%a %Y-%m-%d %H:%M} UTC  {name}: {what}"
    sensors = [each["name"] for node in nodes for each in node["sensors"] if each["sensorState"]["status"] == "RUNNING"]
    yield f"  all the time: {', '.join(sorted(sensors))}"
