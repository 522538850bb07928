"""Draws the diagram of docs/timelines.md: main, a moment, two attempts on timelines, and what is published.

``python docs/screenshots/draw_rewind.py`` writes ``docs/rewind/diagram.svg``.
"""

from __future__ import annotations

from pathlib import Path

PICTURE = Path(__file__).parents[1] / "rewind" / "diagram.svg"
WIDTH, HEIGHT = 820, 372
MAIN, ORIGINAL, FIRST, SECOND = 60, 150, 232, 314
"""How far down each line lies."""
MOMENT, WRONG, ARRIVED, PUBLISHED = 260, 330, 520, 700
END_OF_FIRST = 640
INK, WRONG_INK, RIGHT_INK, PALE = "#33414e", "#c0392b", "#3f7d4f", "#8a97a3"
STYLE = "font-family: system-ui, -apple-system, 'Segoe UI', sans-serif; font-size: 13px"


def line(x1: int, y1: int, x2: int, y2: int, colour: str = INK, dash: str = "", arrow: bool = False) -> str:
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    end = f' marker-end="url(#{colour[1:]})"' if arrow else ""
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}" stroke-width="2.5"{dashed}{end}/>'


def dot(x: int, y: int, colour: str = INK) -> str:
    return f'<circle cx="{x}" cy="{y}" r="6" fill="{colour}" stroke="#ffffff" stroke-width="2"/>'


def text(x: int, y: int, words: str, colour: str = INK, anchor: str = "start", weight: str = "400") -> str:
    return f'<text x="{x}" y="{y}" fill="{colour}" text-anchor="{anchor}" font-weight="{weight}">{words}</text>'


def arrow_head(colour: str) -> str:
    return (
        f'<marker id="{colour[1:]}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="6" markerHeight="6" '
        f'orient="auto"><path d="M0,0 L10,5 L0,10 z" fill="{colour}"/></marker>'
    )


def diagram() -> str:
    parts = [
        text(20, MAIN + 4, "main", weight="600"),
        line(120, MAIN, WRONG, MAIN),
        line(WRONG, MAIN, PUBLISHED, MAIN, WRONG_INK),
        line(PUBLISHED, MAIN, 800, MAIN, RIGHT_INK, arrow=True),
        *(dot(x, MAIN) for x in (160, 210, MOMENT)),
        dot(WRONG, MAIN, WRONG_INK),
        text(WRONG, MAIN - 16, "v1 goes live: wrong", WRONG_INK, "middle"),
        dot(ARRIVED, MAIN, WRONG_INK),
        text(ARRIVED, MAIN - 16, "late rows arrive in raw", PALE, "middle"),
        dot(PUBLISHED, MAIN, RIGHT_INK),
        text(PUBLISHED, MAIN - 16, "one publication", RIGHT_INK, "middle"),
        line(MOMENT, MAIN + 10, MOMENT, ORIGINAL - 10, PALE, "4 4", arrow=True),
        text(MOMENT + 10, (MAIN + ORIGINAL) // 2 + 4, "timeline rewind --to: the days name the files they had", PALE),
        text(20, ORIGINAL + 4, "before-v1", weight="600"),
        line(MOMENT, ORIGINAL, 800, ORIGINAL),
        dot(MOMENT, ORIGINAL),
        text(420, ORIGINAL - 10, "stays what it was, and still answers", PALE),
        *_attempt(FIRST, 320, END_OF_FIRST, "first-try", "timeline forward OTHER: wrong on one point", WRONG_INK),
        *_attempt(SECOND, 380, PUBLISHED, "second-try", "timeline forward OTHER: right", RIGHT_INK),
        line(PUBLISHED, SECOND, PUBLISHED, MAIN + 10, RIGHT_INK, arrow=True),
        text(PUBLISHED - 10, (ORIGINAL + FIRST) // 2 - 8, "timeline publish, approve", RIGHT_INK, "end"),
        line(600, FIRST + 10, 600, SECOND - 10, PALE, "4 4"),
        text(592, (FIRST + SECOND) // 2 + 4, "diff", PALE, "end"),
    ]
    heads = "".join(map(arrow_head, (INK, PALE, RIGHT_INK)))
    body = "\n  ".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" style="{STYLE}">\n'
        "  <title>Main goes wrong; a timeline goes back to before it; two attempts go forward from there, and the "
        "second one is published.</title>\n"
        f'  <defs>{heads}</defs>\n  <rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>\n  {body}\n</svg>\n'
    )


def _attempt(y: int, begins: int, ends: int, name: str, words: str, colour: str) -> list[str]:
    return [
        text(20, y + 4, name, weight="600"),
        line(MOMENT, ORIGINAL, MOMENT, y, PALE, "4 4"),
        line(MOMENT, y, begins, y, PALE, "4 4"),
        line(begins, y, ends, y, colour),
        dot(begins, y, colour),
        text(begins + 10, y - 10, words, colour),
    ]


if __name__ == "__main__":
    PICTURE.write_text(diagram())
