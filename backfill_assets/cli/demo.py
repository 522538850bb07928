"""``backfill demo``: 90 real days, from landed files to revenue, in a native Dagster backfill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import click
from rich.live import Live
from rich.text import Text

from backfill_assets.cli.output import console, say
from backfill_assets.cli.output import table as new_table
from backfill_assets.cli.wiring import current_settings, open_publisher
from backfill_assets.days import DayRange
from backfill_assets.errors import BackfillError, LakehouseUnusable
from backfill_assets.settings import Settings

NINETY_DAYS = "2017-03-01..2017-05-29"
_REPOSITORY = Path(__file__).resolve().parents[2]
_ENDED = 30
_EPILOG = """
\b
Examples:
  backfill demo
  backfill demo --days 2017-03-01..2017-03-07
"""


class DemoFailed(BackfillError):
    """The backfill ended without publishing everything it was launched for."""


class Phases:
    """Names each phase while it runs and keeps its seconds."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        say(Text(f"{name} ...", style="bold"))
        yield
        self.seconds[name] = time.monotonic() - started


@click.command(epilog=_EPILOG)
@click.option(
    "--days", "days_text", default=NINETY_DAYS, show_default=True, metavar="A..B", help="The days to rebuild."
)
def demo(days_text: str) -> None:
    """Land real data, then rebuild its days in every table by a native Dagster backfill.

    Starts the Dagster daemon that it needs, and stops it again. A second run finds every day unchanged.
    """
    days = DayRange.parse(days_text)
    settings = current_settings()
    phases = Phases()
    with phases("Landing the data"):
        _land(days, settings)
    with phases("Launching the backfill"):
        launcher, first = _launch(days)
    with launcher, _daemon(settings.home / "dagster"), phases("Backfilling"):
        last = _follow(launcher, first)
    if last["status"] not in ("COMPLETED_SUCCESS", "COMPLETED"):
        raise DemoFailed(
            f"The backfill {last['backfill_id']} ended as {last['status']}: {last['error'] or _failed_steps(last)}.",
            hint=f"The run's log says why: open the UI (make dev) and look at backfill {last['backfill_id']}.",
        )
    with phases("Adding up"):
        _say_accounts(days, settings, last["step_seconds"])
    _say_phases(phases)
    say(
        f"Published to {settings.lakehouse}; backfill status and backfill history tell more.",
        "Open the UI with `make dev`, then http://127.0.0.1:3000: Overview > Backfills shows this one,",
        "and the asset graph's `Materialize` launches a range of your own.",
    )


def _land(days: DayRange, settings: Settings) -> None:
    from backfill_assets.sample.real import land_real

    landed = land_real(days, settings.landing)
    lines = ", ".join(f"{count:,} lines of {source}" for source, count in landed.lines.items())
    say(f"  {lines}; {landed.written} files written, {landed.already_there} already there")


# ------------------------------------------------------------------ processes


def _environment() -> dict[str, str]:
    return {**os.environ, "DAGSTER_HOME": str(_REPOSITORY), "PYTHONUNBUFFERED": "1"}


def _launch(days: DayRange) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """Launched before the daemon starts: its first tick is immediate, the next one 30 seconds later."""
    command = [sys.executable, "-m", "backfill_assets.defs.launcher", "--days", str(days), "--title", f"Demo: {days}"]
    launcher = subprocess.Popen(
        command, cwd=_REPOSITORY, env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    first = launcher.stdout.readline() if launcher.stdout else ""
    if not first:
        _, errors = launcher.communicate()
        raise DemoFailed(f"The backfill could not be launched: {errors.strip()}")
    told: dict[str, Any] = json.loads(first)
    return launcher, told


@contextmanager
def _daemon(logs: Path) -> Iterator[None]:
    """The Dagster daemon, in a session of its own so that nothing it started outlives it."""
    logs.mkdir(parents=True, exist_ok=True)
    command = [str(Path(sys.executable).with_name("dagster-daemon")), "run", "-w", "workspace.yaml"]
    with (logs / "demo-daemon.log").open("w") as log:
        daemon = subprocess.Popen(
            command, cwd=_REPOSITORY, env=_environment(), stdout=log, stderr=log, start_new_session=True
        )
        try:
            yield
        finally:
            _stop(daemon)


def _stop(daemon: subprocess.Popen[bytes]) -> None:
    daemon.terminate()
    try:
        daemon.wait(timeout=_ENDED)
    except subprocess.TimeoutExpired:
        daemon.kill()
    try:
        os.killpg(daemon.pid, signal.SIGTERM)
    except ProcessLookupError:
        return


# -------------------------------------------------------------------- progress


def _follow(launcher: subprocess.Popen[str], first: dict[str, Any]) -> dict[str, Any]:
    """Show every change until the backfill ends; on a terminal in place, elsewhere a line when a table is done."""
    started, last = time.monotonic(), first
    with _display() as show:
        show(last, 0.0)
        for line in _lines(launcher.stdout):
            last = json.loads(line)
            show(last, time.monotonic() - started)
    return last


def _lines(stream: IO[str] | None) -> Iterator[str]:
    if stream is None:
        raise LakehouseUnusable("The launcher of the backfill says nothing.")
    yield from (line for line in stream if line.startswith("{"))


@contextmanager
def _display() -> Iterator[Callable[[Mapping[str, Any], float], None]]:
    screen = console()
    if not screen.is_terminal:
        told: set[str] = set()
        yield lambda now, seconds: _tell_news(now, seconds, told)
        return
    with Live(console=screen, refresh_per_second=4) as live:
        yield lambda now, seconds: live.update(Text("\n".join(_progress(now, seconds))))


def _tell_news(now: Mapping[str, Any], seconds: float, told: set[str]) -> None:
    for line in _progress(now, seconds)[1:]:
        if line not in told:
            told.add(line)
            say(line)


def _progress(now: Mapping[str, Any], seconds: float) -> list[str]:
    marks = {"SUCCESS": "done", "FAILURE": "failed"}
    steps = [
        f"  {step:<28} {marks.get(status, 'running')}"
        + (f" in {_took(now, step):.0f} s" if status == "SUCCESS" else "")
        for step, status in now["steps"].items()
    ]
    note = [f"  {now['message']}"] if now.get("message") else []
    return [f"  backfill {now['backfill_id']}: {now['status'].lower()}, {seconds:.0f} s", *steps, *note]


def _took(now: Mapping[str, Any], step: str) -> float:
    return float(now["step_seconds"].get(step, 0.0))


def _failed_steps(now: Mapping[str, Any]) -> str:
    return ", ".join(step for step, status in now["steps"].items() if status == "FAILURE") or "no step failed"


# --------------------------------------------------------------------- results


def _say_accounts(days: DayRange, settings: Settings, step_seconds: Mapping[str, float]) -> None:
    from backfill_assets.backfill.accounting import account
    from backfill_assets.datasets import registry

    log = open_publisher(settings).log
    counts = ("days", "received", "published", "quarantined", "deduplicated", "superseded", "reconciled", "seconds")
    rows = new_table("table", *counts, numbers=counts)
    for found in account(registry.steps(), list(days), log.day_states(log.head())):
        told = [found.days, found.received, found.published, found.quarantined, found.deduplicated, found.superseded]
        seconds = step_seconds.get(found.table)
        rows.add_row(
            found.table,
            *("" if count is None else f"{count:,}" for count in told),
            f"{found.reconciled} of {found.days} days",
            "" if seconds is None else f"{seconds:.1f}",
        )
    say(rows)


def _say_phases(phases: Phases) -> None:
    rows = new_table("phase", "seconds", numbers=["seconds"])
    for name, seconds in phases.seconds.items():
        rows.add_row(name, f"{seconds:.1f}")
    rows.add_row("all", f"{sum(phases.seconds.values()):.1f}")
    say(rows)
