"""What staged days would change, from their metadata alone: no row is read. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal

from backfill_assets.difference.records import ROWS, Sums, TableDifference
from backfill_assets.lakehouse.records import TOTAL, DayContent, Publication

Contents = Mapping[date, DayContent | None]
"""What the published days of a table hold. A missing day was never published; None is unknown."""
_NULLS = "nulls_"


def table_difference(table: str, published: Contents, staged: Mapping[date, DayContent]) -> TableDifference:
    """``staged`` beside what is ``published`` for the same days; a day that was never published holds nothing."""
    same = {day for day, content in staged.items() if _logical(published.get(day)) == content.logical}
    before, after = [published[day] for day in staged if day in published], list(staged.values())
    metrics = sorted({name for content in after for name in content.metrics})
    totals = {ROWS: ROWS} | {name.removeprefix(TOTAL): name for name in metrics if name.startswith(TOTAL)}
    nulls = {name.removeprefix(_NULLS): name for name in metrics if name.startswith(_NULLS)}
    return TableDifference(
        table,
        changed=tuple(sorted(staged.keys() - same)),
        unchanged=tuple(sorted(same)),
        sums={name: Sums(before=_sum(before, of), after=_sum(after, of)) for name, of in totals.items()},
        nulls={name: Sums(before=_share(before, of), after=_share(after, of)) for name, of in nulls.items()},
    )


def changes(publication: Publication, published: Mapping[str, Contents]) -> list[TableDifference]:
    """What ``publication`` brings, beside what is ``published`` of its tables before it."""
    found = []
    for change in publication.tables:
        brought = {day.day: day.content for day in change.days if day.content is not None}
        found.append(table_difference(change.table, published.get(change.table, {}), brought))
    return found


def _logical(content: DayContent | None) -> str:
    return content.logical if content else ""


def _sum(contents: Sequence[DayContent | None], metric: str) -> Decimal | None:
    """The sum of a metric over days; None if it is unknown of one of them."""
    values = [_figure(content, metric) for content in contents]
    return None if None in values else sum((value for value in values if value is not None), Decimal(0))


def _figure(content: DayContent | None, metric: str) -> Decimal | None:
    if content is None:
        return None
    return Decimal(content.rows) if metric == ROWS else content.figure(metric)


def _share(contents: Sequence[DayContent | None], metric: str) -> Decimal | None:
    rows, found = _sum(contents, ROWS), _sum(contents, metric)
    if rows is None or found is None:
        return None
    return found / rows if rows else Decimal(0)
