"""Rows a second and core against the days of a run and against the columns of a source: is there a knee?"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from benchmarks.backfill.data import CACHE, TABLES, Data
from benchmarks.backfill.report import Line, figure
from benchmarks.backfill.shared_server import server
from benchmarks.wide_source import STEPS, best_later, measure

DAYS_OF_A_RUN = (1, 10, 90, 900)
FIELDS = (10, 40, 100)
ROWS_OF_A_WIDE_DAY = 50_000
CHART = CACHE / "throughput.svg"
_WARM_UPS = 4
_WIDTH, _LEFT, _TOP, _ROW, _BAR = 760, 20, 40, 26, 16
_BARS_FROM, _BARS_TO = 200, 640
_COLOURS = ("#4a7fb5", "#8fb996", "#e0a100")


def throughput(data: Data, rounds: int) -> list[Line]:
    """Bronze, facts and revenue of more and more days on a warm server; one day of sources of more and more fields.

    Also draws :data:`CHART`.
    """
    of_days = [_of_days(data, days, rounds) for days in DAYS_OF_A_RUN if days <= len(data.days)]
    of_fields = _of_fields(rounds + 1)
    CHART.parent.mkdir(parents=True, exist_ok=True)
    CHART.write_text(chart({f"{data.rows_per_day:,} rows a day": of_days, **of_fields}))
    return [*of_days, *(line for lines in of_fields.values() for line in lines)]


def _of_days(data: Data, days: int, rounds: int) -> Line:
    """By the clock, starting the process and what Spark is asked for each table included."""
    part, cores = data.days.split(days)[0], os.cpu_count() or 1
    with server() as shared:
        for _ in range(_WARM_UPS):
            data.run(*TABLES, "--days", str(data.days.split(1)[0]), "--force", name="warm-up", environment=shared)
        runs = [
            data.run(*TABLES, "--days", str(part), "--force", name="throughput", environment=shared)
            for _ in range(rounds)
        ]
    rows = len(part) * data.rows_per_day
    what = f"{days:,} days a run" if days > 1 else "1 day a run"
    return figure(what, [round(rows / run.seconds / cores) for run in runs], "rows/s and core")


def _of_fields(rounds: int) -> dict[str, list[Line]]:
    """By CPU seconds of one session, warm."""
    found = measure(FIELDS, ROWS_OF_A_WIDE_DAY, rounds)
    return {
        f"{step}, a day of {ROWS_OF_A_WIDE_DAY:,} rows": [
            figure(f"{fields} fields", [round(ROWS_OF_A_WIDE_DAY / best_later(found[fields], place)[1])], "rows/CPU s")
            for fields in FIELDS
        ]
        for place, step in enumerate(STEPS)
    }


def chart(groups: Mapping[str, Sequence[Line]]) -> str:
    """An SVG picture: a bar for each line, all groups at one scale."""
    most, y, drawn = max(line.value for lines in groups.values() for line in lines), _TOP, []
    for colour, (title, lines) in zip(_COLOURS, groups.items(), strict=True):
        drawn.append(_text(_LEFT, y + 12, title, "font-weight='600'"))
        for line in lines:
            y += _ROW
            width = round((_BARS_TO - _BARS_FROM) * line.value / most, 1)
            drawn += [
                _text(_LEFT, y + 12, line.what),
                f"<rect x='{_BARS_FROM}' y='{y}' width='{width}' height='{_BAR}' fill='{colour}'/>",
                _text(_BARS_FROM + width + 8, y + 12, f"{line.value:,.0f}"),
            ]
        y += 2 * _ROW
    frame = f"viewBox='0 0 {_WIDTH} {y}' width='{_WIDTH}' height='{y}' font-family='system-ui, sans-serif'"
    title = "Rows a second and core"
    head = f"<svg xmlns='http://www.w3.org/2000/svg' {frame} font-size='12' role='img' aria-label='{title}'>"
    background = f"<rect width='{_WIDTH}' height='{y}' fill='#ffffff'/>"
    return "\n".join([head, background, _text(_LEFT, 22, title, "font-size='14'"), *drawn, "</svg>"]) + "\n"


def _text(x: float, y: float, words: str, more: str = "") -> str:
    return f"<text x='{x}' y='{y}' fill='#39424e' {more}>{words}</text>"
