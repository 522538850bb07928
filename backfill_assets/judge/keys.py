from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from backfill_assets.judge.compare import value_text
from backfill_assets.judge.engine import DAY, DayFiles, batches, columns_of, database, quoted, select_rows
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.contract import once
from backfill_assets.model.declaration import Source
from backfill_assets.model.deletion import DELETION
from backfill_assets.model.landed_values import key_value, typed_value
from backfill_assets.model.newer_versions import DueMarker, VersionRow, due_markers

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from backfill_assets.model.contract import Contract

Key = tuple[str, ...]
"""A text per key column, equal for equal values."""
_ROWS_AT_ONCE = 10_000
_NEW, _THERE = "arrived rows", "rows that were there"
_ARRIVED, _DAYS, _AGAIN = "arrived keys", "days of arrived keys", "keys on several days"


def markers(
    storage: Storage, source: Source, contract: type[Contract], arrived: DayFiles, existing: DayFiles
) -> Generator[Mapping[str, Any], None, None]:
    """The markers that ``arrived`` files need beside ``existing`` ones.

    A day needs one for each version of its keys on another day, within the window, that is greater by (version, content
    hash). How arrivals are cut does not matter; ``existing`` covers their days widened by the window. Unreadable days,
    keys and versions take no part; deleted versions' markers are deleted.
    """
    for key, versions in returning_versions(storage, source, contract, arrived, existing):
        for due in due_markers(versions, source.supersession_window_days):
            yield _marker(source, key, due)


def returning_versions(
    storage: Storage, source: Source, contract: type[Contract], arrived: DayFiles, existing: DayFiles
) -> Iterator[tuple[Key, list[VersionRow]]]:
    """Keys on several days with a readable ``arrived`` version; all their versions."""
    if not source.supersession_window_days:
        return
    asked, columns = _queries(source, contract), columns_of(contract)
    with database() as connection:
        new, there = (select_rows(connection, storage, columns, DAY, files) for files in (arrived, existing))
        for name, query in ((_ARRIVED, asked.arrived), (_DAYS, asked.days), (_AGAIN, asked.again)):
            connection.execute(f'CREATE TEMP TABLE "{name}" AS {_over(new, there, query)}')
        days = {day for (day,) in connection.execute(f'SELECT DISTINCT {DAY} FROM "{_AGAIN}"').fetchall()}  # noqa: S608 - a name of ours
        if not days:
            return
        there = select_rows(connection, storage, columns, DAY, {day: existing[day] for day in days & existing.keys()})
        versions = f"{_over(new, there, asked.versions)} ORDER BY {', '.join(map(quoted, _key_names(source)))}"
        in_order = (row for batch in batches(connection, versions, _ROWS_AT_ONCE) for row in batch.to_pylist())
        for key, rows in groupby(in_order, key=lambda row: tuple(row[name] for name in _key_names(source))):
            readable = [row for row in rows if row["at"] is not None and row["hash"] is not None]
            if any(row["came"] for row in readable):
                yield key, [_version_row(source, row) for row in readable]


# ------------------------------------------------------------------ queries


class _Queries(NamedTuple):
    arrived: str
    days: str
    again: str
    versions: str


@once
def _queries(source: Source, contract: type[Contract]) -> _Queries:
    """Few keys arrive on several days: of all other rows only the key is read."""
    import ibis

    names, key = _key_names(source), dict.fromkeys(_key_names(source), "string")
    new, there = (ibis.table(ibis.Schema.from_pyarrow(columns_of(contract)), name=name) for name in (_NEW, _THERE))
    arrived, days, again = (ibis.table({DAY: "date", **key}, name=name) for name in (_ARRIVED, _DAYS, _AGAIN))
    readable = [_landed(new, name).length() > 0 for name in source.key_columns]
    came = new.filter(readable).select(DAY, **_key_values(source, new)).drop_null(names).distinct()
    known = there.select(DAY, **_key_values(source, there)).semi_join(arrived, names)
    spread = days.group_by(names).agg(first=days[DAY].min(), last=days[DAY].max())
    found = (
        came,
        arrived.union(known, distinct=True),
        days.semi_join(spread.filter(spread.first < spread.last), names),
        _versions(source, new, again, came=True).union(_versions(source, there, again, came=False)),
    )
    return _Queries(*(str(ibis.to_sql(each, dialect="duckdb")) for each in found))


def _over(new: str, there: str, asked: str) -> str:
    rows = ", ".join(f'"{name}" AS NOT MATERIALIZED ({rows})' for name, rows in ((_NEW, new), (_THERE, there)))
    return f"WITH {rows} FROM ({asked})"


def _versions(source: Source, rows: ir.Table, again: ir.Table, *, came: bool) -> ir.Table:
    """Null if unreadable. Leaves out rows on their arrival day."""
    import ibis

    names = _key_names(source)
    on_their_day = rows.filter(~rows.day_is_arrival.fill_null(False))
    chosen = on_their_day.mutate(**_key_values(source, rows)).semi_join(again, names)
    return chosen.select(
        *names,
        DAY,
        came=ibis.literal(came),
        at=typed_value(_landed(chosen, source.version_field), source.type_of(source.version_field)),
        hash=chosen.content_hash,
        belongs_to=chosen.superseded_by_day.fill_null(chosen[DAY]),
        marker=chosen.source_file.isnull(),
        deleted=(chosen.record_kind == DELETION).fill_null(False),
        **{_written(name): _landed(chosen, name) for name in source.key_columns},
    )


def _key_names(source: Source) -> list[str]:
    return [f"value of {name}" for name in source.key_columns]


def _written(name: str) -> str:
    return f"written {name}"


# ------------------------------------------------------------------ values


def _landed(rows: ir.Table, name: str) -> ir.StringColumn:
    return rows[name].cast("string")


def _key_values(source: Source, rows: ir.Table) -> dict[str, ir.StringValue]:
    values = (key_value(_landed(rows, name), source.type_of(name)) for name in source.key_columns)
    return dict(zip(_key_names(source), values, strict=True))


# ------------------------------------------------------------------ rows


def _version_row(source: Source, row: Mapping[str, Any]) -> VersionRow:
    written = tuple(row[_written(name)] for name in source.key_columns) if row["marker"] else None
    return VersionRow(row["at"], row["hash"], row[DAY], row["belongs_to"], row["marker"], row["deleted"], written)


def _marker(source: Source, key: Key, due: DueMarker) -> dict[str, Any]:
    """Independent of where and when the newer version arrived."""
    version = due.version
    return {
        **dict(zip(source.key_columns, version.written or key, strict=True)),
        source.version_field: value_text(version.at),
        "record_kind": DELETION if version.marker else "supersession",
        "day_is_arrival": False,
        "content_hash": version.hash,
        "superseded_by_day": version.belongs_to,
        DAY: due.day,
    }
