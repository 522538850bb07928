"""Which days are closed, what would be built there, and how many rows wait. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from backfill_assets.days import TableDay
from backfill_assets.lakehouse.records import DayContent
from backfill_assets.model.declaration import FROM, Metric, Metrics, Step
from backfill_assets.model.deletion import DELETED, DELETED_HASHES
from backfill_assets.model.lateness import WAITING
from backfill_assets.publish.closed_days import BookEntry, Books, Declared, with_declared
from backfill_assets.state.diagnosis import Cause
from backfill_assets.state.observed import LogView
from backfill_assets.state.status import Statuses
from backfill_assets.text import format_count

RECEIVED = "received"
_SUMS = (RECEIVED, "content_hash_sum")


def books_of(view: LogView, steps: Iterable[Step], now: datetime) -> Books:
    """As of ``view``, with what the declarations of ``steps`` close; ``now`` is for those that the log lacks."""
    return with_declared(Books(view.closings, Declared.of(steps)), now)


def closed_and_wrong(
    statuses: Statuses, books: Books, wrong: Collection[TableDay] = ()
) -> Iterator[tuple[TableDay, BookEntry]]:
    """Days that something would build, and that are closed. ``wrong``: those that no status tells."""
    if not books.closings:
        return
    for table, days in statuses.items():
        for key in (TableDay(table, day) for day, cause in days.items() if cause or TableDay(table, day) in wrong):
            if closing := books.closing(*key):
                yield key, closing


def with_closed(
    beside: Mapping[TableDay, Collection[Cause]], statuses: Statuses, books: Books
) -> dict[TableDay, set[Cause]]:
    """Signs ``beside`` the logs, and that a wrong day is closed."""
    found = {key: set(causes) for key, causes in beside.items()}
    for key, _ in closed_and_wrong(statuses, books, beside.keys()):
        found.setdefault(key, set()).add(Cause.CLOSED)
    return found


# ------------------------------------------------------------------ rows of raw that wait


def waiting_rows(view: LogView, steps: Sequence[Step], books: Books) -> dict[TableDay, int]:
    """Rows that raw has received since, by closed day of the table that refines it; days without any are left out."""
    found: dict[TableDay, int] = {}
    for step, raw in _refined(steps) if books.closings else ():
        for key in (TableDay(step.name, day) for table, day in view.states if table == raw):
            if books.closing(*key) and (count := _waiting(view, raw, key)):
                found[key] = count
    return found


def closed_words(closing: BookEntry, waiting: int) -> str:
    """``closed by ana on 2017-05-02: reported; of raw, 3 rows wait``"""
    return f"{closing.said}; of raw, {format_count(waiting, 'row')} wait" if waiting else closing.said


def _refined(steps: Sequence[Step]) -> Iterator[tuple[Step, str]]:
    """Steps that read raw rows first, each with that table."""
    raws = {step.name for step in steps if step.source}
    for step in steps:
        first = next((read.table for version in step.versions for read in version.reads), "")
        if first in raws:
            yield step, first


def _waiting(view: LogView, raw: str, key: TableDay) -> int:
    now, then = view.content(TableDay(raw, key.day)), view.content(key)
    received = _number(now, RECEIVED) if now else 0
    if then is None or not then.inputs:
        return received if then is None else 0
    made_of = received_then(then, raw)
    return 0 if made_of is None else received - made_of


def received_then(content: DayContent, raw: str) -> int | None:
    """What a day was made of; None if it does not say."""
    value = metric_of_input(content, raw, RECEIVED)
    return None if value is None else int(value)


def metric_of_input(content: DayContent, table: str, metric: str) -> Metric:
    """A metric of an input as it was when the day was built."""
    return content.metrics.get(f"{FROM}{table}.{metric}")


def _number(content: DayContent, metric: str) -> int:
    return int(content.metrics.get(metric) or 0)


def with_waiting(view: LogView, key: TableDay, raw: str, measured: Metrics) -> Metrics:
    """What was measured of raw, with the rows that wait for the closed day ``key``; by the log, so that no lost row is
    taken for one. Deletions count as they did when the day was built.
    """
    own, now = view.content(key), view.content(TableDay(raw, key.day))
    if own is None or now is None or received_then(own, raw) is None:
        return measured
    then = {name: int(str(metric_of_input(own, raw, name) or 0)) for name in (*_SUMS, DELETED, DELETED_HASHES)}
    waits = (str(int(str(now.metrics.get(name) or 0)) - then[name]) for name in _SUMS)
    deleted = {name: str(then[name]) for name in (DELETED, DELETED_HASHES)}
    return {**measured, **deleted, **dict(zip(WAITING, waits, strict=True))}
