from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from backfill_assets.cli.foreground import interrupt
from backfill_assets.cli.output import awaited, say, say_answer
from backfill_assets.cli.running_dev import running_dev, running_ui, shared_spark
from backfill_assets.cli.wiring import current_settings, open_publisher, open_storage
from backfill_assets.days import DayRange, TableDay
from backfill_assets.examples.demo.progress import Phases
from backfill_assets.report.answer import Answer, Grid
from backfill_assets.settings import Settings
from backfill_assets.ui_addresses import DEFAULT_UI, asset_page, backfill_page, lineage_page

if TYPE_CHECKING:
    from backfill_assets.model.declaration import Step

NINETY_DAYS = "2017-03-01..2017-05-29"
BUG = "v1"
"""Takes the previous day's rate."""
FACT = "fact_sales_transactions"
SELECTION = f'key:"{FACT}"+'
_LEFT_OUT_FIRST = ("superseded", "deduplicated", "quarantined", "seconds", "unchanged", "received", "deleted")


@click.command(short_help="Rebuild 90 real days in a native Dagster backfill.")
@click.option(
    "--days", "days_text", default=NINETY_DAYS, show_default=True, metavar="A..B", help="The days to rebuild."
)
@click.option(
    "--with-the-bug", is_flag=True, help=f"Publish {BUG} of {FACT}, whose currency rate is that of the day before."
)
def demo(days_text: str, *, with_the_bug: bool) -> None:
    """Land real data, then build its days in every table with a native Dagster backfill.

    \b
    Examples:
      backfill demo
      backfill demo --days 2017-03-01..2017-03-07
      backfill demo --with-the-bug

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
    backfill_id = ""
    step_seconds: Mapping[str, float] = {}
    with ExitStack() as stack:
        spark = stack.enter_context(background_spark(settings, phases)) if before < 0 else None
        with phases("Landing the data"):
            new_files = _land(days, settings)
        if new_files or is_to_build(settings, days, version):
            spark = spark or stack.enter_context(background_spark(settings, phases))
            backfill_id, step_seconds = _build(spark(), days, version, phases)
    with phases("Adding up"):
        _say_accounts(days, settings, step_seconds, before)
    seconds = [*phases.seconds.items(), ("all", sum(phases.seconds.values()))]
    rows = [(name, round(spent, 1)) for name, spent in seconds]
    say_answer(Answer(parts=(Grid("phases", ("phase", "seconds"), rows),)))
    dev = running_dev(settings)
    next_lines = what_next(days, backfill_id, dev.ui if dev else running_ui(settings), with_the_bug=with_the_bug)
    say(f"Published to {settings.lakehouse}.", *next_lines)


@contextmanager
def background_spark(settings: Settings, phases: Phases) -> Iterator[Callable[[], Settings]]:
    """One Connect server for all runs, quicker than a JVM a run.

    Yields a function that waits for it and returns settings with it.
    """
    from backfill_assets.spark.connect_server import start_connect_server

    if settings.spark_remote:
        yield lambda: settings
        return
    with ThreadPoolExecutor(1) as starter:
        starting = starter.submit(start_connect_server, settings)

        def ready() -> Settings:
            with phases("Starting Spark"), awaited("Waiting for Spark"):
                return replace(settings, spark_remote=starting.result().url)

        try:
            yield ready
        finally:
            if starting.exception() is None:
                starting.result().stop()


def _build(settings: Settings, days: DayRange, version: str, phases: Phases) -> tuple[str, Mapping[str, float]]:
    with phases("Launching the backfill"):
        from backfill_assets.examples.demo.backfill import launch_demo, watch_and_report

        tables = [table.name for step in _steps() for table in step.tables]
        launched = launch_demo(settings, days, tables, version=version)
    last = launched.carry_out([step.name for step in _steps()], phases)
    with phases("Watchdogs read what is published"):
        with awaited("Reading"):
            found = watch_and_report(launched.instance, settings)
        say(f"  {found}")
    return launched.backfill_id, last.step_seconds


def _land(days: DayRange, settings: Settings) -> int:
    from backfill_assets.examples.sample.real import land_real

    with awaited("Landing"):
        landed = land_real(days, settings.landing)
    lines = ", ".join(f"{count:,} lines of {source}" for source, count in landed.lines.items())
    say(f"  {lines}; {landed.written} files written, {landed.already_there} already there")
    return landed.written


def is_to_build(settings: Settings, days: DayRange, version: str) -> bool:
    from backfill_assets.state.observed import observe
    from backfill_assets.state.status import day_statuses

    observed = observe(open_storage(), [table.name for step in _steps() for table in step.tables])
    steps = [step for step in _steps() if not version or step.name != FACT]
    statuses = day_statuses(steps, observed, days)
    if any(status is not None for by_day in statuses.values() for status in by_day.values()):
        return True
    contents = observed.contents(FACT)
    built_by = {content.code_version if (content := contents.get(day)) else "" for day in days}
    return bool(version and built_by != {version}) or not _shown_by_dagster(settings, days)


def _shown_by_dagster(settings: Settings, days: DayRange) -> bool:
    """Days built by commands are unknown to Dagster until a backfill finds them unchanged."""
    import dagster as dg

    from backfill_assets.cli.dev.dagster_home import dagster_home

    with dg.DagsterInstance.from_config(str(dagster_home(settings))) as instance:
        return all(
            {str(day) for day in step.cadence.starts(days)} <= instance.get_materialized_partitions(dg.AssetKey(table))
            for step in _steps()
            for table in step.table_names
        )


def _steps() -> list[Step]:
    from backfill_assets.examples.catalog import CATALOG

    return list(CATALOG.steps_with("sales"))


def _newest_entry(settings: Settings) -> int:
    from backfill_assets.publish.log import anything_published

    return open_publisher().log.head().version if anything_published(open_storage()) else -1


def _say_accounts(days: DayRange, settings: Settings, step_seconds: Mapping[str, float], before: int) -> None:
    from backfill_assets.examples.catalog import CATALOG
    from backfill_assets.examples.demo.accounting import account

    log = open_publisher().log
    states = log.day_states(log.head())
    unchanged = {key for key, state in states.items() if state.sequence <= before}
    accounts = account(_steps(), list(days), states)
    names = ["received", "published", "quarantined", "deduplicated", "superseded"]
    names += ["deleted"] if any(found.deleted for found in accounts) else []
    rows: list[tuple[object, ...]] = []
    for found in accounts:
        periods = CATALOG.step(found.table).cadence.starts(days)
        reused = sum(TableDay(found.table, day) in unchanged for day in periods)
        seconds = step_seconds.get(found.table)
        spent = None if seconds is None else round(seconds, 1)
        counts = [getattr(found, name) for name in names]
        rows.append((found.table, found.days, reused, *counts, f"{found.reconciled} of {found.days}", spent))
    columns = ("table", "days", "unchanged", *names, "reconciled", "seconds")
    say_answer(Answer(parts=(Grid("accounts", columns, rows, drop=_LEFT_OUT_FIRST),)))
    if log.head().version == before:
        say("Every day was published before, from the same inputs by the same code: nothing was computed.")


def what_next(days: DayRange, backfill_id: str, ui: str = "", *, with_the_bug: bool = False) -> list[str]:
    """Links and commands to copy; ``ui`` is a running UI's address."""
    pages = {
        "where to begin": asset_page("start_here"),
        **({"this backfill": backfill_page(backfill_id)} if backfill_id else {}),
        "a range of your own": lineage_page(SELECTION),
    }
    links = [f"  {ui or DEFAULT_UI}{path}  {what}" for what, path in pages.items()]
    before = ["Next, in the UI that runs:"] if ui else ["Next: make dev", "It opens the UI:"]
    bug = [
        f"{FACT} of {days} has {BUG} now: it takes the currency rate of the day before.",
        "It is wrong on each day with a rate of its own; weekends and holidays have none, and stay the same.",
        "See it, and what the right version would change:",
        f"  backfill status {FACT} --days {days}",
        f'  backfill plan {FACT} --days {days} --version v2 --expect "weekends unchanged"',
    ]
    return [*(bug if with_the_bug else []), *before, *links]
