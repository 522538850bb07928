"""Markers for transactions that moved to another day: the day that loses one keeps a note of the newer version."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill_assets.landing.raw_rows import raw_schema
from backfill_assets.model.canonical import key_value, landed_text, parsed
from backfill_assets.model.contract_columns import all_of, as_declared
from backfill_assets.model.declaration import Source
from backfill_assets.model.deletion import DELETION

_WRITTEN = "key as written"
"""No landed field has a space in its name."""


def supersessions(source: Source, arrived: DataFrame, existing: DataFrame) -> DataFrame:
    """The marker rows that ``arrived`` raw rows make necessary, beside those in ``existing`` raw rows.

    A day needs a marker for every version of a key on another day, within the source's window, that is greater by
    (version, content hash) than a row of its own. The set of markers is the same however arrivals are cut and
    ordered; ``existing`` must cover the days of ``arrived`` widened by the window. Keys are equal if their values are,
    as they are in bronze. Rows whose day, key or version cannot be read take no part: they are quarantined where they
    are. A version that its source took back supersedes nothing: with its deletion among ``arrived``, its markers are
    deleted.
    """
    if source.supersession_window_days == 0:
        return arrived.where(F.lit(False)).select(*raw_schema(source).names)
    keys = list(source.key_columns)
    # What is there is far more than what arrived, and hardly any of it has a key that arrived again.
    new = _versions(source, _with_key_values(source, arrived)).where(F.col("version.at").isNotNull())
    again = _with_key_values(source, existing).join(new.select(*keys), keys, "left_semi")
    seen = new.unionByName(_versions(source, again))
    by_key = seen.groupBy(*keys).agg(F.collect_list("version").alias("versions")).where(F.size("versions") > 1)
    # No condition on what is there: Spark would parse the version of all of it, before it knows which keys it needs.
    readable = by_key.withColumn("versions", F.filter("versions", lambda v: v.at.isNotNull()))
    several = readable.where(F.size("versions") > 1).withColumn("standing", _standing())
    found = several.withColumn("newer", F.explode(F.concat(F.filter("standing", lambda v: ~v.marker), _obsolete())))
    # Of a marker, the day that it is on; the only markers among the newer ones are obsolete.
    losing_days = F.when(F.col("newer.marker"), F.array("newer.day")).otherwise(_days_that_lose(source))
    losing = found.withColumn("losing_day", F.explode(losing_days))
    return losing.where(F.col("newer.marker") | ~_already_marked()).select(*_marker(source))


def _with_key_values(source: Source, rows: DataFrame) -> DataFrame:
    """``rows`` with one text for each value of a key, as ``07`` is ``7``; markers also keep theirs as it was."""
    written = F.when(F.col("source_file").isNull(), F.struct(*source.key_columns))
    typed = {name: key_value(source, name) for name in source.key_columns if source.type_of(name) != "string"}
    return rows.withColumns({_WRITTEN: written, **typed})


def _standing() -> Column:
    """The versions that no deletion has cancelled, each once."""
    return F.array_distinct(F.filter("versions", lambda v: ~v.deleted & (_rows_left(v) > 0)))


def _rows_left(version: Column) -> Column:
    """How many rows equal to ``version`` there are that no deletion has cancelled."""
    same = F.filter("versions", lambda v: _same_row(v, version))
    return F.size(F.filter(same, lambda v: ~v.deleted)) - F.size(F.filter(same, lambda v: v.deleted))


def _same_row(one: Column, other: Column) -> Column:
    same = (one.marker == other.marker) & (one.day == other.day) & (one.belongs_to == other.belongs_to)
    return same & (one.at == other.at) & (one.hash == other.hash) & one.written.eqNullSafe(other.written)


def _obsolete() -> Column:
    """The markers of versions that were taken back, and of which no other copy is there; each as often as it is."""

    def is_copy(version: Column, marker: Column) -> Column:
        same = (version.at == marker.at) & (version.hash == marker.hash)
        return ~version.marker & same & (version.day == marker.belongs_to)

    def is_obsolete(version: Column) -> Column:
        taken_back = F.exists("versions", lambda v: v.deleted & is_copy(v, version))
        left = F.exists("standing", lambda v: is_copy(v, version))
        return version.marker & taken_back & ~left

    markers = F.filter("standing", is_obsolete)
    return F.flatten(F.transform(markers, lambda marker: F.array_repeat(marker, _rows_left(marker))))


def _versions(source: Source, rows: DataFrame) -> DataFrame:
    version = parsed(F.col(source.version_field), source.type_of(source.version_field))
    readable = [~F.col("day_is_arrival"), *(F.length(name) > 0 for name in source.key_columns)]
    facts = F.struct(
        version.alias("at"),
        F.col("content_hash").alias("hash"),
        F.coalesce("superseded_by_day", "day").alias("belongs_to"),
        F.col("day"),
        F.col("source_file").isNull().alias("marker"),
        (F.col("record_kind") == DELETION).alias("deleted"),
        F.col(_WRITTEN).alias("written"),
    )
    return rows.where(all_of(readable)).select(*source.key_columns, facts.alias("version"))


def _days_that_lose(source: Source) -> Column:
    newer = F.col("newer")

    def loses(older: Column) -> Column:
        distance = F.abs(F.datediff(older.day, newer.day))
        smaller = F.struct(older.at, older.hash) < F.struct(newer.at, newer.hash)
        return ~older.marker & distance.between(1, source.supersession_window_days) & smaller

    return F.array_distinct(F.transform(F.filter("standing", loses), lambda older: older.day))


def _already_marked() -> Column:
    newer, day = F.col("newer"), F.col("losing_day")

    def marks(known: Column) -> Column:
        same_version = (known.at == newer.at) & (known.hash == newer.hash) & (known.belongs_to == newer.day)
        return known.marker & (known.day == day) & same_version

    return F.exists("standing", marks)


def _marker(source: Source) -> list[Column]:
    """A marker has nothing in it that depends on where or when the newer version arrived."""
    newer = F.col("newer")
    values = {
        **{name: F.when(newer.marker, newer.written[name]).otherwise(F.col(name)) for name in source.key_columns},
        source.version_field: landed_text(newer.at, source.type_of(source.version_field)),
        "record_kind": F.when(newer.marker, DELETION).otherwise("supersession"),
        "day_is_arrival": F.lit(False),
        "content_hash": newer.hash,
        "superseded_by_day": newer.belongs_to,
        "day": F.col("losing_day"),
    }
    return [as_declared(values.get(column.name, F.lit(None)), column) for column in raw_schema(source).fields]
