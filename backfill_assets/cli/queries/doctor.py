"""``backfill doctor``: what this machine needs, and what to do about it."""

from __future__ import annotations

import click
from rich.text import Text

from backfill_assets.cli.output import say, say_json
from backfill_assets.cli.output import table as new_table
from backfill_assets.cli.wiring import current_settings

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "bold red"}
_EPILOG = """
\b
Examples:
  backfill doctor
  backfill doctor --json
"""


@click.command(epilog=_EPILOG)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def doctor(ctx: click.Context, as_json: bool) -> None:
    """Check Java, JARs, memory, disk, ports, landing zone, token key and lakehouse; say what to do.

    Changes nothing. The exit code is 1 if something would stop a run.
    """
    from backfill_assets.cli.queries.checkup import examine

    findings = examine(current_settings())
    if as_json:
        say_json([finding.as_json() for finding in findings])
    else:
        rows = new_table("", "what", "found", "what to do")
        for finding in findings:
            verdict = Text(finding.verdict, _COLOURS[finding.verdict])
            rows.add_row(verdict, finding.what, finding.found, finding.next_step)
        say(rows)
    if any(finding.verdict == "fail" for finding in findings):
        ctx.exit(1)
