"""The quarantine by reason and day, and its share of received rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from backfill_assets.days import DayRange, TableDay
from backfill_assets.errors import BackfillError, InvalidRequest
from backfill_assets.lakehouse.arrow_dataset import python_rows
from backfill_assets.lakehouse.delta_log import read_log
from backfill_assets.lakehouse.records import DayContent, DayState, content_in
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.typed_texts import LandedValues
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.declaration import CORRECTED, Source, Step
from backfill_assets.report.answer import Quantity
from backfill_assets.state.view import View
from backfill_assets.text import format_count, percent

_GENERAL_FORMS = (
    (r"(?s)^([^:]+: )'.*' is (not? [^']*)$", r"\1is \2"),
    (r"(?s)^(.*?) \(was .*\)$", r"\1"),
)


def general(reason: str) -> str:
    """``quantity: is not a bigint`` for ``quantity: 'many' is not a bigint``."""
    for pattern, replacement in _GENERAL_FORMS:
        shortened = re.sub(pattern, replacement, reason, count=1)
        if shortened != reason:
            return shortened
    return reason


@dataclass(frozen=True)
class Rejects:
    table: str
    step: Step
    raw: str
    source: Source

    @property
    def typed(self) -> str:
        return self.step.name

    @property
    def key(self) -> tuple[str, ...]:
        return next(table.key for table in self.step.tables if table.name == self.typed)


def all_rejects(catalog: Catalog) -> tuple[Rejects, ...]:
    steps = (step for step in catalog.steps if any(table.layer == "quarantine" for table in step.tables))
    return tuple(_rejects(catalog, step) for step in steps)


def rejects_named(catalog: Catalog, name: str | None) -> tuple[Rejects, ...]:
    """All without a ``name``. Raises :class:`InvalidRequest` for a table without quarantine."""
    if name is None:
        return all_rejects(catalog)
    step = catalog.step(name)
    if step.external is not None:
        step.external.refuse(
            "it has no quarantine, and days that are made of broken rows of it are held back",
            "Have the rows corrected where they are written. Then run again, which looks at it first.",
        )
    matching = tuple(rejects for rejects in all_rejects(catalog) if rejects.step.name == step.name)
    if not matching:
        known = ", ".join(rejects.table for rejects in all_rejects(catalog))
        hint = f"Quarantine tables: {known}." if known else "Nothing lands here: only landed rows are set aside."
        raise InvalidRequest(f"{name} has no quarantine.", hint=hint)
    return matching


def _rejects(catalog: Catalog, step: Step) -> Rejects:
    table = next(table.name for table in step.tables if table.layer == "quarantine")
    sources = {read.table: catalog.step(read.table).source for read in step.version().reads}
    raw, source = next((name, source) for name, source in sources.items() if source is not None)
    return Rejects(table, step, raw, source)


Row = Mapping[str, Any]
Key = tuple[object, ...]


@dataclass(frozen=True)
class Group:
    table: str
    reason: str
    days: tuple[date, ...]
    rows: int
    resolved: int
    example: str
    file: str
    line: int


def groups(storage: Storage, rejects: Iterable[Rejects], days: DayRange | None = None) -> list[Group]:
    view, found = View.newest(storage), list[Group]()
    for each in rejects:
        rows = letters(view, each.table, days)
        found += grouped(each.table, rows, resolved_positions(view, each.source, each.typed, rows))
    return found


def letters(view: View, table: str, days: DayRange | None = None) -> list[dict[str, Any]]:
    rows = view.rows(table, days)
    order = [(name, "ascending") for name in ("day", "source_file", "source_line")]
    rejected: list[dict[str, Any]] = [] if rows is None else rows.sort_by(order).to_pylist()
    return rejected


def grouped(table: str, rows: Sequence[Row], resolved: Set[int] = frozenset()) -> list[Group]:
    members: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        for reason in dict.fromkeys(map(general, row["reasons"])):
            members.setdefault(reason, []).append(number)
    found = []
    for reason, at in members.items():
        first, days = rows[at[0]], {rows[number]["day"] for number in at}
        example = next(each for each in first["reasons"] if general(each) == reason)
        place = first["source_file"], first["source_line"]
        found.append(Group(table, reason, tuple(sorted(days)), len(at), len(resolved & set(at)), example, *place))
    return sorted(found, key=lambda group: (-group.rows, group.reason))


# ------------------------------------------------------------------ rejected rows that a later accepted row replaces


def resolved_positions(view: View, source: Source, accepted_in: str, rejected: Sequence[Row]) -> set[int]:
    """Rows whose key was accepted within the supersession window, in a version as new; or arriving as late, if that is
    unreadable.
    """
    landed = LandedValues(source, rejected, (*source.key_columns, source.version_field))
    keys = (_key(landed.value(row, name) for name in source.key_columns) for row in rejected)
    keyed = {number: key for number, key in enumerate(keys) if key is not None}
    if not keyed:
        return set()
    accepted = _accepted_rows(view, source, accepted_in, [rejected[number] for number in keyed])
    return {n for n, key in keyed.items() if any(_since(landed, rejected[n], row) for row in accepted.get(key, ()))}


def _key(values: Iterable[object]) -> Key | None:
    key = tuple(values)
    return None if any(value is None or value == "" for value in key) else key


def _accepted_rows(view: View, source: Source, table: str, rejected: Sequence[Row]) -> dict[Key, list[Row]]:
    window = source.supersession_window_days
    days = DayRange(min(row["day"] for row in rejected), max(row["day"] for row in rejected))
    near = view.rows(
        table,
        days.widened(before=window, after=window),
        _of_keys(source, rejected),
        list(dict.fromkeys((*source.key_columns, source.version_field, "arrival_day", "day"))),
    )
    by_key: dict[Key, list[Row]] = {}
    for row in python_rows(near) if near is not None else ():
        if (key := _key(row[name] for name in source.key_columns)) is not None:
            by_key.setdefault(key, []).append(row)
    return by_key


def _of_keys(source: Source, rejected: Sequence[Row]) -> pc.Expression | None:
    """Only text keys: other types may be written differently."""
    first = source.key_columns[0]
    if source.type_of(first) != "string":
        return None
    return pc.field(first).isin(pa.array(sorted({row[first] for row in rejected}), pa.string()))


def _since(landed: LandedValues, rejected: Row, accepted: Row) -> bool:
    # Rows were read for the window around all rejected rows, not around this one.
    if abs((accepted["day"] - rejected["day"]).days) > landed.source.supersession_window_days:
        return False
    version = landed.source.version_field
    was, now = landed.value(rejected, version), accepted[version]
    if type(was) is type(now):
        return bool(now >= was)  # type: ignore[operator]
    return bool(accepted["arrival_day"] >= rejected["arrival_day"])


_AT_ONCE, _MOST_BATCHES = 1_000, 10


@dataclass(frozen=True)
class RejectedRows:
    table: str
    quarantine: str
    received: Mapping[date, int]
    rejected: Mapping[date, int]
    received_in_all: int

    @property
    def worst(self) -> date:
        return max(self.rejected, key=lambda day: (_share(self.rejected[day], self.received[day]), day))

    @property
    def share(self) -> Quantity:
        lacking = sum(self.rejected.values())
        known = self.received_in_all >= lacking
        return Quantity(Decimal(lacking) / self.received_in_all if known else None, "share")

    def sentence(self, reason: str = "") -> str:
        days, worst = len(self.rejected), self.worst
        total = rejected_of(sum(self.rejected.values()), self.received_in_all)
        of_day = rejected_of(self.rejected[worst], self.received[worst])
        on = f"on {worst}" if days == 1 else f"on {format_count(days, 'day')}. The worst is {worst}: {of_day}"
        return f"{self.table} lacks {of_day if days == 1 else total} {on}{f', most often {reason}' if reason else ''}"


def rejected_of(rejected: int, received: int) -> str:
    if received < rejected:
        return format_count(rejected, "row")
    share = percent(_share(rejected, received)).removeprefix("+")
    return f"{rejected:,} of {format_count(received, 'received row')} ({share})"


def rejected_rows(steps: Iterable[Step], states: Mapping[TableDay, DayState]) -> list[RejectedRows]:
    found = []
    for step in steps:
        for table in (each.name for each in step.tables if each.layer == "quarantine"):
            days = {day: state.content for (name, day), state in states.items() if name == table and state.content}
            received = {day: received_when_built(content) for day, content in days.items()}
            again = {day: _corrected(content_in(states, TableDay(step.name, day))) for day in days}
            rejected = {day: content.rows - again[day] for day, content in days.items() if content.rows > again[day]}
            if rejected:
                of_days = {day: received[day] for day in rejected}
                found.append(RejectedRows(step.name, table, of_days, rejected, sum(received.values())))
    return found


def commonest_reason(storage: Storage, version: int, table: str, day: date) -> str:
    """Reads a sample of each file; empty if that fails."""
    try:
        paths = sorted(read_log(storage, table, version).by_day().get(day, ()))
    except (BackfillError, OSError):
        return ""
    counts = count_reasons(storage, [f"{table}/{path}" for path in paths])
    return min(counts, key=lambda reason: (-counts[reason], reason), default="")


def count_reasons(storage: Storage, files: Iterable[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for path in files:
        with suppress(BackfillError, OSError):
            for batch in islice(storage.parquet_batches(path, _AT_ONCE, ("reasons",)), _MOST_BATCHES):
                for reasons in batch.to_pydict().get("reasons", ()):
                    counts.update(set(map(general, reasons)))
    return counts


def _corrected(accepted: DayContent | None) -> int:
    return int(accepted.metrics.get(CORRECTED) or 0) if accepted else 0


def rows_not_built(states: Mapping[TableDay, DayState], raw: str, table: str, day: date) -> int:
    landed, built = (content_in(states, TableDay(name, day)) for name in (raw, table))
    received = int(landed.metrics.get("received") or 0) if landed else 0
    return max(0, received - (received_when_built(built) if built else 0))


def received_when_built(content: DayContent) -> int:
    of_raw = (name for name in content.metrics if name.startswith("from.raw_") and name.endswith(".received"))
    return int(content.metrics.get(next(of_raw, "")) or 0)


def _share(rejected: int, received: int) -> Decimal:
    return Decimal(rejected) / received if received else Decimal(1)
