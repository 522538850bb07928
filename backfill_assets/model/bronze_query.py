"""From raw text to typed rows: rejects, and the winner of each key and day."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, cast

from backfill_assets.model.checks import asked_of
from backfill_assets.model.contract import BINARY, declared_types
from backfill_assets.model.declaration import OCCURRENCE, Source, a_type
from backfill_assets.model.landed import quarantine_contract
from backfill_assets.model.landed_structures import structure_of
from backfill_assets.model.landed_values import (
    canonical,
    content_hash_of_read,
    hashed,
    in_newer_form,
    joined_key,
    parsed,
)
from backfill_assets.model.lone_rows import hash_of, lone_and_alike
from backfill_assets.model.measure import NOT_A_NUMBER, ContentHash
from backfill_assets.model.of_duckdb import of_duckdb
from backfill_assets.model.placement import IMPLAUSIBLE

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from backfill_assets.model.refinement import Refinement

_PROVENANCE = ("content_hash", "source_file", "source_line", "arrival_day")
_KEPT = ("rescued", "unparsed_line")
UNREADABLE = "unreadable"
_DAY, _MOVED_TO = "day", "superseded_by_day"
_RECEIVED, _UNSOUND, _LANDED, _KEY = "is received", "is unsound", "as landed", "hash of key"
_BEFORE, _IMPLAUSIBLE = "is hashed before", "is implausible"
_PLACE, _VERSIONS, _HASHES = "place among versions", "versions", "sum of hashes"
_SUM = "decimal(38, 0)"


# ------------------------------------------------------------------ what is judged


def judged(raw: ir.Table, refinement: Refinement, part: tuple[int, int] = (0, 1)) -> ir.Table:
    """All raw rows, typed; ``part`` (i, n): every n-th by a hash of its key."""
    source = refinement.source
    landed = _of_part(_with_rescued(raw, source), refinement, *part)
    typed = landed.mutate({_typed(refinement, name): value for name, value in _values(landed, refinement)})
    before, implausible = _is_hashed_before(typed, refinement), _is_implausible(typed, refinement)
    seen = typed.mutate({_RECEIVED: typed.record_kind == "received", _BEFORE: before, _IMPLAUSIBLE: implausible})
    rows = seen.mutate({_UNSOUND: reduce(or_, _broken(seen, refinement))})
    texts = (rows[_RECEIVED] & rows[_UNSOUND]).ifelse(_array([rows[name] for name in _kept(source)]), None)
    values = {name: rows[_typed(refinement, name)] for name in refinement.columns if name != _DAY}
    key = [rows[_DAY], *(values[name] for name in refinement.key if name != OCCURRENCE)]
    relevant = rows[_RECEIVED] | (rows.record_kind == "supersession") | ~rows[_UNSOUND]
    return rows.filter(relevant).select(
        *(_DAY, *_PROVENANCE, _MOVED_TO, _RECEIVED, _BEFORE, _IMPLAUSIBLE),
        **values,
        **{_LANDED: texts, _KEY: hash_of(key)},
    )


def _kept(source: Source) -> tuple[str, ...]:
    return (*source.parsed_columns, *_KEPT)


def _with_rescued(raw: ir.Table, source: Source) -> ir.Table:
    import ibis

    kept = of_duckdb("json_valid", "boolean", raw.rescued).ifelse(raw.rescued, None)
    return raw.mutate(
        {
            name: ibis.coalesce(raw[name], of_duckdb("json_extract_string", "string", kept, _pointer(name)))
            for name in source.rescued_fields
        }
    )


def _pointer(name: str) -> str:
    return "/" + name.replace("~", "~0").replace("/", "~1")


def _of_part(rows: ir.Table, refinement: Refinement, part: int, parts: int) -> ir.Table:
    import ibis

    if parts == 1:
        return rows
    values = dict(_values(rows, refinement))
    key = {name: values[name] if name in values else rows[name] for name in refinement.key if name != OCCURRENCE}
    texts = [canonical(value, refinement.source.type_of(name)) for name, value in key.items()]
    demanded = [key[name].isnull() for name in key if not refinement.contract.fields()[name].nullable]
    by_line = hashed(rows.source_file, rows.source_line)
    by_key = hashed(*texts) if texts else ibis.literal(0)  # the key is the occurrence alone: one part
    number = reduce(or_, demanded).ifelse(by_line, by_key) if demanded else by_key
    return rows.filter((number % parts + parts) % parts == part)


def _values(rows: ir.Table, refinement: Refinement) -> Iterator[tuple[str, ir.Value]]:
    source = refinement.source
    for name in source.parsed_columns:
        yield name, parsed(rows[name], source.type_of(name))
    for name, parts in refinement.derived.items():
        yield name, joined_key(source, rows, parts)


def _typed(refinement: Refinement, name: str) -> str:
    return f"{name} typed" if name in refinement.derived or name in refinement.source.parsed_columns else name


# ------------------------------------------------------------------ why a row is rejected


def _broken(rows: ir.Table, refinement: Refinement) -> Iterator[ir.BooleanValue]:
    yield rows.unparsed_line.notnull()
    yield from (broken for broken, _ in _asked(rows, refinement))
    yield from (broken for broken, _ in _asked_of_row(rows, refinement))


def _reasons(rows: ir.Table, refinement: Refinement) -> ir.ArrayValue:
    found = [*_asked(rows, refinement), *_asked_of_row(rows, refinement)]
    texts = _array([broken.ifelse(words, None) for broken, words in found])
    line = _array([_text("line: is not one JSON object with distinct fields")])
    told = rows.unparsed_line.notnull().ifelse(line, texts.filter(lambda text: text.notnull()))
    event = _array([_text("event: ") + of_duckdb("json_extract_string", "string", rows.rescued, f"$.{UNREADABLE}")])
    return cast("ir.ArrayValue", _is_unreadable(rows, refinement.source).ifelse(event, told))


def _is_unreadable(rows: ir.Table, source: Source) -> ir.BooleanValue:
    """A stream has a reason in place of an event that it could not read."""
    nothing = reduce(and_, (rows[name].isnull() for name in source.columns))
    return (nothing & rows.rescued.startswith(f'{{"{UNREADABLE}":"')).fill_null(False)


def _asked(rows: ir.Table, refinement: Refinement) -> Iterator[tuple[ir.BooleanValue, ir.StringValue]]:
    fields, types = refinement.contract.fields(), declared_types(refinement.contract)
    for name in refinement.columns:
        column = _typed(refinement, name)
        value, absent = rows[column], rows[column].isnull()
        if name in refinement.source.parsed_columns:
            text = rows[name]
            yield value.isnull() & text.notnull(), _text(f"{name}: '") + text + f"' is not {a_type(types[name])}"
            absent = text.isnull()
        if not fields[name].nullable:
            yield absent, _text(f"{name}: is missing")
            if types[name] in BINARY:
                yield value.isnan().fill_null(False), _text(f"{name}: {NOT_A_NUMBER}")
        for kind, asked in asked_of(fields[name]):
            shown = _text(f"{name}: {kind.wrong(asked)} (was ") + _shown(value, types[name]) + ")"
            yield ~kind.of(rows, column, asked).fill_null(True), shown


def _asked_of_row(rows: ir.Table, refinement: Refinement) -> Iterator[tuple[ir.BooleanValue, ir.StringValue]]:
    yield rows[_BEFORE], _text("line: has a form of a moment that was not read when it was landed; land it again")
    if name := refinement.source.event_day_field:
        absurd = _text(f"{name}: '") + rows[name].cast("string") + f"' {IMPLAUSIBLE}"
        yield rows[_IMPLAUSIBLE] & ~rows[_BEFORE], absurd
    if refinement.takes_days is not None:
        days = rows.arrival_day.delta(rows[_DAY], unit="day")
        takes = f"late: {refinement.source.name} takes rows up to {refinement.takes_days} days after their day (was "
        yield (days > refinement.takes_days).fill_null(False), _text(takes) + days.cast("string") + ")"


def _is_hashed_before(rows: ir.Table, refinement: Refinement) -> ir.BooleanValue:
    """Rows landed when this form of a moment was text have hashes of the text."""
    import ibis

    source = refinement.source
    if "timestamp" not in map(source.type_of, source.columns):
        return ibis.literal(False)
    known = (each.source for each in ContentHash(source, "text").by_fields_known())
    as_read_now = [content_hash_of_read(each, rows, lambda name: rows[_typed(refinement, name)]) for each in known]
    return in_newer_form(source, rows).ifelse(reduce(and_, (rows.content_hash != each for each in as_read_now)), False)


def _is_implausible(rows: ir.Table, refinement: Refinement) -> ir.BooleanValue:
    if refinement.source.replaced_whole:
        return cast("ir.BooleanValue", rows.day_is_arrival)
    named = rows[_typed(refinement, refinement.source.event_day_field)].notnull()
    return (rows.day_is_arrival & named).fill_null(False)


def _shown(value: ir.Value, spark_type: str) -> ir.StringValue:
    if spark_type in BINARY or structure_of(spark_type):
        return cast("ir.StringValue", value.cast("string"))
    if spark_type == "timestamp":
        written = value.cast("timestamp").strftime("%Y-%m-%d %H:%M:%S.%f")
        return cast("ir.StringValue", written.re_replace("[.]?0*$", ""))
    return canonical(value, spark_type)


# ------------------------------------------------------------------ the two tables


def rejects(judged: ir.Table) -> ir.Table:
    return judged.filter(judged[_LANDED].notnull())


def rejected(judged: ir.Table, refinement: Refinement) -> ir.Table:
    """Broken rows as landed, with all reasons."""
    source, of = refinement.source, rejects(judged)
    typed = {_typed(refinement, name): of[name] for name in (*source.parsed_columns, *refinement.derived)}
    landed = {name: of[_LANDED][number] for number, name in enumerate(_kept(source))}
    rows = of.mutate({**typed, **landed})
    columns = {**{name: rows[name] for name in rows.columns}, "reasons": _reasons(rows, refinement)}
    return rows.select(**{name: columns[name] for name in quarantine_contract(source, refinement.contract).fields()})


def accepted(judged: ir.Table, refinement: Refinement) -> ir.Table:
    """One row per key and day, the greatest by (version, content hash), with count and hash sum of those it won over,
    and the day of a newer one elsewhere.
    """
    winners = _winners(judged, refinement)
    marked = _with_markers(winners, _newest_markers(judged, refinement), refinement)
    return marked.select(*refinement.contract.fields())


def _winners(judged: ir.Table, refinement: Refinement) -> ir.Table:
    """Equal content has an equal key."""
    import ibis

    lone, alike = (_sound(rows) for rows in lone_and_alike(judged, _KEY))
    if OCCURRENCE in refinement.key:
        lone, alike = lone.mutate({OCCURRENCE: ibis.literal(1, "int64")}), _with_occurrence(alike)
    names = [name for name in refinement.contract.fields() if name != _MOVED_TO]
    # In the other order a thread of DuckDB waits for ever once many lone rows are buffered.
    newest = _newest(alike, refinement).select(*names)
    return newest.union(_with_account(lone, ibis.literal(0), ibis.literal(0)).select(*names))


def _sound(judged: ir.Table) -> ir.Table:
    return judged.filter(judged[_RECEIVED], judged[_LANDED].isnull())


def _with_occurrence(rows: ir.Table) -> ir.Table:
    import ibis

    identical = {"group_by": [_DAY, "content_hash"], "order_by": ["source_file", "source_line"]}
    return rows.mutate({OCCURRENCE: (ibis.row_number().over(**identical) + 1).cast("int64")})


def _newest(rows: ir.Table, refinement: Refinement) -> ir.Table:
    import ibis

    key = [_DAY, *refinement.key]
    versions = rows.mutate(
        {
            _PLACE: ibis.row_number().over(group_by=key, order_by=_newest_first(rows, refinement)),
            _VERSIONS: rows.count().over(group_by=key),
            _HASHES: rows.content_hash.sum().over(group_by=key),
        }
    )
    newest = versions.filter(versions[_PLACE] == 0)
    return _with_account(newest, newest[_VERSIONS] - 1, newest[_HASHES].cast(_SUM) - newest.content_hash.cast(_SUM))


def _with_account(rows: ir.Table, others: ir.IntegerValue, hashes: ir.Value) -> ir.Table:
    return rows.mutate(deduplicated_rows=others.cast("int64"), deduplicated_hash=hashes.cast(_SUM))


def _newest_first(rows: ir.Table, refinement: Refinement) -> list[ir.Value]:
    """The first that arrived wins among exact duplicates."""
    import ibis

    names = [name for name in refinement.columns if name not in {_DAY, *refinement.key}]
    return [
        rows[refinement.source.version_field].desc(),
        rows.content_hash.desc(),
        rows.arrival_day.asc(),
        rows.source_file.desc(),
        rows.source_line.asc(),
        *(ibis.desc(rows[name]) for name in names),
    ]


def _newest_markers(judged: ir.Table, refinement: Refinement) -> ir.Table:
    import ibis

    markers = judged.filter(~judged[_RECEIVED])
    if OCCURRENCE in refinement.key:
        markers = _with_occurrence(markers)
    key, version = [_DAY, *refinement.key], refinement.source.version_field
    order = [markers[name].desc() for name in (version, "content_hash", _MOVED_TO)]
    placed = markers.mutate({_PLACE: ibis.row_number().over(group_by=key, order_by=order)})
    names = dict.fromkeys([*key, version, "content_hash", _MOVED_TO])
    return placed.filter(placed[_PLACE] == 0).select(**{_marked(name): placed[name] for name in names})


def _marked(name: str) -> str:
    return f"marked {name}"


def _with_markers(winners: ir.Table, markers: ir.Table, refinement: Refinement) -> ir.Table:
    same = [winners[name].identical_to(markers[_marked(name)]) for name in (_DAY, *refinement.key)]
    rows = winners.left_join(markers, same)
    version, newer = rows[refinement.source.version_field], rows[_marked(refinement.source.version_field)]
    later = (newer > version) | (version.isnull() & newer.notnull())
    as_late = newer.identical_to(version) & (rows[_marked("content_hash")] > rows.content_hash)
    overtaken = later.fill_null(False) | as_late.fill_null(False)
    return rows.mutate({_MOVED_TO: overtaken.ifelse(rows[_marked(_MOVED_TO)], None)})


# ------------------------------------------------------------------ Ibis


def _text(words: str) -> ir.StringValue:
    import ibis

    return cast("ir.StringValue", ibis.literal(words))


def _array(items: Sequence[ir.Value]) -> ir.ArrayValue:
    import ibis

    return cast("ir.ArrayValue", ibis.array(items))
