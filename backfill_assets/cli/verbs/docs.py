from __future__ import annotations

import re
from collections.abc import Mapping

import click

from backfill_assets.cli.options import as_json
from backfill_assets.cli.output import say, say_json, say_lines, wants_json
from backfill_assets.errors import InvalidRequest
from backfill_assets.settings import shipped
from backfill_assets.text import suggest_or_list

_HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
_CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


@click.command()
@click.argument("page", required=False)
@click.argument("section", required=False)
@as_json
def docs(page: str | None, section: str | None) -> None:
    """Print a page of the documentation, or a SECTION of it; without PAGE, list them.

    \b
    Examples:
      backfill docs
      backfill docs operations
      backfill docs operations "Foreign writes"

    The pages come with the package, as Markdown: those of the installed version.
    """
    found = pages()
    if page is None:
        titles = {name: heading(text) for name, text in found.items()}
        if wants_json():
            say_json({"pages": titles})
        else:
            say(*(f"{name:30} {title}" for name, title in titles.items()))
        return
    text = _named(page, found, "page", "Pages")
    if section is not None:
        text = _named(section, sections(text), "section", "Sections")
    if wants_json():
        say_json({"page": page, "section": section, "text": text})
    else:
        say_lines(text.rstrip("\n"))


def pages() -> Mapping[str, str]:
    folder = shipped("docs")
    found = sorted([*folder.glob("*.md"), *folder.glob("reference/*.md")])
    return {str(file.relative_to(folder).with_suffix("")): file.read_text(encoding="utf-8") for file in found}


def heading(text: str) -> str:
    return found[2] if (found := _HEADING.search(text)) else ""


def sections(text: str) -> Mapping[str, str]:
    code = [found.span() for found in _CODE.finditer(text)]
    marks = [m for m in _HEADING.finditer(text) if not any(first <= m.start() < last for first, last in code)]
    found = {}
    for number, mark in enumerate(marks):
        ends = (each.start() for each in marks[number + 1 :] if len(each[1]) <= len(mark[1]))
        found[mark[2]] = text[mark.start() : next(ends, len(text))]
    return found


def _named(name: str, known: Mapping[str, str], kind: str, title: str) -> str:
    if name not in known:
        raise InvalidRequest(f"There is no {kind} {name!r}.", hint=suggest_or_list(name, known, title))
    return known[name]
