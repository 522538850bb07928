from __future__ import annotations

from pathlib import Path

import click

from backfill_assets.cli.wiring import current_settings


@click.command()
@click.argument("port", type=click.IntRange(1, 65535), default=3000)
@click.pass_context
def dev(ctx: click.Context, port: int) -> None:
    """Start Dagster's UI on PORT, its daemon, and one Spark that all runs share; Ctrl-C stops them.

    \b
    Examples:
      backfill dev                  the UI on http://127.0.0.1:3000
      backfill dev 3100

    Serves the code location that `pyproject.toml` of this folder names under [tool.dagster], as backfill init writes
    it. Uses the Spark that SPARK_REMOTE names or that backfill spark start has started, and leaves it running. A part
    that ends is started again, and the others go on. All can be reached from this machine only.
    """
    from backfill_assets.cli.dev.dev import Location, serve

    ctx.exit(serve(current_settings(), port, Location.of_project(Path.cwd())))
