"""The page of each room, its ``__init__.py``: a newcomer finds every module by it, and its example is true.

On a page, a lower-case word between double backticks is a module or a room: of this room, or by its path in the
package, such as ``model/rules``. Everything else is written otherwise: ``Publisher``, ``heal()``.
"""

from __future__ import annotations

import ast
import doctest
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import backfill_assets

PACKAGE = Path(backfill_assets.__file__).parent
ROOMS = sorted(page.parent for page in PACKAGE.rglob("__init__.py"))
MOST_WORDS, MOST_LINES_OF_EXAMPLE = 170, 6
_NAME = re.compile(r"``([a-z_]\w*(?:/[a-z_]\w*)*)``")


def _name_of(room: Path) -> str:
    return room.relative_to(PACKAGE.parent).as_posix()


every_room = pytest.mark.parametrize("room", ROOMS, ids=_name_of)


def _page(room: Path) -> str:
    return ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or ""


def _inside(room: Path) -> set[str]:
    """Modules, and rooms within a room."""
    modules = {path.stem for path in room.glob("*.py") if not path.stem.startswith("__")}
    return modules | {page.parent.name for page in room.glob("*/__init__.py")}


def _exists(path: Path) -> bool:
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


@every_room
def test_a_page_names_everything_in_its_room(room: Path) -> None:
    forgotten = _inside(room) - set(_NAME.findall(_page(room)))
    assert not forgotten


@every_room
def test_every_name_on_a_page_is_one_of_a_module(room: Path) -> None:
    gone = [name for name in _NAME.findall(_page(room)) if not _exists(room / name) and not _exists(PACKAGE / name)]
    assert not gone


@every_room
def test_a_page_is_a_map_and_no_manual(room: Path) -> None:
    text, begins, example = _page(room).partition(">>>")
    assert len(re.findall(r"\w\S*", _NAME.sub("", text))) <= MOST_WORDS
    assert len((begins + example).splitlines()) <= MOST_LINES_OF_EXAMPLE


@every_room
def test_the_example_of_a_page_is_true(room: Path) -> None:
    example = doctest.DocTestParser().get_doctest(_page(room), {}, _name_of(room), None, None)
    said: list[str] = []
    failed = doctest.DocTestRunner(verbose=False).run(example, out=said.append).failed
    assert not failed, "".join(said)


def test_several_pages_have_an_example() -> None:
    assert sum(">>>" in _page(room) for room in ROOMS) >= 8


# ------------------------------------------------------------------ the page of the package


def _layers() -> Iterator[set[str]]:
    contracts = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [each["layers"] for each in contracts if each["type"] == "layers"]
    for layer in reversed(layers):
        yield {name.strip() for name in layer.split("|")}


def test_the_page_of_the_package_goes_from_the_lowest_layer_to_the_highest() -> None:
    first = [re.match(r"- (``.*?``):", line) for line in _page(PACKAGE).splitlines()]
    shown = [name for found in first if found for name in _NAME.findall(found[1])]
    height = {name: number for number, layer in enumerate(_layers()) for name in layer}
    assert shown == sorted(shown, key=height.__getitem__) and set(shown) == set(height)


def test_the_package_imports_nothing() -> None:
    """What it exports is loaded when it is asked for: commands that need no engine start none."""
    imported = (
        "import sys, backfill_assets; print([each for each in sys.modules if each.startswith('backfill_assets.')])"
    )
    assert subprocess.check_output([sys.executable, "-c", imported], text=True) == "[]\n"
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    at_once = [each for each in tree.body if isinstance(each, ast.Import | ast.ImportFrom)]
    assert {ast.unparse(each).split()[1] for each in at_once} == {"__future__", "importlib", "typing"}
