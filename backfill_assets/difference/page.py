"""A difference as one page with charts: a single file that needs no network, in which all data is escaped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.difference import text
from backfill_assets.difference.charts import change_chart, rows_chart, sums_chart
from backfill_assets.difference.kept import Difference
from backfill_assets.difference.records import ROWS, TableCompared
from backfill_assets.difference.sentences import table_sentence, unit
from backfill_assets.plan import durations
from backfill_assets.text import column_label, format_count

if TYPE_CHECKING:
    from bokeh.model import Model

_GROUPS = 10


def difference_page(difference: Difference, times: Sequence[Sequence[str]] = ()) -> str:
    """HTML with the charts' code inside. It grows with the days, not with the rows; some 1 MB of it is Bokeh.

    ``times`` are the steps of the campaign, as :func:`backfill_assets.plan.durations.time_rows` has them.
    """
    from bokeh.embed import components
    from bokeh.resources import Resources
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    drawn = [(table.table, chart) for table in difference.tables if table.differing for chart in _charts(table)]
    script, places = components([chart for _, chart in drawn]) if drawn else ("", ())
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html").render(
        difference=difference,
        times=times,
        counts=[text.count_row(table) for table in difference.tables],
        charts=list(zip((table for table, _ in drawn), places, strict=True)),
        code=Resources(mode="inline", components=["bokeh"]).render_js() if drawn else "",
        script=script,
        text=text,
        durations=durations,
        table_sentence=table_sentence,
        unit=unit,
        format_count=format_count,
        groups=_groups,
        days=lambda table: text.day_rows(table, table.days),
    )


def _charts(table: TableCompared) -> Iterator[Model]:
    """The measures that change, and the rows of each day."""
    changing = [measure for measure in table.measures if any(day.of(measure).change for day in table.days)]
    for measure in changing:
        yield sums_chart(table, measure)
        yield change_chart(table, measure)
    yield rows_chart(table)


def _groups(table: TableCompared) -> Iterator[tuple[str, Sequence[str], list[tuple[str, ...]], str]]:
    """Of each column with groups that differ: title, column labels, rows, and how many groups are left out."""
    measure = column_label(table.measures[0] if table.measures else ROWS)
    for groups in table.groups:
        alone = table.model_copy(update={"groups": (groups,)})
        if found := [row[2:] for row in text.group_rows(alone, _GROUPS)]:
            noun = column_label(groups.column)
            of = f"{groups.differing:,} of {format_count(groups.groups, noun)}"
            title = f"By {noun}: {of} differ, by {measure}"
            yield title, (noun, *text.GROUP_COLUMNS[3:]), found, text.more_groups(groups, _GROUPS)
