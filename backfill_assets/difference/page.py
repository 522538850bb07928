"""A difference as one page with charts: a single file that needs no network, in which all data is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from backfill_assets.difference.charts import change_chart, rows_chart, sums_chart
from backfill_assets.difference.kept import Difference
from backfill_assets.difference.records import ROWS, TableCompared
from backfill_assets.difference.sentences import table_sentence, unit
from backfill_assets.difference.text import (
    COUNT_COLUMNS,
    COUNT_NUMBERS,
    GROUP_COLUMNS,
    GROUP_NUMBERS,
    SUM_COLUMNS,
    SUM_NUMBERS,
    WITHHELD,
    count_row,
    day_columns,
    day_row,
    group_rows,
    more_groups,
    notes,
    side_by_side,
    sum_rows,
    verdict_rows,
)
from backfill_assets.plan.durations import TIME_COLUMNS, TIME_NUMBERS
from backfill_assets.text import column_label, format_count

if TYPE_CHECKING:
    from bokeh.model import Model

_GROUPS = 10
_STYLE = """
:root { color: #1f2733; background: #f4f6f8; font: 14px/1.5 system-ui, "Segoe UI", Roboto, Arial, sans-serif; }
body { margin: 0 auto; max-width: 1180px; padding: 28px 24px 60px; }
h1 { font-size: 15px; font-weight: 600; color: #5b6573; margin: 0 0 6px; }
h2 { font-size: 19px; margin: 0 0 2px; } h3 { font-size: 13px; color: #5b6573; margin: 22px 0 6px; }
.sentence { font-size: 22px; line-height: 1.35; font-weight: 600; margin: 0 0 8px; }
.facts, .note { color: #5b6573; margin: 0; } .note { margin-top: 8px; }
section { background: #fff; border: 1px solid #e2e6eb; border-radius: 10px; padding: 20px 22px; margin-top: 18px; }
section.same { padding: 12px 22px; } section.same h2 { font-size: 15px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; color: #5b6573; font-size: 12px; }
th, td { padding: 5px 18px 5px 0; border-bottom: 1px solid #edf0f3; vertical-align: top; }
th.number, td.number, .name { white-space: nowrap; } th.number, td.number { text-align: right; }
td:last-child, .old { overflow-wrap: anywhere; }
tr > :last-child { padding-right: 0; } tr:last-child td { border-bottom: 0; }
.held, .broken { border-radius: 20px; padding: 1px 10px; font-size: 12px; font-weight: 600; color: #fff; }
.held { background: #2e8b57; } .broken { background: #c0392b; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(460px, 1fr)); gap: 14px 22px; }
.charts { margin-top: 14px; }
.charts > div { min-width: 0; } .wide { grid-column: 1 / -1; }
.old { color: #a2342a; text-decoration: line-through; text-decoration-color: #d99a94; } .new { color: #1d6b42; }
details { margin-top: 14px; } summary { cursor: pointer; color: #1f5fbf; }
a { color: inherit; }
"""


def difference_page(difference: Difference, times: Sequence[Sequence[str]] = ()) -> str:
    """HTML with the charts' code inside. It grows with the days, not with the rows; some 1 MB of it is Bokeh.

    ``times`` are the steps of the campaign, as :func:`backfill_assets.plan.durations.time_rows` has them.
    """
    from bokeh.embed import components
    from bokeh.resources import Resources

    charts: dict[str, Model] = {}
    sections = [part for table in difference.tables for part in _table(table, charts)]
    script, places = components(charts) if charts else ("", {})
    code = Resources(mode="inline", components=["bokeh"]).render_js() if charts else ""
    body = "\n".join((*_head(difference), *sections, *_times(times)))
    for name, place in places.items():
        body = body.replace(_place(name), place, 1)
    return (
        "<!DOCTYPE html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><title>Difference of {escape(difference.plan)}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>{_STYLE}</style>\n'
        f"{code}\n</head><body>\n{body}\n{script}\n</body></html>\n"
    )


def _head(difference: Difference) -> Iterator[str]:
    yield f"<h1>Difference of {escape(difference.plan)}</h1>"
    yield f'<p class="sentence">{escape(difference.sentence)}</p>'
    asked = f"{difference.target} {difference.days}"
    yield (
        f'<p class="facts">Asked for: {escape(asked)}. As of entry {difference.log_entry} of the publication log, '
        f"{difference.made_at:%Y-%m-%d %H:%M} UTC. Nothing of it is published by looking at it.</p>"
    )
    if difference.verdicts:
        yield f"<section><h2>Expectations</h2>{_verdicts(difference)}</section>"
    rows = [count_row(table) for table in difference.tables]
    yield f"<section><h2>Tables</h2>{_rows(COUNT_COLUMNS, rows, COUNT_NUMBERS)}</section>"


def _verdicts(difference: Difference) -> str:
    lines = [
        f'<tr><td><span class="{outcome}">{outcome}</span></td>'
        f'<td class="name">{escape(expected)}</td><td>{escape(where)}</td></tr>'
        for expected, outcome, where in verdict_rows(difference)
    ]
    return f"<table>{''.join(lines)}</table>"


def _table(table: TableCompared, charts: dict[str, Model]) -> Iterator[str]:
    sentence = escape(table_sentence(table))
    if not table.differing:
        about = "".join(f'<p class="note">{escape(note)}</p>' for note in notes(table))
        yield f'<section class="same"><h2>{escape(table.table)}</h2><p class="facts">{sentence}</p>{about}</section>'
        return
    yield f'<section id="{escape(table.table)}"><h2>{escape(table.table)}</h2><p class="facts">{sentence}</p>'
    yield from (f'<p class="note">{escape(note)}</p>' for note in notes(table))
    yield from _charts(table, charts)
    yield "<h3>Sums of all planned days</h3>"
    yield _rows(SUM_COLUMNS[1:], [row[1:] for row in sum_rows(table)], SUM_NUMBERS)
    yield from _groups(table)
    yield from _sample(table)
    yield from _days(table)
    yield "</section>"


def _charts(table: TableCompared, charts: dict[str, Model]) -> Iterator[str]:
    """The measures that change, and the rows of each day."""
    changing = [measure for measure in table.measures if any(day.of(measure).change for day in table.days)]
    yield '<div class="charts">'
    for measure in changing:
        for kind, draw in (("sums", sums_chart), ("change", change_chart)):
            charts[f"{table.table}/{measure}/{kind}"] = draw(table, measure)
            yield f"<div>{_place(f'{table.table}/{measure}/{kind}')}</div>"
    charts[f"{table.table}/rows"] = rows_chart(table)
    yield f'<div class="wide">{_place(f"{table.table}/rows")}</div></div>'


def _times(times: Sequence[Sequence[str]]) -> Iterator[str]:
    if times:
        yield f"<section><h2>Time</h2>{_rows(TIME_COLUMNS, times, TIME_NUMBERS)}</section>"


def _place(name: str) -> str:
    return f"<!-- chart {escape(name)} -->"


def _groups(table: TableCompared) -> Iterator[str]:
    for groups in table.groups:
        alone = table.model_copy(update={"groups": (groups,)})
        found = [row[2:] for row in group_rows(alone, _GROUPS)]
        if found:
            noun = column_label(groups.column)
            measure = column_label(table.measures[0] if table.measures else ROWS)
            of = f"{groups.differing:,} of {format_count(groups.groups, noun)}"
            yield f"<h3>By {escape(noun)}: {escape(of)} differ, by {escape(measure)}</h3>"
            yield _rows((noun, *GROUP_COLUMNS[3:]), found, GROUP_NUMBERS)
            if more := more_groups(groups, _GROUPS):
                yield f'<p class="note">{escape(more)}</p>'


def _sample(table: TableCompared) -> Iterator[str]:
    if not table.sample:
        return
    yield f"<h3>{len(table.sample)} of {format_count(table.rows.changed, 'changed row')}, side by side</h3>"
    lines = []
    for row in table.sample:
        cells = list(side_by_side(row))
        for n, (day, key, column, before, after) in enumerate(cells):
            first = (
                f'<td class="name" rowspan="{len(cells)}">{day}</td><td rowspan="{len(cells)}">{escape(key)}</td>'
                if n == 0
                else ""
            )
            lines.append(f"<tr>{first}<td>{escape(column)}</td>{_beside(before, after)}</tr>")
    head = "<tr><th>day</th><th>key</th><th>column</th><th>before</th><th>after</th></tr>"
    yield f'<div class="scroll"><table>{head}{"".join(lines)}</table></div>'


def _beside(before: str, after: str) -> str:
    if before == WITHHELD:
        return f'<td colspan="2">{escape(WITHHELD)}</td>'
    return f'<td class="old">{escape(before)}</td><td class="new">{escape(after)}</td>'


def _days(table: TableCompared) -> Iterator[str]:
    """Every day as numbers, to look one up."""
    columns, rows = day_columns(table), [day_row(table, day) for day in table.days]
    shown = _rows(columns, rows, columns[2:])
    yield f"<details><summary>{format_count(len(table.days), unit(table))} as numbers</summary>{shown}</details>"


def _rows(columns: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[str] = ()) -> str:
    kinds = [' class="number"' if name in numbers else "" for name in columns]
    kinds[0] = ' class="name"'
    head = "".join(f"<th{kind}>{escape(name)}</th>" for name, kind in zip(columns, kinds, strict=True))
    lines = ["".join(f"<td{kind}>{escape(cell)}</td>" for cell, kind in zip(row, kinds, strict=True)) for row in rows]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'
