"""The head of the publication log, computed from its rows: for a log whose newest own commits were cleaned up.

An engine that writes commits of its own (VACUUM, OPTIMIZE, ALTER) and cleans up old ones takes the head away, never a
row. Each entry changes the head as it did when it was appended. Day states are then read from the rows as well, until
the next publication writes an index.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from backfill_assets.lakehouse.records import Prepared
from backfill_assets.publish.files import ENTRIES, LOG_TABLE, LogFiles, among
from backfill_assets.publish.head import HeadState

_SUFFIX = "-rebuilt.parquet"
"""Ends the names of files that do not exist: their content is read from the rows."""
_COLUMNS = ["sequence", "event", "publication", "outcome", "detail", "at"]
_EVENTS = ("prepared", "aborting", "closed", "delivered", "reclaiming", "reclaimed", "pinned")
Row = Mapping[str, Any]


def is_rebuilt(file: str) -> bool:
    """True for the name of an index that has yet to be written."""
    return file.endswith(_SUFFIX)


def rebuilt_head(files: LogFiles) -> HeadState:
    """The head after the last of all rows; reads the whole log."""
    state, closed = HeadState(), -1
    for sequence, row in _entries(among(files.read(_COLUMNS), "event", _EVENTS).to_pylist()):
        state = _after(state, row, _name(ENTRIES, sequence))
        closed = sequence if row["event"] == "closed" else closed
    return state.model_copy(update={"index": _name(f"{LOG_TABLE}/_index", closed) if closed >= 0 else "", "since": ()})


def _entries(rows: Sequence[Row]) -> Iterator[tuple[int, Row]]:
    """The row of each entry that says what happened, oldest first; a reclaim intent has one for each file."""
    for sequence, of_entry in groupby(rows, key=lambda row: int(row["sequence"])):
        yield sequence, next(of_entry)


def _after(state: HeadState, row: Row, file: str) -> HeadState:
    id, detail = row["publication"], row["detail"]
    match row["event"]:
        case "prepared":
            prepared = Prepared.model_validate_json(detail)
            after = state.opening(prepared.publication, prepared.window_days, row["at"], file)
        case "aborting":
            after = state.aborting(id)
        case "closed":
            after = state.closing(id, row["outcome"], json.loads(detail), "", (), file)
        case "pinned":
            after = state.pinning(json.loads(detail))
        case "delivered":
            after = state.delivering(id)
        case "reclaiming":
            after = state.intending(id, file)
        case _:
            after = state.reclaiming_done(id)
    return after


def _name(folder: str, sequence: int) -> str:
    return f"{folder}/{sequence:020d}{_SUFFIX}"
