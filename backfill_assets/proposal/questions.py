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
    file: Path
    line: int
    question: str

    @property
    def place(self) -> str:
        here = self.file.relative_to(Path.cwd()) if self.file.is_relative_to(Path.cwd()) else self.file
        return f"{here}, line {self.line}"


def open_questions(dataset: str, package: str) -> list[OpenQuestion]:
    look_in_current_folder()
    return [
        OpenQuestion(file, line, text)
        for module, file in _modules(package)
        if dataset in names_written(module)
        for line, text in questions_in(file.read_text(encoding="utf-8"))
    ]


def questions_in(text: str) -> Iterator[tuple[int, str]]:
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
