"""From raw text to typed rows by the declared query: what is rejected and why, and which version of a key wins its day.

The query is made of a :class:`~backfill_assets.model.refinement.Refinement`, as expressions of Ibis. Rows are judged
once, and both tables are made of what was judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, cast

from backfill_assets.model.checks import asked_of
from backfill_assets.model.contract import declared_types
from backfill_assets.model.declaration import OCCURRENCE, Source
from backfill_assets.model.landed import quarantine_contract
from backfill_assets.model.landed_values import (
    canonical,
    content_hash_of_read,
    hashed,
    in_newer_form,
    joined_key,
    parsed,
)
from backfill_assets.model.lone_rows import lone_and_alike
from backfill_assets.model.measure import ContentHash
from backfill_assets.model.placement import IMPLAUSIBLE

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from backfill_assets.model.refinement import Refinement

_PROVENANCE = ("content_hash", "source_file", "source_line", "arrival_day")
_KEPT = ("rescued", "unparsed_line")
_DAY, _MOVED_TO = "day", "superseded_by_day"
_RECEIVED, _UNSOUND, _REASONS, _LANDED = "is received", "is unsound", "why it is rejected", "as landed"
_PLACE, _VERSIONS, _HASHES = "place among versions", "versions", "sum of hashes"
_SUM = "decimal(38, 0)"
"""No landed field has a space in its name."""


# ------------------------------------------------------------------ what is judged


def judged(raw: ir.Table, refinement: Refinement, part: tuple[int, int] = (0, 1)) -> ir.Table:
    """The values of raw rows, and why they are rejected: what :func:`accepted` and :func:`rejected` are made of.

    Of a ``part`` (i, n), only every n-th row by a hash of its key: all versions of a key are in one part. Rows that have
    no key are parted by their line.
    """
    source = refinement.source
    landed = _of_part(_with_rescued(raw, source), refinement, *part)
    typed = landed.mutate({_typed(refinement, name): value for name, value in _values(landed, refinement)})
    rows = typed.mutate({_RECEIVED: typed.record_kind == "received", _UNSOUND: _is_unsound(typed, refinement)})
    relevant = rows[_RECEIVED] | (rows.record_kind == "supersession") | ~rows[_UNSOUND]
    is_rejected = rows[_RECEIVED] & rows[_UNSOUND]
    return rows.filter(relevant).select(
        *(_DAY, *_PROVENANCE, _MOVED_TO, _RECEIVED),
        **{name: rows[_typed(refinement, name)] for name in refinement.columns if name != _DAY},
        **{
            _REASONS: is_rejected.ifelse(_reasons(rows, refinement), None),
            _LANDED: is_rejected.ifelse(_array([rows[name] for name in _kept(source)]), None),
        },
    )


def _kept(source: Source) -> tuple[str, ...]:
    """What is not among the values of a row, and is kept of one that is rejected."""
    return (*source.parsed_columns, *_KEPT)


def _with_rescued(raw: ir.Table, source: Source) -> ir.Table:
    """``raw`` with the texts of rescued fields also where a row was landed before they were declared."""
    import ibis

    is_json, text_at = map(ibis.udf.scalar.builtin, (json_valid, json_extract_string))
    kept = is_json(raw.rescued).ifelse(raw.rescued, None)
    return raw.mutate({name: ibis.coalesce(raw[name], text_at(kept, _pointer(name))) for name in source.rescued_fields})


def _pointer(name: str) -> str:
    return "/" + name.replace("~", "~0").replace("/", "~1")


def _of_part(rows: ir.Table, refinement: Refinement, part: int, parts: int) -> ir.Table:
    if parts == 1:
        return rows
    values = dict(_values(rows, refinement))
    key = {name: values[name] if name in values else rows[name] for name in refinement.key if name != OCCURRENCE}
    texts = [canonical(value, refinement.source.type_of(name)) for name, value in key.items()]
    demanded = [key[name].isnull() for name in key if not refinement.contract.fields()[name].nullable]
    by_line = hashed(rows.source_file, rows.source_line)
    number = reduce(or_, demanded).ifelse(by_line, hashed(*texts)) if demanded else hashed(*texts)
    return rows.filter((number % parts + parts) % parts == part)


def _values(rows: ir.Table, refinement: Refinement) -> Iterator[tuple[str, ir.Value]]:
    """The columns whose landed text is not their value, and the value."""
    source = refinement.source
    for name in source.parsed_columns:
        yield name, parsed(rows[name], source.type_of(name))
    for name, parts in refinement.derived.items():
        yield name, joined_key(source, rows, parts)


def _typed(refinement: Refinement, name: str) -> str:
    """The column of a value, where landed texts have kept their names."""
    return f"{name} typed" if name in refinement.derived or name in refinement.source.parsed_columns else name


# ------------------------------------------------------------------ why a row is rejected


def _is_unsound(rows: ir.Table, refinement: Refinement) -> ir.BooleanValue:
    """Whether a row is; never null."""
    of_row = [_unparsed(rows), _is_implausible(rows, refinement), _is_hashed_before(rows, refinement)]
    of_contract = [broken for broken, _ in _breaches(rows, refinement)]
    return reduce(or_, [*of_row, *(late for late, _ in _lateness(rows, refinement)), *of_contract])


def _reasons(rows: ir.Table, refinement: Refinement) -> ir.ArrayValue:
    """Everything that is wrong with a row, in words."""
    found = [*_breaches(rows, refinement), *_of_moment(rows, refinement), *_lateness(rows, refinement)]
    texts = _array([broken.ifelse(words, None) for broken, words in found])
    line = _array([_text("line: is not one JSON object with distinct fields")])
    return cast("ir.ArrayValue", _unparsed(rows).ifelse(line, texts.filter(lambda text: text.notnull())))


def _breaches(rows: ir.Table, refinement: Refinement) -> Iterator[tuple[ir.BooleanValue, ir.StringValue]]:
    """For each thing that the contract asks of a row: whether it breaks that, and in which words."""
    fields, types = refinement.contract.fields(), declared_types(refinement.contract)
    for name in refinement.columns:
        column = _typed(refinement, name)
        value, text = rows[column], rows[name] if name in refinement.source.parsed_columns else None
        absent = value.isnull()
        if text is not None:
            absent = absent & text.isnull()
            yield value.isnull() & text.notnull(), _text(f"{name}: '") + text + f"' is not a {types[name]}"
        if not fields[name].nullable:
            yield absent, _text(f"{name}: is missing")
        for kind, asked in asked_of(fields[name]):
            shown = _text(f"{name}: {kind.wrong(asked)} (was ") + _shown(value, types[name]) + ")"
            yield ~kind.of(rows, column, asked).fill_null(True), shown


def _of_moment(rows: ir.Table, refinement: Refinement) -> Iterator[tuple[ir.BooleanValue, ir.StringValue]]:
    before, name = _is_hashed_before(rows, refinement), refinement.source.event_day_field
    yield before, _text("line: has a form of a moment that was not read when it was landed; land it again")
    absurd = _text(f"{name}: '") + rows[name].cast("string") + f"' {IMPLAUSIBLE}"
    yield ~before & _is_implausible(rows, refinement), absurd


def _lateness(rows: ir.Table, refinement: Refinement) -> Iterator[tuple[ir.BooleanValue, ir.StringValue]]:
    if refinement.takes_days is None:
        return
    days = rows.arrival_day.delta(rows[_DAY], unit="day")
    takes = f"late: {refinement.source.name} takes rows up to {refinement.takes_days} days after their day (was "
    yield (days > refinement.takes_days).fill_null(False), _text(takes) + days.cast("string") + ")"


def _unparsed(rows: ir.Table) -> ir.BooleanValue:
    return cast("ir.BooleanValue", rows.unparsed_line.notnull())


def _is_hashed_before(rows: ir.Table, refinement: Refinement) -> ir.BooleanValue:
    """Whether a row was landed when its moments were text to the ingestion, which its hash and its day are by.

    Its values have another hash, so that it would be accounted for nowhere.
    """
    import ibis

    source = refinement.source
    if "timestamp" not in map(source.type_of, source.columns):
        return ibis.literal(False)
    known = (each.source for each in ContentHash(source, "text").by_fields_known())
    as_read_now = [content_hash_of_read(each, rows, lambda name: rows[_typed(refinement, name)]) for each in known]
    return in_newer_form(source, rows).ifelse(reduce(and_, (rows.content_hash != each for each in as_read_now)), False)


def _is_implausible(rows: ir.Table, refinement: Refinement) -> ir.BooleanValue:
    """Whether a row has the day of its arrival although it names one; never null, or it would be in neither table."""
    named = rows[_typed(refinement, refinement.source.event_day_field)].notnull()
    return (rows.day_is_arrival & named).fill_null(False)


def _shown(value: ir.Value, spark_type: str) -> ir.StringValue:
    """The text of a value as Spark has it; moments without zeros at their end."""
    if spark_type == "timestamp":
        written = value.cast("timestamp").strftime("%Y-%m-%d %H:%M:%S.%f")
        return cast("ir.StringValue", written.re_replace("[.]?0*$", ""))
    return canonical(value, spark_type)


# ------------------------------------------------------------------ the two tables


def rejected(judged: ir.Table, refinement: Refinement) -> ir.Table:
    """Received rows that break the contract, as they were landed, with every reason; for the quarantine table."""
    source = refinement.source
    rows = judged.filter(judged[_REASONS].notnull())
    landed = {name: rows[_LANDED][number] for number, name in enumerate(_kept(source))}
    values = {**{name: rows[name] for name in rows.columns}, **landed, "reasons": rows[_REASONS]}
    return rows.select(**{name: values[name] for name in quarantine_contract(source, refinement.contract).fields()})


def accepted(judged: ir.Table, refinement: Refinement) -> ir.Table:
    """One row per key and day, the greatest by (version, content hash), in the shape of the contract.

    What it won over is counted and summed in it, so that nothing received is unaccounted for; if a marker in the
    same day stands for a still newer version, it says which day that one belongs to. With ``occurrence`` in the key,
    identical lines are numbered first, and each is a row.
    """
    rows = judged.filter(judged[_REASONS].isnull()).drop(_REASONS, _LANDED)
    if OCCURRENCE in refinement.key:
        rows = _with_occurrence(rows)
    winners = _winners(rows.filter(rows[_RECEIVED]), refinement)
    marked = _with_markers(winners, _newest_markers(rows.filter(~rows[_RECEIVED]), refinement), refinement)
    return marked.select(*refinement.contract.fields())


def _with_occurrence(rows: ir.Table) -> ir.Table:
    """``rows`` with the number that each has among those of equal content on its day, by file and line."""
    import ibis

    lone, alike = lone_and_alike(rows, (_DAY, "content_hash"))
    place = [ibis.asc(rows[name], nulls_first=True) for name in ("source_file", "source_line")]
    window = ibis.window(group_by=[_DAY, "content_hash"], order_by=place)
    numbered = alike.mutate({OCCURRENCE: (ibis.row_number().over(window) + 1).cast("int64")})
    return lone.mutate({OCCURRENCE: ibis.literal(1, "int64")}).union(numbered)


def _winners(rows: ir.Table, refinement: Refinement) -> ir.Table:
    """The newest of ``rows`` of each day and key, and what it won over."""
    import ibis

    key = [_DAY, *refinement.key]
    lone, alike = lone_and_alike(rows, key)
    versions = alike.mutate(
        {
            _PLACE: ibis.row_number().over(group_by=key, order_by=_newest_first(alike, refinement)),
            _VERSIONS: alike.count().over(group_by=key),
            _HASHES: alike.content_hash.sum().over(group_by=key),
        }
    )
    newest = versions.filter(versions[_PLACE] == 0)
    others = newest[_HASHES].cast(_SUM) - newest.content_hash.cast(_SUM)
    first = _with_account(newest, newest[_VERSIONS] - 1, others).drop(_PLACE, _VERSIONS, _HASHES)
    return _with_account(lone, ibis.literal(0), ibis.literal(0)).union(first)


def _with_account(rows: ir.Table, others: ir.IntegerValue, hashes: ir.Value) -> ir.Table:
    return rows.mutate(deduplicated_rows=others.cast("int64"), deduplicated_hash=hashes.cast(_SUM))


def _newest_first(rows: ir.Table, refinement: Refinement) -> list[ir.Value]:
    """The order of versions comes first; of equal ones (exact duplicates) the first that arrived stands for all."""
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


def _newest_markers(markers: ir.Table, refinement: Refinement) -> ir.Table:
    """Of each day and key, the newest version that belongs to another day; its columns are :func:`_marked`."""
    import ibis

    key, version = [_DAY, *refinement.key], refinement.source.version_field
    order = [markers[name].desc() for name in (version, "content_hash", _MOVED_TO)]
    placed = markers.mutate({_PLACE: ibis.row_number().over(group_by=key, order_by=order)})
    names = dict.fromkeys([*key, version, "content_hash", _MOVED_TO])
    return placed.filter(placed[_PLACE] == 0).select(**{_marked(name): placed[name] for name in names})


def _marked(name: str) -> str:
    return f"marked {name}"


def _with_markers(winners: ir.Table, markers: ir.Table, refinement: Refinement) -> ir.Table:
    """``winners`` with the day that a newer version of them belongs to."""
    same = [winners[name].identical_to(markers[_marked(name)]) for name in (_DAY, *refinement.key)]
    rows = winners.drop(_MOVED_TO).left_join(markers, same)
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


def json_valid(text: str) -> bool:
    """DuckDB's own."""
    raise NotImplementedError


def json_extract_string(text: str, pointer: str) -> str:
    """DuckDB's own."""
    raise NotImplementedError
