"""What people copy from a table into their next command stays on one line."""

from __future__ import annotations

import io

from rich.console import Console

from backfill_assets.cli.output import table

PUBLICATION = "20170601t101500-fact-sales-transactions-1a2b3c4d"


def test_a_publication_is_on_one_line_however_narrow_the_terminal_is() -> None:
    """Other columns make room for it."""
    rows = table("publication", "by", "changed", rows=[(PUBLICATION, "ana: backfill run", "fact: 3 days of v1 " * 4)])
    terminal = Console(width=90, file=io.StringIO(), force_terminal=False)
    with terminal.capture() as captured:
        terminal.print(rows)
    assert PUBLICATION in captured.get()
