"""The chart of a hazard: a bar for each way, with what was right and what went wrong in proportion. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from backfill_assets.examples.lab.hazard import Hazard, WayCounts, outcome

RIGHT, MISSING, DOUBLED, LOST = "once", "missing", "doubled", "for nothing"
COLOURS = {RIGHT: "#8fb996", MISSING: "#c0392b", DOUBLED: "#e0a100", LOST: "#c0392b"}
_WIDTH, _LEFT, _TOP, _ROW, _BAR = 760, 20, 64, 58, 20
_LONGEST = _WIDTH - 2 * _LEFT


@dataclass(frozen=True)
class Part:
    """A piece of a bar; ``x`` and ``width`` are in pixels."""

    name: str
    count: int
    x: float
    width: float

    @property
    def colour(self) -> str:
        return COLOURS[self.name]


@dataclass(frozen=True)
class Bar:
    """One way: its name above the bar, and what came of it."""

    label: str
    outcome: str
    y: int
    parts: tuple[Part, ...]


def chart(hazard: Hazard) -> str:
    """An SVG picture without scripts; names are escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found = bars(hazard)
    shown = {part.name for bar in found for part in bar.parts}
    return environment.get_template("chart.svg").render(
        title=hazard.text.title,
        bars=found,
        legend=[(name, colour) for name, colour in COLOURS.items() if name in shown],
        width=_WIDTH,
        height=_TOP + _ROW * len(found),
        left=_LEFT,
        bar=_BAR,
    )


def bars(hazard: Hazard) -> list[Bar]:
    """All of them at one scale: the longest bar has the whole width."""
    counts = [(way, _parts(way)) for way in hazard.ways]
    longest = max(sum(count for _, count in parts) for _, parts in counts)
    return [
        Bar(way.way, outcome(way), _TOP + _ROW * number, _placed(parts, _LONGEST / max(1, longest)))
        for number, (way, parts) in enumerate(counts)
    ]


def _parts(way: WayCounts) -> list[tuple[str, int]]:
    """Days for ways whose work is counted; else rows of the table that is worst off."""
    if way.is_about_work:
        return [(RIGHT, way.days_computed - way.days_thrown_away), (LOST, way.days_thrown_away)]
    worst = max(way.tables, key=lambda table: table.missing + table.doubled)
    return [(RIGHT, way.events - worst.missing), (MISSING, worst.missing), (DOUBLED, worst.doubled)]


def _placed(parts: list[tuple[str, int]], pixels: float) -> tuple[Part, ...]:
    placed, x = [], float(_LEFT)
    for name, count in parts:
        if count:
            placed.append(Part(name, count, round(x, 1), round(count * pixels, 1)))
        x += count * pixels
    return tuple(placed)
