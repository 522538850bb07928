"""Fits a table to a terminal: columns in ``drop`` go, then text is folded between words; ids and numbers are whole.
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from backfill_assets.report.answer import Grid, Id

Cells = Sequence[Sequence[str]]
_ROOMY_CELL = 24
"""Columns are dropped before narrower folds."""
_LONGEST_WORD = 28
Pieces = Callable[[str], list[str]]
_FRAME, _BETWEEN = 1, 3
_WORD = re.compile(r"\S*\s*")
_PART = re.compile(r".+?(?:\.\.(?=\d)|_(?=\w)|$)")
"""Words break within a range of days, and between a name's words."""


@dataclass(frozen=True)
class Fitted:
    widths: Mapping[str, int]
    left_out: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        return _line_width(self.widths.values())


def fit(table: Grid, cells: Cells, width: int) -> Fitted | None:
    """Returns None if each row has to be a list."""
    natural = {name: max(cell_len(name), *(_width(row[at]) for row in cells)) for at, name in enumerate(table.columns)}
    if _line_width(natural.values()) <= width:
        return Fitted(natural)
    if table.one_by_one:
        return None
    roomy = {name: natural[name] if _is_whole(table, name) else min(natural[name], _ROOMY_CELL) for name in natural}
    columns, left_out = _without_decoration(table, cells, roomy, width)
    found = {name: roomy[name] for name in columns}
    for pieces in (_words, _parts):
        if _line_width(found.values()) > width:
            found = {name: _least(table, cells, name, pieces) for name in columns}
    if (spare := width - _line_width(found.values())) < 0:
        return None
    return Fitted(_widened(found, natural, spare), left_out)


def _without_decoration(
    table: Grid, cells: Cells, roomy: Mapping[str, int], width: int
) -> tuple[list[str], tuple[str, ...]]:
    empty = {name for at, name in enumerate(table.columns) if not any(row[at] for row in cells)}
    columns = [name for name in table.columns if name not in empty] or [*table.columns]
    gone = set[str]()
    for name in table.drop:
        if _line_width(roomy[each] for each in columns) <= width:
            break
        if name in columns:
            columns.remove(name)
            gone.add(name)
    return columns, tuple(name for name in table.columns if name in gone)


def _widened(least: Mapping[str, int], natural: Mapping[str, int], spare: int) -> Mapping[str, int]:
    found = dict(least)
    while spare and (lacking := [name for name in found if found[name] < natural[name]]):
        found[max(lacking, key=lambda name: natural[name] / found[name])] += 1
        spare -= 1
    return found


def _is_whole(table: Grid, name: str) -> bool:
    return _is_on_one_line(table, name) or name == table.columns[0]


def _is_on_one_line(table: Grid, name: str) -> bool:
    at = table.columns.index(name)
    return name in table.keep or name in table.numbers() or any(isinstance(row[at], Id) for row in table.rows)


def _least(table: Grid, cells: Cells, name: str, pieces: Pieces) -> int:
    at = table.columns.index(name)
    lines = [line for row in cells for line in row[at].split("\n")]
    if _is_on_one_line(table, name):
        return max(map(cell_len, [*name.split(), *lines]))
    return max(min(cell_len(piece.rstrip()), _LONGEST_WORD) for text in (name, *lines) for piece in pieces(text))


def _words(text: str) -> list[str]:
    return _WORD.findall(text)


def _parts(text: str) -> list[str]:
    return [part for word in _words(text) for part in _PART.findall(word)]


def folded_cell(text: str, width: int) -> str:
    """Indents continuation lines in cells of several."""
    lines = text.split("\n")
    if len(lines) == 1:
        return "\n".join(folded(text, width))
    found = []
    for line in lines:
        first, *_ = folded(line, width)
        rest = line.removeprefix(first).lstrip()
        found += [first, *(f" {each}" for each in (folded(rest, width - 1) if rest else ()))]
    return "\n".join(found)


def folded(text: str, width: int) -> list[str]:
    if cell_len(text) <= width:
        return [text]
    lines = [""]
    for piece in (piece for word in _words(text) for piece in _pieces(word, width)):
        if lines[-1] and cell_len(lines[-1] + piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
        while cell_len(lines[-1].rstrip()) > width:
            at = _most_characters(lines[-1], width)
            lines[-1:] = [lines[-1][:at], lines[-1][at:]]
    return [line.rstrip() for line in lines]


def _pieces(word: str, width: int) -> list[str]:
    return [word] if cell_len(word.rstrip()) <= width else _parts(word)


def _most_characters(text: str, width: int) -> int:
    return next(count for count in range(len(text), 0, -1) if count == 1 or cell_len(text[:count]) <= width)


def _width(cell: str) -> int:
    return max(map(cell_len, cell.split("\n")))


def _line_width(widths: Iterable[int]) -> int:
    found = list(widths)
    return _FRAME + sum(found) + _BETWEEN * len(found)
