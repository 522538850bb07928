"""``backfill demo``: 90 real days, from landed files to revenue, in a native Dagster backfill."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

import click

from backfill_assets.cli.foreground import interrupt
from backfill_assets.cli.output import say
from backfill_assets.cli.output import table as new_table
from backfill_assets.cli.wiring import current_settings, open_publisher, open_storage
from backfill_assets.days import DayRange, TableDay
from backfill_assets.defs.demo.progress import Phases
from backfill_assets.settings import Settings

if TYPE_CHECKING:
    from backfill_assets.model.declaration import Step

NINETY_DAYS = "2017-03-01..2017-05-29"
_LEFT_OUT_FIRST = ("superseded", "deduplicated", "quarantined", "seconds", "unchanged", "received", "deleted")
_EPILOG = """
\b
Examples:
  backfill demo
  backfill demo --days 2017-03-01..2017-03-07
"""


@click.command(epilog=_EPILOG)
@click.option(
    "--days", "days_text", default=NINETY_DAYS, show_default=True, metavar="A..B", help="The days to rebuild."
)
def demo(days_text: str) -> None:
    """Land real data, then build its days in every table with a native Dagster backfill.

    Starts the Dagster daemon that it needs, and stops it at the end. A second run finds every day unchanged.
    """
    days = DayRange.parse(days_text)
    settings = current_settings()
    phases = Phases()
    with phases("Landing the data"):
        new_files = _land(days, settings)
    before = _newest_entry(settings)
    # A demo that gets SIGTERM, for example from a timeout, stops what it started, as after Ctrl-C.
    signal.signal(signal.SIGTERM, interrupt)
    with _one_spark(settings, phases, needed=new_files > 0 or _stale(settings, days)) as settings:
        with phases("Launching the backfill"):
            from backfill_assets.defs.demo.backfill import launch_demo

            backfill = launch_demo(settings, days, [table.name for step in _steps() for table in step.tables])
        last = backfill.carry_out([step.name for step in _steps()], phases)
    with phases("Adding up"):
        _say_accounts(days, settings, last.step_seconds, before)
    _say_phases(phases)
    say(
        f"Published to {settings.lakehouse}; backfill status and backfill history show more.",
        "Open the UI with `make dev`, then http://127.0.0.1:3000: Runs > Backfills shows this one.",
        'To launch a range of your own: Lineage, write tag:"daily"="sales" into the filter, Materialize all,',
        f"`Show all partitions`, and write it as [{days.first}...{days.last}]; docs/ui.md has the pictures.",
    )


def _land(days: DayRange, settings: Settings) -> int:
    """The number of files that are new."""
    from backfill_assets.sample.real import land_real

    landed = land_real(days, settings.landing)
    lines = ", ".join(f"{count:,} lines of {source}" for source, count in landed.lines.items())
    say(f"  {lines}; {landed.written} files written, {landed.already_there} already there")
    return landed.written


def _stale(settings: Settings, days: DayRange) -> bool:
    from backfill_assets.plan.status import DayStatus, day_statuses
    from backfill_assets.published.observed import observe

    observed = observe(open_storage(settings), [table.name for step in _steps() for table in step.tables])
    statuses = day_statuses(_steps(), observed, days)
    return any(status is not DayStatus.FRESH for by_day in statuses.values() for status in by_day.values())


@contextmanager
def _one_spark(settings: Settings, phases: Phases, *, needed: bool) -> Iterator[Settings]:
    """Settings with a Spark Connect server that all runs share; a JVM for each run would cost more than its work."""
    from backfill_assets.spark.connect_server import start_connect_server

    if settings.spark_remote or not needed:
        yield settings
        return
    with phases("Starting Spark"):
        server = start_connect_server(settings)
    try:
        yield replace(settings, spark_remote=server.url)
    finally:
        server.stop()


def _steps() -> list[Step]:
    """The tables of sales and their inputs; other datasets begin on other days."""
    from backfill_assets.datasets import registry

    return list(registry.steps_with("sales"))


# --------------------------------------------------------------------- results


def _newest_entry(settings: Settings) -> int:
    """The newest entry of the publication log: what is published later is this demo's work."""
    from backfill_assets.published.reading import anything_published

    return open_publisher(settings).log.head().version if anything_published(open_storage(settings)) else -1


def _say_accounts(days: DayRange, settings: Settings, step_seconds: Mapping[str, float], before: int) -> None:
    from backfill_assets.datasets import registry
    from backfill_assets.upkeep.accounting import account

    log = open_publisher(settings).log
    states = log.day_states(log.head())
    accounts = account(_steps(), list(days), states)
    deleted = ("deleted",) if any(found.deleted for found in accounts) else ()
    counts = ("days", "unchanged", "received", "published", "quarantined", "deduplicated", "superseded", *deleted)
    rows = new_table(
        "table", *counts, "reconciled", "seconds", numbers=[*counts, "reconciled", "seconds"], drop=_LEFT_OUT_FIRST
    )
    unchanged = {key for key, state in states.items() if state.sequence <= before}
    for found in accounts:
        periods = registry.step(found.table).cadence.starts(days)
        reused = sum(TableDay(found.table, day) in unchanged for day in periods)
        accounted = [found.days, reused, found.received, found.published, found.quarantined]
        accounted += [found.deduplicated, found.superseded, *([found.deleted] if deleted else [])]
        seconds = step_seconds.get(found.table)
        rows.add_row(
            found.table,
            *("" if count is None else f"{count:,}" for count in accounted),
            f"{found.reconciled} of {found.days}",
            "" if seconds is None else f"{seconds:.1f}",
        )
    say(rows)
    if unchanged.issuperset(_read_days(days)):
        say("Every day was published before, from the same inputs by the same code: nothing was computed.")


def _read_days(days: Sequence[date] | DayRange) -> Iterator[TableDay]:
    return (
        TableDay(table.name, day) for step in _steps() for table in step.tables for day in step.cadence.starts(days)
    )


def _say_phases(phases: Phases) -> None:
    rows = new_table("phase", "seconds", numbers=["seconds"])
    for name, seconds in phases.seconds.items():
        rows.add_row(name, f"{seconds:.1f}")
    rows.add_row("all", f"{sum(phases.seconds.values()):.1f}")
    say(rows)
