"""``backfill demo``: 90 real days, from landed files to revenue, in a native Dagster backfill."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING

import click

from backfill_assets.cli.foreground import interrupt
from backfill_assets.cli.output import say, say_answer
from backfill_assets.cli.running_dev import running_dev, running_ui, shared_spark
from backfill_assets.cli.wiring import current_settings, open_publisher, open_storage
from backfill_assets.days import DayRange, TableDay
from backfill_assets.examples.demo.one_spark import OneSpark
from backfill_assets.examples.demo.progress import Phases
from backfill_assets.examples.demo.what_next import what_next
from backfill_assets.report.answer import Answer, Grid
from backfill_assets.settings import Settings

if TYPE_CHECKING:
    from backfill_assets.model.declaration import Step

NINETY_DAYS = "2017-03-01..2017-05-29"
BUG = "v1"
"""The version of the fact that takes the rate of the day before."""
_FACT = "fact_sales_transactions"
_LEFT_OUT_FIRST = ("superseded", "deduplicated", "quarantined", "seconds", "unchanged", "received", "deleted")
_EPILOG = """
\b
Examples:
  backfill demo
  backfill demo --days 2017-03-01..2017-03-07
  backfill demo --with-the-bug
"""


@click.command(epilog=_EPILOG, short_help="Rebuild 90 real days in a native Dagster backfill.")
@click.option(
    "--days", "days_text", default=NINETY_DAYS, show_default=True, metavar="A..B", help="The days to rebuild."
)
@click.option(
    "--with-the-bug", is_flag=True, help=f"Publish {BUG} of {_FACT}, whose currency rate is that of the day before."
)
def demo(days_text: str, *, with_the_bug: bool) -> None:
    """Land real data, then build its days in every table with a native Dagster backfill.

    Uses the daemon and the Spark of a running `make dev`, or starts both and stops them at the end. A second run finds
    every day unchanged.
    """
    days = DayRange.parse(days_text)
    settings, _ = shared_spark(current_settings())
    version = BUG if with_the_bug else ""
    phases = Phases()
    # A demo that gets SIGTERM, for example from a timeout, stops what it started, as after Ctrl-C.
    signal.signal(signal.SIGTERM, interrupt)
    before = _newest_entry(settings)
    with OneSpark(settings, phases) as spark:
        if before < 0:
            spark.start()
        with phases("Landing the data"):
            new_files = _land(days, settings)
        backfill_id = ""
        step_seconds: Mapping[str, float] = {}
        if new_files or is_to_build(settings, days, version):
            backfill_id, step_seconds = _build(spark, days, version, phases)
    with phases("Adding up"):
        _say_accounts(days, settings, step_seconds, before)
    _say_phases(phases)
    dev = running_dev(settings)
    next_lines = what_next(days, backfill_id, dev.ui if dev else running_ui(settings), with_the_bug=with_the_bug)
    say(f"Published to {settings.lakehouse}.", *next_lines)


def _build(spark: OneSpark, days: DayRange, version: str, phases: Phases) -> tuple[str, Mapping[str, float]]:
    """Launch the backfill and follow it, then let the watchdogs look; its id, and the seconds of each step."""
    settings = spark.ready()
    with phases("Launching the backfill"):
        from backfill_assets.examples.demo.backfill import launch_demo

        tables = [table.name for step in _steps() for table in step.tables]
        launched = launch_demo(settings, days, tables, version=version)
    last = launched.carry_out([step.name for step in _steps()], phases)
    with phases("Watchdogs read what is published"):
        from backfill_assets.examples.demo.watched import watch_and_report

        say(f"  {watch_and_report(launched.instance, settings)}")
    return launched.backfill_id, last.step_seconds


def _land(days: DayRange, settings: Settings) -> int:
    """The number of files that are new."""
    from backfill_assets.examples.sample.real import land_real

    landed = land_real(days, settings.landing)
    lines = ", ".join(f"{count:,} lines of {source}" for source, count in landed.lines.items())
    say(f"  {lines}; {landed.written} files written, {landed.already_there} already there")
    return landed.written


def is_to_build(settings: Settings, days: DayRange, version: str) -> bool:
    """Is a day stale, of another version of the fact than is asked for, or not shown by Dagster?"""
    from backfill_assets.plan.status import DayStatus, day_statuses
    from backfill_assets.published.observed import observe

    observed = observe(open_storage(settings), [table.name for step in _steps() for table in step.tables])
    steps = [step for step in _steps() if not version or step.name != _FACT]
    statuses = day_statuses(steps, observed, days)
    if any(status is not DayStatus.FRESH for by_day in statuses.values() for status in by_day.values()):
        return True
    contents = observed.contents(_FACT)
    built_by = {content.code_version if (content := contents.get(day)) else "" for day in days}
    return bool(version and built_by != {version}) or not _shown_by_dagster(settings, days)


def _shown_by_dagster(settings: Settings, days: DayRange) -> bool:
    """A lakehouse that was built by commands alone is unknown to Dagster, until a backfill has found it unchanged."""
    import dagster as dg

    from backfill_assets.cli.dev.dagster_home import dagster_home

    with dg.DagsterInstance.from_config(str(dagster_home(settings))) as instance:
        return all(
            {str(day) for day in step.cadence.starts(days)} <= instance.get_materialized_partitions(dg.AssetKey(table))
            for step in _steps()
            for table in step.table_names
        )


def _steps() -> list[Step]:
    """The tables of sales and their inputs; other datasets begin on other days."""
    from backfill_assets.examples.catalog import CATALOG

    return list(CATALOG.steps_with("sales"))


# --------------------------------------------------------------------- results


def _newest_entry(settings: Settings) -> int:
    """The newest entry of the publication log: what is published later is this demo's work."""
    from backfill_assets.published.reading import anything_published

    return open_publisher(settings).log.head().version if anything_published(open_storage(settings)) else -1


def _say_accounts(days: DayRange, settings: Settings, step_seconds: Mapping[str, float], before: int) -> None:
    from backfill_assets.examples.catalog import CATALOG
    from backfill_assets.upkeep.accounting import account

    log = open_publisher(settings).log
    states = log.day_states(log.head())
    accounts = account(_steps(), list(days), states)
    deleted = ("deleted",) if any(found.deleted for found in accounts) else ()
    counts = ("days", "unchanged", "received", "published", "quarantined", "deduplicated", "superseded", *deleted)
    rows: list[tuple[object, ...]] = []
    unchanged = {key for key, state in states.items() if state.sequence <= before}
    for found in accounts:
        periods = CATALOG.step(found.table).cadence.starts(days)
        reused = sum(TableDay(found.table, day) in unchanged for day in periods)
        accounted = [found.days, reused, found.received, found.published, found.quarantined]
        accounted += [found.deduplicated, found.superseded, *([found.deleted] if deleted else [])]
        seconds = step_seconds.get(found.table)
        spent = None if seconds is None else round(seconds, 1)
        rows.append((found.table, *accounted, f"{found.reconciled} of {found.days}", spent))
    columns = ("table", *counts, "reconciled", "seconds")
    say_answer(Answer(parts=(Grid("accounts", columns, rows, drop=_LEFT_OUT_FIRST),)))
    if unchanged.issuperset(_read_days(days)):
        say("Every day was published before, from the same inputs by the same code: nothing was computed.")


def _read_days(days: Sequence[date] | DayRange) -> Iterator[TableDay]:
    return (
        TableDay(table.name, day) for step in _steps() for table in step.tables for day in step.cadence.starts(days)
    )


def _say_phases(phases: Phases) -> None:
    rows = [*phases.seconds.items(), ("all", sum(phases.seconds.values()))]
    shown = [(name, round(seconds, 1)) for name, seconds in rows]
    say_answer(Answer(parts=(Grid("phases", ("phase", "seconds"), shown),)))
