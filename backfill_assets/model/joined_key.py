r"""The text of a key that is joined of several fields: different parts have different texts.

A dash is between the parts. One that is in a part, and a backslash, have a backslash before them: of ``10-1`` and ``2``
the text is ``10\-1-2``. The last part is what is left, and stays as it is: of ``10`` and ``1-2`` it is ``10-1-2``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill_assets.model.canonical import key_text
from backfill_assets.model.checks import all_of
from backfill_assets.model.declaration import Source

_BETWEEN, _ESCAPE = "-", "\\"
_PART = re.compile(r"((?:\\.|[^\\-])*)-", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def joined_key(source: Source, parts: Sequence[str]) -> Column:
    """The text of a key of raw columns; null if one of them is empty or missing. Each counts as its value."""
    texts = [key_text(source, name) for name in parts]
    whole = F.concat_ws(_BETWEEN, *map(_escaped, texts[:-1]), texts[-1])
    return F.when(all_of(F.length(name) > 0 for name in parts), whole)


def parts_of_key(key: str, count: int) -> list[str] | None:
    """The ``count`` texts that ``key`` was joined of; None if it is no such key."""
    parts, at = [], 0
    for _ in range(count - 1):
        part = _PART.match(key, at)
        if part is None:
            return None
        parts.append(_ESCAPED.sub(r"\1", part[1]))
        at = part.end()
    return [*parts, key[at:]]


def _escaped(text: Column) -> Column:
    return reduce(
        lambda found, sign: F.replace(found, F.lit(sign), F.lit(f"{_ESCAPE}{sign}")), (_ESCAPE, _BETWEEN), text
    )
