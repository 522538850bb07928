"""What the demo's table says of each day: everything received went somewhere, by count and by content."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date

import pytest

from backfill_assets.days import DayRange, TableDay
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.examples.demo.accounting import AccountedTable, account
from backfill_assets.lakehouse.records import DayContent, DayState

DAY = date(2017, 3, 1)
HASH = 1_000_000_007
"""Every row has this content hash, unless a test says otherwise: sums of content are then multiples of it."""


@dataclass(frozen=True)
class Day:
    """The fate of the rows that were received for one day; ``published`` is what is left."""

    received: int
    quarantined: int = 0
    deduplicated: int = 0
    superseded: int = 0
    markers: int = 0
    deleted: int = 0
    lost: int = 0
    swapped: int = 0
    """How much the content of the published rows differs from what was received."""

    @property
    def published(self) -> int:
        return self.received - self.quarantined - self.deduplicated - self.superseded - self.deleted - self.lost

    def contents(self) -> dict[str, DayContent]:
        """What the builder records for each table of the chain, as it does for the real ones."""
        raw = self._content(self.received + self.markers, received=self.received, hashes=self.received)
        taken_back = {"deleted": self.deleted, "deleted_hash_sum": self.deleted * HASH} if self.deleted else {}
        raw = replace(raw, metrics={**raw.metrics, **taken_back})
        rejects = self._content(self.quarantined, received=self.quarantined, hashes=self.quarantined)
        kept = self.published + self.superseded
        folded = {"deduplicated": self.deduplicated, "deduplicated_hash_sum": self.deduplicated * HASH}
        gone = {"superseded": self.superseded, "superseded_hash_sum": self.superseded * HASH}
        own = {"content_hash_sum": kept * HASH, "recomputed_hash_sum": kept * HASH + self.swapped}
        of_raw = _recorded("raw_sales", raw, "received", *taken_back)
        bronze = DayContent(rows=kept, checksum="1", metrics={**own, **folded, **gone, **of_raw})
        fact = {"recomputed_hash_sum": self.published * HASH + self.swapped}
        upstream = {
            **_recorded("bronze_sales", bronze, *folded, *gone),
            **_recorded("quarantine_sales", rejects, "received"),
            **of_raw,
        }
        return {
            "raw_sales": raw,
            "bronze_sales": bronze,
            "quarantine_sales": rejects,
            "fact_sales_transactions": DayContent(rows=self.published, checksum="1", metrics={**fact, **upstream}),
            "fact_daily_revenue": DayContent(rows=2, checksum="1", metrics={"total_lines": self.published}),
        }

    def _content(self, rows: int, *, received: int, hashes: int) -> DayContent:
        sums = {"content_hash_sum": hashes * HASH, "recomputed_hash_sum": hashes * HASH}
        return DayContent(rows=rows, checksum="1", metrics={"received": received, **sums})


def _recorded(table: str, content: DayContent, *names: str) -> dict[str, int | str | None]:
    found = {name: content.metrics[name] for name in (*names, "content_hash_sum")}
    return {f"from.{table}.{name}": value for name, value in {"rows": content.rows, **found}.items()}


def _states(*days: Day) -> dict[TableDay, DayState]:
    found = {}
    for day, fate in zip(DayRange.parse("2017-03-01..2017-03-09"), days, strict=False):
        for table, content in fate.contents().items():
            found[TableDay(table, day)] = _state(table, day, content)
    return found


def _state(table: str, day: date, content: DayContent | None) -> DayState:
    return DayState(table=table, day=day, publication="p", sequence=1, physical="f", content=content)


def _accounted(states: dict[TableDay, DayState]) -> dict[str, AccountedTable]:
    days = list(DayRange.parse("2017-03-01..2017-03-09"))
    return {each.table: each for each in account(CATALOG.steps, days, states)}


@pytest.mark.parametrize(
    "fate",
    [
        Day(0),
        Day(90),
        Day(90, quarantined=3),
        Day(90, deduplicated=4),
        Day(90, superseded=5),
        Day(90, markers=6),
        Day(90, deleted=7),
        Day(90, quarantined=3, deduplicated=4, superseded=5, markers=6, deleted=7),
        Day(3, quarantined=3),
    ],
    ids=str,
)
def test_everything_received_is_somewhere(fate: Day) -> None:
    """Each way a row can go, alone and together; a marker in raw was never received, and makes no difference."""
    found = _accounted(_states(fate))
    for table in ("bronze_sales", "fact_sales_transactions"):
        assert found[table] == AccountedTable(
            table,
            days=1,
            published=fate.published,
            received=fate.received,
            quarantined=fate.quarantined,
            deduplicated=fate.deduplicated,
            superseded=fate.superseded,
            deleted=fate.deleted or None,
            reconciled=1,
        )
    raw = found["raw_sales"]
    assert (raw.received, raw.published, raw.quarantined, raw.reconciled) == (fate.received, fate.received, None, 1)


@pytest.mark.parametrize(
    "fate", [Day(90, lost=1), Day(90, lost=-1), Day(90, superseded=5, lost=2), Day(9, deleted=2, lost=1)], ids=str
)
def test_a_day_that_lost_or_doubled_rows_is_not_reconciled(fate: Day) -> None:
    """Beside a day that is: the count of reconciled days says how many are not."""
    found = _accounted(_states(Day(10), fate))
    for table in ("bronze_sales", "fact_sales_transactions"):
        assert (found[table].days, found[table].reconciled) == (2, 1)


def test_rows_that_changed_their_content_are_not_reconciled() -> None:
    """The counts agree when two amounts are swapped; the sum of content hashes does not."""
    found = _accounted(_states(Day(90, quarantined=1, superseded=2, swapped=7)))
    assert found["fact_sales_transactions"].reconciled == found["bronze_sales"].reconciled == 0


def test_tables_that_measure_no_content_are_compared_by_count() -> None:
    """A dataset without content rules is not called unreconciled for what was not measured."""
    states = _states(Day(90, quarantined=3, swapped=7))
    for key, state in states.items():
        assert state.content
        metrics = {name: value for name, value in state.content.metrics.items() if "hash" not in name}
        states[key] = _state(*key, replace(state.content, metrics=metrics))
    assert _accounted(states)["fact_sales_transactions"].reconciled == 1


def test_days_add_up_and_days_that_are_not_there_are_not_counted() -> None:
    """A day that was never published, or was withdrawn, is no day with zero rows."""
    states = _states(Day(90, quarantined=3), Day(10, deduplicated=1), Day(0))
    third = TableDay("bronze_sales", date(2017, 3, 3))
    states[third] = _state(*third, None)
    found = _accounted(states)["bronze_sales"]
    assert (found.days, found.received, found.published, found.quarantined, found.deduplicated) == (2, 100, 96, 3, 1)
    assert _accounted({})["bronze_sales"] == AccountedTable("bronze_sales", 0, 0, None, None, None, None, 0)


def test_a_day_is_accounted_for_as_it_was_built() -> None:
    """Rows that arrived for the day after bronze was built make it stale, not wrong."""
    states = _states(Day(90))
    later = Day(95).contents()["raw_sales"]
    states[TableDay("raw_sales", DAY)] = _state("raw_sales", DAY, later)
    found = _accounted(states)
    assert (found["raw_sales"].received, found["bronze_sales"].received) == (95, 90)
    assert found["bronze_sales"].reconciled == 1


def test_a_report_has_no_raw_rows_and_quarantine_is_a_column() -> None:
    """A report's gates compare its totals; the quarantine table is not a row of its own."""
    found = _accounted(_states(Day(90, quarantined=3)))
    revenue = found["fact_daily_revenue"]
    assert revenue == replace(revenue, published=2, received=None, quarantined=None, deduplicated=None, reconciled=1)
    assert "quarantine_sales" not in found
