"""Landed fields unlike the declaration, as metrics of raw days. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from enum import StrEnum
from itertools import groupby, islice

from backfill_assets.model.declaration import EXAMPLE, Metrics, RuleOutcome, Source
from backfill_assets.model.deletion import DELETED
from backfill_assets.text import escape_controls, format_count, percent

RULE = "as_declared"
NOT_AS_DECLARED = "not_as_declared"
"""Metric: received rows that drift."""
FIELDS = f"{NOT_AS_DECLARED}{EXAMPLE}"
MATERIAL = Decimal("0.01")
"""Below this share missing or retyped fields are defects of rows."""
RECENT = timedelta(days=28)
_MOST_FIELDS, _LONGEST_NAME, _LONGEST_EXAMPLE = 20, 80, 60
_NEXT_STEP = (
    "Ask the source. If it is right, declare it: a field that rows carried before is read from what raw kept of it "
    "(rescued=True); rows of another type are in quarantine until a new version of the rows takes them."
)


class DriftKind(StrEnum):
    UNDECLARED = "is not declared"
    MISSING = "is missing"
    RETYPED = "is of another type"


@dataclass(frozen=True)
class FieldRows:
    """Rows in which a field drifts; its name is any text."""

    kind: DriftKind
    field: str
    rows: int
    example: str = ""

    def __str__(self) -> str:
        return f"{self.field} {self.kind}: {format_count(self.rows, 'row')}" + _for_example(self.example)


def as_text(found: Iterable[FieldRows]) -> str:
    ordered = sorted((each for each in found if each.rows), key=lambda each: (each.kind.name, -each.rows, each.field))
    kept = [each for _, of_kind in groupby(ordered, lambda each: each.kind) for each in islice(of_kind, _MOST_FIELDS)]
    fields = [(each.kind.name, _short(each.field, _LONGEST_NAME), each.rows, _short(each.example)) for each in kept]
    return json.dumps(fields, separators=(",", ":"))


def from_text(text: object) -> list[FieldRows]:
    listed = json.loads(str(text)) if text else []
    return [FieldRows(DriftKind[kind], field, rows, example) for kind, field, rows, example in listed]


def together(texts: Sequence[object]) -> str:
    found: dict[tuple[DriftKind, str], FieldRows] = {}
    for each in (field for text in texts for field in from_text(text)):
        known = found.setdefault((each.kind, each.field), FieldRows(each.kind, each.field, 0, each.example))
        found[each.kind, each.field] = FieldRows(each.kind, each.field, known.rows + each.rows, known.example)
    return as_text(found.values()) if found else ""


def _short(text: str, most: int = _LONGEST_EXAMPLE) -> str:
    plain = escape_controls(text)
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"


def _for_example(example: str) -> str:
    return f", for example {example}" if example else ""


# ------------------------------------------------------------------ over days


@dataclass(frozen=True)
class Drift:
    kind: DriftKind
    field: str
    since: date
    """The first day after the last gap beyond :data:`RECENT`."""
    last: date
    days: int
    rows: int
    of: int
    example: str

    @property
    def share(self) -> Decimal:
        return Decimal(self.rows) / max(self.of, 1)

    def __str__(self) -> str:
        where = f"{self.rows:,} of {format_count(self.of, 'row')} ({percent(self.share).removeprefix('+')})"
        since = f" on {format_count(self.days, 'day')} since {self.since}" if self.days > 1 else f" on {self.since}"
        return f"{self.field} {self.kind}: {where}{since}{_for_example(self.example)}"


def drifts(source: Source, days: Mapping[date, Metrics], until: date | None = None) -> list[Drift]:
    """Without fields declared since, or not observed for :data:`RECENT`."""
    newest = until or max(days, default=date.min)
    found: dict[tuple[DriftKind, str], list[tuple[date, FieldRows]]] = {}
    known_until = newest
    for day in sorted((day for day in days if day <= newest), reverse=True):
        if known_until - day > RECENT:
            break
        for each in _of_day(source, days[day]):
            known = found.get((each.kind, each.field), [])
            if (known[-1][0] if known else newest) - day <= RECENT:
                found[each.kind, each.field] = [*known, (day, each)]
                known_until = day
    return [
        Drift(kind, field, seen[-1][0], seen[0][0], len(seen), *_rows_of(seen, days), _example_of(seen))
        for (kind, field), seen in sorted(found.items())
    ]


def _rows_of(seen: Sequence[tuple[date, FieldRows]], days: Mapping[date, Metrics]) -> tuple[int, int]:
    return sum(each.rows for _, each in seen), sum(_received(days[day]) for day, _ in seen)


def _example_of(seen: Sequence[tuple[date, FieldRows]]) -> str:
    return next((each.example for _, each in seen if each.example), "")


def judge(source: Source, days: Mapping[date, Metrics], day: date) -> RuleOutcome:
    """A warning; days published before drift was measured pass."""
    found = [each for each in drifts(source, days, day) if each.last == day]
    measured = f"{format_count(_received(days[day]), 'row')} as declared"
    observed = "; ".join(map(str, found)) or (measured if FIELDS in days[day] else "not measured when it was published")
    expected = f"the declared fields of {source.name}, each of its type"
    return RuleOutcome(RULE, "validity", not found, observed, expected, _NEXT_STEP if found else "", "warning")


def _of_day(source: Source, metrics: Metrics) -> list[FieldRows]:
    least = MATERIAL * _received(metrics)
    return [
        each
        for each in from_text(metrics.get(FIELDS))
        if (each.field not in source.fields if each.kind is DriftKind.UNDECLARED else each.field in source.columns)
        and each.rows > (0 if each.kind is DriftKind.UNDECLARED else least)
    ]


def _received(metrics: Metrics) -> int:
    return int(metrics.get("received") or 0) - int(metrics.get(DELETED) or 0)
