"""What commands print and ask: tables for people, JSON for scripts, colours only on a terminal."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

import click
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from backfill_assets.cli.tables import Cell, ShownTable, visible
from backfill_assets.days import DayRange, contiguous
from backfill_assets.report.answer import Answer
from backfill_assets.text import escape_controls, format_count, format_range

_PIPED_WIDTH = 200
_MOST_RANGES = 6
_TYPED, _JSON = "backfill_assets.typed", "backfill_assets.json"


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


def say_answer(answer: Answer, *, as_json: bool = False, as_markdown: bool = False) -> None:
    """Print an answer: for a person, as tab-separated text on a pipe, as JSON, or as Markdown."""
    from backfill_assets.cli.ids import all_ids
    from backfill_assets.report.terminal import Terminal

    if as_json:
        say_json(answer.as_json())
        return
    if as_markdown:
        from backfill_assets.report.markdown import markdown

        click.echo(markdown(answer), nl=False)
        return
    show = all_ids() if screen() else str
    Terminal(console(), screen(), show, _has_json()).say(answer)


def say(*parts: str | Text | ShownTable) -> None:
    """Print each part. What is not made for a terminal in it is shown as text: no data moves a cursor."""
    for part in parts:
        if isinstance(part, ShownTable):
            _say_table(part)
        else:
            console().print(visible(part), soft_wrap=True)


def say_lines(text: str) -> None:
    """Print a text that has several lines."""
    say(*text.split("\n"))


def say_facts(title: str, facts: Iterable[tuple[str, str]]) -> None:
    """Names with their values, a line each. A terminal gets no box around them: values can be copied."""
    found = [(escape_controls(name), escape_controls(value)) for name, value in facts]
    if title:
        say(Text(title, "bold"))
    if not screen():
        click.echo("".join(f"{name}\t{value}\n" for name, value in found), nl=False)
        return
    wide = max((cell_len(name) for name, _ in found), default=0)
    for name, value in found:
        say(Text.assemble("  ", (set_cell_size(name, wide), "cyan"), f"  {value}") if value or name else Text())


def screen() -> bool:
    """Whether a person reads standard output on a terminal."""
    return sys.stdout.isatty()


def _say_table(rows: ShownTable) -> None:
    if not screen():
        click.echo("".join(f"{line}\n" for line in rows.lines()), nl=False)
        return
    if rows.title:
        say(Text(escape_controls(rows.title), "bold"))
    to = console()
    fitted = rows.fit(to.width)
    to.width = max(to.width, fitted.width)
    to.print(fitted.boxed(), crop=False)
    if note := fitted.note(json=_has_json()):
        console().print(Text(note, "dim"), soft_wrap=True)


def _has_json() -> bool:
    """Whether the command under way has an option to print JSON."""
    context = click.get_current_context(silent=True)
    return context is not None and any("--json" in option.opts for option in context.command.params)


def say_error(message: str) -> None:
    lines = Text("\n").join(visible(line) for line in message.split("\n"))
    console(stderr=True).print(Text.assemble(("Error: ", "bold red"), Text(lines.plain, "red")), soft_wrap=True)


def say_json(value: Any) -> None:
    """Indented JSON; dates as ISO text, decimals as text: nothing is rounded."""
    if context := click.get_current_context(silent=True):
        context.meta[_JSON] = True
    click.echo(json.dumps(value, indent=2, default=_as_text))


def printed_json() -> bool:
    """Whether the command has printed JSON: then nothing else may follow."""
    context = click.get_current_context(silent=True)
    return bool(context and context.meta.get(_JSON))


def say_hint(text: str) -> None:
    """Print a line that is beside the point, dimmed."""
    say(Text(text, "dim"))


def ask(question: str) -> None:
    """Ask a person to confirm. Without a terminal it raises an error with the command to type instead."""
    if not on_terminal():
        raise click.UsageError(f"There is no terminal to ask on: add --yes. Type: {typed_command()} --yes")
    click.confirm(question, abort=True, err=True)


def remember_typed(context: click.Context, arguments: Sequence[str]) -> None:
    """Keep what was typed after ``backfill``, for :func:`typed_command`."""
    context.meta[_TYPED] = tuple(arguments)


def typed_command() -> str:
    """The command that is running, as it was typed."""
    context = click.get_current_context(silent=True)
    return shlex.join(["backfill", *(context.meta.get(_TYPED, ()) if context else ())])


def on_terminal() -> bool:
    return sys.stdin.isatty()


def table(
    *columns: str,
    rows: Iterable[Sequence[Cell]] = (),
    numbers: Sequence[str] = (),
    title: str | None = None,
    groups: Sequence[str] = (),
    drop: Sequence[str] = (),
    keep: Sequence[str] = (),
) -> ShownTable:
    """A table of ``rows``, to which more may be added; the rest is explained at :class:`ShownTable`."""
    found = ShownTable(columns, numbers, title or "", groups, drop, keep)
    for row in rows:
        found.add_row(*row)
    return found


def say_stale(days: Mapping[str, Sequence[date]]) -> None:
    """Name the published days, by table, that read what changes and do not change with it."""
    if days:
        named = "; ".join(f"{table} {ranges(found)}" for table, found in days.items())
        say(Text.assemble(("stale", "yellow"), f" then, built from what was there before: {named}"))


def ranges(days: Iterable[date] | Sequence[DayRange], most: int = _MOST_RANGES) -> str:
    """Days as ``A..B, C``; on a screen, of many ranges the first few, and how many more there are."""
    found = [item if isinstance(item, DayRange) else DayRange.of(item) for item in days]
    merged = contiguous(day for item in found for day in item)
    shown = merged[:most] if screen() else merged
    more = [f"and {format_count(len(merged) - most, 'more range')}"] if len(shown) < len(merged) else []
    return ", ".join([*map(format_range, shown), *more])


def moment(at: datetime | None) -> str:
    """A moment of the log, which is in UTC, to the second."""
    return at.strftime("%Y-%m-%d %H:%M:%SZ") if at else ""


def _as_text(value: Any) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)
