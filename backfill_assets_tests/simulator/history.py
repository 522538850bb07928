"""What was asked and what was answered, by whom and when: the one thing that the judges look at.

A day of a table holds a *value*: the unique name of the write that its rows came from. So a read names the write that
it saw, and nothing has to be known of the rows. A history is kept as lines of JSON, one operation a line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Key = tuple[str, str]
"""A table and one of its days."""
Kind = Literal["publish", "read"]
Outcome = Literal["ok", "refused", "unknown"]


@dataclass(frozen=True)
class Operation:
    """One call of one process.

    ``begin`` and ``end`` are ordinals of a counter that all processes share, or nanoseconds of one machine. ``end`` is
    None, and the outcome ``unknown``, where the process died before it was answered: what it asked for happened, or
    happens at any time later, or never. ``refused`` is what the log says was aborted, or what never came into it: its
    values may have stood in tables until it ended.

    A publication has the values that it ``writes``, and on these days those that it ``replaced`` (None: nothing was
    there; a day that it does not name: not known). The same value on both sides is a change of files alone. Without
    the id of a ``publication`` it is a write past the log. It ``reads`` the days that it was decided on, as far as they
    are compared. A read has what it ``reads``, None where nothing is; it is ``pinned`` to the log, or goes by each
    table as it is. ``position`` is the version of the log that a publication was closed at, that a read was pinned to,
    or from which on it shows a write past it.
    """

    process: str
    kind: Kind
    begin: int
    end: int | None
    outcome: Outcome
    writes: Mapping[Key, str] = field(default_factory=dict)
    replaced: Mapping[Key, str | None] = field(default_factory=dict)
    reads: Mapping[Key, str | None] = field(default_factory=dict)
    publication: str | None = None
    pinned: bool = True
    position: int | None = None

    @property
    def tables(self) -> set[str]:
        """Those that it writes or reads."""
        return {table for table, _ in (*self.writes, *self.reads)}


@dataclass(frozen=True)
class History:
    """Operations of all processes, in any order."""

    operations: tuple[Operation, ...] = ()

    def __iter__(self) -> Iterator[Operation]:
        return iter(self.operations)

    def __len__(self) -> int:
        return len(self.operations)

    def to_json(self) -> str:
        """One line for each operation; the values are by table, then by day."""
        return "".join(f"{json.dumps(_as_json(operation))}\n" for operation in self.operations)

    @classmethod
    def from_json(cls, lines: str | Iterable[str]) -> History:
        """What :meth:`to_json` wrote, as one text or line by line; empty lines are passed over."""
        found = lines.splitlines() if isinstance(lines, str) else lines
        return cls(tuple(_from_json(json.loads(line)) for line in found if line.strip()))


_BY_KEY = ("writes", "replaced", "reads")


def _as_json(operation: Operation) -> dict[str, Any]:
    told = dict(vars(operation))
    for name in _BY_KEY:
        by_table: dict[str, dict[str, str | None]] = {}
        for (table, day), value in told[name].items():
            by_table.setdefault(table, {})[day] = value
        told[name] = by_table
    return told


def _from_json(told: dict[str, Any]) -> Operation:
    for name in _BY_KEY:
        told[name] = {(table, day): value for table, days in told[name].items() for day, value in days.items()}
    return Operation(**told)
