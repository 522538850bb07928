"""``backfill doctor``: what this machine needs, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click
from rich.text import Text

from backfill_assets.cli.output import say, say_json, screen
from backfill_assets.cli.output import table as new_table
from backfill_assets.cli.wiring import current_settings

if TYPE_CHECKING:
    from backfill_assets.cli.queries.checkup import MachineFinding

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
    elif screen():
        say(*_lines(findings))
    else:
        rows = [(each.verdict, each.what, each.found, each.next_step) for each in findings]
        say(new_table("verdict", "what", "found", "what to do", rows=rows))
    if any(finding.verdict == "fail" for finding in findings):
        ctx.exit(1)


def _lines(findings: Sequence[MachineFinding]) -> Iterator[Text]:
    """For a terminal, without a box: what was found and what to do are whole at any width."""
    wide = max(len(each.what) for each in findings)
    for each in findings:
        yield Text.assemble((f"{each.verdict:4}", _COLOURS[each.verdict]), f"  {each.what:{wide}}  {each.found}")
        if each.next_step:
            yield Text(f"      -> {each.next_step}")
