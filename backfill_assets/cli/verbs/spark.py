from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from backfill_assets.cli.options import as_json
from backfill_assets.cli.output import say, say_answer
from backfill_assets.cli.wiring import current_settings
from backfill_assets.report.answer import Answer, Fact, Line
from backfill_assets.settings import CONNECT_PORT

if TYPE_CHECKING:
    from backfill_assets.spark.service import SparkService


@click.group()
def spark() -> None:
    """Start one Spark server that all runs share, show it, and stop it.

    \b
    Examples:
      backfill spark start
      backfill spark status
      backfill spark stop

    A run on it starts in two seconds instead of ten: no JVM has to start and warm up. It can be reached from this
    machine only. A run uses it if SPARK_REMOTE is its address; `backfill dev` sets that for the runs that it starts.
    """


@spark.command()
@click.argument("profile", default="connect")
@click.argument("port", type=click.IntRange(1, 65535), default=CONNECT_PORT)
@as_json
def start(profile: str, port: int) -> None:
    """Start the server in the background, and return when it has run a job.

    PROFILE is a folder of spark_conf: connect, unless another is named. With standalone, a master and two workers are
    started on this machine too.

    \b
    Examples:
      backfill spark start
      backfill spark start standalone
      backfill spark start connect 15003

    The exit code is 1 if one is running already, or if it does not start; its log says why.
    """
    from backfill_assets.spark.service import start_service

    say_answer(_service_answer(start_service(current_settings(), port, profile), answering=True))


@spark.command()
def stop() -> None:
    """Stop the server, and the cluster that was started with it.

    \b
    Examples:
      backfill spark stop

    A run that uses it fails and publishes nothing. The exit code is 0 even if no server is running.
    """
    from backfill_assets.spark.service import stop_service

    stopped = stop_service(current_settings())
    say(f"Stopped Spark at {stopped.url}." if stopped else "No Spark server was running.")


@spark.command()
@as_json
@click.pass_context
def status(ctx: click.Context) -> None:
    """Show whether the server of this home runs, and its address. The exit code is 1 if none runs.

    \b
    Examples:
      backfill spark status
      backfill spark status --json
    """
    from backfill_assets.spark.service import reachable, running_service

    service = running_service(current_settings())
    answering = service is not None and reachable(service)
    say_answer(_service_answer(service, answering=answering))
    if not answering:
        ctx.exit(1)


def _service_answer(service: SparkService | None, *, answering: bool) -> Answer:
    facts = {"running": service is not None, "answers": answering, **(asdict(service) if service else {})}
    if service is None:
        line = Line("No Spark server is running.", do="backfill spark start")
    elif answering:
        line = Line("For commands and runs to use it:", do=f"export SPARK_REMOTE={service.url}")
    else:
        line = Line("It may still be starting, or hang. To start another:", do="backfill spark stop")
    return Answer(parts=(*(Fact(name, value) for name, value in facts.items()), line))
