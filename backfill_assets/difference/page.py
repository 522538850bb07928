"""The difference as one HTML file: a letter that is read in a minute, then the detail. It needs no network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from backfill_assets.difference import charts, letter, text
from backfill_assets.difference.agreement import SameTotal, agreement_sentence, find_agreements
from backfill_assets.difference.kept import Difference
from backfill_assets.difference.letter import LetterTerms
from backfill_assets.difference.records import ROWS, TableCompared
from backfill_assets.difference.sentences import table_sentence, unit
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.rules import TotalAgrees
from backfill_assets.plan import durations
from backfill_assets.text import column_label, format_count, pluralize

_GROUPS = 10


def difference_page(
    catalog: Catalog, difference: Difference, times: Sequence[Sequence[str]] = (), terms: LetterTerms | None = None
) -> str:
    """HTML without scripts. It grows with the days, not with the rows.

    ``times`` are the steps of the campaign, as :func:`backfill_assets.plan.durations.time_rows` has them; ``terms``
    what its plan says beside the numbers. Without terms it is about two states, and no one has to decide.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    shown = {table.table for table in difference.tables}
    page = environment.get_template("page.html").render(
        difference=difference,
        terms=terms,
        times=times,
        counts=_counts(difference.tables),
        agreement=agreement_sentence(find_agreements(_same_totals(catalog, shown), difference.tables)),
        reports=letter.reports_line(difference, {table.name for table in catalog.tables if table.layer == "report"}),
        charts=charts,
        size=(charts.WIDTH, charts.HEIGHT),
        letter=letter,
        text=text,
        durations=durations,
        table_sentence=table_sentence,
        sums_title=_sums_title,
        unit=unit,
        format_count=format_count,
        groups=_groups,
        days=lambda table: text.day_rows(table, table.days),
    )
    return page.lstrip()


def _same_totals(catalog: Catalog, shown: set[str]) -> Iterator[SameTotal]:
    """What the declared rules say of the tables that are shown."""
    for table in catalog.tables:
        for rule in table.rules if table.name in shown else ():
            if isinstance(rule, TotalAgrees):
                yield SameTotal(table.name, rule.column, rule.fact, rule.fact_total)


def _counts(tables: Sequence[TableCompared]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Columns and rows; a column that is 0 for each table is left out."""
    rows = [text.count_row(table) for table in tables]
    shown = [n for n, _ in enumerate(text.COUNT_COLUMNS) if any(row[n] not in ("0", "") for row in rows)]
    return tuple(text.COUNT_COLUMNS[n] for n in shown), [tuple(row[n] for n in shown) for row in rows]


def _sums_title(table: TableCompared) -> str:
    """What the sums are of: all planned periods, or those of which it is known what becomes of them."""
    known, planned = len(table.known), format_count(len(table.days), unit(table))
    return f"Sums of {planned}" if known == len(table.days) else f"Sums of the {known} of {planned} that are staged"


def _groups(table: TableCompared) -> Iterator[tuple[str, Sequence[str], list[tuple[str, ...]], str]]:
    """Of each column with groups that differ: title, column labels, rows, and how many groups are left out."""
    measure = column_label(table.measures[0] if table.measures else ROWS)
    for groups in table.groups:
        alone = table.model_copy(update={"groups": (groups,)})
        if found := [row[1:] for row in text.group_rows(alone, _GROUPS)]:
            noun = column_label(groups.column)
            of = f"{groups.differing:,} of {format_count(groups.groups, noun)}"
            verb = "differs" if groups.differing == 1 else "differ"
            title = f"By {noun}: {of} {verb}, by {measure}, on the {pluralize(unit(table))} that were compared"
            yield title, (noun, *text.GROUP_COLUMNS[2:]), found, text.more_groups(groups, _GROUPS)
