"""Looks at raw, for days of many deduplicated or rejected rows: delivered twice, lost by a wrong key, or come again?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

from backfill_assets.judge.engine import DAY, DayFiles, engine, rows_of_files
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import (
    CORRECTED,
    DUPLICATES,
    EXAMPLE,
    IDENTICAL,
    OCCURRENCE,
    DayFacts,
    Metrics,
    Source,
    Table,
)
from backfill_assets.model.deletion import DELETION
from backfill_assets.model.landed import quarantine_contract, raw_contract
from backfill_assets.model.landed_values import parsed
from backfill_assets.model.rules import FewDuplicates, FewRejected
from backfill_assets.quality.measures import as_metrics

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend

_PLACE = ("source_file", "source_line")
Files = Callable[[FewDuplicates | FewRejected, Sequence[date]], tuple[DayFiles, DayFiles]]


def with_second_look(
    storage: Storage, table: Table, facts: Mapping[date, DayFacts], files: Files
) -> dict[date, DayFacts]:
    """Reads raw: bronze lacks the versions won over."""
    found = dict(facts)
    for rule in table.rules:
        if isinstance(rule, FewDuplicates | FewRejected) and (
            days := [day for day in facts if rule.looks_closer(facts[day])]
        ):
            measure = measure_duplicates if isinstance(rule, FewDuplicates) else measure_corrected
            counted = measure(storage, rule.source, table, *files(rule, days))
            found |= {
                day: replace(found[day], own={**found[day].own, **rule.nothing_found, **counted.get(day, {})})
                for day in days
            }
    return found


def measure_duplicates(
    storage: Storage, source: Source, table: Table, raw: DayFiles, quarantined: DayFiles
) -> dict[date, Metrics]:
    """Sound rows that lost to an equal version, and to an identical line; the example has two places."""
    import ibis

    values = (*key_columns(source, table), source.version_field)
    with engine() as connection:
        sound, _ = _sound_and_rejected(connection, storage, source, table, raw, quarantined)
        identical = ibis.row_number().over(group_by=(DAY, "content_hash"), order_by=_PLACE)
        numbered = sound.mutate(**{OCCURRENCE: identical if OCCURRENCE in table.key else ibis.literal(1)})
        place = ibis.struct({name: numbered[name] for name in _PLACE})
        rows = numbered.mutate(place=place, **_typed(source, numbered, values))
        met = rows.group_by(DAY, OCCURRENCE, *_typed(source, rows, values)).agg(
            rows=rows.count(), contents=rows.content_hash.nunique(), one=rows.place.min(), another=rows.place.max()
        )
        several = met.filter(met.rows > 1)
        one, another = (
            place.source_file + ":" + place.source_line.cast("string") for place in (several.one, several.another)
        )
        order = ibis.struct({"one": several.one, "another": several.another})
        found = several.group_by(DAY).agg(
            **{
                DUPLICATES: (several.rows - 1).sum(),
                IDENTICAL: (several.rows - several.contents).sum(),
                f"{DUPLICATES}{EXAMPLE}": (one + " and " + another).argmin(order),
            }
        )
        return _by_day(found)


def measure_corrected(
    storage: Storage, source: Source, table: Table, raw: DayFiles, quarantined: DayFiles
) -> dict[date, Metrics]:
    """Rows that came again, sound: in a version as new or, if unreadable, as late."""
    keys, version = key_columns(source, table), _value(source.version_field)
    with engine() as connection:
        sound, rejects = (
            rows.select(DAY, "arrival_day", **_typed(source, rows, (*keys, source.version_field)))
            for rows in _sound_and_rejected(connection, storage, source, table, raw, quarantined)
        )
        as_new = (sound[version] >= rejects[version]).fill_null(sound.arrival_day >= rejects.arrival_day)
        same = [rejects[name] == sound[name] for name in (DAY, *map(_value, keys))]
        again = rejects.semi_join(sound, [*same, as_new])
        return _by_day(again.group_by(DAY).agg(**{CORRECTED: again.count()}))


def key_columns(source: Source, table: Table) -> tuple[str, ...]:
    names = tuple(name for name in table.key if name not in (DAY, OCCURRENCE))
    return names if set(names) <= set(source.columns) else source.key_columns


def _sound_and_rejected(
    connection: Backend, storage: Storage, source: Source, table: Table, raw: DayFiles, quarantined: DayFiles
) -> tuple[ir.Table, ir.Table]:
    rejects = rows_of_files(connection, storage, quarantine_contract(source, table.contract), quarantined)
    landed = (*key_columns(source, table), source.version_field)
    received = _standing(rows_of_files(connection, storage, raw_contract(source), raw), landed)
    return received.anti_join(rejects, [DAY, *_PLACE]), rejects


def _standing(raw: ir.Table, landed: Sequence[str]) -> ir.Table:
    import ibis

    rows = raw.filter(raw.source_file.notnull())
    is_deletion = rows.record_kind == DELETION
    of_line = dict.fromkeys((DAY, "content_hash", *_PLACE, *landed))
    counts = rows.group_by([*of_line]).agg(
        arrival_day=rows.arrival_day.max(), copies=rows.count(where=~is_deletion) - rows.count(where=is_deletion)
    )
    left = counts.filter(counts.copies > 0)
    return left.mutate(copy=ibis.range(left.copies).unnest())


def _typed(source: Source, rows: ir.Table, names: Sequence[str]) -> dict[str, ir.Value]:
    return {_value(name): parsed(rows[name].cast("string"), source.type_of(name)) for name in names}


def _value(name: str) -> str:
    return f"value of {name}"


def _by_day(found: ir.Table) -> dict[date, Metrics]:
    return {row[DAY]: as_metrics(row) for row in found.to_pyarrow().to_pylist()}
