"""The demo's backfill: launched and followed in this process, carried out by a daemon that ends with it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import dagster as dg

from backfill_assets.cli.demo.dagster_home import REPOSITORY, dagster_home
from backfill_assets.cli.demo.sessions import start_process, stop_sessions
from backfill_assets.cli.output import say
from backfill_assets.days import DayRange
from backfill_assets.defs.assets import VERSION_TAG
from backfill_assets.defs.demo.progress import BackfillProgressView, Phases, shown
from backfill_assets.defs.instance.launch import BackfillProgress, cancel_backfill, launch_backfill, progress, watch
from backfill_assets.errors import BackfillError
from backfill_assets.settings import Settings

_LAST_LINES = 15
_GRACE_SECONDS = 30.0
"""A run that has to stop records it in Dagster first, and the daemon waits for it."""
_DAEMON = (sys.executable, "-m", "backfill_assets.defs.instance.fast_daemon", "run", "-w", "workspace.yaml")


class DemoFailed(BackfillError):
    """The backfill ended without publishing everything it was launched for."""


def launch_demo(
    settings: Settings,
    days: DayRange,
    tables: Sequence[str],
    location: str = "backfill_assets.definitions",
    version: str = "",
) -> DemoBackfill:
    """Ask the Dagster of ``settings`` to build ``days`` of ``tables``, which are assets of the module ``location``.

    ``version`` is that of the steps that have it; empty for the current ones.
    """
    instance = dg.DagsterInstance.from_config(str(dagster_home(settings)))
    backfill_id = launch_backfill(
        instance,
        import_module(location).defs.resolve_asset_graph(),
        dict.fromkeys(tables, days),
        title=f"Demo: {days}" + (f", {version} of the fact" if version else ""),
        tags={"user": "backfill demo"} | ({VERSION_TAG: version} if version else {}),
    )
    return DemoBackfill(settings, instance, backfill_id)


@dataclass(frozen=True)
class DemoBackfill:
    """A backfill that was launched, and the command of the daemon that carries it out.

    The daemon is started after the launch, because its first check for backfills comes soonest.
    """

    settings: Settings
    instance: dg.DagsterInstance
    backfill_id: str
    daemon: tuple[str, ...] = _DAEMON

    @property
    def daemon_log(self) -> Path:
        return self.settings.home / "dagster" / "demo-daemon.log"

    def carry_out(self, steps: Sequence[str], phases: Phases) -> BackfillProgress:
        """Follow it to its end; raises :class:`DemoFailed` if that is not success."""
        view = BackfillProgressView(steps, progress(self.instance, self.backfill_id))
        try:
            with self._running_daemon() as daemon, phases("Backfilling"), shown(view) as show:
                for now in watch(self.instance, self.backfill_id, goes_on=lambda: daemon.poll() is None):
                    show(now)
        except KeyboardInterrupt:
            say(f"Interrupted: cancelling the backfill {self.backfill_id} ...")
            cancel_backfill(self.instance, self.backfill_id)
            say("Nothing is left running. What was published stays; what was staged is used by the next run.")
            raise
        if not view.now.ended:
            cancel_backfill(self.instance, self.backfill_id)
        require_success(view.now, self.daemon_log)
        return view.now

    @contextmanager
    def _running_daemon(self) -> Iterator[subprocess.Popen[bytes]]:
        """In a session of its own, so that nothing it starts outlives it."""
        with self.daemon_log.open("w") as log:
            process = start_process(self.daemon, REPOSITORY, _variables(self.settings), output=log)
        try:
            yield process
        finally:
            stop_sessions([process], _GRACE_SECONDS)


def require_success(last: BackfillProgress, daemon_log: Path) -> None:
    """Raise :class:`DemoFailed`, with the reason and what to do, if the backfill did not end in success."""
    if not last.ended:
        said = "\n".join(daemon_log.read_text(errors="replace").strip().splitlines()[-_LAST_LINES:])
        raise DemoFailed(
            f"Dagster's daemon died while the backfill {last.backfill_id} was under way. It said last:\n{said}",
            hint=f"All that it said is in {daemon_log}. Run the demo again: what was staged is used.",
        )
    if not last.succeeded:
        failed = ", ".join(step for step, ended in last.steps.items() if ended == "FAILURE")
        reason = last.failure or last.error or (f"failed: {failed}" if failed else "no step failed")
        raise DemoFailed(
            f"The backfill {last.backfill_id} ended as {last.status}: {reason}",
            hint=f"`make dev` opens the UI: Runs > Backfills > {last.backfill_id} has the run's log. "
            "Then run the demo again.",
        )


def _variables(settings: Settings) -> dict[str, str]:
    """Absolute, because the daemon works in the repository, wherever the demo was started."""
    paths = {
        "BACKFILL_HOME": settings.home,
        "BACKFILL_LAKEHOUSE": settings.lakehouse,
        "BACKFILL_LANDING": settings.landing,
        "BACKFILL_TOKEN_KEY_FILE": settings.token_key_file,
        "DAGSTER_HOME": settings.home / "dagster",
    }
    remote = {"SPARK_REMOTE": settings.spark_remote} if settings.spark_remote else {}
    return {name: str(path) for name, path in paths.items()} | remote | {"PYTHONUNBUFFERED": "1"}
