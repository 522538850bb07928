"""A difference in rows and lines that terminal, Markdown and the report show alike. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from backfill_assets.difference.kept import Difference
from backfill_assets.difference.records import (
    COUNTS,
    ROWS,
    ChangedRow,
    DayCompared,
    GroupsCompared,
    RowCounts,
    Sums,
    TableCompared,
)
from backfill_assets.difference.sentences import change, table_sentence, unit
from backfill_assets.difference.verdicts import Deviation, ExpectationVerdict
from backfill_assets.text import (
    amount,
    column_label,
    escape_markdown,
    format_count,
    format_ranges,
    markdown_table,
)

COUNT_COLUMNS = (
    *("table", "periods", "differ", "held back", "not staged"),
    *("added", "removed", "changed", "unchanged", "days that differ"),
)
COUNT_NUMBERS = COUNT_COLUMNS[1:-1]
SUM_COLUMNS = ("table", "measure", "before", "after", "change")
SUM_NUMBERS = SUM_COLUMNS[2:]
GROUP_COLUMNS = ("column", "value", "rows that differ", "before", "after", "change")
GROUP_NUMBERS = GROUP_COLUMNS[2:]
SAMPLE_COLUMNS = ("day", "key", "column", "before", "after")
VERDICT_COLUMNS = ("expected", "", "where not")
MET, NOT_MET = "met", "not met"
WITHHELD = "(personal, differs)"
_NO_VALUE = "(none)"
_MOST_RANGES = 3
_MOST_DEVIATIONS = 3
_MARKDOWN_DAYS, _MARKDOWN_GROUPS, _MARKDOWN_SAMPLE = 31, 5, 3


def count_row(table: TableCompared) -> tuple[str, ...]:
    days = (len(table.days), len(table.differing), table.count("held back", "left out"), table.count("not staged"))
    ranges = format_ranges((day.day for day in table.differing), _MOST_RANGES)
    return (table.table, *(f"{number:,}" for number in days), *_counts(table.rows), ranges)


def sum_rows(table: TableCompared) -> list[tuple[str, ...]]:
    """The measures of the days of which they are known, ``rows`` among them."""
    return [(table.table, measure, *_sums(table.total(measure))) for measure in (ROWS, *table.measures)]


def day_columns(table: TableCompared) -> tuple[str, ...]:
    """The columns of :func:`day_rows`; numbers from the third on."""
    measure = column_label(_day_measure(table))
    return (unit(table), "is", *COUNTS, f"{measure} before", f"{measure} after", "change")


def day_rows(table: TableCompared, days: Iterable[DayCompared]) -> list[tuple[str, ...]]:
    """The measure that stands for the table is found once: it needs the sums of all of its days."""
    measure = _day_measure(table)
    return [(str(day.day), day.how, *_counts(day.rows), *_sums(day.of(measure))) for day in days]


def _counts(rows: RowCounts) -> list[str]:
    return [f"{getattr(rows, name):,}" for name in COUNTS]


def _day_measure(table: TableCompared) -> str:
    """The first measure that changes; rows if none does."""
    return next(table.changing(), ROWS)


def group_rows(table: TableCompared, most: int) -> list[tuple[str, ...]]:
    """Of each column the ``most`` groups that differ most, by the first measure."""
    return [row for groups in table.groups for row in _group_rows(table.measures, groups, most)]


def sample_rows(table: TableCompared, most: int) -> list[tuple[str, ...]]:
    """A row for each differing column of up to ``most`` changed rows."""
    return [cells for row in table.sample[:most] for cells in side_by_side(row)]


def side_by_side(row: ChangedRow) -> Iterator[tuple[str, ...]]:
    """Day, key, column, before and after."""
    key = key_text(row)
    for cell in row.cells:
        yield str(row.day), key, cell.column, _value(cell.before), _value(cell.after)
    for column in row.withheld:
        yield str(row.day), key, column, WITHHELD, ""


def key_text(row: ChangedRow) -> str:
    return ", ".join(f"{name} {_value(value)}" for name, value in row.key.items())


def verdict_rows(difference: Difference) -> list[tuple[str, ...]]:
    return [(each.expectation, MET if each.met else NOT_MET, where_not(each)) for each in difference.verdicts]


def where_not(verdict: ExpectationVerdict) -> str:
    """The first deviations, and how many more there are."""
    if not verdict.tables:
        return "the plan has no such day or measure"
    lines = [_deviation(each) for each in verdict.deviations[:_MOST_DEVIATIONS]]
    more = len(verdict.deviations) - len(lines)
    return "; ".join((*lines, f"and {more:,} more") if more else lines)


def notes(table: TableCompared) -> list[str]:
    """What a reader of the numbers has to know."""
    found = []
    if held := table.count("held back"):
        found.append(f"{format_count(held, unit(table))} failed the gates and would not be published.")
    if blocked := table.count("left out"):
        reads = "reads" if blocked == 1 else "read"
        found.append(
            f"{format_count(blocked, unit(table))} {reads} what is held back, or could not be computed, and would stay"
            f" as {'it is' if blocked == 1 else 'they are'}."
        )
    if absent := table.count("not staged"):
        found.append(f"Not staged yet: {format_count(absent, unit(table))}. No sum or count here includes them.")
    if table.whole_rows and table.differing:
        found.append(
            "Rows are compared as a whole: there is no key that stands for one row, so none counts as changed."
        )
    return found


def difference_markdown(difference: Difference) -> str:
    """The whole difference, for a page, a pull request, or metadata in the UI."""
    parts = [f"## Difference of {difference.name}", f"**{escape_markdown(difference.sentence)}**"]
    if difference.verdicts:
        parts.append(markdown_table(VERDICT_COLUMNS, verdict_rows(difference)))
    parts.append(markdown_table(COUNT_COLUMNS, map(count_row, difference.tables), COUNT_NUMBERS))
    parts.append(
        markdown_table(SUM_COLUMNS, [row for table in difference.tables for row in sum_rows(table)], SUM_NUMBERS)
    )
    for table in difference.tables:
        if table.differing:
            parts += _table_parts(table)
    parts += map(escape_markdown, difference.stale)
    parts.append(f"As of entry {difference.log_entry} of the publication log.")
    return "\n\n".join(parts) + "\n"


def _table_parts(table: TableCompared) -> Iterator[str]:
    yield f"### {table.table}"
    yield escape_markdown(table_sentence(table))
    yield from map(escape_markdown, notes(table))
    days = day_rows(table, table.differing[:_MARKDOWN_DAYS])
    columns = day_columns(table)
    yield markdown_table(columns, days, columns[2:])
    if more := len(table.differing) - len(days):
        yield f"and {format_count(more, unit(table))} more"
    if groups := group_rows(table, _MARKDOWN_GROUPS):
        yield markdown_table(GROUP_COLUMNS, groups, GROUP_NUMBERS)
    if sample := sample_rows(table, _MARKDOWN_SAMPLE):
        yield markdown_table(SAMPLE_COLUMNS, sample)


def _group_rows(measures: Sequence[str], groups: GroupsCompared, most: int) -> list[tuple[str, ...]]:
    differing = [each for each in groups.most if each.rows.differing][:most]
    measure = measures[0] if measures else ROWS
    return [
        (
            groups.column,
            each.value if each.value is not None else _NO_VALUE,
            f"{each.rows.differing:,}",
            *_sums(each.rows.sums if measure == ROWS else each.sums[measure]),
        )
        for each in differing
    ]


def more_groups(groups: GroupsCompared, shown: int) -> str:
    """How many differing groups are not shown."""
    more = groups.differing - min(shown, sum(each.rows.differing > 0 for each in groups.most))
    return f"and {format_count(more, column_label(groups.column))} more" if more > 0 else ""


def _sums(found: Sums) -> tuple[str, ...]:
    return amount(found.before), amount(found.after), change(found)


def _deviation(found: Deviation) -> str:
    return f"{found.table}{f' {found.day}' if found.day else ''}: {found.observed}"


def _value(value: str | None) -> str:
    return _NO_VALUE if value is None else value
