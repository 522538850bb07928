"""What commands print and ask: tables for people, JSON for scripts, colours only on a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from backfill_assets.days import DayRange, contiguous
from backfill_assets.text import format_range

_PIPED_WIDTH = 200
_MOST_RANGES = 6
_COMMIT = 10
_TYPED_AGAIN = ("table", "publication", "plan")
"""Columns of what people copy into their next command: a name on two lines cannot be copied."""


def console(*, stderr: bool = False) -> Console:
    """On a terminal as wide as it is, in colour unless ``NO_COLOR`` is set; elsewhere plain, and nothing is cut off."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(
        stderr=stderr,
        highlight=False,
        markup=False,
        emoji=False,
        width=None if stream.isatty() else _PIPED_WIDTH,
    )


def say(*parts: str | Text | Table) -> None:
    for part in parts:
        console().print(part, soft_wrap=not isinstance(part, Table))


def say_error(message: str) -> None:
    console(stderr=True).print(Text.assemble(("Error: ", "bold red"), (message, "red")), soft_wrap=True)


def say_json(value: Any) -> None:
    """Indented JSON; dates as ISO text, decimals as text: nothing is rounded."""
    click.echo(json.dumps(value, indent=2, default=_as_text))


def ask(question: str) -> None:
    """Ask a person to confirm. Without a terminal it raises an error that names ``--yes``."""
    if not on_terminal():
        raise click.UsageError("There is no terminal to ask on: add --yes.")
    click.confirm(question, abort=True, err=True)


def on_terminal() -> bool:
    return sys.stdin.isatty()


def table(
    *columns: str,
    rows: Iterable[Sequence[str | Text]] = (),
    numbers: Sequence[str] = (),
    title: str | None = None,
) -> Table:
    """A table of ``rows``, to which more may be added; the columns in ``numbers`` are aligned to the right."""
    found = Table(title=title, title_justify="left", title_style="bold")
    for name in columns:
        whole = name in _TYPED_AGAIN
        found.add_column(name, justify="right" if name in numbers else "left", overflow="fold", no_wrap=whole)
    for row in rows:
        found.add_row(*row)
    return found


def short_commit(commit: str) -> str:
    """The first characters of a commit, with ``+dirty`` if its code is not in it."""
    sha, plus, dirty = commit.partition("+")
    return f"{sha[:_COMMIT]}{plus}{dirty}"


def ranges(days: Iterable[date] | Sequence[DayRange], most: int = _MOST_RANGES) -> str:
    """Days as ``A..B, C``; of many ranges the first few, and how many more there are."""
    found = [item if isinstance(item, DayRange) else DayRange.of(item) for item in days]
    merged = contiguous(day for item in found for day in item)
    texts = [format_range(item) for item in merged[:most]]
    more = [f"and {len(merged) - most} more ranges"] if len(merged) > most else []
    return ", ".join(texts + more)


def moment(at: datetime | None) -> str:
    """A moment of the log, which is in UTC, to the second."""
    return at.strftime("%Y-%m-%d %H:%M:%SZ") if at else ""


def _as_text(value: Any) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)
