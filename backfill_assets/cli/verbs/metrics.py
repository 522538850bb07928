from __future__ import annotations

from pathlib import Path

import click

from backfill_assets.cli.output import say


@click.command()
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
def metrics(file: Path | None) -> None:
    """Print the figures of this lakehouse as Prometheus reads them, or write them to FILE.

    \b
    Examples:
      backfill metrics
      backfill metrics /var/lib/node_exporter/backfill.prom     once a minute, for its textfile collector
      BACKFILL_METRICS_PORT=9464 backfill dev                   serves them on http://127.0.0.1:9464/metrics

    Publications, rows, rejects, the delay and lag of streams, days by status, incidents, repairs, what they cost, and
    the last tick of each sensor. FILE is written whole, by one rename. Reads logs and documents, no data; starts no
    Spark. Needs the extra backfill-assets[metrics].
    """
    from backfill_assets.cli.prometheus_text import current_text, require_extra, write_text

    require_extra()
    if file is None:
        click.echo(current_text(), nl=False)
        return
    write_text(file)
    say(f"Written to {file}.")
