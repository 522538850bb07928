"""The pictures of the UI are what the pages about it show, and are small."""

from __future__ import annotations

import ast
import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
PICTURES = DOCS / "screenshots"
SCRIPTS = ("take.py", "take_campaign.py", "take_letter.py", "take_stream.py", "take_timelines.py")


def _taken() -> set[str]:
    """The names that the scripts give to their pictures."""
    trees = [ast.parse((PICTURES / script).read_text()) for script in SCRIPTS]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    named = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "picture"]
    given = [argument.value for call in named for argument in call.args if isinstance(argument, ast.Constant)]
    return {f"{name}.png" for name in given if isinstance(name, str)}


def test_the_pages_show_every_picture_and_only_those() -> None:
    """A picture that no page shows is not looked after; one that is not there is a hole in the page."""
    text = "".join((DOCS / page).read_text() for page in ("start.md", "campaign.md", "stream.md", "timelines.md"))
    shown = set(re.findall(r"!\[[^\]]+\]\(screenshots/([^)]+)\)", text))
    assert shown == {path.name for path in PICTURES.glob("*.png")}


def test_the_scripts_take_every_picture() -> None:
    """One that was taken by hand would show a UI that is gone."""
    assert {path.name for path in PICTURES.glob("*.png")} == _taken()


def test_the_readme_shows_the_letter_and_says_it_in_words() -> None:
    """A package index has no files beside the page: what the letter says is read there as well."""
    ((path, words),) = re.findall(r'<img src="([^"]+)" alt="([^"]+)">', (DOCS.parent / "README.md").read_text())
    assert DOCS.parent / path == PICTURES / "letter.png"
    letter = (DOCS / "campaign.md").read_text()
    assert f"![{words}](screenshots/letter.png)" in letter and "95,100.8827 to 95,074.8333" in words


def test_pictures_are_small() -> None:
    """They are in everybody's clone for good."""
    sizes = {path.name: path.stat().st_size for path in PICTURES.glob("*.png")}
    assert not {name: size for name, size in sizes.items() if size > 150_000}


def test_the_page_of_timelines_shows_each_of_its_drawings() -> None:
    """With words for those who cannot see them."""
    shown = re.findall(r"!\[([^\]]{30,})\]\(rewind/([^)]+)\)", (DOCS / "timelines.md").read_text())
    assert {name for _, name in shown} == {path.name for path in (DOCS / "rewind").iterdir()}
