"""The demo's backfill: launched and followed in this process, carried out by a daemon that ends with it.

Where ``make dev`` runs, its daemon carries it out: an instance of Dagster has only one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import dagster as dg

from backfill_assets.cli.dev.dagster_home import REPOSITORY, dagster_home
from backfill_assets.cli.dev.only_daemon import only_daemon
from backfill_assets.cli.dev.sessions import start_process, stop_sessions
from backfill_assets.cli.output import say
from backfill_assets.cli.running_dev import RunningDev, running_dev
from backfill_assets.days import DayRange
from backfill_assets.defs.specs import VERSION_TAG
from backfill_assets.defs.under_way import launch_backfill
from backfill_assets.errors import BackfillError
from backfill_assets.examples.demo.follow import BackfillProgress, ask_to_cancel, cancel_backfill, progress, watch
from backfill_assets.examples.demo.progress import BackfillProgressView, Phases, shown
from backfill_assets.settings import Settings
from backfill_assets.ui_addresses import backfill_page

_COMMAND = "backfill demo"
_LAST_LINES = 15
_GRACE_SECONDS = 30.0
"""A run that has to stop records it in Dagster first, and the daemon waits for it."""
_DAEMON = (sys.executable, "-m", "backfill_assets.defs.dagster_internals", "daemon", "run", "-w", "workspace.yaml")


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
    dev = running_dev(settings)
    if dev is not None:
        _require_same_places(settings, dev)
    else:
        # Before the launch: a daemon that is there would carry it out, and this one would be refused.
        with only_daemon(settings, _COMMAND):
            pass
    instance = dg.DagsterInstance.from_config(str(dagster_home(settings)))
    backfill_id = launch_backfill(
        instance,
        import_module(location).defs.resolve_asset_graph(),
        dict.fromkeys(tables, days),
        title=f"Demo: {days}" + (f", {version} of the fact" if version else ""),
        tags={"user": "backfill demo"} | ({VERSION_TAG: version} if version else {}),
    )
    return DemoBackfill(settings, instance, backfill_id, dev=dev)


def _require_same_places(settings: Settings, dev: RunningDev) -> None:
    """The runs of ``make dev`` read and write where it was started to: elsewhere they would not find these files."""
    differing = [
        (what, theirs, ours)
        for what, theirs, ours in (
            ("the lakehouse", dev.lakehouse, str(settings.lakehouse)),
            ("the landing zone", dev.landing, str(settings.landing)),
            ("the token key", dev.token_key_file, str(settings.token_key_file)),
        )
        if theirs and theirs != ours
    ]
    for what, theirs, ours in differing[:1]:
        raise DemoFailed(
            f"`make dev` of {settings.home} runs with {what} {theirs}, and the demo is for {ours}.",
            hint=f"End it first: Ctrl-C where it runs, or kill {dev.pid}. Or give the demo a BACKFILL_HOME of its own.",
        )


@dataclass(frozen=True)
class DemoBackfill:
    """A backfill that was launched, and the command of the daemon that carries it out, or the ``make dev`` that does.

    The daemon is started after the launch, because its first check for backfills comes soonest.
    """

    settings: Settings
    instance: dg.DagsterInstance
    backfill_id: str
    daemon: tuple[str, ...] = _DAEMON
    dev: RunningDev | None = None

    @property
    def daemon_log(self) -> Path:
        return self.settings.home / "dagster" / "demo-daemon.log"

    def carry_out(self, steps: Sequence[str], phases: Phases) -> BackfillProgress:
        """Follow it to its end; raises :class:`DemoFailed` if that is not success."""
        view = BackfillProgressView(steps, progress(self.instance, self.backfill_id))
        try:
            with self._running_daemon() as lives, phases("Backfilling"), shown(view) as show:
                for now in watch(self.instance, self.backfill_id, goes_on=lives):
                    show(now)
        except KeyboardInterrupt:
            self._cancel()
            raise
        if not view.now.ended:
            cancel_backfill(self.instance, self.backfill_id)
        require_success(view.now, self.daemon_log, self.dev)
        return view.now

    def _cancel(self) -> None:
        kept = "What was published stays; what was staged is used by the next run."
        say(f"Interrupted: cancelling the backfill {self.backfill_id} ...")
        if self._dev_lives():
            ask_to_cancel(self.instance, self.backfill_id)
            say(f"`make dev` stops its runs. {kept}")
        else:
            cancel_backfill(self.instance, self.backfill_id)
            say(f"Nothing is left running. {kept}")

    def _dev_lives(self) -> bool:
        return self.dev is not None and running_dev(self.settings) == self.dev

    @contextmanager
    def _running_daemon(self) -> Iterator[Callable[[], bool]]:
        """Whether it lives. One of the demo's own has a session of its own, so that nothing it starts outlives it."""
        if self.dev is not None:
            say(f"  The daemon of `make dev` carries it out: {self.dev.ui}{backfill_page(self.backfill_id)}")
            yield self._dev_lives
            return
        with only_daemon(self.settings, _COMMAND):
            with self.daemon_log.open("w") as log:
                process = start_process(self.daemon, REPOSITORY, _variables(self.settings), output=log)
            try:
                yield lambda: process.poll() is None
            finally:
                stop_sessions([process], _GRACE_SECONDS)


def require_success(last: BackfillProgress, daemon_log: Path, dev: RunningDev | None = None) -> None:
    """Raise :class:`DemoFailed`, with the reason and what to do, if the backfill did not end in success."""
    if not last.ended and dev is not None:
        raise DemoFailed(
            f"`make dev` ended while its daemon carried out the backfill {last.backfill_id}.",
            hint="Run the demo again: what was staged is used.",
        )
    if not last.ended:
        said = "\n".join(daemon_log.read_text(errors="replace").strip().splitlines()[-_LAST_LINES:])
        raise DemoFailed(
            f"Dagster's daemon died while the backfill {last.backfill_id} was under way. It said last:\n{said}",
            hint=f"All that it said is in {daemon_log}. Run the demo again: what was staged is used.",
        )
    if not last.succeeded:
        failed = ", ".join(step for step, ended in last.steps.items() if ended == "FAILURE")
        reason = last.failure or last.error or (f"failed: {failed}" if failed else "no step failed")
        page = f"`make dev` opens the UI: Runs > Backfills > {last.backfill_id}"
        if dev is not None:
            page = f"{dev.ui}{backfill_page(last.backfill_id)}"
        raise DemoFailed(
            f"The backfill {last.backfill_id} ended as {last.status}: {reason}",
            hint=f"{page} has the run's log. Then run the demo again.",
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
