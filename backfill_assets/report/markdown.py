"""An answer as Markdown, for Dagster's UI, pull requests and issues. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby, pairwise

from backfill_assets.report.answer import Answer, Chart, Code, Fact, Grid, Line, Part, Tone, shown
from backfill_assets.text import escape_controls, escape_markdown, markdown_table

_MOST_ROWS = 50
_LOUD = (Tone.STRONG, Tone.BAD)


def markdown(answer: Answer) -> str:
    """Escaped; long tables say how many rows they leave out."""
    return "\n\n".join(_blocks(answer, 2)) + "\n"


def _blocks(answer: Answer, level: int) -> Iterator[str]:
    if answer.title:
        yield f"{'#' * level} {escape_markdown(answer.title)}"
    for kind, parts in groupby(answer.parts, type):
        found = [block for part in parts if (block := _block(part))]
        if kind is Fact:
            yield "\n".join(found)
        else:
            yield from found
    for section in answer.sections:
        yield from _blocks(section, level + 1)
    if answer.next:
        yield "Next:\n\n" + "\n".join(f"- `{command}`" for command in answer.next)
    if answer.links:
        yield "\n".join(f"- [{escape_markdown(name)}]({at})" for name, at in answer.links.items())


def _block(part: Part) -> str:
    match part:
        case Fact():
            return f"- **{escape_markdown(part.name)}**: {escape_markdown(shown(part.value, short=True))}"
        case Line():
            return _line(part)
        case Grid():
            return _table(part)
        case Chart():
            return escape_markdown(part.words)
        case Code():
            return _code(part)


def _line(line: Line) -> str:
    text = escape_markdown(line.text)
    loud = f"**{text}**" if line.tone in _LOUD and text else text
    linked = f"[{loud}]({line.link})" if line.link else loud
    return f"{linked} `{line.do}`" if line.do else linked


_COMMAND = re.compile(
    r"(?:^|(?<=\()|(?<=[:;,] )|(?<=then )|(?<= or ))"
    r"backfill (?:(?:raw|incident|timeline|dataset|stream|spark) )?[a-z]+"
    r"(?: (?:--[a-z-]+|[\w+.:-]*[A-Z\d_+][\w+.:-]*(?<![.:])))*"
)
"""At the beginning of a clause, with verb and arguments that are no plain words."""


def with_commands(text: str) -> str:
    ends = [0, *(end for found in _COMMAND.finditer(text) for end in found.span()), len(text)]
    parts = [text[start:end] for start, end in pairwise(ends)]
    return "".join(f"`{each}`" if number % 2 else _within(each) for number, each in enumerate(parts))


def _within(text: str) -> str:
    before, after = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :] if text.strip() else ""
    return f"{before and ' '}{escape_markdown(text)}{after and ' '}"


def _code(part: Code) -> str:
    """With more backticks than the code has."""
    lines = [escape_controls(line) for line in part.text.splitlines()]
    fence = "`" * max(3, *(len(found) + 1 for line in lines for found in re.findall("`+", line)), 3)
    title = f"**{escape_markdown(part.title)}**\n\n" if part.title else ""
    return "\n".join((f"{title}{fence}diff", *lines, fence))


def _table(table: Grid) -> str:
    if not table.rows:
        return ""
    most = min(_MOST_ROWS, table.most or _MOST_ROWS)
    rows = ([shown(cell, short=True) for cell in row] for row in table.rows[:most])
    title = f"**{escape_markdown(table.title)}**\n\n" if table.title else ""
    more = len(table.rows) - most
    left_out = f"\n\nand {more:,} more rows" if more > 0 else ""
    return f"{title}{markdown_table(table.columns, rows, sorted(table.numbers()))}{left_out}"
