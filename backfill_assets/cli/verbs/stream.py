from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from backfill_assets.cli.foreground import foreground_builder, report_progress, report_step, run_info
from backfill_assets.cli.options import as_json
from backfill_assets.cli.options import table as table_argument
from backfill_assets.cli.output import wants_json
from backfill_assets.cli.wiring import current_settings
from backfill_assets.days import parse_day
from backfill_assets.errors import InvalidRequest

if TYPE_CHECKING:
    from backfill_assets.rebuild.outcome import RunInfo
    from backfill_assets.settings import Settings
    from backfill_assets.stream.reporter import StreamEvent


_BEGINNING = "--from-beginning"


class _DayMayFollow(click.Command):
    """TABLE after ``--from-beginning`` is no day."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, [*args])
        except click.MissingParameter:
            return super().parse_args(ctx, [f"{_BEGINNING}=" if each == _BEGINNING else each for each in args])


@click.command(cls=_DayMayFollow)
@table_argument
@click.option(
    "--from",
    "source_text",
    metavar="SOURCE",
    default="landing",
    show_default=True,
    help="landing, or kafka://HOST:PORT/TOPIC.",
)
@click.option(
    _BEGINNING,
    is_flag=False,
    flag_value="",
    default=None,
    metavar="[DAY]",
    help="The first time: read the topic's history, or what arrived from DAY on, then go on live.",
)
@click.option("--available-now", is_flag=True, help="Read what there is now, and end.")
@click.option(
    "--rate",
    "rates",
    metavar="[HOURS=]RATE",
    multiple=True,
    help="Read history at most so fast: records a second (2000) or bytes (5MB); in hours of the day (UTC) at another "
    "rate (06:00-22:00=500).",
)
@click.option(
    "--batch",
    "most",
    type=click.IntRange(min=1),
    help="The most that is read at once.  [default: 100 landed files, 100,000 events of a topic]",
)
@click.option(
    "--accept-gap",
    is_flag=True,
    help="Go on although the broker deleted unread events; the gap is recorded.",
)
@click.option(
    "--new-topic",
    is_flag=True,
    help="The topic was made again under its name: read the new one from its first event on.",
)
@click.option("--no-follow", is_flag=True, help="Raw only: leave facts and reports to nightly runs.")
@as_json
def stream(
    table: str,
    source_text: str,
    from_beginning: str | None,
    available_now: bool,
    rates: tuple[str, ...],
    most: int | None,
    accept_gap: bool,
    new_topic: bool,
    no_follow: bool,
) -> None:
    """Read the events of a source into the raw table TABLE as they come. Ctrl-C ends it after the running batch.

    \b
    Examples:
      backfill stream raw_sales --from landing
      backfill stream raw_sales --from kafka://127.0.0.1:9092/sales --from-beginning
      backfill stream raw_sales --from landing --rate 2000 --rate 06:00-22:00=500

    Each micro-batch is one publication: its rows, and the positions up to which the source was read. A restart goes on
    where raw ends. Bronze, facts and daily revenue of the days that gained rows follow in seconds. --json prints a line
    for each event.
    """
    from backfill_assets.spark.session import driver_memory, profile
    from backfill_assets.stream.live import Trigger, stream_settings
    from backfill_assets.stream.run import StreamRequest, run_stream
    from backfill_assets.stream.sources import parse_source
    from backfill_assets.stream.throttle import ReadLimit
    from backfill_assets.stream.topic import StartRequest

    since = parse_day(from_beginning) if from_beginning else None
    settings = current_settings()
    _require_own_spark(settings)
    request = StreamRequest(
        table=table,
        source=parse_source(source_text),
        start=StartRequest(from_beginning is not None, since, accept_gap, new_topic),
        limit=ReadLimit.parse(rates, most),
        trigger=Trigger(available_now=available_now),
        follow=not no_follow,
        two_loops=settings.two_loops,
        properties=_kafka_properties(),
    )
    spark_settings = stream_settings(profile(settings), driver_memory(), on_s3=settings.lakehouse_on_s3)
    with foreground_builder(spark_settings) as builder:
        report = _json_report if wants_json() else lambda event: report_step(event.text)
        try:
            run_stream(builder.lake, request, _run_info(table), report_progress, report)
        except KeyboardInterrupt:
            report_step("Stopped. What is published stays, and the next start goes on where raw ends.")


def _run_info(table: str) -> RunInfo:
    """Maintenance knows a stream's publications by this ``launched_by``."""
    from backfill_assets.publish.fold import STREAM

    run = run_info("stream")
    return replace(run, launched_by=f"{STREAM}{table}, {run.launched_by}")


def _require_own_spark(settings: Settings) -> None:
    if settings.spark_remote:
        raise InvalidRequest(
            "A stream runs in a Spark of its own, and SPARK_REMOTE names a server.",
            hint="Unset SPARK_REMOTE for this command.",
        )


def _kafka_properties() -> dict[str, str]:
    from backfill_assets.stream.broker import read_properties

    name = os.environ.get("BACKFILL_KAFKA_PROPERTIES", "").strip()
    if not name:
        return {}
    try:
        return read_properties(Path(name).read_text())
    except OSError as error:
        raise InvalidRequest(f"BACKFILL_KAFKA_PROPERTIES names {name}: {error.strerror}.") from error


def _json_report(event: StreamEvent) -> None:
    click.echo(json.dumps({"event": event.kind, **event.figures, "text": event.text}))
