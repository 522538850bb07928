"""The head of the publication log, computed from its rows: for a log whose newest own commits were cleaned up.

An engine that writes commits of its own (VACUUM, OPTIMIZE, ALTER) and cleans up old ones takes the head away, never a
row. Day states are then read from the rows as well, until the next publication writes an index.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from backfill_assets.lakehouse.records import CurrentVersion, Outcome, Prepared
from backfill_assets.publication_log.files import ENTRIES, LOG_TABLE, LogFiles, equal
from backfill_assets.publication_log.head import BEFORE_SWITCHES, WRITER, HeadState, OpenEntry, with_switches
from backfill_assets.publication_log.rows import SWITCHING

_SUFFIX = "-rebuilt.parquet"
"""Ends the names of files that do not exist: their content is read from the rows."""
_COLUMNS = ["sequence", "event", "publication", "outcome", "detail", "at", "table", "code_version"]
_EVENTS = ("prepared", "aborting", "closed", "delivered", "reclaiming", "reclaimed", "pinned")
Row = Mapping[str, Any]


def is_rebuilt(file: str) -> bool:
    """True for the name of an index that has yet to be written."""
    return file.endswith(_SUFFIX)


def rebuilt_head(files: LogFiles, outcomes: int) -> HeadState:
    """The head after the last of all rows, with that many of the newest outcomes; reads the whole log."""
    table = files.read(_COLUMNS)
    rows = [row for row in table.to_pylist() if row["event"] in _EVENTS]
    latest = {event: _latest(rows, event) for event in _EVENTS}
    closed, delivered = latest["closed"], latest["delivered"]
    prepared = latest["prepared"]
    newest = sorted(closed.values(), key=_sequence)
    maps = [row for row in rows if row["event"] in ("closed", "pinned")]
    switching = equal(table, event=SWITCHING).to_pylist()
    return HeadState(
        open={id: _open(row, latest["aborting"].get(id)) for id, row in _unfinished(prepared, closed)},
        versions=json.loads(maps[-1]["detail"]) if maps else {},
        index=_name(f"{LOG_TABLE}/_index", max(map(_sequence, newest))) if newest else "",
        outcomes=_outcomes(newest[-outcomes:]),
        reclaiming={id: _entry(row) for id, row in _unfinished(latest["reclaiming"], latest["reclaimed"])},
        promised=_promised_windows(prepared.values()),
        due={
            row["publication"]: _entry(prepared[row["publication"]])
            for row in newest
            if _is_due(row, prepared, delivered)
        },
        current=_current(newest, switching),
        writer=WRITER if switching else BEFORE_SWITCHES,
    )


def _current(closed: Iterable[Row], switching: Iterable[Row]) -> dict[str, CurrentVersion]:
    """The versions that are current after the ``closed`` entries, oldest first, by what their publications switched."""
    versions: dict[str, dict[str, str]] = {}
    for row in switching:
        versions.setdefault(row["publication"], {})[row["table"]] = row["code_version"] or ""
    current: dict[str, CurrentVersion] = {}
    for row in closed:
        if row["outcome"] == "done":
            current = with_switches(current, row["publication"], versions.get(row["publication"], {}))
    return current


def _latest(rows: Iterable[Row], event: str) -> dict[str, Row]:
    """The last row of that kind by publication: an id that was aborted may be prepared again."""
    return {row["publication"]: row for row in rows if row["event"] == event and row["publication"]}


def _unfinished(begun: Mapping[str, Row], ended: Mapping[str, Row]) -> list[tuple[str, Row]]:
    return [(id, row) for id, row in begun.items() if id not in ended or _sequence(ended[id]) < _sequence(row)]


def _open(row: Row, aborting: Row | None) -> OpenEntry:
    publication = Prepared.model_validate_json(row["detail"]).publication
    return OpenEntry(
        publication=publication.id,
        file=_entry(row),
        writes=publication.locks,
        reads=publication.reads,
        aborting=aborting is not None and _sequence(aborting) > _sequence(row),
    )


def _outcomes(closed: Iterable[Row]) -> dict[str, Outcome]:
    return {row["publication"]: row["outcome"] for row in closed}


def _is_due(row: Row, prepared: Mapping[str, Row], delivered: Mapping[str, Row]) -> bool:
    id = row["publication"]
    if row["outcome"] != "done" or id in delivered or id not in prepared:
        return False
    return json.loads(prepared[id]["detail"])["publication"].get("notice") is not None


def _promised_windows(prepared: Iterable[Row]) -> dict[str, datetime]:
    windows: dict[str, datetime] = {}
    for row in sorted(prepared, key=_sequence):
        days = int(json.loads(row["detail"]).get("window_days", 0))
        if days:
            windows[str(days)] = row["at"] + timedelta(days=days)
    return windows


def _entry(row: Row) -> str:
    return _name(ENTRIES, _sequence(row))


def _name(folder: str, sequence: int) -> str:
    return f"{folder}/{sequence:020d}{_SUFFIX}"


def _sequence(row: Row) -> int:
    return int(row["sequence"])
