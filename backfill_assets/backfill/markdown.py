"""Text and tables as Markdown: whatever is in a value or an error is shown as it is. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_MARKS = re.compile(r"[\\`*|\[\]~]|(?<!\w)_|_(?!\w)")
"""What Markdown would take for itself; an underscore within a word is none of it."""


def escaped(text: str) -> str:
    """``text`` on one line, to be read literally."""
    found = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return _MARKS.sub(lambda mark: f"\\{mark[0]}", found)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[str] = ()) -> str:
    """A table of literal cells; the columns ``numbers`` are aligned to the right."""
    under = ["---:" if name in numbers else "---" for name in columns]
    lines = [columns, under, *([escaped(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def bullets(lines: Iterable[str]) -> str:
    """A list of literal lines."""
    return "\n".join(f"- {escaped(line)}" for line in lines)
