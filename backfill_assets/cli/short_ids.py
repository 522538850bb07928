"""Short ids, as git has them: which ids a text is the beginning of, and how short an id can be shown."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field

from backfill_assets.errors import InvalidRequest
from backfill_assets.text import format_count

LEAST_TYPED = 4
"""A text of fewer characters is taken for the beginning of no id."""
LEAST_SHOWN = 7
_MOST_NAMED = 5
_WHOLE = re.compile(
    r"(?P<kind>(?:plan|campaign)-)(?P<hash>[0-9a-f]{16})"
    r"|\d{8}t\d{6}-.+-(?P<made>[0-9a-f]{8})|rollback-\d{8}t\d{6}-(?P<undo>[0-9a-f]{6})"
    r"|timeline-\d{8}t\d{6}-(?P<named>[0-9a-f]{8})"
)


def is_whole(text: str) -> bool:
    """Whether ``text`` has the form of a complete id: it is not looked up, and names itself alone."""
    return _WHOLE.fullmatch(text) is not None


def distinguishing_part(id: str) -> str:
    """The hash at the end of an id; empty for an id that has none."""
    found = _WHOLE.fullmatch(id)
    return next((part for part in found.group("hash", "made", "undo", "named") if part), "") if found else ""


def matching(text: str, ids: Collection[str], names: Collection[str] = ()) -> list[str]:
    """The ids that ``text`` means: itself, or those that it is the beginning of, also of their hash alone.

    ``names`` were given by people; what else has no hash is meant only in full.
    """
    if text in ids or text in names:
        return [text]
    if len(text) < LEAST_TYPED:
        return []
    made = (id for id in ids if (part := distinguishing_part(id)) and (id.startswith(text) or part.startswith(text)))
    return sorted([*made, *(name for name in names if name.startswith(text))])


def complete(text: str, ids: Collection[str], noun: str, names: Collection[str] = ()) -> str:
    """The one id that ``text`` means; ``text`` itself if it means none.

    Raises :class:`InvalidRequest` with the candidates if it means several.
    """
    found = matching(text, ids, names)
    if len(found) <= 1:
        return found[0] if found else text
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    raise InvalidRequest(
        f"{text!r} is the beginning of {format_count(len(found), noun)}: {', '.join(found[:_MOST_NAMED])}{more}.",
        hint="Type more characters of the one that you mean.",
    )


@dataclass(frozen=True)
class ShortIds:
    """Shows ids as short as is unambiguous among ``known``, and at least 7 characters of their hash."""

    known: Collection[str]
    _found: dict[str, str] = field(default_factory=dict)

    def __call__(self, id: str) -> str:
        if id not in self._found:
            self._found[id] = self._short(id)
        return self._found[id]

    def _short(self, id: str) -> str:
        found, part = _WHOLE.fullmatch(id), distinguishing_part(id)
        before = (found["kind"] or "") if found else ""
        sizes = range(min(LEAST_SHOWN, len(part)), len(part) + 1) if part else ()
        texts = (f"{before}{part[:size]}" for size in sizes)
        return next((text for text in texts if matching(text, self.known) == [id]), id)
