"""Finds rejected rows that a later accepted row replaces, by the key that the source gives its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from backfill_assets.days import DayRange
from backfill_assets.lakehouse.arrow_dataset import python_rows
from backfill_assets.landing.landed_values import comparable
from backfill_assets.model.declaration import Source
from backfill_assets.published.snapshot import Snapshot

Row = Mapping[str, Any]
Key = tuple[object, ...]


def resolved_positions(snapshot: Snapshot, source: Source, accepted_in: str, rejected: Sequence[Row]) -> set[int]:
    """The positions of those of ``rejected`` whose key was accepted as new as they are, or later if that is unreadable.

    Only days within the source's supersession window count. A row without a readable key cannot be found.
    """
    keyed = {number: key for number, row in enumerate(rejected) if (key := _key(source, row)) is not None}
    if not keyed:
        return set()
    accepted = _accepted_rows(snapshot, source, accepted_in, [rejected[number] for number in keyed])
    return {n for n, key in keyed.items() if any(_since(source, rejected[n], row) for row in accepted.get(key, ()))}


def _key(source: Source, row: Row) -> Key | None:
    values = tuple(comparable(row[name], source.type_of(name)) for name in source.key_columns)
    return None if any(value is None or value == "" for value in values) else values


def _accepted_rows(snapshot: Snapshot, source: Source, table: str, rejected: Sequence[Row]) -> dict[Key, list[Row]]:
    window = source.supersession_window_days
    days = DayRange(min(row["day"] for row in rejected), max(row["day"] for row in rejected))
    near = snapshot.rows(
        table,
        days.widened(before=window, after=window),
        _of_keys(source, rejected),
        list(dict.fromkeys((*source.key_columns, source.version_field, "arrival_day", "day"))),
    )
    by_key: dict[Key, list[Row]] = {}
    for row in python_rows(near) if near is not None else ():
        if (key := _key(source, row)) is not None:
            by_key.setdefault(key, []).append(row)
    return by_key


def _of_keys(source: Source, rejected: Sequence[Row]) -> pc.Expression | None:
    """A filter for rows with the keys of ``rejected``: if the first key field is text, most rows are not read."""
    first = source.key_columns[0]
    if source.type_of(first) != "string":
        return None
    return pc.field(first).isin(pa.array(sorted({row[first] for row in rejected}), pa.string()))


def _since(source: Source, rejected: Row, accepted: Row) -> bool:
    # The days that are read are those around all rejected rows.
    if abs((accepted["day"] - rejected["day"]).days) > source.supersession_window_days:
        return False
    kind = source.type_of(source.version_field)
    was, now = (comparable(row[source.version_field], kind) for row in (rejected, accepted))
    if type(was) is type(now):
        return bool(now >= was)  # type: ignore[operator]
    return bool(accepted["arrival_day"] >= rejected["arrival_day"])
