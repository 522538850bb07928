"""A hazard as a page of the docs and its chart, from the templates beside this file. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from backfill_assets.examples.lab.counts import Hazard, WayCounts, columns, count_rows, outcome
from backfill_assets.text import markdown_table

RIGHT, MISSING, DOUBLED, LOST = "once", "missing", "doubled", "for nothing"
_COLOURS = {RIGHT: "#8fb996", MISSING: "#c0392b", DOUBLED: "#e0a100", LOST: "#c0392b"}
_WIDTH, _LEFT, _TOP, _ROW = 760, 20, 64, 58


def write_pages(hazards: Iterable[Hazard], folder: Path) -> list[Path]:
    """A page and a chart for each of ``hazards``; returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {f"{each.text.name}.{suffix}": made for each in hazards for suffix, made in _both(each)}
    for name, text in drawn.items():
        (folder / name).write_text(text)
    return [folder / name for name in drawn]


def _both(hazard: Hazard) -> list[tuple[str, str]]:
    return [("md", page(hazard)), ("svg", chart(hazard))]


def page(hazard: Hazard) -> str:
    """Markdown, prose wrapped; the chart is the file of the same name beside it."""
    names = columns(hazard.ways)
    counts = markdown_table(names, count_rows(hazard.ways), numbers=names[1:])
    return _rendered("page.md", {"hazard": hazard, "text": hazard.text, "counts": counts, "outcome": outcome})


@dataclass(frozen=True)
class Part:
    """A piece of a bar; ``x`` and ``width`` are in pixels."""

    name: str
    count: int
    x: float
    width: float


def chart(hazard: Hazard) -> str:
    """An SVG picture without scripts, with a bar for each way; names are escaped."""
    drawn = bars(hazard)
    shown = {part.name for parts in drawn for part in parts}
    about = {
        "title": hazard.text.title,
        "bars": [(way.way, outcome(way), parts) for way, parts in zip(hazard.ways, drawn, strict=True)],
        "colours": _COLOURS,
        "legend": [name for name in _COLOURS if name in shown],
        "size": {"width": _WIDTH, "left": _LEFT, "top": _TOP, "row": _ROW},
    }
    return _rendered("chart.svg", about)


def bars(hazard: Hazard) -> list[list[Part]]:
    """Of each way its parts, all at one scale: the longest bar has the whole width."""
    counts = [_parts(way) for way in hazard.ways]
    longest = max(sum(each.values()) for each in counts)
    return [_placed(each, (_WIDTH - 2 * _LEFT) / max(1, longest)) for each in counts]


def _parts(way: WayCounts) -> dict[str, int]:
    """Days for ways whose work is counted; else rows of the table that is worst off."""
    if way.is_about_work:
        return {RIGHT: way.days_computed - way.days_thrown_away, LOST: way.days_thrown_away}
    worst = max(way.tables, key=lambda table: table.missing + table.doubled)
    return {RIGHT: way.events - worst.missing, MISSING: worst.missing, DOUBLED: worst.doubled}


def _placed(counts: Mapping[str, int], pixels: float) -> list[Part]:
    placed, x = [], float(_LEFT)
    for name, count in counts.items():
        if count:
            placed.append(Part(name, count, round(x, 1), round(count * pixels, 1)))
        x += count * pixels
    return placed


def _rendered(template: str, about: Mapping[str, object]) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=select_autoescape(["svg"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["prose"] = _prose
    return environment.get_template(template).render(about)


def _prose(text: str, mark: str = "") -> str:
    """Wrapped; ``mark`` is what an item of a list begins with."""
    return textwrap.fill(
        text,
        120,
        initial_indent=mark,
        subsequent_indent=" " * len(mark),
        break_long_words=False,
        break_on_hyphens=False,
    )
