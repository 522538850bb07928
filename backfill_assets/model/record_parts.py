"""Parts of a topic's record beside its value, as columns of raw: key, headers and time.

``Field(nullable=True, record=Header("till"))``. Rows of landed files have null there, whatever fields they name. Pure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field

_RECORD, _HEADER = "record ", "record header "


@dataclass(frozen=True)
class RecordPart(ABC):
    personal: bool = field(default=False, kw_only=True)
    """Raw keeps a token of it."""

    @property
    @abstractmethod
    def field(self) -> str:
        """Its name among the landed fields; one of this name in a value is an unknown field."""


@dataclass(frozen=True)
class Key(RecordPart):
    """As text; Base64 if it is no UTF-8."""

    @property
    def field(self) -> str:
        return f"{_RECORD}key"


@dataclass(frozen=True)
class RecordTime(RecordPart):
    """In UTC with milliseconds, as the producer or the broker set it; null if there is none."""

    @property
    def field(self) -> str:
        return f"{_RECORD}time"


@dataclass(frozen=True)
class Header(RecordPart):
    """The last one of the name, as :class:`Key`."""

    name: str

    @property
    def field(self) -> str:
        return f"{_HEADER}{self.name}"


def is_part(field: str) -> bool:
    return field in (Key().field, RecordTime().field) or field.startswith(_HEADER)


def header_of(field: str) -> str | None:
    """The header's name, None for another part."""
    return field.removeprefix(_HEADER) if field.startswith(_HEADER) else None


def words_of(fields: Iterable[str]) -> list[str]:
    """What a field of the value would be called that holds the same."""
    return [header_of(field) or field for field in fields]
