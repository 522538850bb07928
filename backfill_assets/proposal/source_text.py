"""Python as ``ruff format`` leaves it, in lines of 88 signs and in longer ones: calls, texts, comments. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from backfill_assets.text import escape_controls

QUESTION = "# QUESTION: "
"""How a line begins that asks a person; who answers it deletes it."""
WIDTH = 88
"""Of the longest line that need not be cut: what ruff takes if it is told nothing."""
_INDENT = "    "


@dataclass(frozen=True)
class Verbatim:
    """Verbatim that is written as it is."""

    text: str


def literal(value: object) -> str:
    """``value`` as it is written: a text between double quotes unless it has some itself."""
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
    """The lines of ``before(plain, name=value)after``: one if it fits, or else one for each argument."""
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
    """The lines of ``name=value,`` within a call; of a tuple that is too long for one, one for each of its values."""
    space, whole = _INDENT * indent, f"{name}={literal(value)},"
    if isinstance(value, tuple) and _width(space + whole) > WIDTH:
        yield f"{space}{name}=("
        yield from (f"{space}{_INDENT}{literal(each)}," for each in value)
        yield f"{space}),"
    else:
        yield f"{space}{whole}"


def _width(text: str) -> int:
    """At most so many columns wide: signs of some scripts take two. A line that is cut too early stays cut."""
    return len(text) + sum(not sign.isascii() for sign in text)


def comment(text: str, indent: int = 0) -> str:
    """On one line, whatever signs ``text`` has."""
    return f"{_INDENT * indent}# {escape_controls(' '.join(text.split()))}"


def question(text: str, indent: int = 0) -> str:
    return f"{_INDENT * indent}{QUESTION}{escape_controls(' '.join(text.split()))}"
