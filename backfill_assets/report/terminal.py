"""An answer in boxes on a terminal, or complete on a pipe, as tab-separated text."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from backfill_assets.report.answer import (
    Answer,
    Chart,
    Code,
    Datum,
    Fact,
    Grid,
    Id,
    Line,
    Part,
    Tone,
    Toned,
    lines_of,
    shown,
    tone_of,
)
from backfill_assets.report.fitting import Fitted, fit, folded, folded_cell
from backfill_assets.text import escape_controls, format_count

_STYLES = {
    Tone.PLAIN: "",
    Tone.GOOD: "green",
    Tone.WARN: "yellow",
    Tone.BAD: "bold red",
    Tone.QUIET: "dim",
    Tone.STRONG: "bold",
}
_MOST_LINES = 6
_BESIDE_A_FACT = 4
_LEAST_ROOM = 24
ShowId = Callable[[str], str]
_ID = re.compile(r"(?<![\w-])[\w-]+-[\w-]*\d[\w-]*")


@dataclass(frozen=True)
class Terminal:
    """Boxes, colours and short ids are for people."""

    console: Console
    for_people: bool
    show_id: ShowId = str
    has_json: bool = False

    def say(self, answer: Answer, *, long: bool = True) -> None:
        """Terminals get the brief unless ``long``; pipes get everything."""
        if self.for_people and not long and answer.brief:
            self.say(answer.brief)
            return
        if answer.title:
            self._line(self._typed(answer.title), Tone.STRONG)
        for is_fact, parts in groupby(answer.parts, lambda part: isinstance(part, Fact)):
            if is_fact:
                self._facts([part for part in parts if isinstance(part, Fact)])
            else:
                for part in parts:
                    self._part(part)
        for section in answer.sections:
            self.say(section, long=long)
        if self.for_people:
            self._next(answer.next)

    def _next(self, commands: Sequence[str]) -> None:
        for lead, command in zip(["Next: ", *["  or: "] * len(commands)], commands, strict=False):
            self._line(f"{lead}{self._typed(command)}")

    def _part(self, part: Part) -> None:
        match part:
            case Line():
                self._line(self._typed(part.text), part.tone)
                self._line(f"  -> {self._typed(part.do)}" if part.do else "")
            case Grid():
                (self._box if self.for_people else self._tabs)(part)
            case Chart():
                self._line(part.words)
            case Code():
                self._code(part)
            case Fact():
                self._facts([part])

    def _code(self, part: Code) -> None:
        self._line(part.title, Tone.STRONG)
        for line in part.text.splitlines():
            # Code keeps its indentation, and control characters are escaped.
            self.console.print(Text(escape_controls(line), _STYLES[part.tone_of(line)]), soft_wrap=True)

    def _typed(self, command: str) -> str:
        return _ID.sub(lambda found: self.show_id(found[0]), command)

    def _line(self, text: str, tone: Tone = Tone.PLAIN) -> None:
        if text:
            self.console.print(Text(escape_controls(text), _STYLES[tone]), soft_wrap=True)

    def _facts(self, facts: Sequence[Fact]) -> None:
        """Without box: values can be copied."""
        said = ((fact, text) for fact in facts for text in self._lines(fact.value) if text)
        lines = [(fact.name, text, _STYLES[tone_of(fact.value)]) for fact, text in said]
        if not self.for_people:
            for name, text, _ in lines:
                self._raw(f"{escape_controls(name)}\t{text}")
            return
        wide = max((cell_len(name) for name, *_ in lines), default=0)
        room = self.console.width - wide - _BESIDE_A_FACT
        told = ((name, text, style) for fact, value, style in lines for name, text in _beside(fact, value, room))
        for name, text, style in told:
            self.console.print(
                Text.assemble("  ", (set_cell_size(escape_controls(name), wide), "cyan"), (f"  {text}", style)),
                soft_wrap=True,
            )

    # -------------------------------------------------------------- on a pipe

    def _tabs(self, table: Grid) -> None:
        if not table.rows:
            return
        if table.title:
            self._raw(escape_controls(table.title))
        self._raw("\t".join(table.columns))
        for row in table.rows:
            self._raw("\t".join(escape_controls(shown(cell)) for cell in row))

    def _raw(self, text: str) -> None:
        self.console.file.write(f"{text}\n")

    # -------------------------------------------------------------- on a terminal

    def _box(self, table: Grid) -> None:
        if not table.rows:
            return
        if table.title:
            self._line(table.title, Tone.STRONG)
        shown_rows = replace(table, rows=table.rows[: table.most])
        cells = self._cells(shown_rows)
        fitted = fit(shown_rows, [[cell.plain for cell in row] for row in cells], self.console.width)
        if fitted is None:
            self._one_by_one(shown_rows)
        else:
            drawn = _drawn(shown_rows, cells, fitted)
            self.console.print(drawn, crop=False, width=max(self.console.width, fitted.width))
        if more := len(table.rows) - len(shown_rows.rows):
            self._line(f"and {format_count(more, 'more row')}", Tone.QUIET)
        if fitted is not None and fitted.left_out:
            where = "A wider terminal or --json shows" if self.has_json else "A wider terminal shows"
            what = "it" if len(fitted.left_out) == 1 else "them"
            self._line(f"(left out: {', '.join(fitted.left_out)}. {where} {what}.)", Tone.QUIET)

    def _one_by_one(self, table: Grid) -> None:
        for number, row in enumerate(table.rows, start=1):
            facts = [Fact(name, cell) for name, cell in zip(table.columns, row, strict=True)]
            self._line(f"row {number}" if table.one_by_one else "; ".join(self._lines(row[0])), Tone.STRONG)
            self._facts(facts if table.one_by_one else facts[1:])

    def _cells(self, table: Grid) -> list[list[Text]]:
        before: Sequence[Any] = ()
        found = []
        for row in table.rows:
            hidden = _repeated(table, row, before)
            found.append([Text() if at in hidden else self._cell(cell) for at, cell in enumerate(row)])
            before = row
        return found

    def _cell(self, cell: Any) -> Text:
        lines = self._lines(cell)
        if len(lines) > _MOST_LINES:
            lines[_MOST_LINES - 1 :] = [f"and {len(lines) - _MOST_LINES + 1} more"]
        return Text("\n".join(lines), _STYLES[tone_of(cell)])

    def _lines(self, value: Any) -> list[str]:
        return [self._text(each) for each in lines_of(value)]

    def _text(self, value: Any) -> str:
        inner = value.value if isinstance(value, Toned) else value
        if isinstance(inner, Id):
            return self.show_id(inner.text)
        text = escape_controls(shown(value, short=self.for_people))
        return text if isinstance(inner, Datum) else self._typed(text)


def _beside(name: str, text: str, width: int) -> list[tuple[str, str]]:
    """Paths and ids stay whole, to be copied."""
    if cell_len(text) <= width or width < _LEAST_ROOM:
        return [(name, text)]
    first, *more = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    return [(name, first), *(("", line) for line in more)]


def _repeated(table: Grid, row: Sequence[Any], before: Sequence[Any]) -> set[int]:
    found: set[int] = set()
    for at, name in enumerate(table.columns):
        if name in table.groups:
            if not before or row[at] != before[at]:
                break
            found.add(at)
    return found


def _drawn(table: Grid, cells: Sequence[Sequence[Text]], fitted: Fitted) -> RichTable:
    found, numbers = RichTable(), table.numbers()
    for name, width in fitted.widths.items():
        header = Text("\n".join(folded(name, width)), no_wrap=True)
        found.add_column(header, justify="right" if name in numbers else "left", width=width, no_wrap=True)
    places = [(table.columns.index(name), width) for name, width in fitted.widths.items()]
    for number, row in enumerate(cells):
        if number and _begins_group(table, cells, row):
            found.add_section()
        found.add_row(*(Text(folded_cell(row[at].plain, width), row[at].style, no_wrap=True) for at, width in places))
    return found


def _begins_group(table: Grid, cells: Sequence[Sequence[Text]], row: Sequence[Text]) -> bool:
    if not table.groups:
        return False
    at = table.columns.index(table.groups[0])
    return bool(row[at].plain) and any(not each[at].plain for each in cells)
