"""Python as ``ruff format`` leaves it at 88 columns: calls, literals, comments. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from backfill_assets.text import escape_controls

QUESTION = "# QUESTION: "
WIDTH = 88
_INDENT = "    "


@dataclass(frozen=True)
class Verbatim:
    text: str


def literal(value: object) -> str:
    if isinstance(value, Verbatim):
        return value.text
    if isinstance(value, tuple):
        texts = list(map(literal, value))
        return f"({', '.join(texts)}{',' * (len(texts) == 1)})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{literal(key)}: {literal(each)}' for key, each in value.items())}}}"
    return _quoted(value) if isinstance(value, str) else repr(value)


def number(value: int) -> str:
    return f"{value:_}"


def _quoted(text: str) -> str:
    quote = "'" if text.count('"') > text.count("'") else '"'
    inner = repr('"' + text)[2:-1] if "'" in text else repr(text)[1:-1]
    inner = inner.replace("\\'", "'")
    return f"{quote}{inner.replace(quote, chr(92) + quote)}{quote}"


def call(
    before: str, named: Mapping[str, object], *, plain: Sequence[str] = (), after: str = "", indent: int = 0
) -> Iterator[str]:
    """``before(plain, name=value)after``, on one line or several."""
    space = _INDENT * indent
    given = [*plain, *(f"{name}={literal(value)}" for name, value in named.items())]
    whole = f"{space}{before}({', '.join(given)}){after}"
    if _width(whole) <= WIDTH:
        yield whole
        return
    yield f"{space}{before}("
    yield from (f"{space}{_INDENT}{each}," for each in plain)
    for name, value in named.items():
        yield from argument(name, value, indent + 1)
    yield f"{space}){after}"


def argument(name: str, value: object, indent: int) -> Iterator[str]:
    space, whole = _INDENT * indent, f"{name}={literal(value)},"
    if isinstance(value, tuple) and _width(space + whole) > WIDTH:
        yield f"{space}{name}=("
        yield from (f"{space}{_INDENT}{literal(each)}," for each in value)
        yield f"{space}),"
    else:
        yield f"{space}{whole}"


def _width(text: str) -> int:
    """Beyond ASCII counts double."""
    return len(text) + sum(not sign.isascii() for sign in text)


def comment(text: str, indent: int = 0) -> str:
    return f"{_INDENT * indent}# {escape_controls(' '.join(text.split()))}"


def question(text: str, indent: int = 0) -> str:
    return f"{_INDENT * indent}{QUESTION}{escape_controls(' '.join(text.split()))}"
