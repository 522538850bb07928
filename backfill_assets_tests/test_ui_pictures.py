"""The pictures of the UI are what the page about it shows, and are small."""

from __future__ import annotations

import ast
import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
PICTURES = DOCS / "screenshots"
_LARGEST_BYTES = 150_000


def _taken() -> set[str]:
    """The names that the script gives to its pictures."""
    calls = [node for node in ast.walk(ast.parse((PICTURES / "take.py").read_text())) if isinstance(node, ast.Call)]
    named = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "picture"]
    given = [argument.value for call in named for argument in call.args if isinstance(argument, ast.Constant)]
    return {f"{name}.png" for name in given if isinstance(name, str)}


def test_the_page_shows_every_picture_and_only_those() -> None:
    """A picture that nobody sees is not looked after; one that is not there is a hole in the page."""
    shown = set(re.findall(r"!\[[^\]]+\]\(screenshots/([^)]+)\)", (DOCS / "ui.md").read_text()))
    assert shown == {path.name for path in PICTURES.glob("*.png")}


def test_the_script_takes_every_picture() -> None:
    """One that was taken by hand would show a UI that is gone."""
    assert {path.name for path in PICTURES.glob("*.png")} == _taken()


def test_pictures_are_small() -> None:
    """They are in everybody's clone for good."""
    sizes = {path.name: path.stat().st_size for path in PICTURES.glob("*.png")}
    assert not {name: size for name, size in sizes.items() if size > _LARGEST_BYTES}
