"""A hazard as a page with its chart. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path

from backfill_assets.examples.lab.counts import Hazard, WayCounts, columns, count_rows, outcome
from backfill_assets.text import markdown_table

RIGHT, MISSING, DOUBLED, LOST = "once", "missing", "doubled", "for nothing"
_COLOURS = {RIGHT: "#8fb996", MISSING: "#c0392b", DOUBLED: "#e0a100", LOST: "#c0392b"}
_WIDTH, _LEFT, _TOP, _ROW = 760, 20, 64, 58


def write_pages(hazards: Iterable[Hazard], folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {f"{each.text.name}.{suffix}": made for each in hazards for suffix, made in _both(each)}
    for name, text in drawn.items():
        (folder / name).write_text(text)
    return [folder / name for name in drawn]


def _both(hazard: Hazard) -> list[tuple[str, str]]:
    return [("md", page(hazard)), ("svg", chart(hazard))]


def page(hazard: Hazard) -> str:
    names = columns(hazard.ways)
    counts = markdown_table(names, count_rows(hazard.ways), numbers=names[1:])
    return _rendered("page.md", {"hazard": hazard, "text": hazard.text, "counts": counts, "outcome": outcome})


def chart(hazard: Hazard) -> str:
    """Bars have one scale; names are escaped."""
    drawn = [parts(way) for way in hazard.ways]
    about = {
        "title": hazard.text.title,
        "bars": [(way.way, outcome(way), each) for way, each in zip(hazard.ways, drawn, strict=True)],
        "longest": max(1, *(sum(each.values()) for each in drawn)),
        "colours": _COLOURS,
        "legend": [name for name in _COLOURS if any(name in each for each in drawn)],
        "size": {"width": _WIDTH, "left": _LEFT, "top": _TOP, "row": _ROW},
    }
    return _rendered("chart.svg", about)


def parts(way: WayCounts) -> dict[str, int]:
    worst = max(way.tables, key=lambda table: table.missing + table.doubled)
    if way.is_about_work:
        found = {RIGHT: way.days_computed - way.days_thrown_away, LOST: way.days_thrown_away}
    else:
        found = {RIGHT: way.events - worst.missing, MISSING: worst.missing, DOUBLED: worst.doubled}
    return {name: count for name, count in found.items() if count}


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
    return textwrap.fill(
        text,
        120,
        initial_indent=mark,
        subsequent_indent=" " * len(mark),
        break_long_words=False,
        break_on_hyphens=False,
    )
