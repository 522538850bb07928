"""A hazard as a page of the docs: its events, its counts, and why. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

from backfill_assets.examples.lab.chart import chart
from backfill_assets.examples.lab.hazard import Hazard, columns, count_rows, outcome
from backfill_assets.text import markdown_table

WRITTEN_BY = "<!-- Written by `make lab` from a run of the lab. -->"
_COLUMNS = 120


def write_pages(hazards: Iterable[Hazard], folder: Path) -> list[Path]:
    """A page and a chart for each of ``hazards``; returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    return [path for hazard in hazards for path in _write(hazard, folder)]


def _write(hazard: Hazard, folder: Path) -> Iterator[Path]:
    for suffix, content in (("md", page(hazard)), ("svg", chart(hazard))):
        path = folder / f"{hazard.text.name}.{suffix}"
        path.write_text(content)
        yield path


def page(hazard: Hazard) -> str:
    """Markdown, prose wrapped; the chart is the file of the same name beside it."""
    text, ways = hazard.text, hazard.ways
    parts = [
        f"# {text.title}",
        WRITTEN_BY,
        _prose(text.question),
        f"![{text.title}: rows or days of each way]({text.name}.svg)",
        _items(f"**{way.way}**: {outcome(way)}." for way in ways),
        "## What happens",
        _prose("Real grocery lines. Each way plays the same events, in the same order:"),
        _items(text.events, numbered=True),
        "## What was counted",
        markdown_table(columns(ways), count_rows(ways), numbers=columns(ways)[1:]),
        _prose(_ABOUT),
        _items(f"{way.way}: {way.note}" for way in ways if way.note),
        _prose(text.cost),
        "## Why it goes wrong",
        _prose(text.why_wrong),
        _prose(text.aside),
        "## What a careful plain way solves" if text.careful else "",
        _prose(text.careful),
        "## Why it does not with this project",
        _prose(text.why_safe),
        _prose("How: " + ", ".join(f"`{path}`" for path in text.look) + "."),
        "## See it yourself",
        f"```console\nbackfill lab {text.name}\n```",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


_ABOUT = (
    "Rows are compared with the lines that were sent, key by key, outside Spark. They are the same in each run; times "
    "are of one run on 2 cores and differ."
)


def _prose(text: str) -> str:
    return textwrap.fill(text, _COLUMNS, break_long_words=False, break_on_hyphens=False)


def _items(lines: Iterable[str], *, numbered: bool = False) -> str:
    marks = ((f"{number}. " if numbered else "- ", line) for number, line in enumerate(lines, 1))
    return "\n".join(_item(mark, line) for mark, line in marks)


def _item(mark: str, line: str) -> str:
    return textwrap.fill(
        line,
        _COLUMNS,
        initial_indent=mark,
        subsequent_indent=" " * len(mark),
        break_long_words=False,
        break_on_hyphens=False,
    )
