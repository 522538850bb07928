"""Tables of commands: boxes as wide as the terminal, where columns give way; tab-separated lines on a pipe.

A cell is on one line. A terminal that is too narrow first loses empty columns; then long cells are cut short, with an
ellipsis, times are shown to the minute, and columns are left out, in the order that the table states. A line below
names what is missing. What people copy into their next command is neither cut nor left out. A pipe gets every column
whole, each row complete, and no box.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len
from rich.table import Table
from rich.text import Span, Text

from backfill_assets.text import escape_control, escape_controls

TYPED_AGAIN = ("table", "publication", "plan", "campaign", "timeline", "step", "standby", "run")
"""Columns of what people copy into their next command."""
_ELLIPSIS = "…"
_LONG_CELL = 24
"""Cells of more characters than this are cut short before a column is left out."""
_LEAST_CELL = 8
_TIME = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d):\d\d(Z?)")
_FRAME, _BETWEEN = 1, 3
"""What the box adds to a line, and to each column."""

Cell = str | Text | Sequence[str]
"""Text; or several lines of it, which a pipe gets on one."""


@dataclass
class ShownTable:
    """Rows and columns, before it is known where they are shown."""

    columns: tuple[str, ...]
    numbers: Sequence[str] = ()
    """Columns that are aligned to the right."""
    title: str = ""
    groups: Sequence[str] = ()
    """Columns whose value is shown once, for the rows of a section that share it; a pipe has it in every row."""
    drop: Sequence[str] = ()
    """The columns that a narrow terminal does without, the first to go first; then the others, from the right.

    Empty columns go before all, and then those of zeros alone. What fits again once a wide column is gone comes back,
    but no empty one, and one of zeros only if nothing is cut for it.
    """
    keep: Sequence[str] = ()
    """Columns that are neither cut nor left out, beside the first one and :data:`TYPED_AGAIN`."""
    header: bool = True
    rows: list[tuple[Cell, ...]] = field(default_factory=list)
    ends: set[int] = field(default_factory=set)
    """After how many rows a section ends."""

    def add_row(self, *cells: Cell) -> None:
        self.rows.append(cells)

    def add_section(self) -> None:
        self.ends.add(len(self.rows))

    def add_column(self, name: str) -> None:
        self.columns = (*self.columns, name)

    # -------------------------------------------------------------- on a pipe

    def lines(self) -> Iterator[str]:
        """Tab-separated, with the names of the columns in the first line."""
        if self.title:
            yield escape_controls(self.title)
        if self.header:
            yield "\t".join(self.columns)
        for row in self.rows:
            yield "\t".join("; ".join(line.plain for line in _lines(cell)) for cell in row)

    # -------------------------------------------------------------- on a terminal

    def fit(self, width: int) -> FittedTable:
        """What is shown on a terminal of ``width`` cells."""
        shown, left_out = list(self.columns), []
        whole = widths = {name: self._width(name) for name in self.columns}
        if _line_width(widths) > width:
            left_out = [*filter(self._is_empty, self.columns[1:])]
            shown = [name for name in shown if name not in left_out]
        if self._cut(shown, widths, width, _LONG_CELL) is None:
            widths = {name: self._width(name, to_the_minute=True) for name in self.columns}
        while (fitted := self._cut(shown, widths, width, _LONG_CELL)) is None:
            gone = self._next_to_go(shown)
            if gone is None:
                fitted = self._cut(shown, widths, width, _LEAST_CELL) or {name: widths[name] for name in shown}
                break
            shown.remove(gone)
            left_out.append(gone)
        for name in [name for name in left_out[::-1] if not self._is_empty(name)]:
            again = [each for each in self.columns if each in shown or each == name]
            if (wider := self._cut(again, widths, width, _LONG_CELL)) is None or wider[name] != widths[name]:
                continue
            if not self._is_zero(name) or all(wider[each] == fitted[each] for each in shown):
                shown, fitted = again, wider
        left_out = [name for name in left_out if name not in shown and not self._is_empty(name)]
        cut = tuple(name for name in shown if fitted[name] < whole[name])
        return FittedTable(self, tuple(shown), fitted, tuple(left_out), cut)

    def _next_to_go(self, shown: Sequence[str]) -> str | None:
        ordered = [*self.drop, *reversed(self.columns)]
        ordered = [*filter(self._is_zero, ordered), *ordered]
        return next((name for name in ordered if name in shown and (name in self.drop or not self._stays(name))), None)

    def _is_empty(self, name: str) -> bool:
        at = self.columns.index(name)
        return not any(line.plain for row in self.rows if at < len(row) for line in _lines(row[at]))

    def _is_zero(self, name: str) -> bool:
        at = self.columns.index(name)
        return name in self.numbers and all(
            line.plain in ("", "0") for row in self.rows if at < len(row) for line in _lines(row[at])
        )

    def _stays(self, name: str) -> bool:
        return name == self.columns[0] or name in TYPED_AGAIN or name in self.keep

    def _cut(self, shown: Sequence[str], natural: dict[str, int], width: int, least: int) -> dict[str, int] | None:
        """The widths of the columns, if the long ones make enough room; the widest give first."""
        widths = {name: natural[name] for name in shown}
        over = _line_width(widths) - width
        while over > 0:
            can = [name for name in shown if not self._is_whole(name) and widths[name] > max(least, cell_len(name))]
            if not can:
                return None
            widths[max(can, key=lambda name: widths[name])] -= 1
            over -= 1
        return widths

    def _is_whole(self, name: str) -> bool:
        return name in TYPED_AGAIN or name in self.keep or name in self.numbers

    def _width(self, name: str, *, to_the_minute: bool = False) -> int:
        at = self.columns.index(name)
        lines = (line for row in self.rows if at < len(row) for line in _lines(row[at]))
        cells = (cell_len(_to_the_minute(line.plain)) if to_the_minute else line.cell_len for line in lines)
        return max([cell_len(name) if self.header else 0, *cells])


@dataclass(frozen=True)
class FittedTable:
    """A table as a terminal has room for it."""

    table: ShownTable
    columns: tuple[str, ...]
    widths: dict[str, int]
    left_out: tuple[str, ...]
    cut: tuple[str, ...]

    @property
    def width(self) -> int:
        """It is wider than the terminal if what stays is: the terminal breaks lines then, and a copy has none."""
        return _line_width(self.widths)

    def note(self, *, json: bool) -> str:
        """What is missing, and where it is; empty if nothing is. ``json`` is whether the command has it as JSON."""
        said = [
            f"left out: {', '.join(self.left_out)}" if self.left_out else "",
            f"cut short: {', '.join(self.cut)}" if self.cut else "",
        ]
        missing = "; ".join(filter(None, said))
        complete = "A wider terminal, | less -S and --json have" if json else "A wider terminal and | less -S have"
        return f"({missing}. {complete} all of it.)" if missing else ""

    def boxed(self) -> Table:
        """For rich to draw. No cell is left for it to wrap."""
        source = self.table
        found = Table(show_header=source.header)
        for name in self.columns:
            right, wide = name in source.numbers, self.widths[name]
            found.add_column(name, justify="right" if right else "left", overflow="crop", no_wrap=True, min_width=wide)
        at = [source.columns.index(name) for name in self.columns]
        before: tuple[Cell, ...] = ()
        for number, row in enumerate(source.rows):
            cells = [self._cell(row[each], source.columns[each]) if each < len(row) else Text() for each in at]
            for place, each in enumerate(at):
                if self._is_repeated(each, row, before):
                    cells[place] = Text()
            found.add_row(*cells)
            before = row
            if number + 1 in source.ends:
                before = ()
                if self._has_groups():
                    found.add_section()
        return found

    def _has_groups(self) -> bool:
        """A line between sections is of no use where each has one row."""
        return not self.table.groups or len(self.table.ends) < len(self.table.rows)

    def _is_repeated(self, at: int, row: Sequence[Cell], before: Sequence[Cell]) -> bool:
        """A value is shown again if a group to its left has changed."""
        groups = [place for place, name in enumerate(self.table.columns) if name in self.table.groups and place <= at]
        return bool(before) and at in groups and all(str(row[each]) == str(before[each]) for each in groups)

    def _cell(self, cell: Cell, name: str) -> Text:
        lines = _lines(cell)
        for line in lines:
            if line.cell_len > self.widths[name]:
                line.plain = _to_the_minute(line.plain)
            line.truncate(self.widths[name], overflow="ellipsis")
        return Text("\n").join(lines)


def _line_width(widths: dict[str, int]) -> int:
    return _FRAME + sum(widths.values()) + _BETWEEN * len(widths)


def _to_the_minute(text: str) -> str:
    """A time without its seconds; any other text as it is."""
    time = _TIME.fullmatch(text)
    return "".join(time.groups()) if time else text


def visible(text: str | Text) -> Text:
    """``text`` with its control characters as text; colours stay where they are."""
    if isinstance(text, str):
        return Text(escape_controls(text))
    if escape_controls(text.plain) == text.plain:
        return text
    parts = [escape_control(character) for character in text.plain]
    at = [0]
    for part in parts:
        at.append(at[-1] + len(part))
    spans = [Span(at[span.start], at[min(span.end, len(parts))], span.style) for span in text.spans]
    return Text("".join(parts), style=text.style, spans=spans)


def _lines(cell: Cell) -> list[Text]:
    return [visible(cell).copy()] if isinstance(cell, str | Text) else [visible(line) for line in _some(cell)]


def _some(lines: Iterable[str]) -> Sequence[str]:
    return list(lines) or [""]
