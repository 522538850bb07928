from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Literal

from backfill_assets.days import Cadence
from backfill_assets.errors import InvalidRequest
from backfill_assets.model.contract import BINARY, NUMBERS, SIGNIFICANT_DIGITS, declared_types
from backfill_assets.model.declaration import (
    OCCURRENCE,
    OWN,
    AsOf,
    DayRule,
    Source,
    Step,
    Table,
    Version,
    a_type,
    require_landed_type,
)
from backfill_assets.model.event_day import zone_problems
from backfill_assets.model.record_parts import RecordTime
from backfill_assets.text import suggest_or_list

ADDED_BY_INGESTION = (
    *("rescued", "unparsed_line", "record_kind", "source_file", "source_line", "arrival_day", "day_is_arrival"),
    *("content_hash", "superseded_by_day", "reasons", "deduplicated_rows", "deduplicated_hash"),
)
_FOLDER = re.compile(r"[a-z][a-z0-9_]*")
_TOTAL = "total_"
_NO_NAMES = (*BINARY, "array", "struct", "map")

Streamed = bool | Literal["always"]


@dataclass(frozen=True)
class Dataset:
    """Steps in build order. A wrong one raises :class:`InvalidRequest`."""

    name: str
    description: str
    owners: tuple[str, ...]
    steps: tuple[Step, ...]
    first_day: date
    """Shared by datasets that read each other."""
    streamed: Streamed = False
    """A person starts the first source's stream; ``always``: it starts once something is published, until a person
    stops it.
    """

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", tuple(self._begin(step) for step in self.steps))
        require_sound([self], complete=False)

    def _begin(self, step: Step) -> Step:
        if step.source is None or step.source.first_day == self.first_day:
            return step
        return replace(step, source=replace(step.source, first_day=self.first_day))

    @property
    def tables(self) -> tuple[Table, ...]:
        return tuple(table for step in self.steps for table in step.tables)

    @property
    def lands(self) -> bool:
        return any(step.source is not None for step in self.steps)

    def step_of(self, table: str) -> Step:
        for step in self.steps:
            if any(t.name == table for t in step.tables):
                return step
        raise InvalidRequest(f"The dataset {self.name} has no table {table!r}.")


# ------------------------------------------------------------------ what must be so


@dataclass(frozen=True)
class Mistake:
    where: str
    what: str
    hint: str = ""


def require_sound(
    datasets: Sequence[Dataset], *, among: Sequence[Dataset] | None = None, complete: bool = True
) -> None:
    """Raises :class:`InvalidRequest` with all mistakes; unless ``complete``, other tables than those ``among`` may
    exist.
    """
    for dataset in datasets:
        if mistakes := list(_Judge(dataset, among or datasets, complete=complete).mistakes()):
            raise _refusal(f"The dataset {dataset.name}", list(dict.fromkeys(mistakes)))


def require_sound_refinement(source: Source, key: Sequence[str], derived: Mapping[str, Sequence[str]]) -> None:
    where = f"refinement of {source.name}"
    parts = [name for names in derived.values() for name in names]
    mistakes = [
        *source_mistakes(source),
        *unknown_names(f"{where}, derived", parts, source.columns, "is no landed field", "Fields"),
    ]
    if "day" in key:
        mistakes.append(Mistake(f"{where}, key", "'day' is part of every key.", "Leave it out: a key has a row a day."))
    if OCCURRENCE in key and source.supersession_window_days:
        what = "identical lines are numbered within a day: they cannot be superseded on another one."
        mistakes.append(Mistake(f"{where}, key", what, "Leave out occurrence, or supersession_window_days."))
    if not key:
        mistakes.append(Mistake(where, "it has no key.", "Name the columns of which one row wins for each day."))
    if mistakes:
        raise _refusal(f"The source {source.name}", mistakes)


def source_mistakes(source: Source) -> Iterator[Mistake]:
    where = f"source {source.name}"
    if not _FOLDER.fullmatch(source.name):
        yield Mistake(
            where, f"{source.name!r} is no name of a folder.", "Small letters, digits and _: sea_temperatures."
        )
    yield from _twice(f"{where}, fields", source.fields)
    for name in source.columns:
        if name in ADDED_BY_INGESTION:
            yield Mistake(f"{where}, fields", f"{name!r} is a column that ingestion adds.", _under_another_name(name))
    yield from _rescued_mistakes(source, where)
    time = RecordTime().field
    if time in source.fields and (kind := source.type_of(source.column_of(time))) not in ("string", "timestamp"):
        yield Mistake(f"{where}, types", f"the time of a record is a {kind}.", "It needs the type timestamp, or text.")
    yield from _type_mistakes(source, where)


def _under_another_name(name: str) -> str:
    return f'Keep it in a column of another name: landed_{name}: ... = Field(landed="{name}").'


def _rescued_mistakes(source: Source, where: str) -> Iterator[Mistake]:
    """Raw placed and hashed its rows without these fields."""
    used = {source.event_day_field, source.version_field, *source.key_fields, *source.personal_fields.values()}
    for name in source.rescued_fields:
        if name in used:
            what = f"{name!r} is the event day, the version, personal or in the key."
            yield Mistake(f"{where}, rescued_fields", what, "Only other fields are read from what raw kept of them.")
        elif name in source.renamed_fields.values():
            what = f"{name!r} is landed under another name, which is what raw kept it by."
            yield Mistake(f"{where}, rescued_fields", what, "Leave out rescued=True, or the other name.")


def unknown_names(where: str, names: Iterable[str], known: Collection[str], what: str, kind: str) -> Iterator[Mistake]:
    for name in dict.fromkeys(names):
        if name not in known:
            yield Mistake(where, f"{name!r} {what}.", suggest_or_list(name, known, kind))


def _type_mistakes(source: Source, where: str) -> Iterator[Mistake]:
    for name, kind in source.types.items():
        try:
            require_landed_type(kind)
        except InvalidRequest as error:
            yield Mistake(f"{where}, types", f"{name!r}: {error.message}", error.hint or "")
    kind = "date" if source.replaced_whole else source.type_of(source.event_day_field)
    if kind not in ("date", "timestamp"):
        what = f"{source.event_day_field!r} is a {kind}."
        yield Mistake(f"{where}, event_day_field", what, "It needs the type date or timestamp in `types`.")
    for mark, names in (("key", source.key_columns), ("version", (source.version_field,))):
        for name in names:
            if (kind := source.type_of(name)).startswith((*_NO_NAMES, "boolean")):
                yield _no_name(f"{where}, {mark}", name, kind, f"{mark}s are whole numbers, decimals, text or times")
    for what, hint in zone_problems(source):
        yield Mistake(f"{where}, event_zone", what, hint)


@dataclass(frozen=True)
class _Place:
    step: Step
    table: Table


class _Judge:
    def __init__(self, dataset: Dataset, datasets: Sequence[Dataset], *, complete: bool) -> None:
        self.dataset = dataset
        self.complete = complete
        self.places = {
            table.name: _Place(step, table)
            for each in (*datasets, dataset)
            for step in each.steps
            for table in step.tables
        }
        sources = [step.source for step in dataset.steps if step.source is not None]
        self.lands_day = any("day" in source.columns for source in sources)
        self.alike = {pair for source in sources for pair in _alike_fields(source)}

    def mistakes(self) -> Iterator[Mistake]:
        names = Counter(table.name for table in self.dataset.tables)
        for name, count in names.items():
            if count > 1:
                yield Mistake(name, f"there are two tables {name}.", "A name is a folder: give each its own.")
        built: set[str] = set()
        for step in self.dataset.steps:
            if step.source is not None:
                yield from source_mistakes(step.source)
                yield from _landed_day(step.source)
                yield from _alike(f"source {step.source.name}, fields", _alike_fields(step.source))
            yield from self._versions(step, built)
            for table in step.tables:
                yield from self._table(step, table)
            built |= {table.name for table in step.tables}

    # ------------------------------------------------------------------ steps

    def _versions(self, step: Step, built: Collection[str]) -> Iterator[Mistake]:
        if step.source is not None:
            return
        names = [version.name for version in step.versions]
        for name in _more_than_once(names):
            yield Mistake(step.name, f"it has two versions {name}.", "Each way to compute a table has its own name.")
        if step.current not in names:
            yield Mistake(
                step.name, f"it has no version {step.current!r}.", suggest_or_list(step.current, names, "Versions")
            )
        for version in step.versions:
            yield from self._reads(step, version, built)

    def _reads(self, step: Step, version: Version, built: Collection[str]) -> Iterator[Mistake]:
        where = f"{step.name}, version {version.name}"
        for reads in version.reads:
            place = self.places.get(reads.table)
            if isinstance(reads, AsOf):
                yield from self._as_of(where, step, version, reads.table)
            if place is None:
                yield from self._unknown_table(where, reads.table)
                continue
            if reads.table not in built and place.step in self.dataset.steps:
                what = f"{reads.table} is built after {step.name}."
                yield Mistake(where, what, "List steps in build order: each after all that it reads.")
            if place.step.cadence is not Cadence.DAILY:
                what = f"{reads.table} is {place.step.cadence.value}: only daily tables are read."
                yield Mistake(where, what, f"Read what {reads.table} is made of.")
            if reads.partial and step.cadence is Cadence.DAILY:
                what = f"{step.name} is daily: it cannot read {reads.table} in part."
                yield Mistake(where, what, "partial=True is for weeks and months.")

    def _as_of(self, where: str, step: Step, version: Version, table: str) -> Iterator[Mistake]:
        if step.cadence is not Cadence.DAILY:
            what = f"{step.name} is {step.cadence.value}: only a day reads {table} as of itself."
            yield Mistake(where, what, "Read a daily table that has read it.")
        if [each.table for each in version.reads].count(table) > 1:
            yield Mistake(where, f"it reads {table} twice.", "AsOf gives all of its rows that count.")
        place = self.places.get(name := table.removeprefix("bronze_"))  # the name that AsOf was given
        if place is not None and place.step.external:
            what = f"it reads {name} as of a day: which days of a table of others have rows is not known."
            yield Mistake(where, what, "Let a daily table keep its rows, and read that one as of a day.")

    def _unknown_table(self, where: str, name: str) -> Iterator[Mistake]:
        if self.complete:
            yield Mistake(where, f"there is no table {name!r}.", suggest_or_list(name, self.places, "Tables"))

    # ----------------------------------------------------------------- tables

    def _table(self, step: Step, table: Table) -> Iterator[Mistake]:
        columns = tuple(table.contract.fields())
        is_told = self.lands_day and table.layer in ("raw", "bronze", "quarantine")
        if (not columns or columns[-1] != "day") and not is_told:
            where = f"{table.name}, contract {table.contract.__name__}"
            yield Mistake(where, "its last column is not 'day'.", "A table is partitioned by its column day.")
        alike = (pair for pair in _equal_but_for_case(columns) if pair not in self.alike)
        yield from _alike(f"{table.name}, contract {table.contract.__name__}", alike)
        for attribute in ("totals", "groups"):
            where, names = f"{table.name}, {attribute}", getattr(table, attribute)
            yield from unknown_names(where, names, columns, f"is no column of {table.name}", "Columns")
            yield from _twice(where, names)
        yield from _without_key(table)
        yield from _parts_of_key(table)
        yield from _nullable_key(table)
        yield from _texts_among_totals(table)
        yield from _digits(table)
        yield from self._lineage(step, table, columns)
        for name in _more_than_once([rule.name for rule in table.rules]):
            yield Mistake(table.name, f"it has two rules {name}.", "Keep one of them.")
        for rule in table.rules:
            yield from self._rule(step, table, rule)

    def _lineage(self, step: Step, table: Table, columns: Collection[str]) -> Iterator[Mistake]:
        where = f"{table.name}, made_of"
        current = next((version for version in step.versions if version.name == step.current), None)
        if current is None or step.is_origin:
            return
        read = [reads.table for reads in current.reads]
        if all(name in self.places for name in read):
            carried = {column for name in read for column in self.places[name].table.contract.fields()}
            for column in columns:
                if column not in carried and column not in table.made_of:
                    hint = f'Name its origin: made_of={{"{column}": ("table.column",)}}.'
                    yield Mistake(where, f"it is not known what {column!r} is made of.", hint)
        for origin in dict.fromkeys(origin for origins in table.made_of.values() for origin in origins):
            yield from self._origin(where, origin, current, read)

    def _origin(self, where: str, origin: str, version: Version, read: Sequence[str]) -> Iterator[Mistake]:
        name, _, column = origin.partition(".")
        if name not in read:
            hint = f"It reads {', '.join(read) or 'nothing'}."
            yield Mistake(where, f"{version.name} does not read {name!r}.", hint)
        elif name in self.places:
            known = self.places[name].table.contract.fields()
            yield from unknown_names(where, [column], known, f"is no column of {name}", "Columns")

    # ------------------------------------------------------------------ rules

    def _rule(self, step: Step, table: Table, rule: DayRule) -> Iterator[Mistake]:
        where = f"{table.name}, rule {rule.name}"
        columns = table.contract.fields()
        yield from _unhashable(where, rule)
        yield from unknown_names(where, rule.columns, columns, f"is no column of {table.name}", "Columns")
        yield from _unmeasured(where, table, rule.needs.get(OWN, ()))
        for name in rule.tables:
            place = self.places.get(name)
            if name == table.name:
                yield Mistake(where, f"it compares {name} with itself.", "Name the table that it is made of.")
            elif place is None:
                yield from self._unknown_table(where, name)
            elif step.source is not None:
                yield Mistake(where, f"{table.name} takes rows in before {name} is known.", "Move the rule there.")
            else:
                yield from _unmeasured(where, place.table, rule.needs[name])
                yield from _unread(where, step, name, rule.needs[name])


def _without_key(table: Table) -> Iterator[Mistake]:
    if not table.key and table.layer not in ("raw", "external"):
        hint = 'Name the columns that it has one row of each for; ("day",) if it has one row a day, week or month.'
        yield Mistake(table.name, "it has no key: its rows could not be distinguished or traced.", hint)


def _parts_of_key(table: Table) -> Iterator[Mistake]:
    types = declared_types(table.contract)
    for name in table.key:
        if types.get(name, "").startswith(_NO_NAMES):
            yield _no_name(f"{table.name}, key", name, types[name], "a key is what tells rows apart exactly")


def _no_name(where: str, name: str, kind: str, why: str) -> Mistake:
    return Mistake(
        where, f"{name!r} is {a_type(kind)}: {why}.", "Declare it as a decimal or as text, or name another column."
    )


def _nullable_key(table: Table) -> Iterator[Mistake]:
    """Days of older versions are rebuilt as they were."""
    fields = table.contract.fields()
    for name in table.key:
        if name in fields and fields[name].nullable:
            what = f"{name!r} is nullable: a row without it has no key, and could not be told from another one."
            hint = "Leave out nullable=True; of landed rows with published days, in a new version of the row."
            yield Mistake(f"{table.name}, key", what, hint)


def _texts_among_totals(table: Table) -> Iterator[Mistake]:
    types = declared_types(table.contract) if table.totals else {}
    for name in table.totals:
        where = f"{table.name}, totals"
        if name in types and not types[name].startswith(NUMBERS):
            yield Mistake(where, f"{name!r} is a {types[name]}: only numbers add up.", "Leave it out.")
        elif types.get(name) in BINARY and table.contract.fields()[name].digits is None:
            what = f"{name!r} is a {types[name]}: its sum is another one in another order of rows."
            yield Mistake(where, what, "Declare it with digits=, or as a decimal, or leave it out.")


def _digits(table: Table) -> Iterator[Mistake]:
    types = declared_types(table.contract)
    for name, each in table.contract.fields().items():
        where, digits = f"{table.name}, digits of {name!r}", each.digits
        if digits is None:
            continue
        if types[name] not in BINARY:
            yield Mistake(where, f"it is a {types[name]}, which is exact.", "Leave digits out.")
        elif not 0 <= digits < SIGNIFICANT_DIGITS:
            yield Mistake(where, f"{digits} are behind the point.", f"Say 0 to {SIGNIFICANT_DIGITS - 1}.")
        elif not _is_within(each.checks["in_range"], most := 10 ** (SIGNIFICANT_DIGITS - digits)):
            what = f"a double has {SIGNIFICANT_DIGITS} digits in all, and in_range asks for more."
            yield Mistake(where, what, f"Let it lie between -{most} and {most}, or declare fewer digits.")


def _is_within(asked: Mapping[str, Any], most: int) -> bool:
    return bool(-most <= asked["min_value"] and asked["max_value"] <= most)


def _unhashable(where: str, rule: DayRule) -> Iterator[Mistake]:
    try:
        hash(rule)
    except TypeError as error:
        yield Mistake(where, f"it cannot be compared by its value: {error}.", "Let its fields be tuples and numbers.")


def _unmeasured(where: str, table: Table, metrics: Iterable[str]) -> Iterator[Mistake]:
    for metric in metrics:
        total = metric.removeprefix(_TOTAL)
        if metric.startswith(_TOTAL):
            if total not in table.totals:
                yield Mistake(where, f"{total!r} is no total of {table.name}.", _total_hint(table, total))
        elif metric not in table.measured:
            yield Mistake(
                where, f"{table.name} does not measure {metric!r}.", "Name the raw, bronze or quarantine table."
            )


def _total_hint(table: Table, name: str) -> str:
    if name in table.contract.fields():
        totals = ", ".join(f'"{each}"' for each in (*table.totals, name))
        return f"Let it be measured: totals=({totals}{',' if ', ' not in totals else ''}) of {table.name}."
    return suggest_or_list(name, (*table.totals, "rows"), "Totals")


def _unread(where: str, step: Step, name: str, metrics: Iterable[str]) -> Iterator[Mistake]:
    """Totals are known of tables read and beside; the accounting, of all upstream."""
    beside = any(table.name == name for table in step.tables)
    read = all(any(reads.table == name for reads in version.reads) for version in step.versions)
    if not beside and not read and any(metric.startswith(_TOTAL) for metric in metrics):
        hint = f"Add Reads({name!r}) to each of its versions, or compare with what it reads."
        yield Mistake(where, f"{step.name} does not read {name}.", hint)


def _twice(where: str, names: Sequence[str]) -> Iterator[Mistake]:
    for name in _more_than_once(names):
        yield Mistake(where, f"{name!r} is there twice.", "Keep one of them.")


def _more_than_once(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def _landed_day(source: Source) -> Iterator[Mistake]:
    if "day" in source.columns:
        what = "'day' is the column of the day that a row is put on."
        yield Mistake(f"source {source.name}, fields", what, _under_another_name("day"))


def _alike(where: str, pairs: Iterable[tuple[str, str]]) -> Iterator[Mistake]:
    for one, other in pairs:
        what = f"{one!r} and {other!r} are equal but for case: to Spark and Delta they are one column."
        yield Mistake(where, what, "Give one of them another name.")


def _alike_fields(source: Source) -> Iterator[tuple[str, str]]:
    yield from dict.fromkeys(
        pair
        for names in (source.fields, (*ADDED_BY_INGESTION, "day", *source.columns))
        for pair in _equal_but_for_case(names)
    )


def _equal_but_for_case(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    first: dict[str, str] = {}
    for name in dict.fromkeys(names):
        if (known := first.setdefault(name.lower(), name)) != name:
            yield known, name


def _refusal(declared: str, mistakes: Sequence[Mistake]) -> InvalidRequest:
    if len(mistakes) == 1:
        (only,) = mistakes
        return InvalidRequest(f"{declared} is declared wrong: {only.where}: {only.what}", hint=only.hint)
    lines = [f"  {each.where}: {each.what} {each.hint}" for each in mistakes]
    return InvalidRequest("\n".join([f"{declared} is declared wrong in {len(mistakes)} places:", *lines]))
