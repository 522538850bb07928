"""The questions in the text of a declaration that nobody has answered yet."""

from __future__ import annotations

import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules

from backfill_assets.errors import BackfillError
from backfill_assets.model.catalog import look_in_current_folder
from backfill_assets.model.declared_wrong import names_written
from backfill_assets.proposal.source_text import QUESTION


@dataclass(frozen=True)
class OpenQuestion:
    """A question, and where it stands."""

    file: Path
    line: int
    question: str

    @property
    def place(self) -> str:
        """``shop/datasets/orders.py, line 31``, as it is typed in this folder."""
        here = self.file.relative_to(Path.cwd()) if self.file.is_relative_to(Path.cwd()) else self.file
        return f"{here}, line {self.line}"


def open_questions(dataset: str, package: str) -> list[OpenQuestion]:
    """Those in the modules of ``package`` that declare ``dataset``, also if one cannot be imported."""
    look_in_current_folder()
    return [
        OpenQuestion(file, line, text)
        for module, file in _modules(package)
        if dataset in names_written(module)
        for line, text in questions_in(file.read_text(encoding="utf-8"))
    ]


def questions_in(text: str) -> Iterator[tuple[int, str]]:
    """The questions that ``text`` asks in comments, with their lines; as far as it is Python."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and token.string.startswith(QUESTION):
                yield token.start[0], token.string.removeprefix(QUESTION).strip()
    except (tokenize.TokenError, SyntaxError):
        return


def _modules(package: str) -> Iterator[tuple[str, Path]]:
    try:
        found = find_spec(package)
    except (BackfillError, ImportError, ValueError):
        return
    if found is not None and found.origin:
        yield package, Path(found.origin)
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        for each in iter_modules([folder]):
            file = Path(folder, f"{each.name}.py")
            if file.is_file():
                yield f"{package}.{each.name}", file
