"""Refuses rollbacks of raw publications that lose a superseded row or count it twice.

If a newer version goes and its marker on the older one's day stays, neither counts. If it comes back, and the older one
arrived meanwhile without a marker, both count. Rows moved between days can do either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest, PublicationRefused
from backfill_assets.lakehouse.arrow_dataset import dataset_of, dataset_of_files
from backfill_assets.lakehouse.delta_log import open_table
from backfill_assets.lakehouse.lost_file import file_lost
from backfill_assets.lakehouse.records import InputRead, Kind, Prepared, TableChange
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.deletion import DELETED, DELETION
from backfill_assets.publish.log import PublicationLog
from backfill_assets.publish.publisher import Publisher

if TYPE_CHECKING:
    import pyarrow.dataset as ds

_COLUMNS = ["record_kind", "superseded_by_day", "content_hash", "day"]
_IS_MARKER, _IS_VERSION = pc.field("superseded_by_day").is_valid(), pc.field("record_kind") != "supersession"
TransactionVersion = tuple[str, int]


def require_sound_rollback(publisher: Publisher, catalog: Catalog, prepared: Prepared) -> tuple[InputRead, ...]:
    """Raise :class:`PublicationRefused` if undoing ``prepared`` would lose or double a row. Returned is what was read,
    and must not gain rows before the rollback is published.
    """
    checked = (_check(publisher, catalog, prepared, change) for change in prepared.publication.tables)
    return tuple(read for read in checked if read is not None)


def _check(publisher: Publisher, catalog: Catalog, prepared: Prepared, change: TableChange) -> InputRead | None:
    own, kind = [day.day for day in change.days], prepared.publication.kind
    beside = _within_window(catalog, change.table, own)
    if not beside or kind == "compact":
        return None
    pin = publisher.pin({}, {change.table: [*own, *beside]}, exact=[change.table])
    read = pin.inputs[change.table]
    if kind != "append" or _deletes(change):
        _refuse_rows_since(publisher.log, prepared, change.table, beside)
    if kind == "append" and (orphans := _orphans(publisher.storage, prepared, change, read)):
        raise PublicationRefused(
            f"{prepared.publication.id} cannot be rolled back: on {', '.join(orphans[:5])} of {change.table} rows that "
            "arrived later count as superseded by rows that it brought; without those, neither version would count.",
            hint=f"Roll back the later publications of these days first (backfill history {change.table}), "
            "then this one; then ingest the files again. A stream that is started again reads its events again.",
        )
    return read


def _deletes(change: TableChange) -> bool:
    return any(day.content is not None and DELETED in day.content.metrics for day in change.days)


def _within_window(catalog: Catalog, table: str, days: Iterable[date]) -> list[date]:
    try:
        source = catalog.step(table).source
    except InvalidRequest:
        return []
    own = set(days)
    return sorted(source.days_around(own) - own) if source else []


def _refuse_rows_since(log: PublicationLog, prepared: Prepared, table: str, beside: Iterable[date]) -> None:
    """Later rows were not compared with those that come back."""
    states, closed = log.day_states(log.head(), {table}), log.closed_at(prepared.publication.id)
    newer = (state for day in beside if (state := states.get(TableDay(table, day))) and state.sequence > closed)
    since = [
        str(state.day) for state in newer if log.closed_at(state.origin.gained_by or state.origin.computed_by) > closed
    ]
    if since:
        kind = prepared.publication.kind
        why, hint = _BY_KIND[kind] if prepared.change(table).positions else _OF_MOVED_ROWS
        raise PublicationRefused(
            f"{prepared.publication.id} cannot be rolled back: rows arrived on {', '.join(since[:5])} of {table} "
            f"since, and {why}.",
            hint=hint,
        )


_NOT_LOOKED_FOR = "which of them are superseded by the rows that would come back was not looked for"
_BY_KIND: Mapping[Kind, tuple[str, str]] = {
    "rollback": (_NOT_LOOKED_FOR, "Ingest the landed files again instead: the rollback has returned them."),
    "append": (_NOT_LOOKED_FOR, "Put the landed files right instead, and refresh their arrival days again."),
}
_OF_MOVED_ROWS = (
    "they were compared with its rows where these are now",
    "Declare the possible event days that are to count, and refresh these days instead: it compares their rows anew.",
)


def _orphans(storage: Storage, prepared: Prepared, change: TableChange, read: InputRead) -> list[str]:
    """Days with a marker for a row of ``change`` without another copy, read as before: a compaction may have merged
    files.
    """
    handle = open_table(storage, change.table, read.version)
    files = partial(dataset_of_files, storage, change.table, schema=handle.schema())
    before = prepared.before[change.table]
    beside = read.days.keys() - before.keys()
    staying: Counter[TransactionVersion] = Counter()
    markers: Counter[tuple[str, TransactionVersion]] = Counter()
    for row in chain(
        _rows(files([file for day in before.values() for file in day.files]), _IS_MARKER | _IS_VERSION),
        _rows(dataset_of(storage, change.table, handle, beside), _IS_MARKER),
    ):
        one = -1 if row["record_kind"] == DELETION else 1
        if row["superseded_by_day"] is None:
            staying[_version(row)] += one
        else:
            markers[str(row["day"]), (str(row["superseded_by_day"]), row["content_hash"])] += one
    brought = _rows(files([file for day in change.days for file in day.adds]), ~_IS_MARKER & _IS_VERSION)
    going = {_version(row) for row in brought if row["record_kind"] != DELETION}
    lost = {version for version in going if staying[version] <= 0}
    return sorted({day for (day, newer), count in markers.items() if count > 0 and newer in lost})


def _version(row: Mapping[str, Any]) -> TransactionVersion:
    return str(row["day"]), row["content_hash"]


def _rows(dataset: ds.Dataset, wanted: pc.Expression) -> Iterator[dict[str, Any]]:
    for fragment in dataset.get_fragments():
        try:
            rows = fragment.to_table(schema=dataset.schema, columns=_COLUMNS, filter=wanted)
        except OSError as error:
            raise _gone(error) or error from error
        yield from rows.to_pylist()


def _gone(error: OSError) -> PublicationRefused | None:
    lost = file_lost(error)
    if lost is None:
        return None
    return PublicationRefused(
        f"{lost.message} A rollback needs it.", hint="Nothing was changed. A day that is wrong is built again."
    )
