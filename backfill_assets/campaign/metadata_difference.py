"""What a campaign's staged days would change, from their metadata alone. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from backfill_assets.lakehouse.records import TOTAL, DayContent, Publication

Contents = Mapping[date, DayContent | None]
"""What the published days of a table hold. A missing day was never published; None is unknown."""


@dataclass(frozen=True)
class MeasureChange:
    """One measure of one table: what is published for the staged days, and what would be. None where it is unknown."""

    table: str
    measure: str
    published: Decimal | None
    staged: Decimal | None

    @property
    def share(self) -> Decimal | None:
        """The change as a share of what is published; None where nothing is, or one of them is unknown."""
        if self.staged is None or not self.published:
            return None
        return (self.staged - self.published) / abs(self.published)

    @property
    def known(self) -> bool:
        return self.published is not None and self.staged is not None


@dataclass(frozen=True)
class TableDifference:
    """A table's staged days: how many would read differently, and its measures side by side."""

    table: str
    changed: tuple[date, ...]
    unchanged: tuple[date, ...]
    beside: tuple[MeasureChange, ...]


def table_difference(table: str, published: Contents, staged: Mapping[date, DayContent]) -> TableDifference:
    """``staged`` beside what is ``published`` for the same days; a day that was never published holds nothing."""
    same = {day for day, content in staged.items() if _logical(published.get(day)) == content.logical}
    measures = sorted({name for content in staged.values() for name in content.metrics if name.startswith(TOTAL)})
    before, after = [published[day] for day in staged if day in published], list(staged.values())
    beside = [MeasureChange(table, "rows", rows_together(before), rows_together(after))]
    beside += [
        MeasureChange(table, name.removeprefix(TOTAL), figures_together(before, name), figures_together(after, name))
        for name in measures
    ]
    return TableDifference(table, tuple(sorted(staged.keys() - same)), tuple(sorted(same)), tuple(beside))


def changes(publication: Publication, published: Mapping[str, Contents]) -> list[TableDifference]:
    """What ``publication`` brings, beside what is ``published`` of its tables before it."""
    found = []
    for change in publication.tables:
        brought = {day.day: day.content for day in change.days if day.content is not None}
        found.append(table_difference(change.table, published.get(change.table, {}), brought))
    return found


def change_sentence(change: TableDifference) -> str:
    """``report_monthly_close: 22 of 31 days change; revenue_eur -0.4 %, rows +0 %.``"""
    days = len(change.changed) + len(change.unchanged)
    moved = [_moved(each) for each in change.beside if each.share or not each.known]
    told = f"; {', '.join(moved)}" if moved else ""
    return f"{change.table}: {len(change.changed)} of {days} days change{told}."


def _logical(content: DayContent | None) -> str:
    return content.logical if content else ""


def _moved(found: MeasureChange) -> str:
    if found.share is None:
        return f"{found.measure} by an unknown amount: it was not measured before"
    return f"{found.measure} {found.share * 100:+.3g} %"


def rows_together(contents: Sequence[DayContent | None]) -> Decimal | None:
    return _together(None if content is None else Decimal(content.rows) for content in contents)


def figures_together(contents: Sequence[DayContent | None], metric: str) -> Decimal | None:
    """The sum of a metric over days; None if it is unknown of one of them."""
    return _together(None if content is None else content.figure(metric) for content in contents)


def _together(found: Iterable[Decimal | None]) -> Decimal | None:
    values = list(found)
    return None if None in values else sum((value for value in values if value is not None), Decimal(0))
