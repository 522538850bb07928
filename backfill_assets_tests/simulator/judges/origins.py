"""Where the rows of each day come from, found in the past of its files; the log keeps it in a field of its own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from backfill_assets.days import TableDay, parse_day
from backfill_assets.publish.rows import origin_of

_MOVES_FILES = ("rollback", "compact")


class Found(NamedTuple):
    """``computed_by`` counts for days with files: which publication made no rows is not to be seen."""

    computed_by: str = ""
    rolled_back_by: str = ""
    put_back_by: str = ""


@dataclass(frozen=True)
class _Brought:
    kind: str
    mode: str
    undoes: str
    before: str
    """The publication that the day was of before."""
    files_before: frozenset[str]
    files: frozenset[str]


class OriginJudge:
    """Follows what was prepared and closed, in plain dicts, and compares what the log says of each day."""

    def __init__(self) -> None:
        self._details: dict[str, str] = {}
        self._brought: dict[tuple[str, TableDay], _Brought] = {}
        self._found: dict[tuple[str, TableDay], Found] = {}

    def prepared(self, publication: str, detail: str) -> None:
        self._details[publication] = detail

    def closed(self, publication: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """``rows`` are those of its days."""
        self._read(publication)
        for row in rows:
            key = TableDay(row["table"], parse_day(row["day"]))
            brought, found = self._brought[publication, key], self._of(publication, key)
            self._found[publication, key] = found
            told = origin_of(publication, row["origin"])
            if brought.files:
                assert told.computed_by == found.computed_by, f"{key} of {publication}: {told}, but {found}"
            assert told.rolled_back_by == found.rolled_back_by, f"{key} of {publication}: {told}, but {found}"

    def _read(self, publication: str) -> None:
        prepared = json.loads(self._details.pop(publication))
        made, before = prepared["publication"], prepared["before"]
        for change in made["tables"]:
            for day in change["days"]:
                key, was = TableDay(change["table"], parse_day(day["day"])), before[change["table"]][day["day"]]
                before_it = _paths(was["files"])
                files = _paths(day["adds"]) | (before_it if change["mode"] == "append" else set())
                undoes = made["provenance"]["undoes"]
                self._brought[publication, key] = _Brought(
                    made["kind"], change["mode"], undoes, was["publication"], before_it, files
                )

    def _of(self, publication: str, key: TableDay) -> Found:
        brought = self._brought[publication, key]
        before = self._before(brought, key)
        if brought.kind == "compact":
            return before
        if brought.mode == "append":
            return Found(before.put_back_by or before.computed_by or publication)
        undone = self._brought.get((brought.undoes, key))
        if undone is None:
            return Found(publication)
        was, is_back = self._before(undone, key), undone.mode == "replace" and brought.files == undone.files_before
        computed_by = was.computed_by if is_back else publication
        return Found(computed_by, was.rolled_back_by if undone.kind in _MOVES_FILES else publication, publication)

    def _before(self, brought: _Brought, key: TableDay) -> Found:
        """Of the day that it found: nobody has computed rows that another writer has a hand in."""
        found, left = self._found.get((brought.before, key), Found()), self._brought.get((brought.before, key))
        is_ours = not brought.files_before or (left is not None and left.files == brought.files_before)
        return found if is_ours else found._replace(computed_by="")


def _paths(files: Iterable[Mapping[str, str]]) -> frozenset[str]:
    return frozenset(each["path"] for each in files)
