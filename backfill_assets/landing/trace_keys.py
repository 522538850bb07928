"""Turns a key as it was typed into conditions on the rows of raw, quarantine and typed tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from backfill_assets.landing.quarantine import Rejects
from backfill_assets.model.joined_key import parts_of_key
from backfill_assets.model.landed import OCCURRENCE
from backfill_assets.published.snapshot import Snapshot

BETWEEN = "/"


def typed_key(snapshot: Snapshot, origin: Rejects, key: str) -> pc.Expression | None:
    """Typed rows with this key; None if it cannot be one."""
    published = snapshot.table(origin.typed)
    names, texts = origin.key, key.split(BETWEEN)
    if published is None or len(texts) != len(names):
        return None
    schema = published.dataset().schema
    values = [_as_type(text, schema.field(name).type) for name, text in zip(names, texts, strict=True)]
    return None if None in values else _all(dict(zip(names, values, strict=True)))


def landed_keys(origin: Rejects, key: str) -> pc.Expression | None:
    """Landed rows with this key, or with the parts that it was joined of."""
    names, texts = origin.key, key.split(BETWEEN)
    if OCCURRENCE in names and len(texts) == len(names):
        texts = [text for name, text in zip(names, texts, strict=True) if name != OCCURRENCE]
        names, key = tuple(name for name in names if name != OCCURRENCE), BETWEEN.join(texts)
    landed = set(origin.source.columns)
    if set(names) <= landed:
        return _all(dict(zip(names, texts, strict=True))) if len(texts) == len(names) else None
    fields = origin.source.key_columns
    parts = parts_of_key(key, len(fields))
    return _all(dict(zip(fields, parts, strict=True))) if parts else None


def occurrence_in(origin: Rejects, key: str) -> int | None:
    """The number among identical lines that ``key`` asks for; None where they are not numbered."""
    names, texts = origin.key, key.split(BETWEEN)
    if OCCURRENCE not in names or len(texts) != len(names):
        return None
    text = texts[names.index(OCCURRENCE)]
    return int(text) if text.isdecimal() else None


def places(rows: Sequence[Mapping[str, Any]]) -> pc.Expression | None:
    """Rows from the same files and lines as ``rows``: a typed key may have been landed as another text."""
    return _any([_all({name: row[name] for name in ("source_file", "source_line")}) for row in rows])


def _as_type(text: str, kind: pa.DataType) -> Any:
    try:
        return pa.scalar(text).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _all(values: Mapping[str, Any]) -> pc.Expression:
    conditions = [pc.field(name) == value for name, value in values.items()]
    whole = conditions[0]
    for condition in conditions[1:]:
        whole = whole & condition
    return whole


def _any(conditions: Sequence[pc.Expression]) -> pc.Expression | None:
    whole = None
    for condition in conditions:
        whole = condition if whole is None else whole | condition
    return whole
