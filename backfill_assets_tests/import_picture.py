"""``python -m backfill_assets_tests.import_picture``: draws ``docs/reference/layers.md`` from the imports.

The layers come from the import contract in ``pyproject.toml``, the arrows from the import graph. A test compares the
page with what this writes.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "layers.md"
PACKAGE = "backfill_assets"
BEGIN, END = "<!-- drawn by `make picture` -->", "<!-- end of the picture -->"
_BETWEEN = re.compile(f"(?<={re.escape(BEGIN)}\n).*?(?={re.escape(END)})", re.DOTALL)


def layers() -> list[list[str]]:
    """The rooms of each layer, from the top down, as import-linter enforces them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    found = next(each["layers"] for each in contracts if each["type"] == "layers")
    return [[room.strip() for room in layer.split("|")] for layer in found]


def imports() -> dict[str, set[str]]:
    """The rooms that each room imports."""
    import grimp

    graph = grimp.build_graph(PACKAGE, exclude_type_checking_imports=True, cache_dir=None)
    found: dict[str, set[str]] = {room.removeprefix(f"{PACKAGE}."): set() for room in graph.find_children(PACKAGE)}
    for importer in graph.modules - {PACKAGE}:
        for imported in graph.find_modules_directly_imported_by(importer) - {PACKAGE}:
            found[importer.split(".")[1]].add(imported.split(".")[1])
    return {room: others - {room} for room, others in found.items()}


def reduced(arrows: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Without the arrows that a longer way replaces: the picture stays readable, and every room reaches the same."""
    below = {room: _reachable(arrows, room) for room in arrows}
    return {
        room: {to for to in found if not any(to in below[other] for other in found)} for room, found in arrows.items()
    }


def _reachable(arrows: Mapping[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    todo = list(arrows[start])
    while todo:
        room = todo.pop()
        if room not in found:
            found.add(room)
            todo += arrows[room]
    return found


def picture(rows: Sequence[Sequence[str]], arrows: Mapping[str, set[str]]) -> str:
    """Mermaid: a frame around rooms of one layer, and an arrow from a room to each room that it needs."""
    lines = ["```mermaid", "flowchart TD"]
    for number, rooms in enumerate(rows, 1):
        frame = [f'  subgraph layer{number} [" "]', *(f"    {room}" for room in rooms), "  end"]
        lines += frame if len(rooms) > 1 else [f"  {room}" for room in rooms]
    known = [room for rooms in rows for room in rooms]
    lines += [f"  {room} --> {to}" for room in known for to in sorted(arrows[room], key=known.index)]
    return "\n".join([*lines, "```", ""])


def drawn(page: str) -> str:
    """The page with the picture of now between its markers."""
    return _BETWEEN.sub(lambda _: picture(layers(), reduced(imports())), page)


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text()))
