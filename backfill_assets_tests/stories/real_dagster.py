"""Dagster as real processes on one home: code server, daemon and UI, what a person clicks there, and kill -9.

The intervals of sensors and backfills are seconds here instead of up to a minute; all else is the repository's
own ``dagster.yaml`` and the real code location.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import psutil

from backfill_assets.cli.dev.dagster_home import REPOSITORY, dagster_home
from backfill_assets.defs.dagster_internals import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG
from backfill_assets.settings import Settings
from backfill_assets.spark.connect_server import LOOPBACK, answers, free_port
from backfill_assets.spark.service import command_line
from backfill_assets_tests.stories import fast_daemon, real_location
from backfill_assets_tests.stories.real_location import DIE_AT, DIED

_LAUNCH_RUN = """mutation($params: ExecutionParams!) {launchPipelineExecution(executionParams: $params) {
__typename ... on LaunchRunSuccess {run {runId}} ... on PythonError {message}
... on RunConfigValidationInvalid {errors {message}}}}"""
_TERMINATE_RUN = """mutation($runId: String!) {terminateRun(runId: $runId) {
__typename ... on TerminateRunFailure {message} ... on PythonError {message}}}"""
_LAUNCH_BACKFILL = """mutation($params: LaunchBackfillParams!) {launchPartitionBackfill(backfillParams: $params) {
__typename ... on LaunchBackfillSuccess {backfillId} ... on PythonError {message}}}"""
_SLOW_LOOK, _FAST_LOOK = "poll_interval_seconds: 15", "poll_interval_seconds: 2"
_WORKSPACE = """
load_from:
  - grpc_server: {{host: {host}, port: {port}, location_name: {name}}}
"""
_DEV = """
import sys
from backfill_assets.cli.dev.dev import Location, serve
from backfill_assets.settings import Settings
sys.exit(serve(Settings.from_environment(), int(sys.argv[2]), Location(sys.argv[1], sys.argv[1])))
"""
_DAEMON = "dagster_internals daemon"
_PARTS = ("letters", "code-server", _DAEMON, "dagster_webserver")
"""Words of their command lines; Spark is the one that all tests share."""


class DagsterDied(AssertionError):
    """A process ended that was not killed, or what was waited for did not happen; with what was said last."""


@dataclass
class RealDagster:
    """Starts and kills the processes that people have on one home; ``variables`` are set for all of them."""

    settings: Settings
    variables: Mapping[str, str]
    module: str = real_location.__name__
    """The code location."""
    patience: float = 240.0
    """How many seconds are waited for anything."""
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _port: int = field(default_factory=free_port)
    _ui_port: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        self.home = dagster_home(self.settings)
        instance = self.home / "dagster.yaml"
        assert _SLOW_LOOK in instance.read_text()
        instance.write_text(instance.read_text().replace(_SLOW_LOOK, _FAST_LOOK))
        self._workspace = self.home / "workspace.yaml"
        self._workspace.write_text(_WORKSPACE.format(host=LOOPBACK, port=self._port, name=self.module))

    @contextmanager
    def processes(self) -> Iterator[None]:
        """All of them; in any case none is left."""
        try:
            self.start()
            yield
        finally:
            self.kill_everything()

    def start(self) -> None:
        """What is not running."""
        place = ["-h", LOOPBACK, "-p"]
        code = ["-m", "dagster", "api", "grpc", "-m", self.module, *place, str(self._port)]
        self._start("code", [*code, "--location-name", self.module])
        self.wait_for(lambda: answers(self._port), "the code server")
        self._start("daemon", ["-m", fast_daemon.__name__, "run", "-w", str(self._workspace)])
        self._start("ui", ["-m", "dagster_webserver", "-w", str(self._workspace), *place, str(self._ui_port)])

    def kill(self, *names: str) -> None:
        """With -9, each with all that it has started: runs are children of the code server."""
        for name in names:
            process = self._running.pop(name)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def kill_daemon(self) -> None:
        self.kill("daemon")

    def kill_everything(self) -> None:
        """As if the power had failed."""
        self.kill(*self._running)

    def _start(self, name: str, arguments: Sequence[str]) -> None:
        if name in self._running:
            return
        with (self.home / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=REPOSITORY,
                env={**_without_connect(os.environ), **self.variables, "DAGSTER_HOME": str(self.home)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    # ------------------------------------------------------------------ what a person clicks

    def materialize(self, asset: str, config: Mapping[str, Any] | None = None) -> str:
        """The button of one asset, with what was written into the launchpad; the run's id."""
        return self._launch("__ASSET_JOB", {asset: {"config": dict(config)}} if config else {}, [{"path": [asset]}])

    def launch(self, job: str, op: str, config: Mapping[str, Any]) -> str:
        """The launchpad of a job with one step; the run's id."""
        return self._launch(job, {op: {"config": dict(config)}})

    def launch_days(self, job: str, first: str, last: str, tags: Mapping[str, str]) -> str:
        """A job of partitions, for all days of a range in one run."""
        days = {ASSET_PARTITION_RANGE_START_TAG: first, ASSET_PARTITION_RANGE_END_TAG: last}
        return self._launch(job, {}, tags={**tags, **days})

    def _launch(
        self,
        job: str,
        ops: Mapping[str, Any],
        assets: Sequence[Mapping[str, Any]] = (),
        tags: Mapping[str, str] | None = None,
    ) -> str:
        selector = {
            "repositoryLocationName": self.module,
            "repositoryName": "__repository__",
            "pipelineName": job,
            **({"assetSelection": list(assets)} if assets else {}),
        }
        # As in the UI, the tags of a job are on its runs.
        of_job = {"backfill/kind": "campaign", "dagster/max_retries": "2"} if "campaign" in job else {}
        found = self._ask(
            _LAUNCH_RUN,
            selector=selector,
            runConfigData={"ops": ops} if ops else {},
            executionMetadata={
                "tags": [{"key": key, "value": value} for key, value in (of_job | dict(tags or {})).items()]
            },
        )
        return str(found["run"]["runId"])

    def backfill(self, tables: Sequence[str], days: Sequence[str], tags: Mapping[str, str]) -> str:
        """Materialize all, in the dialog of a range; the backfill's id."""
        found = self._ask(
            _LAUNCH_BACKFILL,
            assetSelection=[{"path": [table]} for table in tables],
            partitionNames=list(days),
            tags=[{"key": key, "value": value} for key, value in tags.items()],
        )
        return str(found["backfillId"])

    def terminate(self, run_id: str) -> None:
        """The button of a run."""
        self._send(_TERMINATE_RUN, {"runId": run_id})

    def _ask(self, mutation: str, **params: object) -> dict[str, Any]:
        return self._send(mutation, {"params": params})

    def _send(self, mutation: str, variables: Mapping[str, object]) -> dict[str, Any]:
        self.wait_for(lambda: answers(self._ui_port), "the UI")
        asked = json.dumps({"query": mutation, "variables": variables}).encode()
        request = urllib.request.Request(
            f"http://{LOOPBACK}:{self._ui_port}/graphql", asked, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310  our own server, by http
            (found,) = json.load(answer)["data"].values()
        assert found["__typename"].endswith("Success"), found
        return dict(found)

    # ------------------------------------------------------------------ waiting

    def wait_for(self, what: Callable[[], object], named: str) -> None:
        until = time.monotonic() + self.patience
        while not what():
            dead = [name for name, process in self._running.items() if process.poll() is not None]
            if dead or time.monotonic() > until:
                raise DagsterDied(f"Waited for {named}; dead: {dead}.\n{self.last_words()}")
            time.sleep(0.2)

    def last_words(self) -> str:
        logs = sorted(self.home.glob("*.log"))
        return "\n".join(f"--- {log.name}\n{log.read_text(errors='replace')[-1500:]}" for log in logs)

    # ------------------------------------------------------------------ kill -9 inside of a run

    def let_a_run_die(self, place: str) -> None:
        """The next run that reaches ``place`` is killed there."""
        (self.settings.home / DIED).unlink(missing_ok=True)
        (self.settings.home / DIE_AT).write_text(place)

    def let_no_run_die(self) -> None:
        (self.settings.home / DIE_AT).unlink(missing_ok=True)

    def has_died(self) -> bool:
        return (self.settings.home / DIED).exists()


class MakeDev(RealDagster):
    """``make dev`` itself, with Dagster's own intervals: it starts its parts again when one of them is killed."""

    _started: set[int]
    """The session of each part: what is left of them is killed at the end, even if others died before."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._started = set()

    def start(self) -> None:
        """Once more, when it has ended."""
        self._start("dev", ["-c", _DEV, self.module, str(self._ui_port)])
        self.wait_for(self._has_all_parts, "the parts of make dev")
        self._started |= set(self._sessions())
        self.wait_for(lambda: answers(self._ui_port), "the UI")

    def kill_daemon(self) -> None:
        """The others go on, and it comes back."""
        self.kill_part(_DAEMON)

    def kill_part(self, command: str) -> None:
        """With -9, the one process with ``command`` in its command line; it is back afterwards."""
        killed = self.part(command)
        os.kill(killed, signal.SIGKILL)
        self.wait_for(lambda: self._has_all_parts() and self.part(command) != killed, f"{command} again")
        self._started |= set(self._sessions())

    def part(self, command: str) -> int:
        """The number of the part with ``command`` in its command line; 0 while there is none."""
        return next((pid for pid in self._sessions() if command in command_line(pid)), 0)

    def kill_everything(self) -> None:
        for process in self._running.values():
            # Nothing is started again, and no part is asked to end.
            process.send_signal(signal.SIGSTOP)
        for session in self._started:
            with suppress(ProcessLookupError):
                os.killpg(session, signal.SIGKILL)
        super().kill_everything()

    def _has_all_parts(self) -> bool:
        return all(self.part(command) for command in _PARTS)

    def _sessions(self) -> list[int]:
        """Each part leads one of its own, and so does what ends them if this command is killed."""
        parents = [process.pid for process in self._running.values()]
        children = [child.pid for parent in parents for child in psutil.Process(parent).children()]
        return [pid for pid in children if command_line(pid) and _leads_a_session(pid)]


def _leads_a_session(pid: int) -> bool:
    with suppress(ProcessLookupError):
        return os.getsid(pid) == pid
    return False


def _without_connect(environment: Mapping[str, str]) -> dict[str, str]:
    """What this process has set for PySpark is not for others."""
    return {name: value for name, value in environment.items() if name != "SPARK_CONNECT_MODE_ENABLED"}
