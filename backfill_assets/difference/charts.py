"""The charts of a difference: sums before and after, their change, and what became of the rows, by day."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from backfill_assets.days import Cadence
from backfill_assets.difference.records import DayCompared, TableCompared
from backfill_assets.difference.sentences import unit
from backfill_assets.text import amount, column_label

if TYPE_CHECKING:
    from bokeh.models import Plot

BEFORE, AFTER = "#bcc4cf", "#1f5fbf"
ROW_COLOURS = {"added": "#2e8b57", "removed": "#c0392b", "changed": "#e0a100", "unchanged": "#d5dae0"}
_HEIGHT = 210
_DAY_MS = 86_400_000
_LENGTH_DAYS = {Cadence.DAILY: 1, Cadence.WEEKLY: 7, Cadence.MONTHLY: 28}
_MANY_DAYS = 45


def sums_chart(table: TableCompared, measure: str) -> Plot:
    """Each day's sum in main, and as it would be."""
    known = [(day, day.of(measure)) for day in table.days if day.of(measure).change is not None]
    data = _days([day for day, _ in known]) | {
        "before": [float(found.before or 0) for _, found in known],
        "after": [float(found.after or 0) for _, found in known],
        "before_text": [amount(found.before) for _, found in known],
        "after_text": [amount(found.after) for _, found in known],
    }
    chart = _chart(f"{column_label(measure)} by {unit(table)}", [("before", "@before_text"), ("after", "@after_text")])
    source, size = _source(data), 3 if len(known) > _MANY_DAYS else 5
    for side, colour, width in (("before", BEFORE, 5), ("after", AFTER, 1.5)):
        chart.line("at", side, source=source, color=colour, line_width=width, legend_label=side)
        chart.scatter("at", side, source=source, color=colour, size=size + width - 1.5, legend_label=side)
    return _finish(chart)


def change_chart(table: TableCompared, measure: str) -> Plot:
    """The change of each day's sum, in percent; a day that had nothing before has no bar."""
    known = [(day, found) for day in table.days if (found := day.of(measure)).share is not None]
    shares = [float(found.share or 0) * 100 for _, found in known]
    data = _days([day for day, _ in known]) | {
        "share": shares,
        "colour": [ROW_COLOURS["removed"] if share < 0 else ROW_COLOURS["added"] for share in shares],
        "text": [f"{found.change:+,}" for _, found in known],
    }
    chart = _chart(f"change of {column_label(measure)}, %", [("change", "@share{+0.000} %"), ("absolute", "@text")])
    chart.vbar("at", top="share", width=_width(table), color="colour", source=_source(data))
    chart.line("at", 0, source=_source(data), color="#5b6573", line_width=1)
    return _finish(chart)


def rows_chart(table: TableCompared) -> Plot:
    """What became of each day's rows."""
    names = list(ROW_COLOURS)
    data: dict[str, list[Any]] = _days(table.days)
    data |= {name: [getattr(day.rows, name) for day in table.days] for name in names}
    chart = _chart(f"rows by {unit(table)}", [(name, f"@{name}{{0,0}}") for name in names])
    chart.vbar_stack(
        names,
        x="at",
        width=_width(table),
        color=list(ROW_COLOURS.values()),
        source=_source(data),
        legend_label=names,
    )
    return _finish(chart)


def _chart(title: str, tips: Sequence[tuple[str, str]]) -> Any:
    from bokeh.models import HoverTool
    from bokeh.plotting import figure

    hover = HoverTool(tooltips=[("", "@day"), *tips])
    chart = figure(title=title, height=_HEIGHT, sizing_mode="stretch_width", x_axis_type="datetime", tools=[hover])
    chart.toolbar.logo = None
    chart.toolbar_location = None
    return chart


def _finish(chart: Any) -> Plot:
    """The looks that all charts share; Bokeh makes a legend only when it is used."""
    from bokeh.models import DatetimeTickFormatter, NumeralTickFormatter

    chart.title.text_font_size, chart.title.text_color = "12px", "#39424e"
    chart.outline_line_color, chart.xgrid.grid_line_color, chart.ygrid.grid_line_color = None, None, "#e8ebef"
    chart.xaxis.formatter = DatetimeTickFormatter(days="%d %b", months="%b %Y", hours="%d %b", years="%Y")
    chart.yaxis.formatter = NumeralTickFormatter(format="0,0[.]00a")
    for axis in (chart.xaxis, chart.yaxis):
        axis.axis_line_color, axis.minor_tick_line_color, axis.major_tick_line_color = "#c8ced6", None, "#c8ced6"
        axis.major_label_text_color = "#5b6573"
    if chart.legend:
        chart.add_layout(chart.legend[0], "above")
        chart.legend.orientation, chart.legend.border_line_color = "horizontal", None
        chart.legend.padding, chart.legend.label_text_font_size = 0, "11px"
        chart.legend.glyph_height, chart.legend.background_fill_alpha = 12, 0
    found: Plot = chart
    return found


def _days(days: Sequence[DayCompared]) -> dict[str, list[Any]]:
    return {
        "at": [datetime(each.day.year, each.day.month, each.day.day) + timedelta(0) for each in days],  # noqa: DTZ001
        "day": [f"{each.day:%a %Y-%m-%d}, {each.how}" for each in days],
    }


def _source(data: dict[str, list[Any]]) -> Any:
    from bokeh.models import ColumnDataSource

    return ColumnDataSource(data=data)


def _width(table: TableCompared) -> float:
    return 0.8 * _DAY_MS * _LENGTH_DAYS[table.cadence]
