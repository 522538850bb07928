"""Both tables of a refinement in plain Python, row by row: an independent answer for the declared query.

Raw rows are mappings of Python's values; days and moments of what is found are numbers, as in
:mod:`~backfill_assets_tests.strategies.values_by_python`.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from backfill_assets.model.checks import KINDS
from backfill_assets.model.contract import declared_types
from backfill_assets.model.declaration import OCCURRENCE
from backfill_assets.model.deletion import DELETION
from backfill_assets.model.landed import quarantine_contract
from backfill_assets.model.measure import ContentHash
from backfill_assets.model.refinement import Refinement
from backfill_assets_tests.strategies.values_by_python import (
    canonical,
    content_hash,
    in_newer_form,
    joined_key,
    shown,
    value_of,
)

Row = Mapping[str, Any]
Found = list[dict[str, Any]]
NOT_AN_OBJECT = "line: is not one JSON object with distinct fields"
UNREADABLE = '{"unreadable":"'
HASHED_BEFORE = "line: has a form of a moment that was not read when it was landed; land it again"


def accepted(rows: Sequence[Row], asked: Refinement) -> Found:
    """The winner of each key and day, with its account of the others."""
    judged = [_Judged(row, asked) for row in rows]
    sound = _numbered([each for each in judged if each.is_received and not each.reasons], asked)
    markers = _numbered([each for each in judged if each.row["record_kind"] == "supersession"], asked)
    moved = _by_key(markers, asked)
    return [_winner(versions, moved.get(key, []), asked) for key, versions in _by_key(sound, asked).items()]


def rejected(rows: Sequence[Row], asked: Refinement) -> Found:
    """Received rows that break the contract, as they were landed, with every reason."""
    names = quarantine_contract(asked.source, asked.contract).fields()
    judged = [_Judged(row, asked) for row in rows]
    return [
        {name: each.reasons if name == "reasons" else each.landed[name] for name in names}
        for each in judged
        if each.is_received and each.reasons
    ]


def standing(rows: Sequence[Row]) -> list[Row]:
    """``rows`` without deletions, and without one equal row for each of them, whenever that arrived."""
    counts: dict[tuple[Any, ...], int] = defaultdict(int)
    arrivals: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for row in rows:
        cancels = row["record_kind"] == DELETION
        cancelled = "supersession" if row["source_file"] is None else "received"
        kind = {"record_kind": cancelled} if cancels else {}
        place = tuple((name, value) for name, value in {**row, **kind}.items() if name != "arrival_day")
        counts[place] += -1 if cancels else 1
        arrivals[place] += [] if row["arrival_day"] is None else [row["arrival_day"]]
    return [
        {**dict(place), "arrival_day": max(arrivals[place], default=None)}
        for place, count in counts.items()
        for _ in range(count)
    ]


def keys_of(rows: Sequence[Row], asked: Refinement) -> set[tuple[Any, ...]]:
    """The day and the key of each row, also of one that is rejected, or is no row of its own."""
    return set(_by_key([_Judged(row, asked) for row in rows], asked))


# ------------------------------------------------------------------ one row


@dataclass
class _Judged:
    """A raw row, its values, and what is wrong with it."""

    row: Row
    asked: Refinement
    landed: dict[str, Any] = field(init=False)
    """The row, with what it kept of fields that were declared later."""
    values: dict[str, Any] = field(init=False)
    reasons: list[str] = field(init=False)

    def __post_init__(self) -> None:
        source = self.asked.source
        kept = {name: _kept(self.row["rescued"], name) for name in source.rescued_fields}
        self.landed = {**self.row, **{name: text for name, text in kept.items() if self.row[name] is None}}
        self.values = {name: self.value(name) for name in source.columns}
        texts = {name: self.text(name) for name in source.columns}
        self.values |= {name: joined_key(texts, source, parts) for name, parts in self.asked.derived.items()}
        self.reasons = [NOT_AN_OBJECT] if self.row["unparsed_line"] is not None else list(self.found())
        if (self.row["rescued"] or "").startswith(UNREADABLE) and not any(self.landed[name] for name in source.columns):
            self.reasons = [f"event: {json.loads(self.row['rescued'])['unreadable']}"]

    @property
    def is_received(self) -> bool:
        return bool(self.row["record_kind"] == "received")

    def text(self, name: str) -> Any:
        """A landed field is text, but for one that is called as the day of the row."""
        return canonical(self.landed["day"], "date") if name == "day" else self.landed[name]

    def value(self, name: str) -> Any:
        return self.landed["day"] if name == "day" else value_of(self.landed[name], self.asked.source.type_of(name))

    def found(self) -> Iterator[str]:
        for name in self.asked.columns:
            yield from self.of_column(name)
        if self.is_hashed_before():
            yield HASHED_BEFORE
        elif self.row["day_is_arrival"] and self.values[name := self.asked.source.event_day_field] is not None:
            yield f"{name}: '{self.text(name)}' is no plausible day"
        late, most = self.days_late(), self.asked.takes_days
        if most is not None and late is not None and late > most:
            yield f"late: {self.asked.source.name} takes rows up to {most} days after their day (was {late})"

    def of_column(self, name: str) -> Iterator[str]:
        declared, kind = self.asked.contract.fields()[name], declared_types(self.asked.contract)[name]
        value = self.values[name]
        if value is None:
            if name in self.asked.source.columns and self.text(name) is not None:
                yield f"{name}: '{self.text(name)}' is not {'an' if kind[0] in 'ai' else 'a'} {kind}"
            elif not declared.nullable:
                yield f"{name}: is missing"
            return
        is_number = not (isinstance(value, float) and math.isnan(value))
        compared = value if is_number else math.inf
        if not (declared.nullable or is_number):
            yield f"{name}: is not a number"
        for check, holds in _CHECKS.items():
            if check in declared.checks and not holds(compared, _asked(declared.checks[check], kind)):
                yield f"{name}: {KINDS[check].wrong(declared.checks[check])} (was {shown(value, kind)})"

    def is_hashed_before(self) -> bool:
        source = self.asked.source
        texts = {name: self.text(name) for name in source.columns}
        if not in_newer_form(texts, source):
            return False
        known = (each.source for each in ContentHash(source, "text").by_fields_known())
        return self.row["content_hash"] not in {content_hash(texts, each) for each in known}

    def days_late(self) -> int | None:
        arrival = self.row["arrival_day"]
        return None if arrival is None else int(arrival - self.row["day"])


def _kept(rescued: str | None, name: str) -> str | None:
    try:
        told = json.loads(rescued or "null")
    except ValueError:
        return None
    value = told.get(name) if isinstance(told, dict) else None
    return value if value is None or isinstance(value, str) else json.dumps(value, separators=(",", ":"))


# ------------------------------------------------------------------ what is asked of a value


def _asked(asked: Any, kind: str) -> Any:
    """Days of a contract as numbers, too."""
    return value_of(str(asked), "date") if kind == "date" else asked


def _within(value: Any, asked: Mapping[str, Any]) -> bool:
    above = operator.ge if asked.get("include_min", True) else operator.gt
    below = operator.le if asked.get("include_max", True) else operator.lt
    return bool(above(value, asked["min_value"]) and below(value, asked["max_value"]))


def _matches(value: str, asked: str) -> bool:
    r"""From the start; Python's ``$`` also stands before an end of a line, and ``\Z`` does not."""
    return re.match(re.sub(r"(?<!\\)\$", r"\\Z", asked), value) is not None


def _long(value: str, asked: Mapping[str, Any]) -> bool:
    most = asked.get("max_value")
    return len(value) >= (asked.get("min_value") or 0) and (most is None or len(value) <= most)


_CHECKS: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "gt": operator.gt,
    "ge": operator.ge,
    "lt": operator.lt,
    "le": operator.le,
    "in_range": _within,
    "isin": lambda value, asked: value in asked,
    "notin": lambda value, asked: value not in asked,
    "str_matches": _matches,
    "str_length": _long,
}
"""In the order in which reasons are given."""


# ------------------------------------------------------------------ winners


def _numbered(rows: list[_Judged], asked: Refinement) -> list[_Judged]:
    """With the number that each has among those of equal content on its day, where the key asks for it."""
    if OCCURRENCE in asked.key:
        counted: dict[tuple[Any, ...], int] = defaultdict(int)
        for each in sorted(rows, key=lambda each: (each.row["source_file"], each.row["source_line"])):
            place = (each.row["day"], each.row["content_hash"])
            counted[place] += 1
            each.values[OCCURRENCE] = counted[place]
    return rows


def _by_key(rows: Sequence[_Judged], asked: Refinement) -> dict[tuple[Any, ...], list[_Judged]]:
    found: dict[tuple[Any, ...], list[_Judged]] = defaultdict(list)
    for each in rows:
        found[each.row["day"], *(each.values[name] for name in asked.key)].append(each)
    return found


def _winner(versions: Sequence[_Judged], markers: Sequence[_Judged], asked: Refinement) -> dict[str, Any]:
    version = asked.source.version_field

    def place(each: _Judged) -> tuple[Any, ...]:
        row = each.row
        newest = (_nulls_first(each.values[version]), row["content_hash"])
        return (*newest, -row["arrival_day"], row["source_file"], -row["source_line"])

    best = max(versions, key=place)
    others = [each for each in versions if each is not best]
    newest = max(markers, key=lambda each: _version(each, version, each.row["superseded_by_day"]), default=None)
    is_moved = newest is not None and _version(newest, version) > _version(best, version)
    account = {
        **{name: best.row[name] for name in ("content_hash", "source_file", "source_line", "arrival_day", "day")},
        "deduplicated_rows": len(others),
        "deduplicated_hash": Decimal(sum(each.row["content_hash"] for each in others)),
        "superseded_by_day": newest.row["superseded_by_day"] if newest is not None and is_moved else None,
    }
    found = {**best.values, **account}
    return {name: found[name] for name in asked.contract.fields()}


def _version(each: _Judged, version: str, *more: Any) -> tuple[Any, ...]:
    return (_nulls_first(each.values[version]), each.row["content_hash"], *more)


def _nulls_first(value: Any) -> tuple[bool, Any]:
    return (value is not None, 0 if value is None else value)
