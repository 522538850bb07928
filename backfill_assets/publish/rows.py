"""The log's columns, and how days and publications are written to them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial
from itertools import compress
from typing import Any

import pyarrow as pa
from deltalake import Field, Schema
from deltalake.schema import PrimitiveType

from backfill_assets.days import parse_day
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.records import DayChange, DayContent, DayState, Origin, Outcome, Prepared, Publication

_COLUMNS: dict[str, pa.DataType] = {
    "sequence": pa.int64(),
    "at": pa.timestamp("us", tz="UTC"),
    "event": pa.string(),
    "publication": pa.string(),
    "kind": pa.string(),
    "outcome": pa.string(),
    "run": pa.string(),
    "launched_by": pa.string(),
    "git_commit": pa.string(),
    "campaign": pa.string(),
    "table": pa.string(),
    "day": pa.string(),
    "table_version": pa.int64(),
    "rows": pa.int64(),
    "checksum": pa.string(),
    "code_version": pa.string(),
    "parameters": pa.string(),
    "inputs": pa.string(),
    "physical": pa.string(),
    "metrics": pa.string(),
    "replaces": pa.string(),
    "reason": pa.string(),
    "detail": pa.string(),
    "origin": pa.string(),
}
ARROW_SCHEMA = pa.schema(list(_COLUMNS.items()))
_DELTA_TYPES = {
    pa.int64(): "long",
    pa.string(): "string",
    pa.timestamp("us", tz="UTC"): "timestamp",
}
DELTA_SCHEMA = Schema([Field(name, PrimitiveType(_DELTA_TYPES[kind])) for name, kind in _COLUMNS.items()])
DAY_COLUMNS = [
    "sequence",
    "publication",
    "table",
    "day",
    "rows",
    "checksum",
    "code_version",
    "parameters",
    "inputs",
    "physical",
    "metrics",
    "origin",
]
DAY_SCHEMA = pa.schema([ARROW_SCHEMA.field(name) for name in DAY_COLUMNS])
PREPARING_DAY = "preparing day"
SWITCHING = "switching"
ABORTED_BY_HAND = "aborted by hand"
_STAGED_MS, _LOGIC = "staged.ms", "version.logic"
"""Stored beside the metrics: older logs have no columns for them."""

Row = Mapping[str, Any]


def day_state(row: Row) -> DayState:
    return next(day_states(pa.Table.from_pylist([{name: row[name] for name in DAY_COLUMNS}], schema=DAY_SCHEMA)))


def day_states(rows: pa.Table, tables: Collection[str] | None = None) -> Iterator[DayState]:
    """Day states in the order of ``rows``, which have :data:`DAY_COLUMNS`.

    Metrics of tens of thousands of days are parsed as one array. Rows are filtered in Python: PyArrow would import
    pandas for a comparison, a fifth of most commands' time.
    """
    columns = {name: rows.column(name).to_pylist() for name in DAY_COLUMNS}
    if tables is not None:
        chosen = [table in tables for table in columns["table"]]
        columns = {name: list(compress(values, chosen)) for name, values in columns.items()}
    columns["metrics"] = json.loads(f"[{','.join(text or '{}' for text in columns['metrics'])}]")
    read_origin = cache(origin_of)  # days of one publication mostly share theirs
    for sequence, publication, table, day, count, checksum, code, parameters, inputs, physical, metrics, origin in zip(
        *columns.values(), strict=True
    ):
        staged_ms, logic = metrics.pop(_STAGED_MS, None), metrics.pop(_LOGIC, "")
        made = (code, parameters, inputs, metrics, staged_ms, logic)
        known = None if count is None else DayContent(count, checksum, *made)
        yield DayState(table, parse_day(day), publication, sequence, physical, known, read_origin(publication, origin))


def origin_of(publication: str, text: str | None) -> Origin:
    return Origin(**json.loads(text)) if text else Origin(publication)


def _origin_text(origin: Origin, publication: Publication) -> str:
    said = {name: value for name, value in asdict(origin).items() if value}
    return "" if said == {"computed_by": publication.id} else json.dumps(said)


def with_origins(rows: pa.Table) -> pa.Table:
    """Adds the origin to rows written before it was recorded, from ``kind`` and ``campaign``: an undo is its own origin
    then, and so is a compaction.
    """
    columns = [rows.column(name).to_pylist() for name in ("origin", "publication", "kind", "campaign")]
    found = pa.array([text if text is not None else _assumed(*row) for text, *row in zip(*columns, strict=True)])
    return rows.select(DAY_COLUMNS).set_column(DAY_COLUMNS.index("origin"), "origin", found.cast(pa.string()))


def _assumed(publication: str, kind: str, campaign: str | None) -> str:
    said = {"computed_by": publication}
    if kind == "rollback":
        said |= {"put_back_by": publication, "rolled_back_by": publication}
    elif campaign:
        said |= {"campaign": campaign, "brought_by": publication}
    return json.dumps(said) if len(said) > 1 else ""


def newest_days(parts: Sequence[pa.Table]) -> pa.Table:
    rows = pa.concat_tables([DAY_SCHEMA.empty_table(), *parts])
    keys = zip(rows.column("table").to_pylist(), rows.column("day").to_pylist(), strict=True)
    last = {key: number for number, key in enumerate(keys)}
    return rows.take(pa.array(sorted(last.values()), pa.int64()))


def _content_columns(content: DayContent | None) -> Row:
    if content is None:
        return {}
    beside: dict[str, int | str] = {} if content.staged_ms is None else {_STAGED_MS: content.staged_ms}
    beside |= {_LOGIC: content.logic} if content.logic else {}
    return {
        "rows": content.rows,
        "checksum": content.checksum,
        "code_version": content.code_version,
        "parameters": content.parameters,
        "inputs": content.inputs,
        "metrics": json.dumps({**content.metrics, **beside}, sort_keys=True),
    }


def prepared_rows(prepared: Prepared) -> list[Row]:
    """The header, with the publication in full, comes first: FINISH reads the first ``detail``."""
    header = {**_common(prepared.publication), "event": "prepared", "detail": prepared.model_dump_json()}
    days = [
        {**_day_row(prepared, change.table, day), "event": PREPARING_DAY, "detail": _lineage(day)}
        for change in prepared.publication.tables
        for day in change.days
    ]
    return [header, *days, *map(partial(_switch_row, prepared), prepared.publication.switches)]


def _switch_row(prepared: Prepared, step: str) -> Row:
    switch = prepared.publication.switches[step]
    versions = {"code_version": switch.version, "replaces": switch.former}
    return {**_common(prepared.publication), "event": SWITCHING, "table": step, **versions}


def _lineage(day: DayChange) -> str | None:
    return day.lineage.model_dump_json() if day.lineage else None


def aborting_rows(publication: Publication, reason: str) -> list[Row]:
    return [{**_common(publication), "event": "aborting", "reason": reason}]


def aborted_by_hand_row(publication: Publication, by: str, reason: str) -> Row:
    return {**_common(publication), "event": ABORTED_BY_HAND, "launched_by": by, "reason": reason}


def closed_rows(prepared: Prepared, outcome: Outcome, versions: Mapping[str, int], own: Mapping[str, int]) -> list[Row]:
    """A header with all tables' map, and a row a day; an abort changes none."""
    header = {
        **_common(prepared.publication),
        "event": "closed",
        "outcome": outcome,
        "detail": json.dumps(dict(sorted(versions.items()))),
    }
    if outcome == "aborted":
        return [header]
    days = [
        {
            **_day_row(prepared, change.table, day),
            **_content_columns(prepared.result(change.table, day.day)),
            "origin": _origin_text(prepared.origin(change.table, day.day), prepared.publication),
            "event": "published",
            "outcome": outcome,
            "table_version": own[change.table],
        }
        for change in prepared.publication.tables
        for day in change.days
    ]
    return [header, *days]


def _day_row(prepared: Prepared, table: str, day: DayChange) -> Row:
    return {
        **_common(prepared.publication),
        "table": table,
        "day": str(day.day),
        "physical": fingerprints.physical(prepared.target_of(table, day)),
        "replaces": prepared.before[table][day.day].publication,
    }


def _common(publication: Publication) -> Row:
    provenance = publication.provenance
    return {
        "publication": publication.id,
        "kind": publication.kind,
        "run": provenance.run,
        "launched_by": provenance.launched_by,
        "git_commit": provenance.git_commit,
        "campaign": provenance.campaign,
        "reason": provenance.reason,
    }
