"""``backfill doctor``: what this machine needs, and what to do about it."""

from __future__ import annotations

import click

from backfill_assets.cli.options import as_json
from backfill_assets.cli.output import say_answer
from backfill_assets.cli.wiring import current_catalog, current_settings

_EPILOG = """
\b
Examples:
  backfill doctor
  backfill doctor --json
"""


@click.command(epilog=_EPILOG)
@as_json
@click.pass_context
def doctor(ctx: click.Context, as_json: bool) -> None:
    """Check Java, JARs, memory, disk, ports, landing zone, token key and lakehouse; say what to do.

    Changes nothing. The exit code is 1 if something would stop a run.
    """
    from backfill_assets.answers.machine import examine, machine_answer

    findings = examine(current_settings(), current_catalog)
    say_answer(machine_answer(findings), as_json=as_json)
    if any(finding.verdict == "fail" for finding in findings):
        ctx.exit(1)
