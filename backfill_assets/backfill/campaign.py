"""What a campaign is called, and what its staged days would change, told without reading a row. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from backfill_assets.lakehouse.publication import DayContent, Publication

_PLAN, _CAMPAIGN, _TOTAL = "plan-", "campaign-", "total_"


def campaign_of(plan: str) -> str:
    """The campaign that carries out ``plan``: the same hash."""
    return _CAMPAIGN + plan.removeprefix(_PLAN)


def plan_of(campaign: str) -> str:
    """The plan that ``campaign`` carries out."""
    return _PLAN + campaign.removeprefix(_CAMPAIGN)


@dataclass(frozen=True)
class Beside:
    """One measure of one table: what is published for the staged days, and what would be."""

    table: str
    measure: str
    published: Decimal
    staged: Decimal

    @property
    def share(self) -> Decimal | None:
        """The change as a share of what is published; None where nothing is."""
        return (self.staged - self.published) / abs(self.published) if self.published else None


@dataclass(frozen=True)
class TableChange:
    """A table's staged days: how many would read differently, and its measures side by side."""

    table: str
    changed: tuple[date, ...]
    unchanged: tuple[date, ...]
    beside: tuple[Beside, ...]


def table_change(
    table: str, published: Mapping[date, DayContent | None], staged: Mapping[date, DayContent]
) -> TableChange:
    """``staged`` beside what is ``published`` for the same days; a day that was never published holds nothing."""
    same = {day for day, content in staged.items() if _logical(published.get(day)) == content.logical}
    measures = sorted({name for content in staged.values() for name in content.metrics if name.startswith(_TOTAL)})
    before = [content for day in staged if (content := published.get(day)) is not None]
    beside = [Beside(table, "rows", Decimal(_rows(before)), Decimal(_rows(staged.values())))]
    beside += [
        Beside(table, name.removeprefix(_TOTAL), _sum(before, name), _sum(staged.values(), name)) for name in measures
    ]
    return TableChange(table, tuple(sorted(staged.keys() - same)), tuple(sorted(same)), tuple(beside))


def changes(publication: Publication, published: Mapping[str, Mapping[date, DayContent | None]]) -> list[TableChange]:
    """What ``publication`` brings, beside what is ``published`` of its tables before it."""
    found = []
    for change in publication.tables:
        brought = {date.fromisoformat(day.day): day.content for day in change.days if day.content is not None}
        found.append(table_change(change.table, published.get(change.table, {}), brought))
    return found


def change_sentence(change: TableChange) -> str:
    """``report_monthly_close: 22 of 31 days change; revenue_eur -0.4 %, rows +0 %.``"""
    days = len(change.changed) + len(change.unchanged)
    moved = [f"{each.measure} {each.share * 100:+.3g} %" for each in change.beside if each.share]
    told = f"; {', '.join(moved)}" if moved else ""
    return f"{change.table}: {len(change.changed)} of {days} days change{told}."


def _logical(content: DayContent | None) -> str:
    return content.logical if content else ""


def _rows(contents: Iterable[DayContent]) -> int:
    return sum(content.rows for content in contents)


def _sum(contents: Iterable[DayContent], name: str) -> Decimal:
    return sum((Decimal(str(content.metrics.get(name) or 0)) for content in contents), Decimal(0))
