"""An answer on a terminal or a pipe.

A terminal gets boxes as wide as it is: no row is wrapped. Where they are too wide, Rich cuts long cells short with an
ellipsis; then columns are left out, in the order that the table states, and a line names what is missing. What people
type again is neither cut nor left out. A pipe gets tab-separated text, each row complete.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from backfill_assets.text import escape_controls, format_count

_STYLES = {
    Tone.PLAIN: "",
    Tone.GOOD: "green",
    Tone.WARN: "yellow",
    Tone.BAD: "bold red",
    Tone.QUIET: "dim",
    Tone.STRONG: "bold",
}
_LEAST_CELL = 8
"""A cell that is cut keeps so many characters at least; before that, columns are left out."""
_ROOMY_CELL = 24
_MOST_LINES = 6
"""Of a cell; the last of them says how many there are beside."""
_FRAME, _BETWEEN = 1, 3
"""What the box adds to a line, and to each column."""

ShowId = Callable[[str], str]
_ID = re.compile(r"(?<![\w-])[\w-]+-[\w-]*\d[\w-]*")
"""A word that may be an id; what is none is shown as it is."""


@dataclass(frozen=True)
class Terminal:
    """Writes answers to ``console``. Boxes, colours and short ids are for people: a pipe gets none of them."""

    console: Console
    for_people: bool
    show_id: ShowId = str
    has_json: bool = False
    """Whether the command can print JSON: the line about missing columns names it."""

    def say(self, answer: Answer) -> None:
        if answer.title:
            self._line(answer.title, Tone.STRONG)
        for is_fact, parts in groupby(answer.parts, lambda part: isinstance(part, Fact)):
            if is_fact:
                self._facts([part for part in parts if isinstance(part, Fact)])
            else:
                for part in parts:
                    self._part(part)
        for section in answer.sections:
            self.say(section)
        if self.for_people:
            for lead, command in zip(["Next: ", *["  or: "] * len(answer.next)], answer.next, strict=False):
                self._line(f"{lead}{self._typed(command)}")

    def _part(self, part: Part) -> None:
        match part:
            case Line():
                self._line(part.text, part.tone)
                self._line(f"  -> {self._typed(part.do)}" if part.do else "")
            case Grid():
                (self._box if self.for_people else self._tabs)(part)
            case Chart():
                self._line(part.words)
            case Fact():
                self._facts([part])

    def _typed(self, command: str) -> str:
        """What to type, with short ids: ``ID^`` is the state just before a publication."""
        return _ID.sub(lambda found: self.show_id(found[0]), command)

    def _line(self, text: str, tone: Tone = Tone.PLAIN) -> None:
        if text:
            self.console.print(Text(escape_controls(text), _STYLES[tone]), soft_wrap=True)

    def _facts(self, facts: Sequence[Fact]) -> None:
        """Names with their values, a line each and without a box: values can be copied."""
        said = ((fact, text) for fact in facts for text in self._lines(fact.value) if text)
        lines = [(fact.name, text, _STYLES[tone_of(fact.value)]) for fact, text in said]
        if not self.for_people:
            for name, text, _ in lines:
                self._raw(f"{escape_controls(name)}\t{text}")
            return
        wide = max((cell_len(name) for name, *_ in lines), default=0)
        for name, text, style in lines:
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
        fitted = _Fitted.of(shown_rows, self._cells(shown_rows), self.console.width)
        is_listed = table.one_by_one and (fitted.left_out or fitted.is_cut)
        if is_listed:
            self._one_by_one(shown_rows)
        else:
            self.console.print(fitted.drawn(table), crop=False, width=max(self.console.width, fitted.least_width))
        if more := len(table.rows) - len(shown_rows.rows):
            self._line(f"and {format_count(more, 'more row')}", Tone.QUIET)
        if not is_listed and (note := fitted.note(has_json=self.has_json)):
            self._line(note, Tone.QUIET)

    def _one_by_one(self, table: Grid) -> None:
        for number, row in enumerate(table.rows, start=1):
            self._line(f"row {number}", Tone.STRONG)
            self._facts([Fact(name, cell) for name, cell in zip(table.columns, row, strict=True)])

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
        return Text("\n".join(lines), _STYLES[tone_of(cell)], no_wrap=True, overflow="ellipsis")

    def _lines(self, value: Any) -> list[str]:
        return [self._text(each) for each in lines_of(value)]

    def _text(self, value: Any) -> str:
        inner = value.value if isinstance(value, Toned) else value
        if isinstance(inner, Id):
            return self.show_id(inner.text)
        return escape_controls(shown(value, short=self.for_people))


def _repeated(table: Grid, row: Sequence[Any], before: Sequence[Any]) -> set[int]:
    """The cells that say what the row above says; a group is said again if one to its left has changed."""
    found: set[int] = set()
    for at, name in enumerate(table.columns):
        if name in table.groups:
            if not before or row[at] != before[at]:
                break
            found.add(at)
    return found


@dataclass(frozen=True)
class _Fitted:
    """A table as a terminal has room for it."""

    cells: Sequence[Sequence[Text]]
    columns: tuple[str, ...]
    left_out: tuple[str, ...]
    least_width: int
    is_cut: bool

    @classmethod
    def of(cls, table: Grid, cells: Sequence[Sequence[Text]], width: int) -> _Fitted:
        natural = {
            name: max(cell_len(name), *(_width(row[at]) for row in cells)) for at, name in enumerate(table.columns)
        }
        columns = list(table.columns)
        empty = [name for at, name in enumerate(table.columns) if not any(row[at].plain for row in cells)]
        if _line_width(natural.values()) > width:
            columns = [name for name in columns if name not in empty[: len(columns) - 1]]
        for least in (_ROOMY_CELL, _LEAST_CELL):
            while _line_width(_least(table, natural, name, least) for name in columns) > width:
                gone = next((name for name in _next_to_go(table, least) if name in columns), None)
                if gone is None:
                    break
                columns.remove(gone)
        left_out = tuple(name for name in table.columns if name not in columns and name not in empty)
        needed = _line_width(natural[name] for name in columns)
        smallest = _line_width(_least(table, natural, name, _LEAST_CELL) for name in columns)
        return cls(cells, tuple(columns), left_out, min(needed, max(width, smallest)), needed > width)

    def drawn(self, table: Grid) -> RichTable:
        found = RichTable()
        at = [table.columns.index(name) for name in self.columns]
        numbers = table.numbers()
        for name in self.columns:
            found.add_column(
                name,
                justify="right" if name in numbers else "left",
                no_wrap=_is_whole(table, name),
                min_width=min(_LEAST_CELL, cell_len(name)),
            )
        for number, row in enumerate(self.cells):
            starts_group = bool(table.groups) and number > 0 and bool(row[table.columns.index(table.groups[0])].plain)
            if starts_group and any(not each[table.columns.index(table.groups[0])].plain for each in self.cells):
                found.add_section()
            found.add_row(*(row[each] for each in at))
        return found

    def note(self, *, has_json: bool) -> str:
        """What is missing, and where it is; empty if nothing is."""
        said = [
            f"left out: {', '.join(self.left_out)}" if self.left_out else "",
            "cut short: cells that end in …" if self.is_cut else "",
        ]
        missing = "; ".join(filter(None, said))
        where = "A wider terminal, | less -S and --json have" if has_json else "A wider terminal and | less -S have"
        return f"({missing}. {where} all of it.)" if missing else ""


def _next_to_go(table: Grid, least: int) -> Iterator[str]:
    """Columns in the order in which they are left out: those that the table names, then the others from the right."""
    yield from table.drop
    if least == _LEAST_CELL:
        yield from (name for name in reversed(table.columns[1:]) if not _is_typed_again(table, name))


def _is_typed_again(table: Grid, name: str) -> bool:
    return name == table.columns[0] or name in table.keep or _has_ids(table, name)


def _has_ids(table: Grid, name: str) -> bool:
    at = table.columns.index(name)
    return any(isinstance(row[at], Id) for row in table.rows)


def _is_whole(table: Grid, name: str) -> bool:
    """Numbers and what is typed again are not cut."""
    return _is_typed_again(table, name) or name in table.numbers()


def _least(table: Grid, natural: dict[str, int], name: str, least: int) -> int:
    return natural[name] if _is_whole(table, name) else min(natural[name], max(least, cell_len(name)))


def _width(cell: Text) -> int:
    return max((cell_len(line) for line in cell.plain.split("\n")), default=0)


def _line_width(widths: Iterable[int]) -> int:
    found = list(widths)
    return _FRAME + sum(found) + _BETWEEN * len(found)
