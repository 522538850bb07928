from __future__ import annotations

from typing import TYPE_CHECKING, cast

from backfill_assets.model.deletion import DELETION
from backfill_assets.model.lone_rows import hash_of, lone_and_alike

if TYPE_CHECKING:
    import ibis.expr.types as ir

_ARRIVAL, _CANCELS, _COPIES = "arrival_day", "cancels one", "rows left"
PLACE = ("source_file", "source_line", "content_hash", "day")
"""Equal for equal rows."""
_PLACE = "hash of place"


def standing(raw: ir.Table) -> ir.Table:
    """Without deletions, and an equal row for each.

    A deletion lacks the arrival day: rows of one place, nearly all alone, are compared in all other columns.
    """
    placed = raw.mutate({_PLACE: hash_of([raw[name] for name in PLACE])})
    lone, alike = lone_and_alike(placed, _PLACE)
    return _left(alike.select(*raw.columns)).union(lone.filter(~_is_deletion(lone)).select(*raw.columns))


def _left(raw: ir.Table) -> ir.Table:
    import ibis

    kinds = raw.mutate({_CANCELS: _is_deletion(raw), "record_kind": _kind(raw)})
    counts = kinds.count(where=~kinds[_CANCELS]) - kinds.count(where=kinds[_CANCELS])
    same = [name for name in raw.columns if name != _ARRIVAL]
    left = kinds.group_by(same).agg({_ARRIVAL: kinds[_ARRIVAL].max(), _COPIES: counts})
    standing_rows = left.filter(left[_COPIES] > 0)
    each = standing_rows.mutate({_COPIES: ibis.range(standing_rows[_COPIES]).unnest()})
    return each.select(*raw.columns)


def _is_deletion(rows: ir.Table) -> ir.BooleanValue:
    return cast("ir.BooleanValue", rows.record_kind == DELETION)


def _kind(rows: ir.Table) -> ir.StringValue:
    """The kind a deletion cancels: only markers have no file."""
    cancelled = rows.source_file.isnull().ifelse("supersession", "received")
    return cast("ir.StringValue", _is_deletion(rows).ifelse(cancelled, rows.record_kind))
