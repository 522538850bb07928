"""Checks a raw publication before its rollback: is a row elsewhere superseded by one that it brought?

A row that is superseded by a version on another day has a marker on its own day. If the publication with the newer
version goes and the marker stays, neither of the two versions counts any more. If a rollback brings the newer version
back, also one that a refresh has deleted, and the older one came meanwhile without a marker, both count. Both are
refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import date, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from backfill_assets.datasets import registry
from backfill_assets.errors import InvalidRequest, PublicationRefused
from backfill_assets.lakehouse.arrow_dataset import arrow_dataset
from backfill_assets.lakehouse.records import InputRead, Prepared, TableChange
from backfill_assets.model.deletion import DELETED, DELETION
from backfill_assets.publication.publisher import Publisher

if TYPE_CHECKING:
    import pyarrow.dataset as ds

_COLUMNS = ["record_kind", "superseded_by_day", "content_hash", "day"]
TransactionVersion = tuple[str, int]
"""A version of a transaction: its day and the hash of its content."""


def require_sound_rollback(publisher: Publisher, prepared: Prepared) -> tuple[InputRead, ...]:
    """Raise :class:`PublicationRefused` if undoing ``prepared`` would lose or double a superseded transaction.

    Returns what was read to know it: the rollback is refused if that gains rows before it is published.
    """
    checked = (_check(publisher, prepared, change) for change in prepared.publication.tables)
    return tuple(read for read in checked if read is not None)


def _check(publisher: Publisher, prepared: Prepared, change: TableChange) -> InputRead | None:
    own = [day.day for day in change.days]
    beside = _within_window(change.table, own)
    if not beside or prepared.publication.kind not in ("append", "rollback"):
        return None
    pin = publisher.pin({}, {change.table: [*own, *beside]}, exact=[change.table])
    read = pin.inputs[change.table]
    if prepared.publication.kind == "rollback" or _deletes(change):
        _refuse_rows_since(publisher, prepared, change.table, beside)
    if prepared.publication.kind == "append" and (orphans := _orphans(publisher, prepared, change, read)):
        raise PublicationRefused(
            f"{prepared.publication.id} cannot be rolled back: on {', '.join(orphans[:5])} of {change.table} rows that "
            "arrived later count as superseded by rows that it brought; without those, neither version would count.",
            hint=f"Roll back the later publications of these days first (backfill history --table {change.table}), "
            "then this one; then ingest the files again. A stream that is started again reads its events again.",
        )
    return read


def _deletes(change: TableChange) -> bool:
    return any(day.content is not None and DELETED in day.content.metrics for day in change.days)


def _within_window(table: str, days: Iterable[date]) -> list[date]:
    """The other days on which a row may be superseded by one of ``days``; none if the source has no such window."""
    try:
        source = registry.step(table).source
    except InvalidRequest:
        return []
    width = source.supersession_window_days if source else 0
    own = set(days)
    around = {day + timedelta(days=n) for day in own for n in range(-width, width + 1)}
    return sorted(around - own)


def _refuse_rows_since(publisher: Publisher, prepared: Prepared, table: str, beside: Iterable[date]) -> None:
    """Refuse if rows arrived while these were rolled back: they were not compared with these."""
    states = publisher.log.day_states(publisher.log.head(), {table})
    sequences = {day: state.sequence for (_, day), state in states.items()}
    own = [sequences[day.day] for day in prepared.change(table).days if day.day in sequences]
    since = [str(day) for day in beside if sequences.get(day, -1) > min(own, default=-1)]
    if since:
        raise PublicationRefused(
            f"{prepared.publication.id} cannot be rolled back: rows arrived on {', '.join(since[:5])} of {table} "
            "since, and which of them are superseded by the rows that would come back was not looked for.",
            hint="Ingest the landed files again instead: the rollback has returned them."
            if prepared.publication.kind == "rollback"
            else "Put the landed files right instead, and refresh their arrival days again.",
        )


def _orphans(publisher: Publisher, prepared: Prepared, change: TableChange, read: InputRead) -> list[str]:
    """The days with a marker that points to a row of ``change``, of which no other copy is left."""
    brought = {file.path.rpartition("/")[2] for day in change.days for file in day.adds}
    dataset = arrow_dataset(publisher.storage, change.table, read.version)
    in_days = pc.field("day").isin(list(read.days))
    going: set[TransactionVersion] = set()
    staying: Counter[TransactionVersion] = Counter()
    markers: Counter[tuple[str, TransactionVersion]] = Counter()
    for fragment in dataset.get_fragments(in_days):
        rows = _rows(dataset, fragment)
        own = fragment.path.rpartition("/")[2] in brought
        for row in rows.to_pylist():
            day, content, one = str(row["day"]), row["content_hash"], -1 if row["record_kind"] == DELETION else 1
            if row["superseded_by_day"] is not None:
                markers[day, (str(row["superseded_by_day"]), content)] += 0 if own else one
            elif not own:
                staying[day, content] += one
            elif one > 0:
                going.add((day, content))
    lost = {version for version in going if staying[version] <= 0}
    return sorted({day for (day, newer), count in markers.items() if count > 0 and newer in lost})


def _rows(dataset: ds.Dataset, fragment: ds.Fragment) -> pa.Table:
    filled = pc.field("superseded_by_day").is_valid() | (pc.field("record_kind") != "supersession")
    return fragment.to_table(schema=dataset.schema, columns=_COLUMNS, filter=filled)
